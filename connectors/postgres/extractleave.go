package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/trunkline/trunkline/connectors"
)

// leave is the way from mode cdc to mode timestamp. The slot is read to its end twice: first what has gathered there,
// then, from a moment on, what has come meanwhile. Every transaction that ended before the moment is handed over then,
// and those that did not are known by their numbers, so the extract takes over with nothing twice and nothing missing,
// deletes included. The positions on the way are those of mode cdc: after a crash the way begins again.
type leave struct {
	config SourceConfig
	env    connectors.Env
	source *Source
	mark   connectors.Position      // of the last batch
	moment *visibility              // nil: the first time
	recent []uint32                 // the transactions that were handed over last
	known  map[string]*extractTable // by name: tables whose keys are in the store since the moment; their marks name the sets
}

// newLeave opens the slot.
func newLeave(ctx context.Context, config SourceConfig, env connectors.Env, from connectors.Position) (*leave, error) {
	config.Mode, config.Snapshot = modeCDC, snapshotInitial
	env.Once = true
	l := &leave{config: config, env: env, mark: from}
	source, err := newSource(ctx, config, env, from)
	if err != nil {
		return nil, fmt.Errorf("read slot to its end: %w", err)
	}
	l.source = source
	return l, nil
}

// read passes on what the slot still has. done says that there is no more, and that mark and moment are final.
func (l *leave) read(ctx context.Context, s *extract) (b connectors.Batch, done bool, err error) {
	for {
		b, err = l.source.Read(ctx)
		if err == nil {
			l.note(b.Changes)
			if err := l.noteKeys(ctx, s.deletes, b.Changes); err != nil {
				return b, false, err
			}
			if b.Position != nil {
				l.mark = bytes.Clone(b.Position)
			}
			return b, false, nil
		}
		if !errors.Is(err, io.EOF) {
			return b, false, err
		}
		closed := l.source
		l.source = nil
		if err = closed.Close(ctx); err != nil || l.moment != nil {
			return b, true, err
		}
		if err = l.take(ctx, s); err != nil {
			return b, false, err
		}
		if l.source, err = newSource(ctx, l.config, l.env, l.mark); err != nil {
			return b, false, err
		}
	}
}

// note remembers transactions. One that the slot has brought may still be open to the eyes of others for an instant, so
// those from before the moment count too.
func (l *leave) note(changes []connectors.Change) {
	for i := range changes {
		digits, found := bytes.CutPrefix(changes[i].Origin, []byte(`"txId":`))
		digits, _, _ = bytes.Cut(digits, []byte(","))
		short, ok := parseUint(digits)
		if !found || !ok {
			continue // a row of a table that was read
		}
		if n := len(l.recent); n == 0 || l.recent[n-1] != uint32(short) {
			l.recent = append(l.recent, uint32(short))
		}
	}
	if len(l.recent) > 2*maxSeen {
		l.recent = append(l.recent[:0], l.recent[len(l.recent)-maxSeen:]...)
	}
}

// seen returns those that had not ended at the moment. If there are too many, what the others wrote is handed over again.
func (l *leave) seen() (out xids) {
	for _, short := range l.recent {
		distance := int64(int32(short - uint32(l.moment.xmax)))
		if xid := uint64(int64(l.moment.xmax) + distance); xid >= l.moment.xmin {
			out.add(xid)
		}
	}
	return out
}

// table returns the mark of a table that the slot has brought up to date, nil for another one.
func (l *leave) table(t *extractTable) *tableMark {
	p, err := parsePosition(l.mark)
	if err != nil || with(p.Tables, t.relation.oid) == nil || len(with(p.Tables, t.relation.oid)) != len(p.Tables) {
		return nil
	}
	m := &tableMark{Cursor: t.cursor.name, Nulls: true, Steps: []step{{XID: l.moment.xmin, Seen: l.seen()}}}
	if known := l.known[t.relation.full()]; known != nil {
		m.Keys, m.Looked = known.mark.Keys, known.mark.Looked
	}
	return m
}

// take waits for the moment. Where deletes are looked for, the keys of that moment are those that are known; the slot
// brings what is added and deleted since.
func (l *leave) take(ctx context.Context, s *extract) error {
	conn, err := s.dial.sql(ctx)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if err := awaitInstant(ctx, conn); err != nil {
		return err
	}
	r := &extractRun{conn: conn}
	if err := r.snapshot(ctx); err != nil {
		return err
	}
	l.moment, l.known = &r.seen, map[string]*extractTable{}
	if s.deletes == nil {
		return nil
	}
	list, err := s.catalog.relations(ctx)
	if err != nil {
		return err
	}
	for _, relation := range list {
		shape, err := s.catalog.shapeOf(ctx, relation)
		if err != nil {
			return err
		}
		t, problem, _ := s.tableOf(relation, shape)
		if problem != "" || !t.keyed() {
			continue
		}
		t.mark = &tableMark{}
		if err := s.deletes.begin(ctx, r, t); err != nil {
			return err
		}
		l.known[relation.full()] = t
	}
	return nil
}

// noteKeys adds the keys of rows that the slot brought after the moment. One that it deleted again stays: its delete comes
// once more.
func (l *leave) noteKeys(ctx context.Context, d *deletes, changes []connectors.Change) error {
	if d == nil || l.moment == nil {
		return nil
	}
	for i := range changes {
		c := &changes[i]
		if c.After == nil || c.Table == nil {
			continue
		}
		t := l.known[c.Table.FullName()]
		if t == nil || len(c.Table.Key) != len(t.keyWire) {
			continue
		}
		values := make([][]byte, len(t.shape.wire))
		for j, k := range c.Table.Key {
			values[t.keyWire[j]] = wireText(c.After[k])
		}
		if key, ok := t.keyOf(values); ok {
			if err := d.add(ctx, t, []string{key}); err != nil {
				return err
			}
		}
	}
	return nil
}

// wireText is the database's own text of a value that can be part of a key.
func wireText(v connectors.Value) []byte {
	text := v.AppendText(nil)
	switch v.Kind() {
	case connectors.Absent, connectors.Null:
		return nil
	case connectors.Bool:
		return text[:1]
	case connectors.Bytes:
		return fmt.Appendf(nil, `\x%x`, text)
	case connectors.Timestamp, connectors.TimestampTZ:
		if len(text) > 10 && text[10] == 'T' {
			text[10] = ' '
		}
		if zoned, found := bytes.CutSuffix(text, []byte("Z")); found {
			return append(zoned, "+00"...)
		}
	case connectors.Float:
		return bytes.Replace(text, []byte("-0.0"), []byte("-0"), 1)
	}
	return text
}

func (l *leave) close(ctx context.Context) error {
	if l == nil || l.source == nil {
		return nil
	}
	return l.source.Close(ctx)
}

// instant is how long a transaction may look open to others after the slot has brought it, on a busy machine. What takes
// longer is handed over again.
const instant = time.Second

// awaitInstant waits for the end of the transactions that are open, but no longer than an instant: those that the slot
// has brought are over then.
func awaitInstant(ctx context.Context, conn *pgx.Conn) error {
	var open *visibility
	for end := time.Now().Add(instant); ; {
		var text string
		if err := conn.QueryRow(ctx, "SELECT pg_current_snapshot()::text").Scan(&text); err != nil {
			return fmt.Errorf("read snapshot: %w", err)
		}
		v, err := parseVisibility(text)
		if err != nil {
			return err
		}
		if open == nil {
			open = &v
		}
		if v.xmin >= open.xmax || time.Now().After(end) {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(instant / 100):
		}
	}
}

// retire drops the slot and the publication of the time in mode cdc, if they are ours. It is called when a position of
// mode timestamp is durable.
func (s *extract) retire(ctx context.Context) error {
	config := s.config.named(s.env.Name)
	return s.catalog.do(ctx, func(conn *pgx.Conn) error {
		pub, err := loadPublication(ctx, conn, config.Publication)
		if err != nil || !pub.exists || !pub.own() {
			return err
		}
		slot, err := loadSlot(ctx, conn, config.Slot)
		if err != nil {
			return err
		}
		if slot.exists && slot.plugin == plugin && slot.database == s.server.database {
			if slot.active {
				return fmt.Errorf("drop slot %q: it is in use", config.Slot)
			}
			if _, err := conn.Exec(ctx, "SELECT pg_drop_replication_slot($1)", config.Slot); err != nil {
				return slotFault(config.Slot, err)
			}
			s.env.Logger.Info("dropped the slot: this source is of mode timestamp now", "source", s.env.Name)
		}
		if _, err := conn.Exec(ctx, "DROP PUBLICATION "+ident(config.Publication)); err != nil {
			return fmt.Errorf("drop publication %q: %w", config.Publication, err)
		}
		return nil
	})
}
