// Package redis writes rows into Redis, or a store that speaks its protocol (Valkey, KeyDB).
//
// It promises each change exactly once in what Redis shows: the rows of a batch and the position of its stream change in
// one MULTI, which a newer writer of the same stream makes void. When Redis loses its last seconds in a crash, it loses
// rows and position together, and what is missing comes again. Redis Cluster has no such transaction over its keys and is
// refused. A truncate removes the keys of its table in pieces before the batch. The pipeline calls it.
package redis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/fold"
)

// What the sink keeps for itself:
//
//	_trunkline:<group>           a number, raised by every writer that opens
//	_trunkline:<group>:<stream>  a hash: position, and epoch, the number of the writer that has the stream
const (
	marks         = "_trunkline:"
	fieldPosition = "position"
	fieldEpoch    = "epoch"
)

// sink is used by one goroutine.
type sink struct {
	config *SinkConfig
	env    connectors.Env
	db     *redis.Client
	epoch  int64
	folded *fold.Batch

	templates connectors.Memo // of the keys of tables
}

func open(ctx context.Context, c *SinkConfig, env connectors.Env) (connectors.Sink, error) {
	db, err := c.client()
	if err != nil {
		return nil, err
	}
	s := &sink{config: c, env: env, db: db}
	info, err := readInfo(ctx, db)
	if err == nil && info["cluster_enabled"] == "1" {
		err = fmt.Errorf("open redis: %s: %w", errCluster, connectors.ErrFatal)
	}
	if err == nil {
		if s.epoch, err = db.Incr(ctx, marks+escape(env.Group)).Result(); err != nil {
			err = fmt.Errorf("claim group %q: %w", env.Group, err)
		}
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return s, nil
}

const errCluster = "the server is part of a Redis Cluster, which has no transaction over several keys; use a server or Sentinel's master without cluster-enabled"

// escape keeps the parts of a key apart.
var escaper = strings.NewReplacer("%", "%25", ":", "%3A", ".", "%2E")

func escape(s string) string { return escaper.Replace(s) }

func (s *sink) mark(stream string) string { return marks + escape(s.env.Group) + ":" + stream }

// held is what the store has of a stream.
type held struct {
	position connectors.Position
	epoch    int64
}

// held reads the mark of a stream, and fails when a newer writer has it.
func (s *sink) held(ctx context.Context, tx *redis.Tx, stream string) (held, error) {
	values, err := tx.HGetAll(ctx, s.mark(stream)).Result()
	if err != nil {
		return held{}, fmt.Errorf("read position of %s: %w", stream, err)
	}
	var h held
	if p, ok := values[fieldPosition]; ok {
		h.position = connectors.Position(p)
	}
	if text, ok := values[fieldEpoch]; ok {
		if h.epoch, err = strconv.ParseInt(text, 10, 64); err != nil {
			return held{}, fmt.Errorf("read position of %s: %s holds no number: %w", stream, s.mark(stream), connectors.ErrFatal)
		}
	}
	if h.epoch > s.epoch {
		return held{}, fmt.Errorf("read position of %s: %w", stream, connectors.ErrFenced)
	}
	return h, nil
}

// transact runs do while nobody else changes the stream's mark.
func (s *sink) transact(ctx context.Context, stream string, do func(*redis.Tx) error) error {
	err := s.db.Watch(ctx, do, s.mark(stream))
	if errors.Is(err, redis.TxFailedErr) {
		return fmt.Errorf("commit %s: %w", stream, connectors.ErrFenced)
	}
	return err
}

// Committed claims the stream for this writer.
func (s *sink) Committed(ctx context.Context, stream string) (connectors.Position, error) {
	var position connectors.Position
	err := s.transact(ctx, stream, func(tx *redis.Tx) error {
		h, err := s.held(ctx, tx, stream)
		if err != nil {
			return err
		}
		position = h.position
		_, err = tx.TxPipelined(ctx, func(p redis.Pipeliner) error {
			return p.HSet(ctx, s.mark(stream), fieldEpoch, s.epoch).Err()
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("claim %s: %w", stream, err)
	}
	return position, nil
}

// Write stores the batch and its position in one transaction.
func (s *sink) Write(ctx context.Context, b connectors.Batch) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.config.Deletes == softDeletes {
		if n := fold.Cut(b.Changes); n < len(b.Changes) {
			return s.writeParts(ctx, b, n)
		}
	}
	err := s.transact(ctx, b.Stream, func(tx *redis.Tx) error {
		h, err := s.held(ctx, tx, b.Stream)
		if err != nil {
			return err
		}
		changes := unseen(b.Changes, h.position)
		commands, err := s.commands(ctx, tx, b.Stream, changes, len(b.Changes)-len(changes))
		if err != nil {
			return err
		}
		_, err = tx.TxPipelined(ctx, func(p redis.Pipeliner) error {
			commands(p)
			p.HSet(ctx, s.mark(b.Stream), fieldEpoch, s.epoch)
			if b.Position != nil {
				p.HSet(ctx, s.mark(b.Stream), fieldPosition, []byte(b.Position))
			}
			return nil
		})
		return err
	})
	var rows *connectors.RowsError
	if errors.As(err, &rows) {
		return rows
	}
	if err != nil {
		return fmt.Errorf("write batch: %w", err)
	}
	return nil
}

// writeParts writes what stands before a truncate first, without a position, where rows that go stay with a mark: then the
// truncate finds them. After a crash in between all of it comes again and ends as the same rows.
func (s *sink) writeParts(ctx context.Context, b connectors.Batch, n int) error {
	first, rest := b, b
	first.Changes, first.Position = b.Changes[:n], nil
	if err := s.Write(ctx, first); err != nil {
		return err
	}
	rest.Changes = b.Changes[n:]
	return shift(s.Write(ctx, rest), n)
}

// unseen leaves out what was written before: a batch whose answer was lost comes again.
func unseen(changes []connectors.Change, position connectors.Position) []connectors.Change {
	next, err := strconv.ParseInt(string(position), 10, 64)
	if err != nil {
		return changes
	}
	for len(changes) > 0 && changes[0].Offset < next {
		changes = changes[1:]
	}
	return changes
}

// commands reads what the batch needs to know, and returns what writes it. skipped is how many changes of the batch
// stand before these.
func (s *sink) commands(ctx context.Context, tx *redis.Tx, stream string, changes []connectors.Change, skipped int) (func(redis.Pipeliner), error) {
	if s.config.Format == Stream {
		return func(p redis.Pipeliner) { s.entries(ctx, p, stream, changes) }, s.checkStreams(ctx, tx, stream, changes)
	}
	if s.config.Deletes == ignoreDeletes {
		changes = kept(changes)
	}
	s.folded = fold.Fold(changes, stream, s.folded)
	if s.config.Deletes == softDeletes {
		s.folded.Keep()
	}
	rows, err := s.rows(ctx, tx, stream)
	if err := shift(errors.Join(s.folded.Refused(), err), skipped); err != nil {
		return nil, err
	}
	for _, t := range s.folded.Truncated {
		if err := s.clear(ctx, tx, stream, t); err != nil {
			return nil, err
		}
	}
	return func(p redis.Pipeliner) {
		for i := range rows {
			rows[i].store(ctx, p)
		}
	}, nil
}

// kept returns the changes in which no row goes, in a new slice.
func kept(changes []connectors.Change) []connectors.Change {
	out := make([]connectors.Change, 0, len(changes))
	for _, c := range changes {
		if c.Op == connectors.Delete || c.Op == connectors.Truncate {
			c = connectors.Change{Op: connectors.Message} // keeps the others' places
		}
		out = append(out, c)
	}
	return out
}

// shift adds the changes that were left out to the indexes of refused rows.
func shift(err error, by int) error {
	var rows *connectors.RowsError
	if errors.As(err, &rows) {
		for i := range rows.Rows {
			rows.Rows[i].Index += by
		}
		return rows
	}
	return err
}

// scanCount is how many keys are looked at, and at most removed, in one step of a truncate.
const scanCount = 1000

// clear removes the rows of a table, or marks them with deletes: soft. Its keys can be more than memory holds, so they go in pieces; a crash in between
// leaves the truncate to be done again.
func (s *sink) clear(ctx context.Context, tx *redis.Tx, stream string, t *connectors.Table) error {
	pattern := s.pattern(stream, t)
	var cursor uint64
	for {
		keys, next, err := tx.Scan(ctx, cursor, pattern, scanCount).Result()
		if err != nil {
			return fmt.Errorf("truncate %s: find keys: %w", t.FullName(), err)
		}
		switch {
		case len(keys) == 0:
		case s.config.Deletes == softDeletes:
			if err := s.markGone(ctx, tx, keys); err != nil {
				return fmt.Errorf("truncate %s: mark keys: %w", t.FullName(), err)
			}
		default:
			if err := tx.Unlink(ctx, keys...).Err(); err != nil {
				return fmt.Errorf("truncate %s: remove keys: %w", t.FullName(), err)
			}
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}

// Close ends the connection.
func (s *sink) Close(context.Context) error { return s.db.Close() }
