package postgres

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/trunkline/trunkline/connectors"
)

const (
	// renewLook is how often it is asked whether the server keeps little enough.
	renewLook = time.Second
	// renewLimit bounds one message, which is thrown away.
	renewLimit = 1<<30 + 1<<20
)

// Renew reads what the slot keeps and throws it away, but for the names of the tables: a server describes each table before
// the first change of it. What is read is confirmed at once, so that the server frees its disk meanwhile. The new position
// lacks those tables, so that a source which goes on there reads them anew beside its stream, as it does with new ones.
func (g guard) Renew(ctx context.Context, env connectors.Env, from connectors.Position, limit int64) (to connectors.Position, tables []string, err error) {
	saved, err := parsePosition(from)
	switch {
	case err != nil:
		return nil, nil, err
	case saved.Snapshot != nil || len(saved.Begun) > 0 || saved.LSN == 0:
		return nil, nil, errors.New("renew slot: a snapshot is not complete")
	}
	r := &renewal{seen: map[uint32]string{}, end: saved.LSN}
	err = g.connect(ctx, env, func(c SourceConfig, conn *pgx.Conn) error {
		srv, err := loadServer(ctx, conn)
		if err != nil {
			return err
		}
		s, err := loadSlot(ctx, conn, c.Slot)
		if err == nil {
			err = checkPosition(saved, s, srv, env.Name)
		}
		if err != nil {
			return err
		}
		few := func() (bool, error) {
			kept, err := g.Retained(ctx, env)
			return kept < limit, err
		}
		return r.run(ctx, g, env, srv, few)
	})
	if err != nil {
		return nil, nil, fmt.Errorf("renew slot: %w", err)
	}
	for oid, name := range r.seen {
		if slices.Contains(saved.Tables, oid) {
			tables = append(tables, name)
		}
	}
	slices.Sort(tables)
	saved.LSN = r.end
	saved.Tables = slices.DeleteFunc(saved.Tables, func(oid uint32) bool { return r.seen[oid] != "" })
	return saved.encode(), tables, nil
}

// renewal is what was seen so far.
type renewal struct {
	wal  *wal
	seen map[uint32]string // tables that changed
	inTx bool
	end  lsn // everything below was seen
}

// run reads to the present end of the WAL, and on until the server keeps little enough: it lets go of WAL only at places of
// its own choice, some seconds apart.
func (r *renewal) run(ctx context.Context, g guard, env connectors.Env, srv *server, few func() (bool, error)) error {
	config := g.config.named(env.Name)
	dial, err := newDialer(config, env.Name)
	if err != nil {
		return err
	}
	conn, err := dial.replication(ctx)
	if err != nil {
		return err
	}
	command := fmt.Sprintf(`START_REPLICATION SLOT %s LOGICAL %s ("proto_version" '1', "publication_names" '%s')`, ident(config.Slot), r.end, quoteLiteral(ident(config.Publication)))
	every := pingEvery
	if t := srv.timeout / 3; t > 0 {
		every = min(every, t)
	}
	if r.wal, err = startWAL(ctx, conn, command, r.end, every, renewLimit); err != nil {
		conn.Close(context.WithoutCancel(ctx))
		return slotFault(config.Slot, err)
	}
	defer r.wal.close()
	defer context.AfterFunc(ctx, r.wal.wake)()
	for looked := time.Now(); ; {
		if err := r.take(config.Slot); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if !r.inTx && time.Since(looked) >= renewLook {
			looked = time.Now()
			if err := r.wal.status(false); err != nil {
				return err
			}
			if ok, err := few(); ok || err != nil {
				return err
			}
		}
		read, err := r.wal.fill(renewLook / 10)
		if err == nil && read == 0 && time.Since(r.wal.heard) >= config.Silence {
			err = fmt.Errorf("the server has said nothing for %s", config.Silence)
		}
		if err != nil {
			return err
		}
	}
}

// take handles everything that is in the buffer.
func (r *renewal) take(slot string) error {
	for {
		kind, body, ok, err := r.wal.next()
		switch {
		case err != nil:
			return err
		case !ok:
			return nil
		case kind == 'E':
			return slotFault(slot, parseError(body))
		case kind == 'c':
			return errors.New("the server ended the stream")
		case kind != 'd':
		case len(body) > 25 && body[0] == 'w':
			if err := r.message(body[25], body[26:]); err != nil {
				return err
			}
		case len(body) == 18 && body[0] == 'k' && !r.inTx:
			r.reach(lsn(binary.BigEndian.Uint64(body[1:])))
		}
	}
}

// message looks at what a change is of. Each relation is described before its first change, in this session too.
func (r *renewal) message(kind byte, body []byte) error {
	c := cursor{b: body}
	switch kind {
	case msgBegin:
		r.inTx = true
	case msgCommit:
		c.take(9)
		end := lsn(c.u64())
		if c.bad {
			return malformed(kind)
		}
		r.inTx = false
		r.reach(end)
	case msgRelation:
		m, err := parseRelation(body)
		if err != nil {
			return err
		}
		r.seen[m.oid] = m.schema + "." + m.name
	}
	return nil
}

func (r *renewal) reach(end lsn) {
	r.end = max(r.end, end)
	r.wal.flushed.Store(uint64(r.end))
}
