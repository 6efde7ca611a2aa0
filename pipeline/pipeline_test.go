package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/memory"
	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/log/disk"
	"github.com/trunkline/trunkline/log/vfs"
	"github.com/trunkline/trunkline/pipeline/config"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for a condition.
const patience = 2 * time.Minute

var orders = &connectors.Table{Schema: "public", Name: "orders", Key: []int{0}, Columns: []connectors.Column{
	{Name: "id", Type: "bigint", Kind: connectors.Int, NotNull: true}, {Name: "note", Type: "text", Kind: connectors.Text},
}}

// row is an insert that happened now.
func row(id int) connectors.Change {
	return connectors.Change{Op: connectors.Insert, Table: orders, Time: time.Now(),
		After: []connectors.Value{connectors.IntValue(int64(id)), connectors.DataValue(connectors.Text, []byte("note "+strconv.Itoa(id)))}}
}

// world is a pipeline between feeds and stores over a real log.
type world struct {
	*Pipeline
	space   *memory.Space
	journal log.Log
	disk    *vfs.Faults
	stop    context.CancelFunc
	ended   chan error
	done    chan struct{} // closed when the last Run has ended
}

const oneLine = `
sources:
  shop: {type: memory}
sinks:
  copy: {type: memory, topics: ["shop.*"], batch: {wait: 1ms}}
`

// start runs a pipeline of the given configuration until the test ends.
func start(t *testing.T, text string, o Options) *world {
	t.Helper()
	w := prepare(t, text, o)
	w.run(t)
	return w
}

func prepare(t *testing.T, text string, o Options) *world {
	t.Helper()
	w := &world{space: memory.NewSpace(), ended: make(chan error, 1)}
	dir := t.TempDir()
	registry, err := connectors.NewRegistry(w.space.Connector())
	if err != nil {
		t.Fatal(err)
	}
	c, err := config.Parse("p.yaml", []byte(text), registry, func(string) (string, bool) { return "s3cret-pass", true })
	if err != nil {
		t.Fatal(err)
	}
	c.Log.Dir = filepath.Join(dir, "log")
	w.disk = vfs.NewFaults(vfs.OS{})
	journal, err := disk.Open(c.Log.Dir, disk.Options{FS: w.disk, Defaults: log.TopicConfig{Partitions: 2}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := journal.Close(); err != nil {
			t.Error(err)
		}
	})
	w.journal = journal
	if o.Backoff == (connectors.Backoff{}) {
		o.Backoff = connectors.Backoff{First: time.Millisecond, Limit: 5 * time.Millisecond}
	}
	if w.Pipeline, err = New(c, journal, o); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) run(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	w.stop = cancel
	done := make(chan struct{})
	w.done = done
	go func() {
		defer close(done)
		w.ended <- w.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
}

// member waits until a source or sink is as cond wants it, and returns it.
func (w *world) member(t *testing.T, name string, cond func(MemberStatus) bool) MemberStatus {
	t.Helper()
	var last MemberStatus
	eventually(t, func() string { return fmt.Sprintf("%s: %+v", name, last) }, func() bool {
		s, err := w.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range append(s.Sources, s.Sinks...) {
			if m.Name == name {
				last = m
			}
		}
		return cond(last)
	})
	return last
}

func in(states ...State) func(MemberStatus) bool {
	return func(m MemberStatus) bool {
		for _, s := range states {
			if m.State == s {
				return true
			}
		}
		return false
	}
}

func eventually(t *testing.T, describe func() string, cond func() bool) {
	t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-deadline:
			t.Fatalf("still waiting after %v: %s", patience, describe())
		case <-tick.C:
		}
	}
}

func (w *world) waitRows(t *testing.T, store string, n int) {
	t.Helper()
	s := w.space.Store(store)
	eventually(t, func() string { return fmt.Sprintf("%s has %d rows, want %d", store, s.Count("public.orders"), n) },
		func() bool { return s.Count("public.orders") == n })
}

func TestRowsArriveAndBothEndsCatchUp(t *testing.T) {
	t.Parallel()
	w := start(t, oneLine, Options{})
	for i := range 50 {
		w.space.Feed("shop").Append(row(i))
	}
	w.waitRows(t, "copy", 50)
	source := w.member(t, "shop", in(CaughtUp))
	if source.Rows != 50 || len(source.Tables) != 1 || source.Tables[0].Topic != "shop.public.orders" {
		t.Errorf("source = %+v", source)
	}
	if sink := w.member(t, "copy", in(CaughtUp)); sink.Rows < 50 || sink.LagRows != 0 || sink.Group != "copy" {
		t.Errorf("sink = %+v", sink)
	}
	w.stop()
	if err := <-w.ended; err != nil {
		t.Errorf("a drained run ends with %v", err)
	}
}

func TestErrorsAreRetriedUntilTheyEnd(t *testing.T) {
	t.Parallel()
	w := prepare(t, oneLine, Options{})
	for range 10 {
		w.space.Feed("shop").FailOpen(errors.New("connection refused"))
		w.space.Store("copy").FailBefore(errors.New("server closed the connection"))
	}
	w.run(t)
	w.space.Feed("shop").Append(row(1))
	w.waitRows(t, "copy", 1)
	if m := w.member(t, "shop", func(m MemberStatus) bool { return m.Failures == 0 }); !strings.Contains(m.LastError, "connection refused") {
		t.Errorf("last error = %q", m.LastError)
	}
}

func TestRetryingNamesTheReasonWithoutSecrets(t *testing.T) {
	t.Parallel()
	w := prepare(t, strings.Replace(oneLine, "{type: memory}", `{type: memory, feed: "${SHOP_PW}"}`, 1), Options{Backoff: connectors.Backoff{First: time.Hour, Limit: time.Hour}})
	w.space.Feed("s3cret-pass").FailOpen(errors.New("login postgres://etl:hunter2@db/x with s3cret-pass: refused"))
	w.run(t)
	m := w.member(t, "shop", in(Retrying))
	if strings.Contains(m.Reason, "s3cret") || strings.Contains(m.Reason, "hunter2") || !strings.Contains(m.Reason, "refused") {
		t.Errorf("reason = %q", m.Reason)
	}
	if m.RetryAt.IsZero() || m.Failures != 1 {
		t.Errorf("member = %+v", m)
	}
	if err := w.Resume(t.Context(), Target{Role: RoleSource, Name: "shop"}); err != nil {
		t.Fatal(err)
	}
	w.space.Feed("s3cret-pass").Append(row(1))
	w.waitRows(t, "copy", 1) // without the hour
}

func TestFatalErrorStopsOneAndNotItsNeighbours(t *testing.T) {
	t.Parallel()
	w := prepare(t, `
sources:
  shop: {type: memory}
  broken: {type: memory}
sinks:
  copy: {type: memory, topics: ["shop.*"], batch: {wait: 1ms}}
  stuck: {type: memory, topics: ["shop.*"], batch: {wait: 1ms}}
`, Options{})
	w.space.Feed("broken").FailOpen(fmt.Errorf("no right to replicate: %w", connectors.ErrFatal))
	release := w.space.Store("stuck").Block()
	defer release()
	w.run(t)
	for i := range 20 {
		w.space.Feed("shop").Append(row(i))
	}
	w.waitRows(t, "copy", 20)
	m := w.member(t, "broken", in(Failed))
	if !strings.Contains(m.Reason, "no right to replicate") || !strings.Contains(m.Reason, "trunkline resume broken") {
		t.Errorf("reason = %q", m.Reason)
	}
	w.member(t, "stuck", func(m MemberStatus) bool { return m.LagRows > 0 })
	status, err := w.Status(t.Context())
	if err != nil || len(status.Failing()) != 1 {
		t.Errorf("failing = %+v, %v", status.Failing(), err)
	}
	release()
	w.waitRows(t, "stuck", 20)
	w.space.Feed("broken").Append(row(1))
	if err := w.Resume(t.Context(), Target{Role: RoleSource, Name: "broken"}); err != nil {
		t.Fatal(err)
	}
	w.member(t, "broken", func(m MemberStatus) bool { return m.Rows == 1 })
}

func TestGapWaitsForAResyncAndBeginsAnew(t *testing.T) {
	t.Parallel()
	w := start(t, oneLine, Options{})
	feed := w.space.Feed("shop")
	feed.Append(row(1))
	w.waitRows(t, "copy", 1)
	feed.FailRead(fmt.Errorf("slot trunkline_shop is gone: %w", connectors.ErrPositionLost))
	feed.Append(row(2))
	m := w.member(t, "shop", in(Gap))
	if !strings.Contains(m.Reason, "slot trunkline_shop is gone") || !strings.Contains(m.Reason, "trunkline resync shop") {
		t.Errorf("reason = %q", m.Reason)
	}
	before := m.Rows
	if err := w.Resync(t.Context(), Target{Role: RoleSource, Name: "shop"}); err != nil {
		t.Fatal(err)
	}
	// The feed begins at its start again, because the mark is gone.
	w.member(t, "shop", func(m MemberStatus) bool { return m.Rows == before+2 && m.State != Gap })
	w.waitRows(t, "copy", 2)
}

func TestPausedSourceAndSinkStandStillAndGoOn(t *testing.T) {
	t.Parallel()
	w := start(t, oneLine, Options{})
	source, sink := Target{Role: RoleSource, Name: "shop"}, Target{Role: RoleSink, Name: "copy"}
	w.space.Feed("shop").Append(row(1))
	w.waitRows(t, "copy", 1)
	for _, target := range []Target{source, sink} {
		if err := w.Pause(t.Context(), target); err != nil {
			t.Fatal(err)
		}
		m := w.member(t, target.Name, in(Paused))
		if m.Reason != byPerson(target.Name, "") {
			t.Errorf("%s: reason = %q", target, m.Reason)
		}
	}
	w.space.Feed("shop").Append(row(2))
	if _, open := w.space.Feed("shop").Opened(); open != 0 {
		t.Errorf("%d readers are open while the source is paused", open)
	}
	for _, target := range []Target{source, sink} {
		if err := w.Resume(t.Context(), target); err != nil {
			t.Fatal(err)
		}
	}
	w.waitRows(t, "copy", 2)
}

func TestSinkIsResyncedFromTheOldestRecord(t *testing.T) {
	t.Parallel()
	w := start(t, oneLine, Options{})
	w.space.Feed("shop").Append(row(1), row(2))
	w.waitRows(t, "copy", 2)
	if err := w.Resync(t.Context(), Target{Role: RoleSink, Name: "copy"}); err != nil {
		t.Fatal(err)
	}
	store := w.space.Store("copy")
	eventually(t, func() string { return fmt.Sprint(len(store.Log())) }, func() bool { return len(store.Log()) == 4 })
	if n := store.Count("public.orders"); n != 2 {
		t.Errorf("store has %d rows, want 2", n)
	}
	if err := w.Resync(t.Context(), Target{Role: RoleSink, Name: "copy", Table: "public.orders"}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() string { return fmt.Sprint(len(store.Log())) }, func() bool { return len(store.Log()) == 6 })
	if err := w.Resync(t.Context(), Target{Role: RoleSink, Name: "copy", Table: "orderz"}); !errors.Is(err, ErrUnknown) {
		t.Errorf("resync of an unknown table gives %v", err)
	}
}

func TestOnceEndsWhenEverySinkHasEverything(t *testing.T) {
	t.Parallel()
	w := prepare(t, oneLine, Options{Once: true})
	for i := range 500 {
		w.space.Feed("shop").Append(row(i))
	}
	w.space.Store("copy").FailBefore(errors.New("deadlock detected"))
	w.run(t)
	if err := <-w.ended; err != nil {
		t.Fatal(err)
	}
	if n := w.space.Store("copy").Count("public.orders"); n != 500 {
		t.Errorf("store has %d rows, want 500", n)
	}
	// The marker of the last commit may follow in each of the two partitions; it is no record.
	if m := w.member(t, "copy", in(Done)); m.LagRows > 2 {
		t.Errorf("sink = %+v", m)
	}
}

func TestOnceReportsWhatItCouldNotDo(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fail error
		gap  bool
	}{
		"position lost":       {fmt.Errorf("purged: %w", connectors.ErrPositionLost), true},
		"a fatal error":       {fmt.Errorf("no rights: %w", connectors.ErrFatal), false},
		"an error that stays": {errors.New("connection refused"), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := prepare(t, oneLine, Options{Once: true})
			for range 50 {
				w.space.Feed("shop").FailOpen(c.fail)
			}
			w.run(t)
			err := <-w.ended
			if err == nil || errors.Is(err, connectors.ErrPositionLost) != c.gap || !strings.Contains(err.Error(), "source shop") {
				t.Errorf("run ends with %v", err)
			}
		})
	}
}

func TestRefusedRowsAreCountedAndDoNotStopTheRest(t *testing.T) {
	t.Parallel()
	w := prepare(t, oneLine, Options{Once: true})
	w.space.Store("copy").Refuse(func(c *connectors.Change) error {
		if c.After[0].Int() == 7 {
			return errors.New("value out of range")
		}
		return nil
	})
	for i := range 20 {
		w.space.Feed("shop").Append(row(i))
	}
	w.run(t)
	if err := <-w.ended; err != nil {
		t.Fatal(err)
	}
	if m := w.member(t, "copy", in(Done)); m.DeadLetters != 1 {
		t.Errorf("sink = %+v", m)
	}
	if n := w.space.Store("copy").Count("public.orders"); n != 19 {
		t.Errorf("store has %d rows, want 19", n)
	}
	if _, err := w.journal.Topic(t.Context(), "_trunkline.deadletters.copy"); err != nil {
		t.Error(err)
	}
}

func TestOnErrorStopStopsTheSink(t *testing.T) {
	t.Parallel()
	w := prepare(t, strings.Replace(oneLine, "batch:", "on_error: stop, batch:", 1), Options{})
	w.space.Store("copy").Refuse(func(*connectors.Change) error { return errors.New("value out of range") })
	w.space.Feed("shop").Append(row(1))
	w.run(t)
	if m := w.member(t, "copy", in(Failed)); !strings.Contains(m.Reason, "value out of range") {
		t.Errorf("reason = %q", m.Reason)
	}
}

// A sink whose topics name nothing is told from one that has read everything.
func TestSinkWithoutTopicsSaysSo(t *testing.T) {
	t.Parallel()
	w := start(t, strings.Replace(oneLine, "shop.*", "shpo.*", 1), Options{})
	w.space.Feed("shop").Append(row(1))
	w.member(t, "shop", func(m MemberStatus) bool { return m.Rows == 1 })
	s, err := w.Status(t.Context())
	if err != nil || len(s.Sinks) != 1 || s.Sinks[0].Warning != "no topic in the log matches shpo.*" {
		t.Errorf("sinks = %+v, %v", s.Sinks, err)
	}
}

// A store that does not answer is told from one that takes rows, in words, and its sink is not ready.
func TestASinkWhoseStoreDoesNotAnswerIsOpening(t *testing.T) {
	t.Parallel()
	w := prepare(t, oneLine+"  other: {type: memory, topics: [\"shop.*\"]}\n", Options{})
	release := w.space.Store("copy").BlockOpen()
	defer release()
	begun := time.Now().Truncate(time.Second)
	w.run(t)
	w.space.Feed("shop").Append(row(1))
	w.member(t, "other", func(m MemberStatus) bool { return m.Rows == 1 })
	m := w.member(t, "copy", in(Opening))
	if want := "waits for memory to answer since " + m.Since.Format(time.RFC3339); m.Reason != want || m.Since.Before(begun) || m.LagRows != 1 {
		t.Errorf("a sink that opens: %+v, want the reason %q", m, want)
	}
	s, err := w.Status(t.Context())
	if err != nil || len(s.Failing()) != 1 || s.Failing()[0].Name != "copy" {
		t.Errorf("not ready are %+v, %v", s.Failing(), err)
	}
	text, err := json.Marshal(s)
	if err != nil || !strings.Contains(string(text), `"state":"opening","reason":"waits for memory to answer since 20`) {
		t.Errorf("as JSON: %s, %v", text, err)
	}
	release()
	m = w.member(t, "copy", func(m MemberStatus) bool { return m.Rows == 1 && m.State != Opening })
	if m.Reason != "" {
		t.Errorf("an open sink says %q", m.Reason)
	}
}

func TestOnlyRunsASubset(t *testing.T) {
	t.Parallel()
	w := start(t, oneLine, Options{Only: []string{"shop"}})
	w.space.Feed("shop").Append(row(1))
	w.member(t, "shop", func(m MemberStatus) bool { return m.Rows == 1 })
	if s, err := w.Status(t.Context()); err != nil || len(s.Sinks) != 0 {
		t.Errorf("sinks = %+v, %v", s.Sinks, err)
	}
	if _, err := New(w.Config(), w.journal, Options{Only: []string{"shp"}}); !errors.Is(err, ErrUnknown) {
		t.Errorf("an unknown name gives %v", err)
	}
}

func TestDrainHasAnEnd(t *testing.T) {
	t.Parallel()
	w := prepare(t, oneLine, Options{DrainTimeout: 10 * time.Millisecond})
	release := w.space.Store("copy").Block()
	w.run(t)
	w.space.Feed("shop").Append(row(1))
	store := w.space.Store("copy")
	eventually(t, func() string { return "no write hangs" }, func() bool { return store.Blocked() > 0 })
	w.stop()
	if err := <-w.ended; err == nil || !strings.Contains(err.Error(), "copy did not stop within 10ms") {
		t.Errorf("run ends with %v", err)
	}
	release()
	eventually(t, func() string { return "the sink still runs" }, func() bool {
		m := w.roster().sinks[0].member
		m.mu.Lock()
		defer m.mu.Unlock()
		return !m.alive
	})
}

func TestFullDiskPausesTheSourceUntilThereIsRoom(t *testing.T) {
	t.Parallel()
	w := start(t, oneLine, Options{})
	w.space.Feed("shop").Append(row(1))
	w.waitRows(t, "copy", 1)
	w.member(t, "copy", in(CaughtUp))
	w.disk.SetRoom(0)
	w.space.Feed("shop").Append(row(2))
	m := w.member(t, "shop", in(Paused))
	if !strings.Contains(m.Reason, "waits for room") || !strings.Contains(m.Reason, "no space left for the log") {
		t.Errorf("reason = %q", m.Reason)
	}
	w.disk.SetRoom(-1)
	w.waitRows(t, "copy", 2)
	w.member(t, "shop", in(Running, CaughtUp))
}

func TestCommandsNeedARunningPipeline(t *testing.T) {
	t.Parallel()
	w := prepare(t, oneLine, Options{})
	if err := w.Extract(t.Context(), Target{Role: RoleSource, Name: "shop"}, false); !errors.Is(err, ErrNotRunning) {
		t.Errorf("extract gives %v", err)
	}
	if err := w.Resync(t.Context(), Target{Role: RoleSource, Name: "none"}); !errors.Is(err, ErrUnknown) {
		t.Errorf("resync of an unknown name gives %v", err)
	}
	if s, err := w.Status(t.Context()); err != nil || s.Running || s.Sources[0].State != Stopped {
		t.Errorf("status = %+v, %v", s, err)
	}
}
