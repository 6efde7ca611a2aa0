package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/trunkline/trunkline/connectors/postgres/localserver"
)

// ordersTable is a row of about 160 bytes in COPY's text form.
const ordersTable = `(id bigint PRIMARY KEY, customer_id int NOT NULL, status text NOT NULL, amount numeric(12,2) NOT NULL,
  note text, created_at timestamptz NOT NULL, updated_at timestamptz NOT NULL)`

// fillOrders inserts rows first to last.
const fillOrders = `INSERT INTO orders SELECT i, i %% 50000, (ARRAY['new','paid','packed','shipped'])[1 + i %% 4], (i %% 100000) / 100.0,
  left(md5(i::text) || md5((i + 1)::text) || md5((i + 2)::text), 80), timestamptz '2026-01-01' + i * interval '1 second',
  timestamptz '2026-01-01' + i * interval '1001 milliseconds' FROM generate_series(%s, %s) AS i`

// open starts a private server with fsync and the settings that keep checkpoints out of the measured time.
func open(ctx context.Context, o Options) (*world, error) {
	if o.Rows == 0 {
		o.Rows = 1_000_000
	}
	if o.Rounds == 0 {
		o.Rounds = 3
	}
	if o.Self == "" {
		self, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("find the program to measure: %w", err)
		}
		o.Self = self
	}
	dir, err := os.MkdirTemp(o.Dir, "trunkline-bench-")
	if err != nil {
		return nil, fmt.Errorf("create a folder for the benchmark: %w", err)
	}
	o.Dir = dir
	if err := os.Chmod(dir, 0o755); err != nil {
		return nil, fmt.Errorf("open the benchmark's folder to the server: %w", err)
	}
	w := &world{Options: o}
	w.server, err = localserver.Start(ctx, localserver.Options{Dir: filepath.Join(dir, "server"), Settings: map[string]string{
		"shared_buffers": "1GB", "max_wal_size": "40GB", "checkpoint_timeout": "1h", "autovacuum": "off", "wal_level": "logical",
		"max_replication_slots": "64", "max_wal_senders": "64",
	}})
	if err != nil {
		w.close()
		return nil, err
	}
	if _, err := w.server.CreateDatabase(ctx, "bench"); err != nil {
		w.close()
		return nil, err
	}
	if w.db, err = pgx.Connect(ctx, w.server.DSN("bench")); err != nil {
		w.close()
		return nil, fmt.Errorf("connect to the private server: %w", err)
	}
	return w, nil
}

func (w *world) exec(ctx context.Context, statements ...string) error {
	for _, s := range statements {
		if _, err := w.db.Exec(ctx, s); err != nil {
			return fmt.Errorf("prepare the benchmark: %w", err)
		}
	}
	return nil
}

// empty makes the table orders anew, with a publication and a slot.
func (w *world) empty(ctx context.Context, slot string) error {
	return w.exec(ctx, "DROP PUBLICATION IF EXISTS bench", "DROP TABLE IF EXISTS orders", "CREATE TABLE orders "+ordersTable,
		"CREATE PUBLICATION bench FOR TABLE orders WITH (publish_via_partition_root = true)",
		"SELECT pg_create_logical_replication_slot('"+slot+"', 'pgoutput')")
}

// fill makes the table orders anew with a slot that stands before its rows. Rows come in transactions of size, or all in
// one when size is zero.
func (w *world) fill(ctx context.Context, slot string, size int) error {
	if err := w.empty(ctx, slot); err != nil {
		return err
	}
	if size == 0 {
		return w.exec(ctx, fmt.Sprintf(fillOrders, "1", fmt.Sprint(w.Rows)))
	}
	insert := fmt.Sprintf(fillOrders, "n + 1", fmt.Sprintf("n + %d", size))
	return w.exec(ctx, fmt.Sprintf(`DO $$ DECLARE n int := 0; BEGIN WHILE n < %d LOOP %s; COMMIT; n := n + %d; END LOOP; END $$`,
		w.Rows, insert, size))
}

// copySlot returns a fresh copy of a slot, so that every reader sees the same WAL.
func (w *world) copySlot(ctx context.Context, slot string) (string, error) {
	w.slots++
	name := fmt.Sprintf("%s_%d", slot, w.slots)
	return name, w.exec(ctx, fmt.Sprintf("SELECT pg_copy_logical_replication_slot('%s', '%s')", slot, name))
}

func (w *world) dropSlot(ctx context.Context, slot string) error {
	return w.exec(ctx, "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = '"+slot+"' AND NOT active")
}

// newDir returns an empty folder for a log.
func (w *world) newDir(name string) (string, error) {
	dir, err := os.MkdirTemp(w.Dir, name+"-")
	if err != nil {
		return "", fmt.Errorf("create a folder for the log: %w", err)
	}
	return dir, nil
}

// configure writes a pipelines.yaml with a log in dir and returns its path.
func (w *world) configure(dir, sources, sinks string) (string, error) {
	codec := ""
	if w.Codec != "" {
		codec = "\n  topics: {compression: " + w.Codec + "}"
	}
	text := fmt.Sprintf("log:\n  dir: %q\n  listen: off%s\nhttp:\n  listen: off\n", filepath.Join(dir, "log"), codec)
	if sources != "" {
		text += "sources:\n" + sources
	}
	if sinks != "" {
		text += "sinks:\n" + sinks
	}
	path := filepath.Join(dir, "pipelines.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return "", fmt.Errorf("write the configuration: %w", err)
	}
	return path, nil
}

// trunkline runs the program to its end and returns what it cost.
func (w *world) trunkline(ctx context.Context, rows int, args ...string) (sample, error) {
	return timed(exec.CommandContext(ctx, w.Self, args...), rows)
}

// timed runs a command, with its output thrown away, and returns what it cost.
func timed(cmd *exec.Cmd, rows int) (sample, error) {
	var problems strings.Builder
	cmd.Stderr = &problems
	start := time.Now()
	if err := cmd.Start(); err != nil {
		return sample{}, fmt.Errorf("run %s: %w", filepath.Base(cmd.Path), err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	s := sample{rows: rows}
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for {
		select {
		case <-look.C:
			s.rss = max(s.rss, peakMemory(cmd.Process.Pid))
			continue
		case err := <-ended:
			if err != nil {
				return sample{}, fmt.Errorf("run %s: %w: %s", filepath.Base(cmd.Path), err, lastLines(problems.String(), 5))
			}
		}
		s.wall = time.Since(start)
		s.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
		return s, nil
	}
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "; ")
}

// records counts what a log's topic holds, batch by batch, so that no run is believed that lost something.
func (w *world) records(ctx context.Context, config, topic string) (int, error) {
	return w.recordsIn(ctx, filepath.Join(filepath.Dir(config), "log"), topic)
}

func (w *world) recordsIn(ctx context.Context, dir, topic string) (int, error) {
	out, err := exec.CommandContext(ctx, w.Self, "log", "verify", dir, "--json").Output()
	if err != nil {
		return 0, fmt.Errorf("verify the log: %w", err)
	}
	var segments []struct {
		Path    string `json:"path"`
		Records int    `json:"records"`
	}
	if err := json.Unmarshal(out, &segments); err != nil {
		return 0, fmt.Errorf("verify the log: %w", err)
	}
	n := 0
	for _, s := range segments {
		if strings.HasPrefix(filepath.Base(filepath.Dir(s.Path)), topic+"-") {
			n += s.Records
		}
	}
	return n, nil
}
