package api

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"gopkg.in/yaml.v3"
)

// registered returns the names of all metrics.
func registered(t *testing.T) map[string]bool {
	t.Helper()
	list := make(chan *prometheus.Desc, 200)
	newCollector(nil).Describe(list)
	close(list)
	names := map[string]bool{}
	for d := range list {
		m := regexp.MustCompile(`fqName: "(\w+)"`).FindStringSubmatch(d.String())
		if m == nil {
			t.Fatalf("no name in %s", d)
		}
		if !regexp.MustCompile(`^trunkline_(source|sink|log)_`).MatchString(m[1]) {
			t.Errorf("the metric %s does not begin with what it is about", m[1])
		}
		names[m[1]] = true
	}
	return names
}

func TestEachMetricIsDocumentedAndNoOther(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\|").FindAllStringSubmatch(string(text), -1) {
		documented[m[1]] = true
	}
	if have := registered(t); !maps.Equal(have, documented) {
		t.Errorf("the program has\n%v\ndocs/metrics.md has\n%v", slices.Sorted(maps.Keys(have)), slices.Sorted(maps.Keys(documented)))
	}
}

func TestTheDashboardAndTheAlertsNameMetricsThatExist(t *testing.T) {
	t.Parallel()
	have := registered(t)
	part := regexp.MustCompile(`_(bucket|sum|count)$`)
	for _, name := range []string{"dashboard.json", "alerts.yaml"} {
		text, err := os.ReadFile(filepath.Join("../../examples/monitoring", name))
		if err != nil {
			t.Fatal(err)
		}
		var document map[string]any
		if strings.HasSuffix(name, ".json") {
			err = json.Unmarshal(text, &document)
		} else {
			err = yaml.Unmarshal(text, &document)
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		found := regexp.MustCompile(`trunkline_\w+`).FindAllString(string(text), -1)
		if len(found) < 10 {
			t.Errorf("%s names %d metrics", name, len(found))
		}
		for _, metric := range found {
			if !have[metric] && !have[part.ReplaceAllString(metric, "")] {
				t.Errorf("%s: there is no metric %s", name, metric)
			}
		}
	}
}
