package postgres

import (
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/trunkline/trunkline/connectors"
)

// refusal is the server's or the encoder's no to a row, in words that hold none of its values: a server's message
// quotes what it could not read, so only the code, its name, and the names of things are kept.
type refusal struct {
	state, column, constraint, table string
	reason                           string
}

func (r refusal) Error() string {
	text := r.reason
	if r.state != "" {
		text += " (" + r.state + ")"
	}
	if r.column != "" {
		text += fmt.Sprintf(", column %q", r.column)
	}
	if r.constraint != "" {
		text += fmt.Sprintf(", constraint %q", r.constraint)
	}
	return text
}

// refusedClasses are the classes of SQLSTATE that speak of the data and not of the server's condition: trying the same
// rows again gives the same answer. See PostgreSQL documentation, appendix A.
var refusedClasses = map[string]string{
	"21": "cardinality violation",
	"22": "data exception",
	"23": "integrity constraint violation",
	"44": "check option of a view violated",
	"54": "a limit of the server is exceeded",
	"P0": "refused by a trigger",
}

// refusedStates names the frequent ones better than their class does.
var refusedStates = map[string]string{
	"22001": "value too long for the column",
	"22003": "number out of range",
	"22007": "not a valid date or time",
	"22008": "date or time out of range",
	"22021": "a character that the server's encoding cannot hold",
	"22023": "not a valid value for the type",
	"22026": "bit string of the wrong length",
	"2202E": "not a valid array subscript",
	"22030": "duplicate key in a JSON object",
	"22032": "not valid JSON",
	"22P02": "not a valid value for the type",
	"22P03": "not a valid binary value for the type",
	"22P04": "not a valid line of COPY",
	"22P05": "a character that the type cannot hold",
	"23502": "NULL in a column that allows none",
	"23503": "the row that a foreign key names does not exist",
	"23505": "another row has the same unique value",
	"23514": "a check constraint is violated",
	"23P01": "an exclusion constraint is violated",
	"54000": "row or index entry too large",
	"54011": "too many columns",
}

const (
	stateDuplicate   = "23505"
	stateForbidden   = "42501" // a right is missing
	stateUnsupported = "0A000"
)

// fault turns an error of the server into what the pipeline acts on: a refusal, a state that needs a person, or an
// error to try again after. Columns are the names that the server may have named.
func (s *Sink) fault(err error) error {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || len(pg.Code) != 5 {
		return err
	}
	if class, ok := refusedClasses[pg.Code[:2]]; ok {
		reason := refusedStates[pg.Code]
		if reason == "" {
			reason = class
		}
		return refusal{state: pg.Code, reason: reason, column: pg.ColumnName, constraint: pg.ConstraintName, table: pg.TableName}
	}
	if pg.Code == stateForbidden {
		return fmt.Errorf("%w: %w; grant what is missing (check --connect lists it), or choose another schema with table or offsets_schema", connectors.ErrFatal, err)
	}
	return err
}

// columnOf finds the column that COPY was at when the server refused a row: the context line reads `COPY t, line 3,
// column c: "value"`. Only a name that the target really has is believed, and nothing else of the line is used.
func columnOf(t *target, err error) string {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return ""
	}
	_, rest, ok := strings.Cut(pg.Where, ", column ")
	if !ok {
		return ""
	}
	for _, c := range t.columns {
		if after, ok := strings.CutPrefix(rest, c.name); ok && (after == "" || after[0] == ':') {
			return c.name
		}
	}
	return ""
}

func isRefusal(err error) bool {
	var r refusal
	return errors.As(err, &r)
}

// isDuplicate reports that a row met another one with the same unique value.
func isDuplicate(err error) bool {
	var r refusal
	return errors.As(err, &r) && r.state == stateDuplicate
}

// backoff counts how many batches to let pass before something that failed is tried again: 1, 2, 4 and so on.
type backoff struct {
	skip, next int
}

func (b *backoff) failed() {
	b.next = min(max(1, 2*b.next), maxBackoff)
	b.skip = b.next
}

func (b *backoff) ready() bool {
	if b.skip > 0 {
		b.skip--
		return false
	}
	return true
}

func (b *backoff) worked() { b.next = 0 }
