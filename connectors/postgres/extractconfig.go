package postgres

import (
	"errors"
	"time"
)

// Values of null_cursor.
const (
	nullSkip  = "skip"
	nullFirst = "first"
)

const (
	defaultPoll   = time.Second
	defaultSettle = time.Minute
)

// validateExtract checks the settings of mode timestamp and fills in their defaults. A cursor may stay in the
// configuration of mode cdc, so that a change of the mode is a change of one line.
func (c *SourceConfig) validateExtract() error {
	if c.Poll <= 0 {
		return errors.New("poll must be longer than nothing")
	}
	if c.NullCursor == "" {
		c.NullCursor = nullFirst
	}
	if c.Scan == "" {
		c.Scan = scanAuto
	}
	if c.Settle < 0 {
		return errors.New("settle must not be below 0")
	}
	return errors.Join(choice("deletes", c.Deletes, deletesIgnore, deletesDetect), choice("null_cursor", c.NullCursor, nullSkip, nullFirst), choice("scan", c.Scan, scanAuto, scanAlways, scanNever))
}
