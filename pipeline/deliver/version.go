package deliver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/pipeline/codec"
	"github.com/trunkline/trunkline/pipeline/trace"
)

// How long a table that a person has to deal with waits before the sink is asked again.
const (
	minSchemaWait = time.Second
	maxSchemaWait = 15 * time.Second
)

// tableKey names a table whose versions have an order of their own.
type tableKey struct{ topic, table string }

// followed is a table as the sink has it. Records of an older version, which come after a reset, are turned into records
// of this one: a sink never goes back.
type followed struct {
	id     int64
	table  *connectors.Table   // of the source; nil: the sink has none yet
	into   []*connectors.Table // what the transforms make of it
	ready  bool                // the sink was asked in this attempt whether its target fits
	places map[*connectors.Table][]int
}

// step is a change from one version of a table to the next, on its way into the sink. It is a barrier over the
// partitions of the topic: in each of them everything of the version before has been written when the sink is migrated,
// and nothing of the new one. No mark in the log is needed for that. Once a record of the new version can be read, all
// records of the version before can be, so a partition has passed the step when it has come to the new version or to
// where it ended when another one did.
type step struct {
	key  tableKey
	id   int64
	to   *connectors.Table
	at   time.Time     // when to try again; zero: it was not refused
	wait time.Duration //
	err  error         // the last refusal
}

// SchemaStream is the stream under which a sink that keeps positions stores which version of a table its target has.
func SchemaStream(topic, table string) string { return topic + "/-2/" + table }

// barrierOf is the key of a step among the barriers: negative, because the ids of truncates and moves are not.
func barrierOf(topic string, id int64) barrierKey { return barrierKey{topic, -1 - id} }

// outdated reports that a change is of a version that the sink has to follow first, or that the sink has to be asked
// about first.
func (r *run) outdated(p *partition, record *log.Record, c *connectors.Change) bool {
	if r.migrator == nil || c.Op == connectors.Message || p.fits == c.Table {
		return false
	}
	f := r.tables[tableKey{p.Topic, c.Table.FullName()}]
	if f == nil || !f.ready {
		return true
	}
	if id, _ := codec.SchemaOf(record); id > f.id {
		return true
	}
	if c.Table == f.table {
		p.fits = c.Table
	}
	return false
}

// adapt turns a change of an older version into one of the version that the sink has.
func (r *run) adapt(p *partition, c *connectors.Change) {
	if r.migrator == nil || c.Op == connectors.Message || p.fits == c.Table {
		return
	}
	f := r.tables[tableKey{p.Topic, c.Table.FullName()}]
	if f == nil || f.table == c.Table {
		return
	}
	places, ok := f.places[c.Table]
	if !ok {
		places = connectors.Match(c.Table, f.table)
		if f.places == nil {
			f.places = map[*connectors.Table][]int{}
		}
		f.places[c.Table] = places
	}
	c.Before, c.After, c.Table = rearrange(c.Before, places), rearrange(c.After, places), f.table
}

func rearrange(row []connectors.Value, places []int) []connectors.Value {
	if row == nil {
		return nil
	}
	out := make([]connectors.Value, len(places)) // the zero Value is Absent
	for i, j := range places {
		if j >= 0 && j < len(row) {
			out[i] = row[j]
		}
	}
	return out
}

// meetVersion lets a partition stand before the first record of a version.
func (r *run) meetVersion(hard context.Context, p *partition, table *connectors.Table, record *log.Record, next int64) error {
	key := tableKey{p.Topic, table.FullName()}
	f, err := r.followed(hard, key)
	if err != nil {
		return err
	}
	id, _ := codec.SchemaOf(record)
	s := &step{key: key, id: id, to: table}
	asks := f.table != nil && !f.ready && id <= f.id
	if asks {
		s.id, s.to = f.id, f.table
	}
	at := barrierOf(p.Topic, s.id)
	if r.barriers[at] == nil {
		b := &barrier{barrierKey: at, step: s, met: map[int32]copyAt{}, ends: map[int32]int64{}}
		if !asks {
			topic, err := r.o.Journal.Topic(hard, p.Topic)
			if err != nil {
				return fmt.Errorf("read topic of a new version of %s: %w", key.table, err)
			}
			for i, q := range topic.Partitions {
				b.ends[int32(i)] = q.HighWatermark
			}
		}
		r.barriers[at] = b
	}
	return r.stand(hard, p, at, record, next)
}

// followed returns the version of a table that the sink has, which a sink that keeps positions remembers.
func (r *run) followed(hard context.Context, key tableKey) (*followed, error) {
	f := r.tables[key]
	if f != nil {
		return f, nil
	}
	f = &followed{id: -1}
	r.tables[key] = f
	if r.keeper == nil {
		return f, nil
	}
	if err := r.join(hard); err != nil {
		return nil, err
	}
	stream := SchemaStream(key.topic, key.table)
	held, err := r.keeper.Committed(hard, stream)
	if err != nil {
		return nil, fmt.Errorf("read version of table %s in sink %q: %w", key.table, r.o.Sink, err)
	}
	id, print, _ := strings.Cut(string(held), " ")
	if f.id, err = strconv.ParseInt(id, 10, 64); err != nil {
		f.id = -1
		return f, nil
	}
	table, err := r.o.Schemas.Table(hard, f.id)
	var unknown *codec.RecordError
	switch {
	case errors.As(err, &unknown): // of another log
		f.id = -1
		return f, nil
	case err != nil:
		return nil, err
	}
	if now, err := codec.Fingerprint(table); err != nil || now != print || table.FullName() != key.table {
		f.id = -1 // of another log
		return f, nil
	}
	f.table, f.into = table, r.made(hard, table)
	return f, nil
}

// made returns the tables that the transforms make of one.
func (r *run) made(hard context.Context, table *connectors.Table) []*connectors.Table {
	if r.o.Transform == nil {
		return []*connectors.Table{table}
	}
	changes, err := r.o.Transform(hard, []connectors.Change{{Op: connectors.Truncate, Table: table}})
	if err != nil {
		return nil // rows of it are refused too, each with its reason
	}
	var list []*connectors.Table
	for _, c := range changes {
		if c.Op == connectors.Truncate && !slices.Contains(list, c.Table) {
			list = append(list, c.Table)
		}
	}
	return list
}

// passed reports that a partition that has not met a step has nothing of the version before ahead of it.
func (r *run) passed(p *partition, b *barrier) bool {
	for _, other := range r.barriers {
		if _, met := other.met[p.Partition]; !met || other == b || other.topic != b.topic {
			continue
		}
		switch {
		case other.step != nil:
			if other.step.id > b.step.id {
				return true
			}
		case other.move != nil:
			// The other half lies behind the step in its partition, or that partition would not stand there.
			for i := range other.ends {
				if _, met := b.met[i]; met {
					return true
				}
			}
		default:
			return true // a copy of the truncate lies behind the step in the partition that met it
		}
	}
	return false
}

// follow migrates the sink and lets the partitions go on. A refusal by the target keeps them standing, and this table
// alone.
func (r *run) follow(hard context.Context, b *barrier) error {
	s := b.step
	passed, err := r.passedVersions(hard, s)
	if err != nil {
		return err
	}
	for _, v := range append(passed, codec.Version{ID: s.id, Table: s.to}) {
		err := r.advanceTo(hard, s.key, v)
		var misfit *connectors.SchemaError
		switch {
		case errors.As(err, &misfit):
			r.refused(s, misfit)
			return nil
		case err != nil:
			return fmt.Errorf("migrate table %s in sink %q: %w", s.key.table, r.o.Sink, err)
		}
	}
	if s.err != nil {
		r.o.Logger.Info("table goes on", "sink", r.o.Sink, "table", s.key.table)
		r.o.OnReport(connectors.Report{Table: s.key.table, Phase: connectors.PhaseStreaming})
	}
	for _, p := range r.partitions {
		if p.Topic == b.topic {
			p.fits = nil
		}
	}
	for i, at := range b.met {
		if p := r.partitions[log.TopicPartition{Topic: b.topic, Partition: i}]; p != nil {
			p.due = at.next // it has waited for its batch before
		}
	}
	r.release(b)
	delete(r.barriers, b.barrierKey)
	return nil
}

// passedVersions are those between the one that the sink has and that of a step of which there is no row: what they made of
// the values that were there is part of what these are now.
func (r *run) passedVersions(hard context.Context, s *step) ([]codec.Version, error) {
	f := r.tables[s.key]
	if f.table == nil || s.to == f.table {
		return nil, nil
	}
	all, err := r.o.Schemas.Versions(hard, s.id)
	if err != nil {
		return nil, fmt.Errorf("read versions of table %s: %w", s.key.table, err)
	}
	return slices.DeleteFunc(all, func(v codec.Version) bool { return !v.Table.Rowless || v.ID <= f.id || v.ID >= s.id }), nil
}

// advanceTo migrates the sink to a version.
func (r *run) advanceTo(hard context.Context, key tableKey, v codec.Version) error {
	f := r.tables[key]
	into := f.into
	if v.Table != f.table {
		into = r.made(hard, v.Table)
	}
	print, err := codec.Fingerprint(v.Table)
	if err != nil {
		return err
	}
	place := connectors.Position(strconv.FormatInt(v.ID, 10) + " " + print)
	for i, to := range into {
		m := connectors.Migration{From: sameTable(f.into, to), To: to}
		if r.keeper != nil && i == len(into)-1 {
			m.Stream, m.Position = SchemaStream(key.topic, key.table), place
		}
		if err := r.migrateTo(hard, m); err != nil {
			return err
		}
	}
	r.noteMigration(v.Table)
	*f = followed{id: v.ID, table: v.Table, into: into, ready: true}
	return nil
}

// sameTable finds the table of that name.
func sameTable(list []*connectors.Table, t *connectors.Table) *connectors.Table {
	for _, other := range list {
		if other.FullName() == t.FullName() {
			return other
		}
	}
	return nil
}

// migrateTo is the one place that calls Migrate.
func (r *run) migrateTo(hard context.Context, m connectors.Migration) error {
	r.meter.writing(true)
	defer r.meter.writing(false)
	if err := r.migrator.Migrate(hard, m); err != nil {
		return err
	}
	if span := trace.FromContext(hard); span != nil {
		span.Event("migrate", trace.Table.String(m.To.FullName()))
	}
	if len(r.migrated) >= maxMigrated {
		clear(r.migrated)
	}
	r.migrated[m.To] = true
	return nil
}

// maxMigrated bounds how many versions are remembered to be in the sink.
const maxMigrated = 1 << 14

// refused notes that a target does not fit and when to ask again.
func (r *run) refused(s *step, err *connectors.SchemaError) {
	if s.err == nil || s.err.Error() != err.Error() {
		r.o.Logger.Error("table stopped", "sink", r.o.Sink, "table", s.key.table, "topic", s.key.topic, "reason", err)
		r.o.OnReport(connectors.Report{Table: s.key.table, Phase: connectors.PhaseFailed, Reason: err.Error()})
	}
	s.wait = min(max(2*s.wait, minSchemaWait), maxSchemaWait)
	s.err, s.at = err, time.Now().Add(s.wait)
}

// stopped returns why a partition stands still until a person does something, nil if it does not.
func (r *run) stopped(p *partition) error {
	if !r.held(p.TopicPartition) {
		return nil
	}
	for _, b := range r.barriers {
		if b.step != nil && b.step.err != nil && b.topic == p.Topic {
			return b.step.err
		}
	}
	return nil
}

// admit makes sure that the sink knows the tables of changes before they are written. It returns how many can be written
// before it has to be called again. Tables that a step did not bring, because transforms choose them by the row, are
// migrated here.
func (r *run) admit(hard context.Context, changes []connectors.Change) (int, error) {
	if r.migrator == nil {
		return len(changes), nil
	}
	for i := range changes {
		t := changes[i].Table
		if i > 0 && t == changes[i-1].Table || changes[i].Op == connectors.Message || r.migrated[t] {
			continue
		}
		if i > 0 {
			return i, nil // what comes before it is written first
		}
		if err := r.migrateTo(hard, connectors.Migration{To: t}); err != nil {
			return 0, fmt.Errorf("migrate table %s in sink %q: %w", t.FullName(), r.o.Sink, err)
		}
	}
	return len(changes), nil
}
