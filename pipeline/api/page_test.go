package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/pipeline"
	"github.com/trunkline/trunkline/pipeline/api"
)

// fetch makes a GET request as a browser on this machine does.
func (w *world) fetch(path string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("GET", "http://localhost"+path, nil)
	recorder := httptest.NewRecorder()
	w.handler.ServeHTTP(recorder, r)
	return recorder
}

func TestPageLoadsItsOwnFilesAlone(t *testing.T) {
	w := open(t, false)
	page := w.fetch("/")
	if page.Code != http.StatusOK || !strings.Contains(page.Header().Get("Content-Security-Policy"), "default-src 'none'") {
		t.Fatalf("GET / = %d with policy %q", page.Code, page.Header().Get("Content-Security-Policy"))
	}
	files := regexp.MustCompile(`(?:src|href)="(web/[^"]+)"`).FindAllStringSubmatch(page.Body.String(), -1)
	if len(files) < 3 {
		t.Fatalf("the page loads %q", files)
	}
	for _, f := range files {
		if got := w.fetch("/" + f[1]); got.Code != http.StatusOK || got.Body.Len() == 0 {
			t.Errorf("GET /%s = %d", f[1], got.Code)
		}
	}
	for _, name := range []string{"draw.js", "line.js", "detail.js", "hands.js", "ask.js", "page.js"} {
		got := w.fetch("/web/" + name)
		if got.Code != http.StatusOK || !strings.Contains(got.Header().Get("Content-Type"), "javascript") {
			t.Errorf("GET /web/%s = %d, %s", name, got.Code, got.Header().Get("Content-Type"))
		}
		if strings.Contains(got.Body.String(), "http://") && !strings.Contains(got.Body.String(), "http://www.w3.org/2000/svg") || strings.Contains(got.Body.String(), "https://") {
			t.Errorf("%s names another host", name)
		}
	}
}

func TestEventsTellTheStatusUntilTheClientGoes(t *testing.T) {
	w := open(t, true)
	server := httptest.NewServer(w.handler)
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, "GET", server.URL+"/api/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := server.Client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	seen := 0
	for lines := bufio.NewScanner(answer.Body); seen < 2 && lines.Scan(); {
		text, data := strings.CutPrefix(lines.Text(), "data: ")
		if !data {
			continue
		}
		var s pipeline.Status
		if err := json.Unmarshal([]byte(text), &s); err != nil || len(s.Sources) != 1 || len(s.Sinks) != 1 {
			t.Fatalf("event %s: %v", text, err)
		}
		seen++
	}
	if seen < 2 {
		t.Fatalf("%d events before the stream ended", seen)
	}
}

func TestSettingsAreShown(t *testing.T) {
	w := open(t, false)
	var got struct {
		YAML string `json:"yaml"`
	}
	w.call(t, "GET", "/api/sinks/copy/config", nil, &got)
	if !strings.Contains(got.YAML, `topics: ["shop.*"]`) {
		t.Errorf("settings of the sink: %s", got.YAML)
	}
	w.refuse(t, http.StatusNotFound, "GET", "/api/sinks/none/config", nil)
}

func TestSchemaVersionsAreTold(t *testing.T) {
	w := open(t, true)
	w.space.Feed("shop").Append(connectors.Change{Op: connectors.Insert, Table: &connectors.Table{Schema: "public", Name: "t",
		Columns: []connectors.Column{{Name: "id", Type: "bigint", Kind: connectors.Int}}}, After: []connectors.Value{connectors.IntValue(1)}})
	var versions []api.SchemaVersion
	eventually(t, "a version of the schema", func() bool {
		return w.client.Call(t.Context(), "GET", "/api/schemas/0", nil, &versions) == nil && len(versions) > 0
	})
	if len(versions[0].Columns) == 0 || versions[0].Table == "" || len(versions[0].Changes) != 0 {
		t.Errorf("version: %+v", versions[0])
	}
	w.refuse(t, http.StatusNotFound, "GET", "/api/schemas/999", nil)
	w.refuse(t, http.StatusBadRequest, "GET", "/api/schemas/x", nil)
}
