package bench

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	wire "github.com/go-mysql-org/go-mysql/mysql"
	"github.com/go-mysql-org/go-mysql/replication"

	"github.com/trunkline/trunkline/connectors/mysql/localserver"
)

// maria is a private MariaDB with the same table, started by the first benchmark that needs it.
type maria struct {
	server *localserver.Server
	db     *sql.DB
}

func (m *maria) exec(ctx context.Context, statements ...string) error {
	for _, s := range statements {
		if _, err := m.db.ExecContext(ctx, s); err != nil {
			return fmt.Errorf("prepare the benchmark: %w", err)
		}
	}
	return nil
}

// openMaria returns nil, with a note in the report, where the machine has no MariaDB.
func (w *world) openMaria(ctx context.Context) (*maria, error) {
	if w.maria != nil {
		return w.maria, nil
	}
	if _, err := localserver.Find(); err != nil {
		w.notes = append(w.notes, "MariaDB is left out: "+err.Error())
		return nil, nil
	}
	server, err := localserver.Start(ctx, localserver.Options{Dir: filepath.Join(w.Dir, "mariadb"), Settings: map[string]string{
		"innodb-buffer-pool-size": "1G", "innodb-log-file-size": "1G", "max-binlog-size": "1G",
	}})
	if err != nil {
		return nil, err
	}
	w.maria = &maria{server: server}
	if _, err := server.CreateDatabase(ctx, "bench"); err != nil {
		return nil, err
	}
	w.maria.db, err = server.Open("bench", "")
	return w.maria, err
}

func (m *maria) close() error {
	if m == nil {
		return nil
	}
	if m.db != nil {
		m.db.Close()
	}
	return m.server.Stop()
}

// empty makes the table orders anew.
func (m *maria) empty(ctx context.Context) error {
	return m.exec(ctx, "DROP TABLE IF EXISTS orders", `CREATE TABLE orders (id bigint PRIMARY KEY, customer_id int NOT NULL, status varchar(20) NOT NULL, amount decimal(12,2) NOT NULL,
		note text, created_at datetime(6) NOT NULL, updated_at datetime(6) NOT NULL, KEY (updated_at, id))`)
}

// fill inserts the rows in transactions of 1,000.
func (m *maria) fill(ctx context.Context, rows int) error {
	for first := 1; first <= rows; first += transaction {
		if err := m.exec(ctx, fmt.Sprintf(`INSERT INTO orders SELECT seq, seq %% 50000, ELT(1 + seq %% 4, 'new', 'paid', 'packed', 'shipped'), (seq %% 100000) / 100.0,
			LEFT(CONCAT(MD5(seq), MD5(seq + 1), MD5(seq + 2)), 80), TIMESTAMPADD(SECOND, seq, '2020-01-01'), TIMESTAMPADD(MICROSECOND, seq * 1001000, '2020-01-01')
			FROM seq_%d_to_%d`, first, min(first+transaction-1, rows))); err != nil {
			return err
		}
	}
	return nil
}

// end returns the place that the binary log ends at.
func (m *maria) end(ctx context.Context) (at wire.Position, err error) {
	var do, ignore sql.NullString
	if err = m.db.QueryRowContext(ctx, "SHOW MASTER STATUS").Scan(&at.Name, &at.Pos, &do, &ignore); err != nil {
		return at, fmt.Errorf("ask for the end of the binary log: %w", err)
	}
	return at, nil
}

// binlog measures the capture of the binary log. Each round begins with a copy of a log whose mark stands before the rows.
func binlog(ctx context.Context, w *world) error {
	m, err := w.openMaria(ctx)
	if m == nil || err != nil {
		return err
	}
	if err := m.empty(ctx); err != nil {
		return err
	}
	before, err := w.newDir("binlog")
	if err != nil {
		return err
	}
	defer os.RemoveAll(before)
	source := fmt.Sprintf("  bench:\n    type: mysql\n    dsn: %q\n    mode: cdc\n    snapshot: never\n    tables: [bench.orders]\n", m.server.DSN("bench"))
	config, err := w.configure(before, source, "")
	if err != nil {
		return err
	}
	if _, err := w.trunkline(ctx, 0, "run", "--once", "-f", config); err != nil {
		return err
	}
	start, err := m.end(ctx)
	if err != nil {
		return err
	}
	if err := m.fill(ctx, w.Rows); err != nil {
		return err
	}
	theirs := func() (sample, error) { return m.parse(ctx, start, w.Rows) }
	ours := func() (sample, error) {
		dir, err := w.newDir("binlog")
		if err != nil {
			return sample{}, err
		}
		defer os.RemoveAll(dir)
		config, err := w.configure(dir, source, "")
		if err != nil {
			return sample{}, err
		}
		if err := os.CopyFS(filepath.Join(dir, "log"), os.DirFS(filepath.Join(before, "log"))); err != nil {
			return sample{}, fmt.Errorf("copy the log: %w", err)
		}
		return w.countedIn(ctx, "bench.bench.orders", config, "run", "--once", "-f", config)
	}
	return w.pairs(result{what: "MariaDB binlog, transactions of 1,000", peer: "go-mysql's parser", aim: "0.8"}, ours, theirs)
}

// parseTimeout is how long the library may say nothing.
const parseTimeout = time.Minute

// parse times the library's own parser, which decodes every row and drops it.
func (m *maria) parse(ctx context.Context, from wire.Position, rows int) (sample, error) {
	begin := time.Now()
	syncer := replication.NewBinlogSyncer(replication.BinlogSyncerConfig{ServerID: 4_000_000_001, Flavor: wire.MariaDBFlavor, Host: "127.0.0.1", Port: uint16(m.server.Port()),
		User: localserver.User, Logger: slog.New(slog.DiscardHandler)})
	defer syncer.Close()
	stream, err := syncer.StartSync(from)
	if err != nil {
		return sample{}, fmt.Errorf("follow the binary log: %w", err)
	}
	n := 0
	for n < rows {
		waiting, cancel := context.WithTimeout(ctx, parseTimeout)
		e, err := stream.GetEvent(waiting)
		cancel()
		if err != nil {
			return sample{}, fmt.Errorf("follow the binary log: %w", err)
		}
		if changed, ok := e.Event.(*replication.RowsEvent); ok {
			n += len(changed.Rows)
		}
	}
	if n != rows {
		return sample{}, errors.New("the binary log has more rows than were written")
	}
	return sample{rows: n, wall: time.Since(begin)}, nil
}

func (w *world) extractMaria(ctx context.Context) (*extracted, func(), error) {
	m, err := w.openMaria(ctx)
	if m == nil || err != nil {
		return nil, nil, err
	}
	if err := m.empty(ctx); err != nil {
		return nil, nil, err
	}
	if err := m.fill(ctx, w.Rows); err != nil {
		return nil, nil, err
	}
	if err := m.exec(ctx, "ANALYZE TABLE orders"); err != nil {
		return nil, nil, err
	}
	return &extracted{
		name: "MariaDB", topic: "bench.bench.orders",
		source: fmt.Sprintf("  bench:\n    type: mysql\n    dsn: %q\n    mode: timestamp\n    tables: [{name: bench.orders, cursor: updated_at}]\n", m.server.DSN("bench")),
		read: func(ctx context.Context, query string, rows int) (sample, error) {
			return selectFrom(ctx, m.db, query, rows)
		},
		touch: func(ctx context.Context, round int) (string, error) {
			at := fmt.Sprintf("'2022-01-%02d'", round)
			return "SELECT * FROM orders WHERE updated_at > " + at + " ORDER BY updated_at, id",
				m.exec(ctx, "UPDATE orders SET updated_at = TIMESTAMPADD(MICROSECOND, id, "+at+") WHERE id % 10 = 1")
		},
	}, func() {}, nil
}
