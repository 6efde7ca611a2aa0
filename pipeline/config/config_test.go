package config

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/log"
)

// shopSettings has one field of each shape that connectors use.
type shopSettings struct {
	DSN       string                 `yaml:"dsn"`
	Password  string                 `yaml:"password"`
	Mode      string                 `yaml:"mode"`
	Tables    []connectors.TableSpec `yaml:"tables"`
	Exclude   []string               `yaml:"exclude"`
	BatchSize connectors.Size        `yaml:"batch_size"`
	Heartbeat time.Duration          `yaml:"heartbeat"`
	Port      uint16                 `yaml:"port"`
	Follow    bool                   `yaml:"follow"`
	Options   map[string]string      `yaml:"options"`
	Every     connectors.Timing      `yaml:"every"`
}

func (s *shopSettings) Validate() error {
	if s.Mode == "maybe" {
		return errors.New("mode is not one of cdc, timestamp (got password " + s.Password + ")")
	}
	return nil
}

func shopRegistry(t testing.TB, into *shopSettings) connectors.Registry {
	source := func(decode connectors.Decode) (connectors.OpenSource, error) {
		settings := shopSettings{Heartbeat: 10 * time.Second, Mode: "cdc"}
		err := decode(&settings)
		*into = settings
		return func(context.Context, connectors.Env, connectors.Position) (connectors.Source, error) { return nil, nil }, err
	}
	sink := func(decode connectors.Decode) (connectors.OpenSink, error) {
		settings := struct {
			Path   string `yaml:"path"`
			Format string `yaml:"format"`
		}{Format: "jsonl"}
		err := decode(&settings)
		return func(context.Context, connectors.Env) (connectors.Sink, error) { return nil, nil }, err
	}
	r, err := connectors.NewRegistry(connectors.Connector{Name: "postgres", Source: source, Sink: sink},
		connectors.Connector{Name: "sqlite", Source: source}, connectors.Connector{Name: "file", Sink: sink})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func parse(t testing.TB, text string, env map[string]string) (Config, shopSettings, error) {
	t.Helper()
	var settings shopSettings
	c, err := Parse("p.yaml", []byte(text), shopRegistry(t, &settings), func(name string) (string, bool) {
		value, ok := env[name]
		return value, ok
	})
	return c, settings, err
}

func TestTextStaysAsWritten(t *testing.T) {
	t.Parallel()
	_, got, err := parse(t, `
sources:
  shop:
    type: postgres
    password: 0123
    mode: no
    dsn: "a: b # c"
    exclude: [1e3, 0x10, yes, ~, 2026-01-30]
    options: {pin: 007}
`, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got.Password != "0123" || got.Mode != "no" || got.DSN != "a: b # c" || got.Options["pin"] != "007" {
		t.Errorf("got %+v", got)
	}
	if want := "1e3 0x10 yes ~ 2026-01-30"; strings.Join(got.Exclude, " ") != want {
		t.Errorf("exclude = %q, want %q", got.Exclude, want)
	}
}

func TestInsertedValuesAreData(t *testing.T) {
	t.Parallel()
	secret := filepath.Join(t.TempDir(), "pw")
	if err := os.WriteFile(secret, []byte("line one\nline two\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"PIN": "0123", "EVIL": "x\"\n  port: ${PIN} # '", "EMPTY": "", "ROWS": "77"}
	for written, want := range map[string]string{
		`${PIN}`:                 "0123",
		`a${PIN}b$${PIN}$c$`:     "a0123b${PIN}$c$",
		`${EVIL}`:                env["EVIL"],
		`${NONE:-cdc}`:           "cdc",
		`${EMPTY:-cdc}`:          "cdc",
		`"${EMPTY}"`:             "",
		`$$$$`:                   "$$",
		`100$ and $1 $`:          "100$ and $1 $",
		`${file:` + secret + `}`: "line one\nline two",
	} {
		_, got, err := parse(t, "sources:\n  shop:\n    type: postgres\n    password: "+written+"\n", env)
		if err != nil || got.Password != want {
			t.Errorf("%s = %q, %v; want %q", written, got.Password, err, want)
		}
	}
}

func TestInsertedNumbersAreNumbers(t *testing.T) {
	t.Parallel()
	c, _, err := parse(t, "sources:\n  shop:\n    type: ${KIND}\n    batch: {rows: '${ROWS}', bytes: 8MiB}\nlog: {topics: {retention: 0}}\n",
		map[string]string{"ROWS": "77", "KIND": "postgres"})
	if err != nil {
		t.Fatal(err)
	}
	if l := c.Sources[0].Limits; l.BatchRows != 77 || l.BatchBytes != 8<<20 {
		t.Errorf("limits = %+v", l)
	}
	if got := c.Log.Topics.TopicConfig().Retention; got != log.Forever {
		t.Errorf("retention 0 = %v, want for ever", got)
	}
}

func TestSecretsNeverShow(t *testing.T) {
	t.Parallel()
	env := map[string]string{"SHOP_PW": "hunter2&x"}
	c, _, err := parse(t, `
sources:
  shop:
    type: ${SHOP_PW}
    password: ${SHOP_PW}
    mode: maybe
    port: ${SHOP_PW}
  other: {type: postgres, mode: maybe, password: "${SHOP_PW}", heartbeat: "${SHOP_PW}", batch_size: "${SHOP_PW}"}
  third: {type: postgres, mode: maybe, password: "${SHOP_PW}"}
`, env)
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("err = %v", err)
	}
	if got := strings.Count(err.Error(), "${SHOP_PW}"); got < 4 {
		t.Errorf("the references are named %d times, want 4 or more:\n%v", got, err)
	}
	for text, want := range map[string]string{
		"connect with hunter2&x: refused":         "connect with ${SHOP_PW}: refused",
		"open postgres://u:other@h/db":            "open postgres://u:…@h/db",
		"open postgres://u:hunter2%26x@h/db?x=1":  "open postgres://u:…@h/db?x=1",
		"dial tcp 127.0.0.1:5432: connect refuse": "dial tcp 127.0.0.1:5432: connect refuse",
	} {
		if got := c.Secrets.Hide(text); got != want {
			t.Errorf("Hide(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestDefaultsAndMembers(t *testing.T) {
	t.Parallel()
	c, got, err := parse(t, `
log:
http: {listen: "0.0.0.0:8080", token: 0123456789abcdef}
sources:
  shop:
    type: postgres
    tables: [public.*, {name: a.b, cursor: updated_at, key: [id]}]
sinks:
  archive: {type: file, path: data/archive, topics: ["*"], from: 2026-01-30, on_error: stop, group: g}
  warehouse: {type: postgres, topics: [a]}
`, nil)
	if err != nil {
		t.Fatal(err)
	}
	if c.Log.Dir != "data/log" || c.HTTP.Listen != "0.0.0.0:8080" || c.HTTP.Token != "0123456789abcdef" || c.Sources[0].Topic != DefaultTopic || got.Heartbeat != 10*time.Second {
		t.Errorf("got %+v %+v", c, got)
	}
	if len(got.Tables) != 2 || got.Tables[0].Name != "public.*" || got.Tables[1].Cursor != "updated_at" || got.Tables[1].Key[0] != "id" {
		t.Errorf("tables = %+v", got.Tables)
	}
	a, w := c.Sinks[0], c.Sinks[1]
	if a.Group != "g" || a.OnError != Stop || !a.From.At.Equal(time.Date(2026, 1, 30, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("archive = %+v", a)
	}
	if w.Group != "warehouse" || w.OnError != DeadLetter || w.Wait != 200*time.Millisecond || w.Limits.BatchRows != 5000 || w.Open == nil {
		t.Errorf("warehouse = %+v", w)
	}
}

// TestTimings reads what is an interval or a schedule.
func TestTimings(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 3, 29, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"90m": 90 * time.Minute, "@every 2h": 2 * time.Hour, "CRON_TZ=UTC 30 2 * * *": 14*time.Hour + 30*time.Minute, "CRON_TZ=Europe/Berlin @daily": 10 * time.Hour,
	} {
		_, got, err := parse(t, "sources: {shop: {type: postgres, every: "+strconv.Quote(text)+"}}", nil)
		if err != nil {
			t.Fatal(err)
		}
		if next := got.Every.Next(noon); next.Sub(noon) != want {
			t.Errorf("%s: due after %s, want %s", text, next.Sub(noon), want)
		}
	}
	for text, want := range map[string]string{"0s": "above 0", "-1h": "above 0", "off": "expected an interval", "[1h]": "expected an interval", "": "expected an interval",
		`"* * * *"`: "five fields", "1hour": "five fields", `"CRON_TZ=Mars/Base @daily"`: "no schedule"} {
		_, _, err := parse(t, "sources:\n  shop:\n    type: postgres\n    every: "+text+"\n", nil)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "p.yaml:4") || !strings.Contains(err.Error(), "sources.shop.every") {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestAnchorsAreFollowed(t *testing.T) {
	t.Parallel()
	_, got, err := parse(t, "sources:\n  a: {type: sqlite, tables: &t [x, y]}\n  shop: {type: postgres, tables: *t}\n", nil)
	if err != nil || len(got.Tables) != 2 {
		t.Errorf("got %+v, %v", got.Tables, err)
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"a: [b", "&a [*a]", "sources: {x: {type: ${X}}}", "sinks:\n  a: &b {type: file, topics: *b}\n", "? [a]\n: b", "log: {<<: {dir: x}}"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var settings shopSettings
		_, err := Parse("p.yaml", text, shopRegistry(t, &settings), func(string) (string, bool) { return "S3CRET-VALUE", true })
		if err != nil && strings.Contains(err.Error(), "S3CRET-VALUE") {
			t.Errorf("an inserted value shows: %v", err)
		}
	})
}
