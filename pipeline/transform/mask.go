package transform

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"unicode/utf8"

	"github.com/trunkline/trunkline/connectors"
)

// Mask hides what columns hold.
type Mask struct {
	Tables      Tables   `yaml:"tables"`
	Columns     []string `yaml:"columns"`
	With        MaskKind `yaml:"with"`        // hash, redact, partial
	Salt        string   `yaml:"salt"`        // hash: a secret, without which nobody can try values out
	Replacement *string  `yaml:"replacement"` // redact: what stands in place; *** for text, NULL for others
	First       int      `yaml:"keep_first"`  // partial: characters that stay at the start; 0
	Last        int      `yaml:"keep_last"`   // partial: and at the end; 0
}

// MaskKind is a way to hide a value.
type MaskKind string

// The ways.
const (
	Hash    MaskKind = "hash"
	Redact  MaskKind = "redact"
	Partial MaskKind = "partial"
)

// minSalt keeps a salt from being guessed with the values.
const minSalt = 8

// Validate checks that the way and what belongs to it fit.
func (m *Mask) Validate() error {
	errs := []error{someColumns(m.Columns)}
	switch m.With {
	case Hash:
		if len(m.Salt) < minSalt {
			errs = append(errs, fmt.Errorf("salt is missing or shorter than %d characters: without a secret, values can be found by trying", minSalt))
		}
	case Redact, Partial:
		if m.Salt != "" {
			errs = append(errs, errors.New("salt is for with: hash"))
		}
	default:
		errs = append(errs, errors.New("with is not one of hash, redact, partial"))
	}
	if m.Replacement != nil && m.With != Redact {
		errs = append(errs, errors.New("replacement is for with: redact"))
	}
	if (m.First != 0 || m.Last != 0) && m.With != Partial || m.First < 0 || m.Last < 0 {
		errs = append(errs, errors.New("keep_first and keep_last are numbers from 0 for with: partial"))
	}
	return errors.Join(errs...)
}

func (m *Mask) scope() []string        { return m.Tables }
func (m *Mask) columns() []namedColumn { return named("columns", m.Columns) }
func (m *Mask) each()                  {}

func (m *Mask) bind(t *connectors.Table) (action, *connectors.Table, error) {
	out := clone(t)
	var masked []int
	for _, name := range m.Columns {
		i, err := findIn(t, m.Tables, name)
		if err != nil {
			return nil, nil, err
		}
		if i < 0 {
			continue
		}
		if isKey(t, i) && m.With != Hash {
			return nil, nil, fmt.Errorf("%w; with: hash keeps them apart", refuseKey("mask", t, i))
		}
		if m.With == Partial && t.Columns[i].Kind != connectors.Text {
			return nil, nil, fmt.Errorf("mask column %q of %s: partial is for text, and it is of kind %v", name, t.FullName(), t.Columns[i].Kind)
		}
		masked = append(masked, i)
		out.Columns[i] = m.column(t, i)
	}
	one := m.masker(t)
	act := func(r *rows, c *connectors.Change) (bool, error) {
		return images(c, func(row []connectors.Value) ([]connectors.Value, error) {
			row = r.copy(row, 0)
			for _, i := range masked {
				if !row[i].IsNull() && !row[i].IsAbsent() {
					row[i] = one(r, i, row[i])
				}
			}
			return row, nil
		})
	}
	return act, out, nil
}

// nulls reports that a column is redacted to NULL.
func (m *Mask) nulls(t *connectors.Table, column int) bool {
	return m.With == Redact && m.Replacement == nil && t.Columns[column].Kind != connectors.Text
}

// column describes a column once it is masked. A text of any length may be in it, and labels no longer hold.
func (m *Mask) column(t *connectors.Table, i int) connectors.Column {
	old := t.Columns[i]
	c := columnOfKind(t.Dialect, old.Name, connectors.Text)
	if m.nulls(t, i) {
		c = old
		c.NotNull, c.Generated = false, false
		return c
	}
	c.ID, c.NotNull = old.ID, old.NotNull
	return c
}

func (m *Mask) masker(t *connectors.Table) func(r *rows, column int, v connectors.Value) connectors.Value {
	switch m.With {
	case Hash:
		h := hasher{mac: hmac.New(sha256.New, []byte(m.Salt))}
		return func(r *rows, _ int, v connectors.Value) connectors.Value { return h.hash(r, v) }
	case Partial:
		return func(r *rows, _ int, v connectors.Value) connectors.Value { return m.partial(r, v) }
	}
	replacement := []byte("***")
	if m.Replacement != nil {
		replacement = []byte(*m.Replacement)
	}
	return func(_ *rows, column int, v connectors.Value) connectors.Value {
		if m.nulls(t, column) {
			return connectors.NullValue()
		}
		return connectors.DataValue(connectors.Text, replacement)
	}
}

// hasher makes the same text of the same value: HMAC-SHA256 in hexadecimal digits.
type hasher struct {
	mac  hash.Hash
	text []byte
	sum  [sha256.Size]byte
}

func (h *hasher) hash(r *rows, v connectors.Value) connectors.Value {
	h.text = v.AppendText(h.text[:0])
	h.mac.Reset()
	h.mac.Write(h.text)
	sum := h.mac.Sum(h.sum[:0])
	r.room(2 * len(sum))
	start := len(r.bytes)
	r.bytes = hex.AppendEncode(r.bytes, sum)
	return connectors.DataValue(connectors.Text, r.kept(start))
}

// partial leaves characters at both ends. A text too short to hide anything is hidden whole.
func (m *Mask) partial(r *rows, v connectors.Value) connectors.Value {
	text := v.Data()
	if text == nil {
		text = v.AppendText(nil) // a number in a column of text, which SQLite allows
	}
	n := utf8.RuneCount(text)
	first, last := m.First, m.Last
	if n <= first+last {
		first, last = 0, 0
	}
	r.room(len(text) + n)
	start := len(r.bytes)
	for i := 0; len(text) > 0; i++ {
		_, size := utf8.DecodeRune(text)
		if i < first || i >= n-last {
			r.bytes = append(r.bytes, text[:size]...)
		} else {
			r.bytes = append(r.bytes, '*')
		}
		text = text[size:]
	}
	return connectors.DataValue(connectors.Text, r.kept(start))
}
