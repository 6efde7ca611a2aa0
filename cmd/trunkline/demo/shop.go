// Package demo shows Trunkline at work on one machine with nothing to install: shops with a live workload, the log, two
// stores, and at the end a comparison of every row. It promises that what it prints was measured in that run. Main calls it.
package demo

import (
	"context"
	"database/sql"
	"fmt"
	"iter"
	"math/rand/v2"
	"sync/atomic"
)

// shop is one database with a live workload.
type shop interface {
	name() string
	// describe says in a few words what it is and how it is read.
	describe() string
	// source returns its entry under sources: in the configuration.
	source() string
	// work writes until ctx ends, and counts the changes.
	work(ctx context.Context) error
	// changes returns how many rows were inserted, updated or deleted since the start.
	changes() int64
	// tables returns the names of its tables, and the number of rows in each once the work has ended.
	tables() []string
	// rows yields the rows of a table by key, each as one line of text in a form that does not depend on the database.
	rows(ctx context.Context, table string) iter.Seq2[string, error]
	close() error
}

// counter counts changes; the status line reads it while the workload writes.
type counter struct{ n atomic.Int64 }

func (c *counter) changes() int64 { return c.n.Load() }

var (
	firstNames = []string{"Ada", "Bjørn", "Chiyo", "Diego", "Élise", "Fatima", "Guðrún", "Hồng", "Iñaki", "Jūratė", "Kofi", "Łukasz"}
	lastNames  = []string{"Andersson", "Baker", "Castillo", "Đặng", "Eriksen", "Ferrari", "Gómez", "Hashimoto", "Ivanova", "Jensen"}
	statuses   = []string{"new", "paid", "packed", "shipped", "delivered"}
	goods      = []string{"lamp", "kettle", "chair", "desk", "rug", "clock", "mirror", "vase"}
)

func pick(list []string) string { return list[rand.IntN(len(list))] }

// queryRows runs a query whose columns are text or NULL and yields each row as one line.
func queryRows(ctx context.Context, db *sql.DB, query string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		rows, err := db.QueryContext(ctx, query)
		if err != nil {
			yield("", fmt.Errorf("read rows to compare: %w", err))
			return
		}
		defer rows.Close()
		columns, err := rows.Columns()
		if err != nil {
			yield("", err)
			return
		}
		cells := make([]sql.NullString, len(columns))
		into := make([]any, len(columns))
		for i := range cells {
			into[i] = &cells[i]
		}
		for rows.Next() {
			if err := rows.Scan(into...); err != nil {
				yield("", fmt.Errorf("read a row to compare: %w", err))
				return
			}
			if !yield(rowLine(cells), nil) {
				return
			}
		}
		if err := rows.Err(); err != nil {
			yield("", fmt.Errorf("read rows to compare: %w", err))
		}
	}
}

// rowLine joins the cells so that no two different rows give the same line.
func rowLine(cells []sql.NullString) string {
	line := make([]byte, 0, 96)
	for _, c := range cells {
		if c.Valid {
			line = fmt.Appendf(line, "%q|", c.String)
		} else {
			line = append(line, "null|"...)
		}
	}
	return string(line)
}
