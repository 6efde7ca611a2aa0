package clickhouse

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/trunkline/trunkline/connectors"
)

// Codes of the server's errors, from its ErrorCodes.cpp.
var (
	// refusals are about the rows of an INSERT: a constraint that they break, a value that its column can't take.
	refusalCodes = []int32{6, 27, 38, 41, 53, 69, 70, 72, 131, 349, 376, 395, 469, 675, 676, 691}

	// fatalCodes are about rights and names, which a person has to change: no access, wrong password, unknown user,
	// unknown type, wrong syntax, a setting that is not known.
	fatalCodes = []int32{50, 62, 115, 192, 193, 194, 497, 516}
)

// code returns the number of an error that the server gave, 0 for every other one.
func code(err error) int32 {
	var e *serverError
	if errors.As(err, &e) {
		return e.Code
	}
	return 0
}

// refusal is the server's answer alone, without what this side did to get it.
func refusal(err error) error {
	var e *serverError
	if errors.As(err, &e) {
		return e
	}
	return err
}

func isRefusal(err error) bool { return slices.Contains(refusalCodes, code(err)) }

// fatal marks an error that trying again can't help. All others are tried again: connections, too many parts, memory,
// a table that is read-only for a while.
func fatal(err error) error {
	if slices.Contains(fatalCodes, code(err)) {
		return fmt.Errorf("%w: %w", err, connectors.ErrFatal)
	}
	return err
}

// refusals are reasons by the index of the change.
type refusals map[int]error

func (r refusals) add(index int, err error) { r[index] = err }

func (r refusals) err() error {
	rows := make([]connectors.RowError, 0, len(r))
	for _, i := range slices.Sorted(maps.Keys(r)) {
		rows = append(rows, connectors.RowError{Index: i, Err: r[i]})
	}
	return &connectors.RowsError{Rows: rows}
}
