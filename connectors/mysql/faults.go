package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	wire "github.com/go-mysql-org/go-mysql/mysql"
	driver "github.com/go-sql-driver/mysql"
	pingcap "github.com/pingcap/errors"

	"github.com/trunkline/trunkline/connectors"
)

// Numbers of the server's errors that steer us.
const (
	errAccessDenied      = 1045
	errDatabaseDenied    = 1044
	errTableDenied       = 1142
	errColumnDenied      = 1143
	errSpecificDenied    = 1227
	errUnknownDatabase   = 1049
	errReadingBinlog     = 1236
	errBinlogPurged      = 1789
	errNoBinlog          = 1381
	errUnsupportedPlugin = 1251
	errUserConnections   = 1203
	errUserLimit         = 1226
	errSyntax            = 1064
	errAmbiguous         = 1052
	errReplicaSameID     = 4052 // MariaDB
	errNoSuchColumn      = 1054
	errNoSuchTable       = 1146
	errTableChanged      = 1412 // since the transaction began
)

// errClosed is what a connection that the server has closed gives. It is not io.EOF, which is the good end of a source.
var errClosed = errors.New("the server closed the connection")

// plain takes the stack off an error of the protocol library, and keeps the end of a connection from looking like the end of
// the source.
func plain(err error) error {
	err = pingcap.Cause(err)
	if errors.Is(err, io.EOF) {
		return errClosed
	}
	return err
}

// code returns the server's error number, zero when it is not one of the server's.
func code(err error) uint16 {
	var a *wire.MyError
	if errors.As(plain(err), &a) {
		return a.Code
	}
	var b *driver.MySQLError
	if errors.As(err, &b) {
		return b.Number
	}
	return 0
}

// settle marks an error as one that only a person can mend, when it is.
func settle(err error) error {
	switch code(err) {
	case errAccessDenied, errDatabaseDenied, errTableDenied, errColumnDenied, errSpecificDenied, errUnknownDatabase, errUnsupportedPlugin, errNoBinlog:
		return fmt.Errorf("%w: %w", err, connectors.ErrFatal)
	}
	return err
}

// refuses reports that the server has read a statement and cannot carry it out, so that no second try helps: syntax, names and
// rights (SQLSTATE 42), an ambiguous name, values (22) and cardinality (21). What it says about its own load is none of these.
func refuses(err error) bool {
	switch code(err) {
	case errUserConnections, errUserLimit:
		return false
	case errAmbiguous:
		return true
	}
	var state string
	var a *wire.MyError
	var b *driver.MySQLError
	switch {
	case errors.As(plain(err), &a):
		state = a.State
	case errors.As(err, &b):
		state = string(b.SQLState[:])
	}
	return len(state) == 5 && slices.Contains([]string{"42", "22", "21"}, state[:2])
}

// errEnded is the end of a stream that has none: the server does so when somebody has ended its thread.
var errEnded = errors.New("the server ended the stream")

// binlogFault translates what the server says instead of events. The server ends the older of two connections with one
// number; to come back would end the other one, and so on, so it is for a person to give one of them another number.
func (s *Source) binlogFault(ctx context.Context, err error) error {
	err = plain(err)
	n := code(err)
	switch same := strings.Contains(err.Error(), "same server_uuid/server_id"); {
	case n == errReadingBinlog && strings.Contains(err.Error(), "max_allowed_packet"):
		return fmt.Errorf("read binary log: %w: %w", err, connectors.ErrFatal)
	case n == errReplicaSameID, n == errReadingBinlog && same, errors.Is(err, errEnded) && s.replaced(ctx):
		return fmt.Errorf("read binary log: another source or replica of this server has connected with our server_id %d: set server_id of source %s to a number that no other one has: %w: %w",
			s.config.serverID(s.env.Name), s.env.Name, err, connectors.ErrFatal)
	case n == errReadingBinlog || n == errBinlogPurged:
		return lost(s.env.Name, err.Error())
	}
	return fmt.Errorf("read binary log: %w", settle(err))
}

// replaced asks who is registered with our number now. Servers from before MySQL 5.6.26 do not say why they end a stream.
func (s *Source) replaced(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	rows, err := s.db.QueryContext(ctx, "SHOW SLAVE HOSTS")
	if err != nil {
		return false
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil || len(names) < 2 {
		return false
	}
	cells := make([]sql.RawBytes, len(names))
	targets := make([]any, len(names))
	for i := range cells {
		targets[i] = &cells[i]
	}
	ours := strconv.FormatUint(uint64(s.config.serverID(s.env.Name)), 10)
	for rows.Next() {
		if rows.Scan(targets...) == nil && string(cells[0]) == ours && string(cells[1]) != s.replica {
			return true
		}
	}
	return false
}

// lost is the hard state gap: the rows in between are gone from the server.
func lost(source, why string) error {
	return fmt.Errorf("the server cannot serve the saved position any more (%s): what was written since is not in its binary log; take a fresh snapshot with: trunkline resync %s: %w",
		why, source, connectors.ErrPositionLost)
}
