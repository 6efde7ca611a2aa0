package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// quietConn is a connection whose errors hold no values of rows. The server quotes in its messages what it could not read
// or what broke a constraint, and statements that hold keys.
type quietConn struct{ driver.Conn }

func (c quietConn) ServerVersion() (*driver.ServerVersion, error) {
	v, err := c.Conn.ServerVersion()
	return v, quiet(err)
}

func (c quietConn) Exec(ctx context.Context, statement string, args ...any) error {
	return quiet(c.Conn.Exec(ctx, statement, args...))
}

func (c quietConn) Query(ctx context.Context, statement string, args ...any) (driver.Rows, error) {
	rows, err := c.Conn.Query(ctx, statement, args...)
	if err != nil {
		return nil, quiet(err)
	}
	return quietRows{rows}, nil
}

func (c quietConn) QueryRow(ctx context.Context, statement string, args ...any) driver.Row {
	return quietRow{c.Conn.QueryRow(ctx, statement, args...)}
}

func (c quietConn) PrepareBatch(ctx context.Context, statement string, o ...driver.PrepareBatchOption) (driver.Batch, error) {
	batch, err := c.Conn.PrepareBatch(ctx, statement, o...)
	if err != nil {
		return nil, quiet(err)
	}
	return quietBatch{batch}, nil
}

type quietRows struct{ driver.Rows }

func (r quietRows) Scan(into ...any) error { return quiet(r.Rows.Scan(into...)) }
func (r quietRows) Err() error             { return quiet(r.Rows.Err()) }
func (r quietRows) Close() error           { return quiet(r.Rows.Close()) }

type quietRow struct{ driver.Row }

func (r quietRow) Scan(into ...any) error { return quiet(r.Row.Scan(into...)) }
func (r quietRow) Err() error             { return quiet(r.Row.Err()) }

type quietBatch struct{ driver.Batch }

func (b quietBatch) Send() error  { return quiet(b.Batch.Send()) }
func (b quietBatch) Close() error { return quiet(b.Batch.Close()) }

// serverError is what the server said, without what it quoted.
type serverError struct {
	Code int32
	Name string // of the code; empty: not known
	Text string // empty: the message may hold values of rows
}

func (e *serverError) Error() string {
	text := fmt.Sprintf("the server answers with error %d", e.Code)
	if e.Name != "" {
		text += " (" + e.Name + ")"
	}
	if e.Text != "" {
		text += ": " + e.Text
	}
	return text
}

// named holds the names of codes, by ClickHouse's ErrorCodes.cpp: over the native protocol the server sends none. Of those
// with true the message is about names, rights and resources alone.
var named = map[int32]struct {
	name  string
	plain bool
}{
	6: {"CANNOT_PARSE_TEXT", false}, 27: {"CANNOT_PARSE_INPUT_ASSERTION_FAILED", false}, 36: {"BAD_ARGUMENTS", false}, 38: {"CANNOT_PARSE_DATE", false},
	41: {"CANNOT_PARSE_DATETIME", false}, 43: {"ILLEGAL_TYPE_OF_ARGUMENT", false}, 44: {"ILLEGAL_COLUMN", false}, 47: {"UNKNOWN_IDENTIFIER", false},
	50: {"UNKNOWN_TYPE", true}, 53: {"TYPE_MISMATCH", false}, 57: {"TABLE_ALREADY_EXISTS", true}, 60: {"UNKNOWN_TABLE", true}, 62: {"SYNTAX_ERROR", false},
	69: {"ARGUMENT_OUT_OF_BOUND", false}, 70: {"CANNOT_CONVERT_TYPE", false}, 72: {"CANNOT_PARSE_NUMBER", false}, 81: {"UNKNOWN_DATABASE", true},
	115: {"UNKNOWN_SETTING", true}, 117: {"INCORRECT_DATA", false}, 131: {"TOO_LARGE_STRING_SIZE", false}, 159: {"TIMEOUT_EXCEEDED", true},
	164: {"READONLY", true}, 192: {"UNKNOWN_USER", true}, 193: {"WRONG_PASSWORD", true}, 194: {"REQUIRED_PASSWORD", true},
	202: {"TOO_MANY_SIMULTANEOUS_QUERIES", true}, 241: {"MEMORY_LIMIT_EXCEEDED", true}, 242: {"TABLE_IS_READ_ONLY", true}, 243: {"NOT_ENOUGH_SPACE", true},
	252: {"TOO_MANY_PARTS", true}, 349: {"CANNOT_INSERT_NULL_IN_ORDINARY_COLUMN", false}, 376: {"CANNOT_PARSE_UUID", false}, 395: {"FUNCTION_THROW_IF_VALUE_IS_NON_ZERO", false},
	469: {"VIOLATED_CONSTRAINT", false}, 497: {"ACCESS_DENIED", true}, 516: {"AUTHENTICATION_FAILED", true}, 675: {"CANNOT_PARSE_IPV4", false},
	676: {"CANNOT_PARSE_IPV6", false}, 691: {"UNKNOWN_ELEMENT_OF_ENUM", false},
}

var (
	// constraint is how the server names one that a row breaks.
	constraint = regexp.MustCompile("^Constraint (`[^`]+`)")
	// behind is where a plain message begins to quote the statement.
	behind = regexp.MustCompile(`(?i)[:,(.]?\s*(?:while |in query|\(query|in scope|when executing).*$`)
	// literals are what stands in single quotes, and not the apostrophe of a word.
	literals = regexp.MustCompile(`(^|\W)'(?:[^'\\]|\\.)*'?`)
	// codeName is what a code may be called.
	codeName = regexp.MustCompile(`^[A-Z0-9_]{1,80}$`)
)

// quiet returns err without what the server quoted: an answer of the server becomes a serverError, and everything else,
// which this side or the network said, stays.
func quiet(err error) error {
	var e *clickhouse.Exception
	var status *clickhouse.HTTPError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &e):
		known := named[e.Code]
		out := &serverError{Code: e.Code, Name: known.name}
		if out.Name == "" && codeName.MatchString(e.CodeName) {
			out.Name = e.CodeName
		}
		if m := constraint.FindStringSubmatch(e.Message); m != nil && e.Code == 469 {
			out.Text = "constraint " + m[1]
		}
		if known.plain {
			line, _, _ := strings.Cut(e.Message, "\n")
			out.Text = strings.TrimSpace(literals.ReplaceAllString(behind.ReplaceAllString(line, ""), "$1'…'"))
		}
		return out
	case errors.As(err, &status):
		return fmt.Errorf("the server, or a proxy before it, answers with HTTP status %d and no error of ClickHouse", status.StatusCode)
	case strings.Contains(err.Error(), "ClickHouse exception"):
		return errors.New("the server answers with an error that has no code")
	}
	return err
}
