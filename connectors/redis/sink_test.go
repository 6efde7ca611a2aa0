package redis_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/conformance"
	"github.com/trunkline/trunkline/connectors/localprocess"
	"github.com/trunkline/trunkline/connectors/redis"
)

// server is a real Redis, with more databases than tests need.
type server struct {
	*localprocess.Process
	last atomic.Int64
}

func start(t *testing.T, flags ...string) *server {
	t.Helper()
	return &server{Process: localprocess.Start(t, localprocess.Redis(append([]string{"--databases", "1000"}, flags...)...))}
}

// store is an empty database of the server.
type store struct {
	t  *testing.T
	db *goredis.Client
	redis.SinkConfig
}

func (s *server) store(t *testing.T, format redis.Format) *store {
	t.Helper()
	n := int(s.last.Add(1))
	db := goredis.NewClient(&goredis.Options{Addr: s.Address, DB: n, Protocol: 2})
	t.Cleanup(func() { db.Close() })
	return &store{t, db, redis.SinkConfig{DSN: fmt.Sprintf("redis://%s/%d", s.Address, n), Format: format, Deletes: "apply"}}
}

func (s *store) open() connectors.OpenSink {
	s.t.Helper()
	open, err := redis.Connector().Sink(func(into any) error {
		c := into.(*redis.SinkConfig)
		*c = s.SinkConfig
		return c.Validate()
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return open
}

func (s *store) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// escaped is how a table's names stand in a key.
func escaped(s string) string {
	return strings.NewReplacer("%", "%25", ":", "%3A", ".", "%2E").Replace(s)
}

// rows reads a table with the store's own commands.
func (s *store) rows(t *testing.T, table *connectors.Table) []conformance.Row {
	t.Helper()
	var out []conformance.Row
	keys, err := s.db.Keys(t.Context(), "*").Result()
	s.must(err)
	for _, key := range keys {
		if !strings.HasPrefix(key, escaped(table.Schema)+"."+escaped(table.Name)+":") {
			continue
		}
		var row conformance.Row
		if s.Format == redis.JSON {
			text, err := s.db.Get(t.Context(), key).Result()
			s.must(err)
			if strings.HasSuffix(text, `,"_deleted":true}`) {
				continue
			}
			row = fromJSON(t, table, text)
		} else {
			row, err = s.db.HGetAll(t.Context(), key).Result()
			s.must(err)
			if row["_deleted"] == "true" {
				continue
			}
			delete(row, "_offset")
		}
		out = append(out, row)
	}
	return out
}

func fromJSON(t *testing.T, table *connectors.Table, text string) conformance.Row {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var members map[string]any
	if err := d.Decode(&members); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	row := conformance.Row{}
	for name, v := range members {
		if v == nil {
			continue
		}
		row[name] = fmt.Sprint(v)
		if table.Columns[table.Column(name)].Kind == connectors.Bytes {
			b, err := base64.StdEncoding.DecodeString(row[name])
			if err != nil {
				t.Fatal(err)
			}
			row[name] = string(b)
		}
	}
	return row
}

// full lets the server have no memory for more.
func (s *store) full(*testing.T, *connectors.Table) (release func()) {
	limit := func(bytes string) { s.must(s.db.ConfigSet(context.Background(), "maxmemory", bytes).Err()) }
	limit("1")
	return func() { limit("0") }
}

// log reads the entries of the stream of a test's topic.
func (s *store) log(t *testing.T, table *connectors.Table) []conformance.Entry {
	t.Helper()
	var out []conformance.Entry
	entries, err := s.db.XRange(t.Context(), "shop.item", "-", "+").Result()
	s.must(err)
	for _, e := range entries {
		if entry, ok := conformance.ParseLine(t, []byte(e.Values["change"].(string)), table); ok {
			out = append(out, entry)
		}
	}
	return out
}

// TestSinkConformance runs alone, because it counts goroutines.
func TestSinkConformance(t *testing.T) {
	s := start(t)
	for _, format := range []redis.Format{redis.Hash, redis.JSON, redis.Stream} {
		t.Run(string(format), func(t *testing.T) {
			conformance.RunSink(t, conformance.SinkCase{Late: true, Wide: 200, New: func(t *testing.T) conformance.SinkSystem {
				store := s.store(t, format)
				system := conformance.SinkSystem{Open: store.open(), Rows: store.rows, Busy: store.full}
				if format == redis.Stream {
					system.Rows, system.Log = nil, store.log
				}
				return system
			}})
		})
	}
}

var item = &connectors.Table{Schema: "shop", Name: "item", Key: []int{0}, Columns: []connectors.Column{
	{Name: "id", Kind: connectors.Text}, {Name: "name", Kind: connectors.Text}, {Name: "note", Kind: connectors.Text}}}

func row(values ...any) []connectors.Value {
	out := make([]connectors.Value, 3)
	for i, v := range values {
		switch v := v.(type) {
		case nil:
			out[i] = connectors.NullValue()
		case string:
			out[i] = connectors.DataValue(connectors.Text, []byte(v))
		}
	}
	return out
}

// batch numbers the changes from an offset.
func batch(first int64, changes ...connectors.Change) connectors.Batch {
	for i := range changes {
		changes[i].Table, changes[i].Offset = item, first+int64(i)
	}
	return connectors.Batch{Stream: "shop.item/0", Changes: changes, Position: strconv.AppendInt(nil, first+int64(len(changes)), 10)}
}

func put(values ...any) connectors.Change {
	return connectors.Change{Op: connectors.Insert, After: row(values...)}
}

func del(id string) connectors.Change {
	c := connectors.Change{Op: connectors.Delete, Before: row(id)}
	return c
}

// sink opens one and claims the stream.
func (s *store) sink(t *testing.T) connectors.Transactional {
	t.Helper()
	opened, err := s.open()(t.Context(), connectors.NewEnv("cache"))
	s.must(err)
	t.Cleanup(func() { opened.Close(context.Background()) })
	tx := opened.(connectors.Transactional)
	_, err = tx.Committed(t.Context(), "shop.item/0")
	s.must(err)
	return tx
}

// TestF50OrderAndEmpties: set k, delete k, set k2, delete k2, set k2 in one batch; NULL is no field, ” is ”.
func TestF50OrderAndEmpties(t *testing.T) {
	t.Parallel()
	s := start(t).store(t, redis.Hash)
	sink := s.sink(t)
	s.must(sink.Write(t.Context(), batch(0,
		put("k", "a", nil), del("k"), put("k2", "b", nil), del("k2"), put("k2", nil, ""))))
	keys, err := s.db.Keys(t.Context(), "shop.*").Result()
	s.must(err)
	if !slices.Equal(keys, []string{"shop.item:k2"}) {
		t.Errorf("keys %v, want k2's alone", keys)
	}
	fields, err := s.db.HGetAll(t.Context(), "shop.item:k2").Result()
	s.must(err)
	if !maps.Equal(fields, map[string]string{"id": "k2", "note": ""}) {
		t.Errorf("fields %q", fields)
	}
	s.must(sink.Write(t.Context(), batch(5, put("k2", "x", nil))))
	if n := s.db.HExists(t.Context(), "shop.item:k2", "note").Val(); n {
		t.Error("a NULL left the older value of its field")
	}
}

// TestRowsAndPositionSurviveTogether freezes the server in the middle of a write and kills it with SIGKILL.
func TestRowsAndPositionSurviveTogether(t *testing.T) {
	t.Parallel()
	server := start(t, "--appendonly", "yes", "--appendfsync", "always")
	s := server.store(t, redis.JSON)
	sink := s.sink(t)
	next, stored := int64(0), ""
	for round := range 5 {
		var changes []connectors.Change
		for i := range 500 {
			changes = append(changes, put(fmt.Sprint(i), fmt.Sprint("round ", round), nil))
		}
		ctx, cancel := context.WithCancel(t.Context())
		written := make(chan error, 1)
		go func() { written <- sink.Write(ctx, batch(next, changes...)) }()
		if round%2 == 0 {
			server.Kill()
		}
		if err := <-written; err == nil && round%2 == 0 {
			t.Log("the write was answered before the kill")
		}
		cancel()
		if round%2 == 0 {
			s.must(server.Run(t.Context()))
		}
		sink = s.sink(t)
		position, err := sink.Committed(t.Context(), "shop.item/0")
		s.must(err)
		at, _ := strconv.ParseInt(string(position), 10, 64)
		if at != next && at != next+500 {
			t.Fatalf("position %d, want %d or %d", at, next, next+500)
		}
		if at > next {
			stored = fmt.Sprint("round ", round)
		}
		for _, r := range s.rows(t, item) {
			if r["name"] != stored {
				t.Fatalf("a row of %q at position %d, want %q", r["name"], at, stored)
			}
		}
		next = at
	}
}

func TestServerThatHangsEndsTheWrite(t *testing.T) {
	t.Parallel()
	server := start(t)
	s := server.store(t, redis.Hash)
	sink := s.sink(t)
	s.must(syscall.Kill(server.Pid(), syscall.SIGSTOP))
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := sink.Write(ctx, batch(0, put("k", "a", nil))); err == nil {
		t.Error("a write to a frozen server gave no error")
	}
	s.must(syscall.Kill(server.Pid(), syscall.SIGCONT))
	sink = s.sink(t)
	s.must(sink.Write(t.Context(), batch(0, put("k", "b", nil))))
	if got := s.rows(t, item); len(got) != 1 || got[0]["name"] != "b" {
		t.Errorf("rows %v", got)
	}
}

func TestRowWhoseKeyHoldsSomethingElse(t *testing.T) {
	t.Parallel()
	s := start(t).store(t, redis.Hash)
	sink := s.sink(t)
	s.must(s.db.Set(t.Context(), "shop.item:k", "foreign", 0).Err())
	lacks := put("k", "a")
	lacks.Op = connectors.Update
	err := sink.Write(t.Context(), batch(0, put("j", "a", nil), lacks))
	var rows *connectors.RowsError
	if !errors.As(err, &rows) || len(rows.Rows) != 1 || rows.Rows[0].Index != 1 {
		t.Fatalf("write: %v, want row 1 refused", err)
	}
	if n := s.db.Exists(t.Context(), "shop.item:j").Val(); n != 0 {
		t.Error("the batch was written in part")
	}
	s.must(sink.Write(t.Context(), batch(2, put("k", "a", nil))))
}

func TestTruncateTakesTheRowsOfItsTableAlone(t *testing.T) {
	t.Parallel()
	s := start(t).store(t, redis.JSON)
	sink := s.sink(t)
	s.must(s.db.Set(t.Context(), "shop.item*:1", "other", 0).Err())
	s.must(s.db.Set(t.Context(), "shop.items:1", "other", 0).Err())
	var changes []connectors.Change
	for i := range 3000 {
		changes = append(changes, put(fmt.Sprint(i), "x", nil))
	}
	s.must(sink.Write(t.Context(), batch(0, changes...)))
	s.must(sink.Write(t.Context(), batch(3000, connectors.Change{Op: connectors.Truncate}, put("*", "kept", nil))))
	keys, err := s.db.Keys(t.Context(), "shop.*").Result()
	s.must(err)
	slices.Sort(keys)
	if want := []string{"shop.item*:1", "shop.item:*", "shop.items:1"}; !slices.Equal(keys, want) {
		t.Errorf("keys %q, want %q", keys, want)
	}
}

func TestKeysNeverMeet(t *testing.T) {
	t.Parallel()
	s := start(t).store(t, redis.Hash)
	sink := s.sink(t)
	pairs := *item
	pairs.Key = []int{0, 1}
	b := batch(0, put("a:b", "c", nil), put("a", "b:c", nil), put("a%3Ab", "c", nil))
	for i := range b.Changes {
		b.Changes[i].Table = &pairs
	}
	s.must(sink.Write(t.Context(), b))
	if got := s.rows(t, item); len(got) != 3 {
		t.Errorf("%d rows, want 3: %v", len(got), got)
	}
}

func TestDeletesCanBeIgnored(t *testing.T) {
	t.Parallel()
	server := start(t)
	for _, format := range []redis.Format{redis.Hash, redis.Stream} {
		s := server.store(t, format)
		s.Deletes = "ignore"
		sink := s.sink(t)
		s.must(sink.Write(t.Context(), batch(0, put("k", "a", nil), del("k"), connectors.Change{Op: connectors.Truncate})))
		n := len(s.rows(t, item))
		if format == redis.Stream {
			n = len(s.log(t, item))
		}
		if n != 1 {
			t.Errorf("%s: %d rows, want the one", format, n)
		}
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]redis.SinkConfig{
		"dsn is missing":    {Format: redis.Hash, Deletes: "apply"},
		"dsn is not":        {DSN: "http://x", Format: redis.Hash, Deletes: "apply"},
		"dsn excludes":      {DSN: "redis://x", Host: "y", Format: redis.Hash, Deletes: "apply"},
		"format is not":     {Host: "x", Format: "xml", Deletes: "apply"},
		"key must contain":  {Host: "x", Format: redis.JSON, Key: "{table}", Deletes: "apply"},
		"key has {tabel}":   {Host: "x", Format: redis.JSON, Key: "{tabel}:{topic}:{key}", Deletes: "apply"},
		"must not contain":  {Host: "x", Format: redis.Stream, Key: "{key}", Deletes: "apply"},
		"deletes is not":    {Host: "x", Format: redis.Hash, Deletes: "mark"},
		"write is not":      {Host: "x", Format: redis.Hash, Deletes: "apply", Write: "insert"},
		"write: append":     {Host: "x", Format: redis.JSON, Deletes: "apply", Write: "append"},
		"write: upsert":     {Host: "x", Format: redis.Stream, Deletes: "apply", Write: "upsert"},
		"deletes: soft":     {Host: "x", Format: redis.Stream, Deletes: "soft"},
		"max_length is for": {Host: "x", Format: redis.Hash, MaxLength: 5, Deletes: "apply"},
		"tls is not one of": func() redis.SinkConfig {
			c := redis.SinkConfig{Host: "x", Format: redis.Hash, Deletes: "apply"}
			c.TLS.TLS = "on"
			return c
		}(),
		"must be a number from": {Host: "x", Database: -1, Format: redis.Hash, Deletes: "apply"},
	} {
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("want %q: %v", name, err)
		}
	}
}

func TestCheckNamesWhatWouldLoseRows(t *testing.T) {
	t.Parallel()
	s := start(t, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru").store(t, redis.Hash)
	check, err := redis.Connector().CheckSink(func(into any) error {
		c := into.(*redis.SinkConfig)
		*c = s.SinkConfig
		return c.Validate()
	})
	s.must(err)
	findings, err := check(t.Context(), connectors.NewEnv("cache"))
	s.must(err)
	var subjects []string
	for _, f := range findings {
		subjects = append(subjects, f.Subject)
	}
	if !slices.Equal(subjects, []string{"maxmemory-policy", "appendonly"}) {
		t.Errorf("findings %+v", findings)
	}
}

func TestClusterIsRefused(t *testing.T) {
	t.Parallel()
	server := start(t, "--cluster-enabled", "yes", "--databases", "1")
	s := server.store(t, redis.Hash)
	s.DSN = "redis://" + server.Address
	if _, err := s.open()(t.Context(), connectors.NewEnv("cache")); !errors.Is(err, connectors.ErrFatal) {
		t.Errorf("open: %v, want ErrFatal", err)
	}
}

// TestDocumentedRightsAreEnough runs a sink as the user of docs/sinks/redis.md.
func TestDocumentedRightsAreEnough(t *testing.T) {
	t.Parallel()
	server := start(t)
	s := server.store(t, redis.Hash)
	s.must(s.db.Do(t.Context(), "ACL", "SETUSER", "etl", "on", ">secret", "~*", "+@read", "+@write", "+@transaction", "+@connection", "+info").Err())
	s.DSN = strings.Replace(s.DSN, "redis://", "redis://etl:secret@", 1)
	sink := s.sink(t)
	lacks := put("k", "b")
	lacks.Op = connectors.Update
	s.must(sink.Write(t.Context(), batch(0, put("k", "a", "kept"), put("j", nil, nil))))
	s.must(sink.Write(t.Context(), batch(2, lacks, del("j"))))
	s.must(sink.Write(t.Context(), batch(4, connectors.Change{Op: connectors.Truncate}, put("l", nil, nil))))
	if got := s.rows(t, item); len(got) != 1 {
		t.Errorf("rows %v", got)
	}
}
