package connectors

import (
	"errors"
	"fmt"
)

// These errors steer the pipeline; everything else is retried with backoff.
var (
	// ErrPositionLost: the system can no longer serve the position that a source was opened with (slot lost, binlog
	// purged, server reset). The source stops in the state gap until a person asks for a resync.
	ErrPositionLost = errors.New("position lost")

	// ErrFatal: trying again cannot help until a person changes something (rights, settings, a table without replica
	// identity). The source or sink stops in the state failed.
	ErrFatal = errors.New("cannot continue")

	// ErrFenced: a newer writer has taken over the same group. Whoever gets it stops writing.
	ErrFenced = errors.New("fenced by a newer writer")
)

// RowError says that a sink's store refuses one row of a batch. Err never holds the row's values.
type RowError struct {
	Index int // in Batch.Changes
	Err   error
}

// RowsError is returned by Sink.Write when the store refuses rows whatever is tried. Nothing of the batch was written.
type RowsError struct {
	Rows []RowError // ascending by Index, at least one
}

func (e *RowsError) Error() string {
	if len(e.Rows) == 1 {
		return fmt.Sprintf("row %d refused: %v", e.Rows[0].Index, e.Rows[0].Err)
	}
	return fmt.Sprintf("%d rows refused, the first (row %d): %v", len(e.Rows), e.Rows[0].Index, e.Rows[0].Err)
}
