package connectors

import (
	"errors"
	"fmt"
	"slices"
)

// Migration is one step of a table from one version to the next.
type Migration struct {
	From *Table // what the target has followed so far; nil: To is the first version that this sink sees
	To   *Table // may be From: then the target is compared with it, and nothing of the table has changed

	// Stream and Position are stored by a Transactional sink together with the change of its target, as Write stores
	// them with rows: in one transaction, or in such an order that the same step, when it comes again after a crash,
	// finds what was done already. An empty Stream: there is nothing to store.
	Stream   string
	Position Position
}

// SchemaError says that a target does not fit its table, and what a person can run to make it fit. The pipeline stops this
// table alone and asks for the same step again from time to time, so that it goes on by itself once that was done.
type SchemaError struct {
	Target    string // the name of the target
	Problem   string // in words
	Statement string // what makes the target fit
	Err       error  // what the system said when the sink tried; nil: the settings forbid it
}

func (e *SchemaError) Error() string {
	text := fmt.Sprintf("table %s does not fit its source: %s", e.Target, e.Problem)
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text + "; run " + e.Statement + " and it goes on by itself"
}

func (e *SchemaError) Unwrap() error { return e.Err }

// Follow says what a sink does about a difference between a table and its target.
type Follow string

// Evolve changes the target. Lenient leaves it as it is and says what it leaves out; Ignore does so silently. Freeze stops
// the table with the statement to run.
const (
	Evolve  Follow = "evolve"
	Lenient Follow = "lenient"
	Freeze  Follow = "freeze"
	Ignore  Follow = "ignore"
)

// SchemaPolicy is the setting schema of a sink: one word for all, or one for each kind of change.
type SchemaPolicy struct {
	Add    Follow `yaml:"add"`    // a column that the target lacks, and the target itself; Lenient creates a missing target
	Drop   Follow `yaml:"drop"`   // a column that the source has no more
	Rename Follow `yaml:"rename"` // a column that has a new name; where it is not followed, the old column stays and the new name counts as added
	Retype Follow `yaml:"retype"` // a column of another type, and another key
}

// FollowAll is the policy that has one answer to everything.
func FollowAll(f Follow) SchemaPolicy { return SchemaPolicy{f, f, f, f} }

// UnmarshalText reads one word for all.
func (p *SchemaPolicy) UnmarshalText(text []byte) error {
	*p = FollowAll(Follow(text))
	return nil
}

// Validate checks the words.
func (p *SchemaPolicy) Validate() error {
	for _, f := range []Follow{p.Add, p.Drop, p.Rename, p.Retype} {
		if f != Evolve && f != Lenient && f != Freeze && f != Ignore {
			return errors.New("schema is not one of evolve, lenient, freeze, ignore, nor keys with these: add, drop, rename, retype")
		}
	}
	return nil
}

// Match returns for each column of to its place in from, -1 for one that was added. A column is the same by its identity;
// by its name where the two versions are of different tables, or do not tell the identity.
func Match(from, to *Table) []int {
	out := make([]int, len(to.Columns))
	taken := make([]bool, len(from.Columns))
	byID := from.Dialect == to.Dialect && from.ID == to.ID
	find := func(i int, same func(a, b *Column) bool) {
		if out[i] >= 0 {
			return
		}
		for j := range from.Columns {
			if !taken[j] && same(&from.Columns[j], &to.Columns[i]) {
				out[i], taken[j] = j, true
				return
			}
		}
	}
	for i := range out {
		out[i] = -1
		find(i, func(a, b *Column) bool { return byID && a.ID != 0 && a.ID == b.ID })
	}
	for i := range out {
		find(i, func(a, b *Column) bool { return a.Name == b.Name && (!byID || a.ID == 0 || b.ID == 0) })
	}
	return out
}

// Renamed is a column that both versions of a migration have under different names.
type Renamed struct{ From, To string }

// Dropped returns the names of the columns that are gone.
func (m Migration) Dropped() []string {
	if m.From == nil || m.From == m.To {
		return nil
	}
	places := Match(m.From, m.To)
	var names []string
	for j := range m.From.Columns {
		if !slices.Contains(places, j) {
			names = append(names, m.From.Columns[j].Name)
		}
	}
	return names
}

// Renames returns the columns that have another name now.
func (m Migration) Renames() []Renamed {
	if m.From == nil || m.From == m.To {
		return nil
	}
	var list []Renamed
	for i, j := range Match(m.From, m.To) {
		if j >= 0 && m.From.Columns[j].Name != m.To.Columns[i].Name {
			list = append(list, Renamed{m.From.Columns[j].Name, m.To.Columns[i].Name})
		}
	}
	return list
}

// Before returns the column of From that a column of To was, nil if it is new or From is not known.
func (m Migration) Before(column int) *Column {
	if m.From == nil {
		return nil
	}
	if j := Match(m.From, m.To)[column]; j >= 0 {
		return &m.From.Columns[j]
	}
	return nil
}

// InTurn orders renames for a system that makes one at a time. taken reports a name that the target has. Columns that take
// each other's names step aside first, under a name of their own.
func InTurn(list []Renamed, taken func(name string) bool) []Renamed {
	list = slices.Clone(list)
	has := map[string]bool{}
	named := func(name string) bool {
		if known, ok := has[name]; ok {
			return known
		}
		return taken(name)
	}
	var out []Renamed
	move := func(from, to string) {
		out = append(out, Renamed{from, to})
		has[from], has[to] = false, true
	}
	for aside := 1; len(list) > 0; {
		i := slices.IndexFunc(list, func(r Renamed) bool { return !named(r.To) })
		if i < 0 {
			i = slices.IndexFunc(list, func(r Renamed) bool {
				return slices.ContainsFunc(list, func(o Renamed) bool { return o.From == r.To })
			})
			if i >= 0 {
				hold := fmt.Sprintf("_trunkline_%d", aside)
				aside++
				move(list[i].From, hold)
				list[i].From = hold
				continue
			}
			i = 0 // a column of the target's own has the name: the system says so
		}
		move(list[i].From, list[i].To)
		list = slices.Delete(list, i, i+1)
	}
	return out
}
