package pipeline

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/pipeline/config"
)

// roster is who there is. It is never changed: a new configuration makes a new one, which keeps the members that the
// change does not touch.
type roster struct {
	config  config.Config
	sources []*source
	sinks   []*sink
	owned   *ownership
}

// roster returns the present one.
func (p *Pipeline) roster() *roster { return p.present.Load() }

func (r *roster) members() []*member {
	var out []*member
	for _, s := range r.sources {
		out = append(out, s.member)
	}
	for _, s := range r.sinks {
		out = append(out, s.member)
	}
	return out
}

// newRoster makes the members of a configuration, but for those of old whose settings are the same.
func (p *Pipeline) newRoster(c config.Config, old *roster) (*roster, error) {
	if err := p.checkOnly(c); err != nil {
		return nil, err
	}
	r := &roster{config: c}
	for _, s := range c.Sources {
		if !p.chosen(s.Name) {
			continue
		}
		i := slices.IndexFunc(old.sources, func(o *source) bool { return o.name == s.Name && o.config.Digest == s.Digest })
		if i >= 0 {
			r.sources = append(r.sources, old.sources[i])
			continue
		}
		made, err := newSource(p, s, c)
		if err != nil {
			return nil, err
		}
		r.sources = append(r.sources, made)
	}
	for _, s := range c.Sinks {
		if !p.chosen(s.Name) {
			continue
		}
		i := slices.IndexFunc(old.sinks, func(o *sink) bool { return o.name == s.Name && o.config.Digest == s.Digest })
		if i >= 0 {
			r.sinks = append(r.sinks, old.sinks[i])
			continue
		}
		made, err := newSink(p, s, c)
		if err != nil {
			return nil, err
		}
		r.sinks = append(r.sinks, made)
	}
	r.owned = newOwnership(r.sources)
	return r, nil
}

func (p *Pipeline) chosen(name string) bool {
	return len(p.o.Only) == 0 || slices.Contains(p.o.Only, name)
}

func (p *Pipeline) checkOnly(c config.Config) error {
	var names []string
	for _, s := range c.Sources {
		names = append(names, s.Name)
	}
	for _, s := range c.Sinks {
		names = append(names, s.Name)
	}
	for _, name := range p.o.Only {
		if !slices.Contains(names, name) {
			return fmt.Errorf("%q: %w: the configuration has %s", name, ErrUnknown, strings.Join(names, ", "))
		}
	}
	return nil
}

// Reloaded says what a new configuration changed. The lists hold words such as "source shop".
type Reloaded struct {
	Added   []string `json:"added,omitempty"`
	Changed []string `json:"changed,omitempty"`
	Removed []string `json:"removed,omitempty"`
	Later   []string `json:"later,omitempty"` // what only the next start takes up
}

// None reports that nothing was changed.
func (r Reloaded) None() bool { return len(r.Added)+len(r.Changed)+len(r.Removed)+len(r.Later) == 0 }

// compare says what lies between two rosters.
func (r *roster) compare(next *roster) (out Reloaded, gone, made []*member) {
	before, after := r.members(), next.members()
	same := func(list []*member, m *member) *member {
		if i := slices.IndexFunc(list, func(o *member) bool { return o.name == m.name && o.role == m.role }); i >= 0 {
			return list[i]
		}
		return nil
	}
	for _, m := range after {
		switch old := same(before, m); {
		case old == nil:
			out.Added, made = append(out.Added, fmt.Sprint(m.role, " ", m.name)), append(made, m)
		case old != m:
			out.Changed, made, gone = append(out.Changed, fmt.Sprint(m.role, " ", m.name)), append(made, m), append(gone, old)
		}
	}
	for _, m := range before {
		if same(after, m) == nil {
			out.Removed, gone = append(out.Removed, fmt.Sprint(m.role, " ", m.name)), append(gone, m)
		}
	}
	if !reflect.DeepEqual(r.config.Log, next.config.Log) {
		out.Later = append(out.Later, "log")
	}
	if !reflect.DeepEqual(r.config.HTTP, next.config.HTTP) {
		out.Later = append(out.Later, "http")
	}
	if !reflect.DeepEqual(r.config.Tracing, next.config.Tracing) {
		out.Later = append(out.Later, "tracing")
	}
	return out, gone, made
}

// Reload takes up a new configuration: members whose settings changed end in good order and begin anew, those that are
// new begin, those that are gone end, and all others go on as if nothing was. After an error nothing has changed, unless
// it says that a member did not stop.
func (p *Pipeline) Reload(ctx context.Context, c config.Config) (Reloaded, error) {
	p.reload.Lock()
	defer p.reload.Unlock()
	if p.hire == nil || p.draining.Load() {
		return Reloaded{}, fmt.Errorf("reload: %w", ErrNotRunning)
	}
	old := p.roster()
	next, err := p.newRoster(c, old)
	if err != nil {
		return Reloaded{}, err
	}
	out, gone, made := old.compare(next)
	if _, shared := p.journal.(log.Leaser); shared {
		if i := slices.IndexFunc(append(out.Added, out.Removed...), func(s string) bool { return strings.HasPrefix(s, string(RoleSource)) }); i >= 0 {
			return Reloaded{}, errors.New("reload: processes that share a cluster agree on its sources when they start: restart them to add or remove one")
		}
	}
	for _, m := range made {
		if err := os.MkdirAll(filepath.Join(p.o.SpillDir, m.name), 0o750); err != nil {
			return Reloaded{}, fmt.Errorf("make folder for spill files: %w", err)
		}
	}
	if err := p.dismiss(ctx, gone); err != nil {
		return out, err
	}
	p.present.Store(next)
	for _, m := range made {
		for _, o := range gone {
			if o.name == m.name && o.role == m.role {
				m.inherit(o)
			}
		}
		p.hire(m)
	}
	return out, nil
}

// dismiss ends members and waits until they stand still.
func (p *Pipeline) dismiss(ctx context.Context, list []*member) error {
	for _, m := range list {
		m.end()
	}
	timer := time.NewTimer(p.o.DrainTimeout)
	defer timer.Stop()
	for _, m := range list {
		select {
		case <-m.gone:
			if err := m.close(ctx); err != nil {
				m.logger.Warn("closed what it read beside its rows", "error", m.hide(err.Error()))
			}
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
			return fmt.Errorf("reload: %s %s did not stop within %v, so the old settings stay; restart to take up the new ones", m.role, m.name, p.o.DrainTimeout)
		}
	}
	return nil
}
