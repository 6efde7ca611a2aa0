package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/trunkline/trunkline/connectors"
)

const (
	plugin = "pgoutput"

	minVersion       = 130000 // publish_via_partition_root
	streamingVersion = 140000 // protocol 2 with streamed transactions; TID range scans
)

// server is what has to be known about the other side.
type server struct {
	version  int // 150018
	system   string
	database string
	walLevel string
	timeout  time.Duration // wal_sender_timeout; 0: none
}

func loadServer(ctx context.Context, conn *pgx.Conn) (*server, error) {
	s := &server{}
	var timeout int64
	err := conn.QueryRow(ctx, `SELECT current_setting('server_version_num')::int, current_database()::text, current_setting('wal_level'),
  (SELECT setting::int8 FROM pg_settings WHERE name = 'wal_sender_timeout'), (SELECT system_identifier::text FROM pg_control_system())`).
		Scan(&s.version, &s.database, &s.walLevel, &timeout, &s.system)
	if err != nil {
		return nil, fmt.Errorf("ask the server for its settings: %w", err)
	}
	s.timeout = time.Duration(timeout) * time.Millisecond
	if s.version < minVersion {
		return nil, fmt.Errorf("server has version %d; PostgreSQL 13 or later is needed: %w", s.version/10000, connectors.ErrFatal)
	}
	return s, nil
}

// slot is what the server says about our replication slot.
type slot struct {
	exists    bool
	plugin    string
	database  string
	active    bool
	confirmed lsn
	lost      bool // invalidated: the WAL that it needs is gone
}

func loadSlot(ctx context.Context, conn *pgx.Conn, name string) (*slot, error) {
	s := &slot{}
	var confirmed, status *string
	err := conn.QueryRow(ctx, `SELECT coalesce(plugin::text, ''), coalesce(database::text, ''), active, confirmed_flush_lsn::text, wal_status
FROM pg_replication_slots WHERE slot_name = $1`, name).Scan(&s.plugin, &s.database, &s.active, &confirmed, &status)
	if errors.Is(err, pgx.ErrNoRows) {
		return s, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read slot %q: %w", name, err)
	}
	s.exists = true
	s.lost = status != nil && *status == "lost"
	if confirmed != nil {
		s.confirmed, err = parseLSN(*confirmed)
	}
	return s, err
}

// createSlot creates the slot and returns where it starts with the name of the snapshot of that moment, which lives
// until the next command on the connection. It waits for the end of every transaction that is open on the server.
func createSlot(ctx context.Context, conn *pgconn.PgConn, name string) (start lsn, snapshot string, err error) {
	result, err := pglogrepl.CreateReplicationSlot(ctx, conn, name, plugin, pglogrepl.CreateReplicationSlotOptions{
		Mode: pglogrepl.LogicalReplication, SnapshotAction: "EXPORT_SNAPSHOT"})
	if err != nil {
		return 0, "", slotFault(name, err)
	}
	start, err = parseLSN(result.ConsistentPoint)
	return start, result.SnapshotName, err
}

// slotFault tells what a person has to repair from what passes.
func slotFault(name string, err error) error {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return fmt.Errorf("use slot %q: %w", name, err)
	}
	switch {
	case pg.Code == "42501":
		return fmt.Errorf("slot %q: %s; let a superuser run: ALTER ROLE … REPLICATION: %w", name, pg.Message, connectors.ErrFatal)
	case pg.Code == "53400":
		return fmt.Errorf("slot %q: %s; drop a slot that nobody uses (SELECT pg_drop_replication_slot(…)) or raise max_replication_slots and restart the server: %w",
			name, pg.Message, connectors.ErrFatal)
	case pg.Code == "42704", pg.Code == "58P01", // no such slot or publication, no such WAL segment
		pg.Code == "55000" && strings.Contains(pg.Message, "slot"):
		return fmt.Errorf("slot %q: %s: %w", name, pg.Message, connectors.ErrPositionLost)
	}
	return fmt.Errorf("use slot %q: %w", name, err)
}

// foreign refuses a slot that is somebody else's: slots belong to the whole server, and a source of the same name in
// another database has made one by the same name. Dropping it would lose that source's changes.
func (s *slot) foreign(name string, srv *server) error {
	switch {
	case !s.exists:
		return nil
	case s.database != srv.database:
		return fmt.Errorf("slot %q belongs to database %q; give this source a name of its own with slot: %w", name, s.database, connectors.ErrFatal)
	case s.plugin != plugin:
		return fmt.Errorf("slot %q is of plugin %q; give this source a name of its own with slot: %w", name, s.plugin, connectors.ErrFatal)
	}
	return nil
}

// checkPosition compares a saved position with the slot. An error is ErrPositionLost, with the slot, the position and the
// way out in words.
func checkPosition(saved *position, s *slot, srv *server, source string) error {
	reason := ""
	switch {
	case saved.System != srv.system:
		reason = "this is another server than the one that was read before (its system identifier differs)"
	case !s.exists:
		reason = "the slot is gone from the server"
	case s.lost:
		reason = "the server has invalidated the slot, the WAL that it needs is removed (see max_slot_wal_keep_size)"
	case s.database != srv.database:
		reason = fmt.Sprintf("the slot belongs to database %q", s.database)
	case s.plugin != plugin:
		reason = fmt.Sprintf("the slot is of plugin %q", s.plugin)
	case s.confirmed > saved.LSN:
		reason = fmt.Sprintf("the slot was moved on to %s by someone else", s.confirmed)
	default:
		return nil
	}
	return fmt.Errorf("slot %q cannot go on from position %s: %s; changes since then are lost to the stream, take a fresh snapshot with: trunkline resync %s: %w",
		saved.Slot, saved.LSN, reason, source, connectors.ErrPositionLost)
}

// protocols are the first servers that speak each version of pgoutput's protocol.
var protocols = []int{1: 100000, 2: streamingVersion, 3: 150000, 4: 160000}

// options are those of pgoutput.
func (c *SourceConfig) options(version int) (string, error) {
	protocol := c.Protocol
	switch {
	case protocol != 0 && version < protocols[protocol]:
		return "", fmt.Errorf("protocol %d needs PostgreSQL %d or later; remove the setting protocol: %w", protocol, protocols[protocol]/10000, connectors.ErrFatal)
	case protocol == 0 && version >= streamingVersion:
		protocol = 2
	case protocol == 0:
		protocol = 1
	}
	out := fmt.Sprintf(`"proto_version" '%d', "publication_names" '%s'`, protocol, quoteLiteral(ident(c.Publication)))
	if c.Streaming && protocol >= 2 {
		out += `, "streaming" 'on'`
	}
	if c.DDL == ddlCapture {
		out += `, "messages" 'true'`
	}
	return out, nil
}
