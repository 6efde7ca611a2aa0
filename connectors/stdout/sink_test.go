package stdout_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/conformance"
	"github.com/trunkline/trunkline/connectors/stdout"
)

// opener decodes a format as the configuration does.
func opener(t *testing.T, w io.Writer, format stdout.Format) connectors.OpenSink {
	t.Helper()
	open, err := stdout.To(w).Sink(func(into any) error {
		c := into.(*stdout.Config)
		c.Format = format
		return c.Validate()
	})
	if err != nil {
		t.Fatal(err)
	}
	return open
}

func TestConformance(t *testing.T) {
	conformance.RunSink(t, conformance.SinkCase{New: func(t *testing.T) conformance.SinkSystem {
		var out bytes.Buffer
		return conformance.SinkSystem{
			Open: opener(t, &out, stdout.JSONL),
			Log: func(t *testing.T, table *connectors.Table) []conformance.Entry {
				var log []conformance.Entry
				for line := range bytes.Lines(out.Bytes()) {
					if e, ok := conformance.ParseLine(t, line, table); ok {
						log = append(log, e)
					}
				}
				return log
			},
		}
	}})
}

func TestLine(t *testing.T) {
	t.Parallel()
	text := func(s string) connectors.Value { return connectors.DataValue(connectors.Text, []byte(s)) }
	item := &connectors.Table{
		Schema: "main", Name: "item", Key: []int{0},
		Columns: []connectors.Column{{Name: "id", Kind: connectors.Int}, {Name: "odd name", Kind: connectors.Text}, {Name: "note", Kind: connectors.Text}},
	}
	var out bytes.Buffer
	s, err := opener(t, &out, stdout.Line)(t.Context(), connectors.NewEnv("look"))
	if err != nil {
		t.Fatal(err)
	}
	err = s.Write(t.Context(), connectors.Batch{Stream: "shop/0", Changes: []connectors.Change{
		{Op: connectors.Insert, Table: item, Offset: 1, After: []connectors.Value{connectors.IntValue(1), text("a \x1b[31m\n"), connectors.NullValue()}},
		{Op: connectors.Update, Table: item, Offset: 2, After: []connectors.Value{connectors.IntValue(1), text(strings.Repeat("é", 100)), {}}},
		{Op: connectors.Delete, Table: item, Offset: 3, Before: []connectors.Value{connectors.IntValue(1), {}, {}}},
		{Op: connectors.Truncate, Table: item, Offset: 4},
	}})
	if err != nil {
		t.Fatal(err)
	}
	want := `shop/0@1  insert    main.item  id=1 "odd name"="a \u001b[31m\n" note=NULL` + "\n" +
		`shop/0@2  update    main.item  id=1 "odd name"="` + strings.Repeat("é", 60) + `"…(200 bytes) note=…` + "\n" +
		`shop/0@3  delete    main.item  id=1 "odd name"=… note=…` + "\n" +
		`shop/0@4  truncate  main.item` + "\n"
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestBrokenPipe(t *testing.T) {
	t.Parallel()
	s, err := opener(t, broken{}, stdout.Line)(t.Context(), connectors.NewEnv("look"))
	if err != nil {
		t.Fatal(err)
	}
	err = s.Write(t.Context(), connectors.Batch{Changes: []connectors.Change{{Op: connectors.Message}}})
	if !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("write: %v, want the writer's error", err)
	}
}
