package postgres

import "slices"

// A relation message has the names and types of columns, not their attribute numbers, which tell a rename from a column that
// was dropped and another that was added. They follow from what is known:
//
//   - columns come in the order of their numbers,
//   - a number is never used twice, and new columns get higher ones than all that there ever were,
//   - so a column that the last version has and that the catalog still has is in the message,
//   - and of the columns that were added since and are still there, it has the first ones.
//
// The catalog may be ahead of the message by any number of statements. Where several assignments agree with all that,
// nothing in the stream tells which is right: then number takes the one that keeps a value only where it keeps the name,
// and says that it is not sure, so that the table is read anew.

// seat is what is known of an attribute number.
type seat struct {
	now     *attribute // in the catalog
	before  *attribute // in the version before
	dropped *attribute
	added   bool // the number is higher than all of the version before
}

// Costs say what is how unlikely, for the choice among assignments that can all be.
const (
	costRetyped   = 1 // the name is that of the column of that number, the type is not
	costForgotten = 2 // a column that is in no version that we know: it came and went
	costOrder     = 2 // the ids of transactions speak against it, but a transaction can get its id long before it drops a column
	costOther     = 3 // a column that was added, and has another name in the catalog
	costRenamed   = 4 // a column that we knew under another name
)

// number gives the columns of a message the attribute numbers that they have in its transaction, and what only the
// catalog knows of them. Columns for which there is no place get number zero: not known. It reports whether no other
// assignment can be.
func number(columns []attribute, current *relation, previous []attribute, xid uint32) (sure bool) {
	seats := seatsOf(current, previous)
	places, ways := assign(columns, seats, xid, false)
	switch {
	case ways == 0:
		if places = listed(columns, seats); places != nil {
			ways = 1
		} else {
			places, _ = assign(columns, seats, xid, true)
		}
	case ways > 1 && !alike(columns, previous):
		// A new name and type that are those of the catalog, after everything that was dropped.
		if likely, n := assign(columns, withoutDropped(seats, xid), xid, false); n == 1 && settled(columns, likely, seats) {
			places, ways = likely, 1
		}
	}
	for i, n := range places {
		columns[i].learn(n, seats[n].now, seats[n].before)
	}
	return ways == 1
}

// alike reports that two lists have the same names and types.
func alike(a, b []attribute) bool {
	return slices.EqualFunc(a, b, func(x, y attribute) bool { return x.same(&y) })
}

// settled reports that every column is as the version before or the catalog has it.
func settled(columns []attribute, places []int, seats []seat) bool {
	for i, n := range places {
		p := seats[n]
		if (p.now == nil || !p.now.same(&columns[i])) && p.before == nil {
			return false
		}
	}
	return true
}

// withoutDropped leaves out the numbers of columns that an earlier transaction dropped.
func withoutDropped(seats []seat, xid uint32) []seat {
	out := slices.Clone(seats)
	for n, p := range out {
		if p.dropped != nil && later(xid, p.dropped.writer) {
			out[n] = seat{}
		}
	}
	return out
}

// listed finds the columns of a publication that has a list of columns: each is as it was, and some are left out.
func listed(columns []attribute, seats []seat) []int {
	var places []int
	n := 0
	for i := range columns {
		for n++; n < len(seats) && (seats[n].now == nil || seats[n].before == nil || !seats[n].now.same(&columns[i]) || !seats[n].before.same(&columns[i])); n++ {
		}
		if n >= len(seats) {
			return nil
		}
		places = append(places, n)
	}
	return places
}

// cell is a step of the assignment: the first columns have numbers up to some number.
type cell struct {
	ways int  // 2: several
	cost int  // of the cheapest
	took bool // there the last number is that of the last column
	from int  // else: which kind the step before is of
}

// assign finds the cheapest assignment, by dynamic programming over columns and numbers, and counts up to two of all that
// can be. Loose ones may leave any column out. Without one it returns nil.
func assign(columns []attribute, seats []seat, xid uint32, loose bool) (places []int, ways int) {
	// at[ended][i][n]: the first i columns have numbers up to n; ended: a column that was added later was left out, so that
	// no higher one of those that are still there can be in the message.
	var at [2][][]cell
	for e := range at {
		for range len(columns) + 1 {
			at[e] = append(at[e], make([]cell, len(seats)))
		}
	}
	at[0][0][0] = cell{ways: 1}
	for n := 1; n < len(seats); n++ {
		p := seats[n]
		for i := 0; i <= len(columns); i++ {
			for e := range at {
				to := &at[e][i][n]
				if i > 0 && p.possible() && (e == 0 || loose || !p.follows()) {
					if c := at[e][i-1][n-1]; c.ways > 0 {
						*to = cell{ways: c.ways, cost: c.cost + p.take(&columns[i-1], xid), took: true}
					}
				}
				for f := range e + 1 {
					c := at[f][i][n-1]
					if c.ways == 0 || !loose && p.required() || e != f|p.ends() {
						continue
					}
					if cost := c.cost + p.skip(xid); to.ways == 0 || cost < to.cost {
						to.cost, to.took, to.from = cost, false, f
					}
					to.ways = min(2, to.ways+c.ways)
				}
			}
		}
	}
	i, n := len(columns), len(seats)-1
	e := 0
	if c := at[1][i][n]; c.ways > 0 && (at[0][i][n].ways == 0 || c.cost < at[0][i][n].cost) {
		e = 1
	}
	ways = min(2, at[0][i][n].ways+at[1][i][n].ways)
	if ways == 0 {
		return nil, 0
	}
	places = make([]int, len(columns))
	for ; n > 0; n-- {
		if at[e][i][n].took {
			i--
			places[i] = n
		} else {
			e = at[e][i][n].from
		}
	}
	return places, ways
}

// seatsOf indexes what is known by attribute number.
func seatsOf(current *relation, previous []attribute) []seat {
	last, highest := int(current.last), 0
	for _, a := range previous {
		highest = max(highest, int(a.number))
	}
	for _, a := range slices.Concat(current.columns, current.dropped) { // read after last
		last = max(last, int(a.number))
	}
	seats := make([]seat, max(last, highest)+1)
	each := func(list []attribute, note func(*seat, *attribute)) {
		for i := range list {
			if n := int(list[i].number); n > 0 && n < len(seats) {
				note(&seats[n], &list[i])
			}
		}
	}
	each(current.columns, func(p *seat, a *attribute) { p.now = a })
	each(current.dropped, func(p *seat, a *attribute) { p.dropped = a })
	each(previous, func(p *seat, a *attribute) { p.before = a })
	for n := highest + 1; n < len(seats); n++ {
		seats[n].added = true
	}
	return seats
}

// later reports that a transaction got its id after another. Ids go round.
func later(a, b uint32) bool { return int32(a-b) > 0 }

// required reports that the column is in the message, unless the publication has a list of columns: we knew it, and it is
// still there.
func (p *seat) required() bool { return p.now != nil && p.before != nil && !p.now.generated }

// possible reports that the column can be in the message.
func (p *seat) possible() bool {
	return p.before != nil || p.now != nil && !p.now.generated || p.dropped != nil && p.added
}

// follows reports that the column was added after the version before and is still there.
func (p *seat) follows() bool { return p.now != nil && p.added && !p.now.generated }

// ends is 1 if no later column follows where this one is left out.
func (p *seat) ends() int {
	if p.follows() {
		return 1
	}
	return 0
}

// skip is the cost of a message without the column.
func (p *seat) skip(xid uint32) int {
	if p.before != nil && p.dropped != nil && later(p.dropped.writer, xid) {
		return costOrder
	}
	return 0
}

// take is the cost of the column being this one of the message.
func (p *seat) take(a *attribute, xid uint32) int {
	cost := costForgotten
	switch {
	case p.now != nil && p.now.same(a), p.before != nil && p.before.same(a):
		cost = 0
	case p.before != nil && p.before.name == a.name, p.now != nil && p.now.name == a.name:
		cost = costRetyped
	case p.before != nil:
		cost = costRenamed
	case p.now != nil:
		cost = costOther
	}
	if p.dropped != nil && later(xid, p.dropped.writer) {
		cost += costOrder
	}
	return cost
}

// learn takes over the number, and what the versions that we know say about the column.
func (a *attribute) learn(number int, versions ...*attribute) {
	a.number = int16(number)
	versions = slices.DeleteFunc(versions, func(v *attribute) bool { return v == nil })
	if len(versions) > 0 {
		a.notNull = versions[0].notNull
	}
	if i := slices.IndexFunc(versions, func(v *attribute) bool { return v.typ == a.typ }); i >= 0 {
		a.text = versions[i].text
	}
}
