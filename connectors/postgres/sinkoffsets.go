package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/trunkline/trunkline/connectors"
)

// The table of offsets, in the target. One row for each consumer group and stream:
//
//	sink        text    the consumer group
//	stream      text    topic/partition
//	position    bytea   where the stream goes on, as the pipeline minted it; NULL: from its beginning
//	epoch       bigint  grows with each writer that takes the stream over; a writer with a lower one is fenced
//	updated_at  timestamptz
//
// Every Write updates its row where the epoch is still its own, in the transaction of the rows. The row lock makes a
// new writer's takeover wait for a commit that is under way, and an old writer's update find nothing afterwards.
const (
	offsetsTable = "_trunkline_offsets"

	offsetsColumns = `(
	sink text NOT NULL,
	stream text NOT NULL,
	position bytea,
	epoch bigint NOT NULL,
	updated_at timestamptz NOT NULL,
	PRIMARY KEY (sink, stream)
) WITH (fillfactor = 50)`
)

// claim is this writer's hold on one stream.
type claim struct {
	epoch  int64
	update string // the statement up to the new position
	where  string // and from there on
}

// createOffsets creates the table of offsets where it is missing.
func (s *Sink) createOffsets(ctx context.Context) error {
	var exists bool
	err := s.conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = $1 AND c.relname = $2)`, s.config.Offsets, offsetsTable).Scan(&exists)
	if err != nil || exists {
		return err
	}
	return s.migration(ctx, []string{
		"CREATE SCHEMA IF NOT EXISTS " + quote(s.config.Offsets),
		"CREATE TABLE IF NOT EXISTS " + s.offsets + " " + offsetsColumns,
	})
}

// Committed returns the position of the last batch of the stream, and fences every writer that claimed it before.
func (s *Sink) Committed(ctx context.Context, stream string) (connectors.Position, error) {
	var position []byte
	var epoch int64
	err := s.conn.QueryRow(ctx, "INSERT INTO "+s.offsets+` AS o (sink, stream, epoch, updated_at) VALUES ($1, $2, 1, now())
		ON CONFLICT (sink, stream) DO UPDATE SET epoch = o.epoch + 1, updated_at = now()
		RETURNING position, epoch`, s.env.Group, stream).Scan(&position, &epoch)
	if err != nil {
		return nil, fmt.Errorf("claim stream %q in %s: %w", stream, s.offsets, s.fault(err))
	}
	s.claims[stream] = &claim{
		epoch:  epoch,
		update: "BEGIN; UPDATE " + s.offsets + " SET updated_at = now(), position = ",
		where:  " WHERE sink = " + literal(s.env.Group) + " AND stream = " + literal(stream) + " AND epoch = " + strconv.FormatInt(epoch, 10),
	}
	return position, nil
}

// begin opens the transaction of a batch and moves the stream's position in it.
func (s *Sink) begin(ctx context.Context, b *connectors.Batch) error {
	c := s.claims[b.Stream]
	if c == nil {
		if _, err := s.Committed(ctx, b.Stream); err != nil {
			return err
		}
		c = s.claims[b.Stream]
	}
	sql := append(s.sql[:0], c.update...)
	if b.Position == nil {
		sql = append(sql, "position"...)
	} else {
		sql = append(sql, `'\x`...)
		sql = appendHex(sql, b.Position)
		sql = append(sql, '\'')
	}
	sql = append(sql, c.where...)
	s.sql = sql
	rows, err := s.exec(ctx, string(sql))
	if err != nil {
		return fmt.Errorf("store position in %s: %w", s.offsets, s.fault(err))
	}
	if rows != 1 {
		s.rollback(ctx)
		return fmt.Errorf("write stream %q for group %q: %w", b.Stream, s.env.Group, connectors.ErrFenced)
	}
	return nil
}

// errRolledBack: the server answered COMMIT with ROLLBACK, because a statement before it had failed.
var errRolledBack = errors.New("the transaction had failed before")

func (s *Sink) commit(ctx context.Context) error {
	tag, err := s.conn.PgConn().Exec(ctx, "COMMIT").ReadAll()
	if err != nil {
		return err
	}
	if len(tag) != 1 || tag[0].CommandTag.String() != "COMMIT" {
		return errRolledBack
	}
	return nil
}

// rollback ends a transaction that failed. When even that fails the connection is of no more use, and says so on its
// next call.
func (s *Sink) rollback(ctx context.Context) {
	if s.conn.PgConn().TxStatus() == 'I' {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	if _, err := s.exec(ctx, "ROLLBACK"); err != nil {
		s.conn.Close(ctx)
	}
}

// migration runs statements in one transaction, one sink of this kind at a time.
func (s *Sink) migration(ctx context.Context, statements []string) error {
	return pgx.BeginFunc(ctx, s.conn, func(tx pgx.Tx) error {
		if err := s.serialize(ctx, tx); err != nil {
			return err
		}
		for _, sql := range statements {
			if _, err := tx.Exec(ctx, sql); err != nil {
				return err
			}
		}
		return nil
	})
}

// serialize keeps sinks of this kind from changing tables at the same time: CREATE ... IF NOT EXISTS alone still fails when
// two run at once.
func (s *Sink) serialize(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", migrationLock)
	return err
}
