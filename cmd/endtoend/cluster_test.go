//go:build unix

package endtoend

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/trunkline/trunkline/log/kafka/localcluster"
	"github.com/trunkline/trunkline/pipeline"
)

// onCluster starts a Kafka cluster and returns the settings of a log on it. Without Java or Kafka's jars the test
// fails with a line that says what is missing; TRUNKLINE_SKIP_CLIENTS leaves it out.
func onCluster(t *testing.T, brokers int) (*localcluster.Cluster, string) {
	t.Helper()
	c, err := localcluster.Start(t.Context(), t.TempDir(), localcluster.Options{Brokers: brokers})
	if errors.Is(err, localcluster.ErrNotFound) && os.Getenv("TRUNKLINE_SKIP_CLIENTS") != "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c, fmt.Sprintf("  brokers: [%s]\n", strings.Join(c.Addresses, ", "))
}

// stateOf asks the daemon of a line for the state of a source or sink, empty if it does not say.
func stateOf(l *line, name string) pipeline.State { return statusOf(l, name).State }

func runs(l *line, source string) bool {
	s := stateOf(l, source)
	return s == pipeline.Running || s == pipeline.CaughtUp
}

// inserted counts, for each key, the records of a topic that say that a row came into being.
func inserted(l *line, topic string) map[string]int {
	l.t.Helper()
	code, out := l.run("consume", topic, "--from", "earliest", "--format", "json")
	if code != 0 {
		l.t.Fatalf("consume ended with %d: %s", code, out)
	}
	counts := map[string]int{}
	for text := range strings.Lines(out) {
		var r struct {
			Key   json.RawMessage `json:"key"`
			Value json.RawMessage `json:"value"`
		}
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			l.t.Fatalf("consume printed %q: %v", text, err)
		}
		if value := unquoted(r.Value); strings.Contains(value, `"op":"c"`) || strings.Contains(value, `"op":"r"`) {
			counts[unquoted(r.Key)]++
		}
	}
	return counts
}

// unquoted takes the JSON out of a JSON string, where it is in one.
func unquoted(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	return string(raw)
}

// Two processes share one configuration on a cluster. The one that runs the source is killed with -9 under load, later
// the other one is frozen until its time is over, and then comes back. Each time the source goes on in the other process,
// nothing is lost and nothing is there twice.
func TestProcessTakesOverOnACluster(t *testing.T) {
	t.Parallel()
	cluster, log := onCluster(t, 1)
	// The server has to notice by itself that a frozen process does not read any more.
	source, target := newServerDatabase(t, map[string]string{"wal_sender_timeout": "3s"}), newDatabase(t)
	source.exec("CREATE TABLE item (id bigint PRIMARY KEY, n int NOT NULL, note text, big text)",
		"INSERT INTO item SELECT i, i, 'note ' || i, NULL FROM generate_series(1, 3000) AS i")
	sources, sinks := postgresSource(source, "shop", "tables: [public.item]"), postgresSink(target, "replica")
	first, second := newLineOn(t, log, sources, sinks), newLineOn(t, log, sources, sinks)
	first.start()
	eventually(t, "the snapshot is in the target", func() bool { return len(target.list("SELECT 'x' FROM item")) == 3000 })
	second.start()
	eventually(t, "the second process stands by", func() bool { return stateOf(second, "shop") == pipeline.Standby })

	ctx, stop := context.WithCancel(context.Background())
	load := make(chan error, 1)
	last := 30000
	go func() { load <- mixedLoad(ctx, source.URL, &last) }()
	arrive := func() {
		before := count(target)
		eventually(t, "changes arrive", func() bool { return count(target) > before+200 })
	}
	arrive()
	first.kill()
	eventually(t, "the second process runs the source", func() bool { return runs(second, "shop") })
	arrive()
	first.start()
	eventually(t, "the first process stands by", func() bool { return stateOf(first, "shop") == pipeline.Standby })
	second.cmd.Process.Signal(syscall.SIGSTOP)
	eventually(t, "the first process runs the source", func() bool { return runs(first, "shop") })
	arrive()
	second.cmd.Process.Signal(syscall.SIGCONT)
	eventually(t, "the thawed process stands by", func() bool { return stateOf(second, "shop") == pipeline.Standby })
	arrive()
	if code := first.stop(); code != 0 {
		t.Errorf("a clean drain ended with %d", code)
	}
	eventually(t, "the second process runs the source again", func() bool { return runs(second, "shop") })
	arrive()
	stop()
	if err := <-load; err != nil {
		t.Fatal(err)
	}
	equalRows(t, source, target, "item")
	counts := inserted(second, "shop.public.item")
	for id := 30001; id <= last; id++ {
		if n := counts[fmt.Sprintf(`{"id":%d}`, id)]; n != 1 {
			t.Fatalf("the insert of id %d is in the log %d times", id, n)
		}
	}
	if ends := held(t, cluster, "shop.public.item"); !described(second, "shop.public.item", ends, []int32{1}, []int32{1}) {
		_, out := second.run("topics", "describe", "shop.public.item")
		t.Errorf("of %d records on one broker topics describe says:\n%s", ends, out)
	}
	if code, out := second.run("groups", "describe", "replica"); code != 0 || !strings.Contains(out, "shop.public.item") {
		t.Errorf("groups describe ended with %d: %s", code, out)
	}
}

// A pipeline moves from the embedded log to a cluster, while its source goes on changing, and loses and repeats nothing.
func TestMovesToACluster(t *testing.T) {
	t.Parallel()
	_, log := onCluster(t, 1)
	source, target := newDatabase(t), newDatabase(t)
	source.exec("CREATE TABLE item (id bigint PRIMARY KEY, n int NOT NULL, note text, big text)",
		"INSERT INTO item SELECT i, i, 'note ' || i, NULL FROM generate_series(1, 1000) AS i")
	sources, sinks := postgresSource(source, "shop", "tables: [public.item]"), postgresSink(target, "replica")
	l := newLine(t, sources, sinks)
	l.start()
	eventually(t, "the snapshot is in the target", func() bool { return len(target.list("SELECT 'x' FROM item")) == 1000 })
	ctx, stop := context.WithCancel(context.Background())
	load := make(chan error, 1)
	last := 30000
	go func() { load <- mixedLoad(ctx, source.URL, &last) }()
	eventually(t, "changes arrive", func() bool { return count(target) > 300 })
	source.exec("TRUNCATE item") // what was before is gone from both sides
	eventually(t, "changes arrive again", func() bool { return count(target) > 300 })
	if code, out := l.run("log", "mirror", "--to", "127.0.0.1:1"); code != 1 || !strings.Contains(out, "stop the daemon") {
		t.Errorf("a mirror beside a daemon ended with %d: %s", code, out)
	}
	l.kill()
	addresses := strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(log), "brokers: ["), "]")
	if code, out := l.run("log", "mirror", "--to", strings.ReplaceAll(addresses, " ", "")); code != 0 {
		t.Fatalf("the mirror ended with %d: %s", code, out)
	}
	l.log = log
	l.configure(sources, sinks)
	l.start()
	before := count(target)
	eventually(t, "changes arrive through the cluster", func() bool { return count(target) > before+300 })
	stop()
	if err := <-load; err != nil {
		t.Fatal(err)
	}
	equalRows(t, source, target, "item")
	counts := inserted(l, "shop.public.item")
	for id := 30001; id <= last; id++ {
		if n := counts[fmt.Sprintf(`{"id":%d}`, id)]; n != 1 {
			t.Fatalf("the insert of id %d is in the log %d times", id, n)
		}
	}
	if code := l.stop(); code != 0 {
		t.Errorf("a clean drain ended with %d", code)
	}
}

// fakeCluster is a cluster inside the test, where what counts is what Trunkline does.
func fakeCluster(t *testing.T) string {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return fmt.Sprintf("  brokers: [%s]\n", strings.Join(c.ListenAddrs(), ", "))
}

// Two processes share the topics of one sink, each whole, so that a truncate takes effect between the same rows in all
// partitions, and they share the sources.
func TestProcessesShareTheWork(t *testing.T) {
	t.Parallel()
	log := fakeCluster(t)
	one, two, target := newDatabase(t), newDatabase(t), newDatabase(t)
	create := func(db *database, table string) {
		db.exec("CREATE TABLE "+table+" (id int PRIMARY KEY, v text)", "INSERT INTO "+table+" SELECT i, 'old' FROM generate_series(1, 2000) AS i")
	}
	create(one, "a")
	create(one, "b")
	create(two, "c")
	create(two, "d")
	sources := postgresSource(one, "one", "tables: [public.*]") + postgresSource(two, "two", "tables: [public.*]")
	sinks := postgresSink(target, "replica")
	first, second := newLineOn(t, log, sources, sinks), newLineOn(t, log, sources, sinks)
	first.start()
	second.start()
	equalRows(t, one, target, "a", "b")
	equalRows(t, two, target, "c", "d")
	eventually(t, "each process runs one source", func() bool {
		return runs(first, "one") != runs(second, "one") && runs(first, "two") != runs(second, "two") && runs(first, "one") != runs(first, "two")
	})
	eventually(t, "each process reads some topics, whole", func() bool {
		_, out := first.run("groups", "describe", "replica", "--json")
		var group struct {
			Partitions []struct{ Topic, Member string } `json:"partitions"`
		}
		if json.Unmarshal([]byte(out), &group) != nil {
			return false
		}
		members, readers := map[string]bool{}, map[string]string{}
		for _, p := range group.Partitions {
			if before, ok := readers[p.Topic]; p.Member == "" || ok && before != p.Member {
				return false
			}
			readers[p.Topic] = p.Member
			members[p.Member] = true
		}
		return len(members) == 2 && len(readers) == 4
	})
	one.exec("UPDATE a SET v = 'gone' WHERE id < 1000", "TRUNCATE a, b", "INSERT INTO a SELECT i, 'new' FROM generate_series(500, 1500) AS i",
		"INSERT INTO b VALUES (1, 'new')")
	two.exec("TRUNCATE d", "INSERT INTO d VALUES (2, 'new')", "DELETE FROM c WHERE id > 10")
	equalRows(t, one, target, "a", "b")
	equalRows(t, two, target, "c", "d")
	if code := first.stop(); code != 0 {
		t.Errorf("a clean drain ended with %d", code)
	}
	one.exec("INSERT INTO a VALUES (1, 'after')", "TRUNCATE b")
	two.exec("INSERT INTO d VALUES (3, 'after')")
	equalRows(t, one, target, "a", "b")
	equalRows(t, two, target, "c", "d")
	if code := second.stop(); code != 0 {
		t.Errorf("a clean drain ended with %d", code)
	}
}

// The commands work on a cluster without a daemon, and without a configuration when brokers are named.
func TestCommandsOnACluster(t *testing.T) {
	t.Parallel()
	log := fakeCluster(t)
	source := newDatabase(t)
	source.exec("CREATE TABLE item (id int PRIMARY KEY)")
	l := newLineOn(t, log+"  replication: 1\n", postgresSource(source, "shop", "tables: [public.*]"), fileSink)
	brokers := strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(log), "brokers: ["), "]")
	do := func(want string, args ...string) {
		t.Helper()
		if code, out := l.run(args...); code != 0 || !strings.Contains(out, want) {
			t.Errorf("%v ended with %d: %s", args, code, out)
		}
	}
	do("created topic orders with 3 partitions", "topics", "create", "orders", "--partitions", "3", "--config", "retention.ms=3600000")
	do("retention.ms=3600000", "topics", "describe", "orders")
	do("HIGH WATERMARK", "topics", "describe", "orders")
	input := strings.NewReader("a:one\nb:two\n")
	produce := exec.Command(l.self, "produce", "orders", "--key-separator", ":", "--brokers", brokers)
	produce.Stdin = input
	if out, err := produce.CombinedOutput(); err != nil {
		t.Errorf("produce: %v: %s", err, out)
	}
	do("two", "consume", "orders", "--from", "earliest", "--group", "g", "--max", "2")
	do("orders", "groups", "describe", "g")
	do("orders", "groups", "reset", "g", "--to", "earliest")
	do("one", "consume", "orders", "--group", "g", "--max", "2")
	do("not running", "status")
	do("log brokers", "check", "--connect")
	do("deleted topic orders", "topics", "delete", "orders")
	if code, out := l.run("topics", "describe", "orders"); code == 0 {
		t.Errorf("a deleted topic is described: %s", out)
	}
}

// The only broker of a cluster is killed and comes back: sources and sinks say so and go on by themselves.
func TestClusterComesBackByItself(t *testing.T) {
	t.Parallel()
	cluster, log := onCluster(t, 1)
	source, target := newDatabase(t), newDatabase(t)
	source.exec("CREATE TABLE item (id bigint PRIMARY KEY, n int NOT NULL, note text, big text)",
		"INSERT INTO item SELECT i, i, 'note ' || i, NULL FROM generate_series(1, 1000) AS i")
	l := newLineOn(t, log, postgresSource(source, "shop", "tables: [public.item]"), postgresSink(target, "replica"))
	l.start()
	eventually(t, "the snapshot is in the target", func() bool { return len(target.list("SELECT 'x' FROM item")) == 1000 })
	ctx, stop := context.WithCancel(context.Background())
	load := make(chan error, 1)
	last := 30000
	go func() { load <- mixedLoad(ctx, source.URL, &last) }()
	eventually(t, "changes arrive", func() bool { return count(target) > 200 })
	if err := cluster.KillBroker(0); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the program says that the cluster is gone", func() bool {
		out, err := os.ReadFile(l.output)
		return err == nil && strings.Contains(string(out), "retrying")
	})
	if err := cluster.StartBroker(0); err != nil {
		t.Fatal(err)
	}
	before := count(target)
	eventually(t, "changes arrive again", func() bool { return count(target) > before+200 })
	stop()
	if err := <-load; err != nil {
		t.Fatal(err)
	}
	equalRows(t, source, target, "item")
	counts := inserted(l, "shop.public.item")
	for id := 30001; id <= last; id++ {
		if n := counts[fmt.Sprintf(`{"id":%d}`, id)]; n != 1 {
			t.Fatalf("the insert of id %d is in the log %d times", id, n)
		}
	}
}

// A run with an end ends on a cluster too, each time a little further.
func TestOnceOnACluster(t *testing.T) {
	t.Parallel()
	source, target := newDatabase(t), newDatabase(t)
	source.exec("CREATE TABLE item (id int PRIMARY KEY)", "INSERT INTO item VALUES (1), (2)")
	l := newLineOn(t, fakeCluster(t), postgresSource(source, "shop", "tables: [public.item]"), postgresSink(target, "replica"))
	for id := 3; id < 6; id++ {
		l.once()
		equalRows(t, source, target, "item")
		source.exec(fmt.Sprintf("INSERT INTO item VALUES (%d)", id))
	}
}
