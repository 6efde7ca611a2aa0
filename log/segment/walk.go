package segment

import "github.com/trunkline/trunkline/log/batch"

// walker goes from batch to batch. It looks at headers only, but for those that check picks: of those it returns whole
// batches whose checksum is right.
//
// A header whose length or last offset is damaged leads astray, which shows at the batch behind it: that is damaged too,
// or leaves offsets out. Then the walker checks the one before, and if it is bad, takes it back.
type walker struct {
	sc      *scanner
	at, end Mark
	check   func(v batch.View) bool

	before Mark // the batch before at
	known  bool // there is one, and its checksum was not compared
}

// next returns the next batch and where it begins. If bad is set in place of it, everything from start up to w.at is
// damaged. err is of the disk.
func (w *walker) next() (v batch.View, start Mark, bad, err error) {
	start = w.at
	v, after, err := w.sc.next(w.at, w.end)
	if err == nil && w.check != nil && w.check(v) {
		base := v.BaseOffset()
		if v, err = w.sc.batch(w.at.Position, w.end.Position); err == nil && (!w.known || base == w.at.Offset) {
			w.at, w.known = after, false
			return v, start, nil, nil
		}
	}
	if err != nil && !isBad(err) {
		return nil, start, nil, err
	}
	if w.known && (err != nil || v.BaseOffset() != w.at.Offset) {
		if _, beforeErr := w.sc.batch(w.before.Position, w.end.Position); isBad(beforeErr) {
			start, err = w.before, beforeErr
		} else if beforeErr != nil {
			return nil, start, nil, beforeErr
		} else if err == nil { // v may have been overwritten
			w.known = false
			return w.next()
		}
	}
	if err != nil {
		bad = err
		w.known = false
		w.at, err = w.sc.resync(start, w.end)
		return nil, start, bad, err
	}
	w.before, w.known, w.at = start, true, after
	return v, start, nil, nil
}
