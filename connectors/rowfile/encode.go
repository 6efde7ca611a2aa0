package rowfile

import (
	"bytes"

	"github.com/trunkline/trunkline/connectors"
)

// Encoder makes files. It belongs to the goroutine that writes.
type Encoder struct {
	settings Settings
	fitter   *connectors.Fitter
	layouts  map[*connectors.Table]*layout

	text []byte
	out  bytes.Buffer
	rows rowBuffer
}

// NewEncoder returns the encoder of a sink; report gets the counts of values that Parquet's columns cannot hold.
func NewEncoder(s Settings, report func(connectors.Report)) *Encoder {
	return &Encoder{settings: s, fitter: connectors.NewFitter(s.Unrepresentable, report), layouts: map[*connectors.Table]*layout{}}
}

// Fit returns the changes of a batch as the format can hold them, or a RowsError. It is called once, before Encode, and
// what it returns is valid until the next call.
func (e *Encoder) Fit(changes []connectors.Change) ([]connectors.Change, error) {
	if e.settings.Format != Parquet {
		return changes, nil
	}
	foreign := func(*connectors.Table) bool { return true }
	return e.fitter.Fit(changes, foreign, func(t *connectors.Table) ([]connectors.Holds, error) { return e.layout(t).holds, nil })
}

// Written reports what Fit had to leave out, once it is durable.
func (e *Encoder) Written() { e.fitter.Written() }

// Encode returns a file of as many of the changes as fit into one, and how many these are. A file without rows is empty.
// What it returns is valid until the next call.
func (e *Encoder) Encode(stream string, changes []connectors.Change) (file []byte, n int, err error) {
	e.out.Reset()
	if e.settings.Format == Parquet {
		n, err = e.parquet(changes)
		return e.out.Bytes(), n, err
	}
	e.text = e.text[:0]
	if e.settings.Format == JSONL {
		n = len(changes)
		for i := range changes {
			e.text = connectors.AppendLine(e.text, stream, &changes[i])
		}
	} else {
		n = e.csv(changes)
	}
	if len(e.text) == 0 || e.settings.Compression == None {
		return e.text, n, nil
	}
	w, err := compressed(&e.out, e.settings.Compression)
	if err != nil {
		return nil, 0, err
	}
	if _, err = w.Write(e.text); err == nil {
		err = w.Close()
	}
	return e.out.Bytes(), n, err
}

// csv fills text with the rows that have the columns of the first one.
func (e *Encoder) csv(changes []connectors.Change) int {
	var header []byte
	var table *connectors.Table
	for i := range changes {
		c := &changes[i]
		if c.Op == connectors.Message {
			continue
		}
		if c.Table != table {
			h := appendHeader(nil, c.Table)
			if header != nil && !bytes.Equal(h, header) {
				return i
			}
			if header == nil {
				e.text = append(e.text, h...)
			}
			header, table = h, c.Table
		}
		e.text = appendChange(e.text, c)
	}
	return len(changes)
}
