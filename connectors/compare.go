package connectors

import "context"

// Comparer reads tables at one end of a line so that both ends can be compared. It has connections of its own, changes
// nothing, and belongs to one goroutine.
type Comparer interface {
	// Describe returns the table as this end has it now, with the columns that a comparison can see. At a source, of
	// has the schema and the name as the configuration does; at a sink, of is the source's table, and the answer is the
	// table that its rows land in. nil: there is none.
	Describe(ctx context.Context, of *Table) (*Table, error)

	// Method names how this end hashes rows in the database. Two ends with the same method hash equal rows equally.
	// Empty: it cannot, and Sums is never called.
	Method() string

	// Bounds returns the ends of the key where its first column is an integer, and about how many rows there are. ok
	// is false for other keys and for an empty table.
	Bounds(ctx context.Context, t *Table) (low, high, rows int64, ok bool, err error)

	// Sums hashes rows by the method.
	Sums(ctx context.Context, c Comparison) (Sums, error)

	// Rows calls take for each row, with the values of c.Columns. The row is valid during the call.
	Rows(ctx context.Context, c Comparison, take func(row []Value) error) error

	Close(ctx context.Context) error
}

// Comparison chooses rows of a table that Describe returned.
type Comparison struct {
	Table   *Table
	Key     []string // the key's columns
	Columns []string // to be compared; the key's come first
	Low     int64    // with Ranged: of the first key column, inclusive
	High    int64    // likewise
	Ranged  bool
	Buckets []int     // by the method; nil: all
	Keys    [][]Value // nil: all
}

// Buckets is how many parts the keys of a comparison are parted into by their hashes.
const Buckets = 4096

// Sums has the sum of the hashes of the rows in each bucket that has rows.
type Sums map[int]Sum

// Sum is an order-free digest of a set of rows: two sets with the same one are equal but for a chance of one in 2^64.
type Sum struct {
	Rows int64
	Hash uint64 // of all rows, added up
}

// Repairer is a source that can send single rows through the log again.
type Repairer interface {
	Source

	// Repair asks for the rows with these keys to be read anew, and returns once the request is noted. Rows that are
	// there come out of Read as Snapshot changes, the others as deletes, in order with the changes of the stream. It may
	// run beside Read.
	Repair(ctx context.Context, table string, keys [][]Value) error
}

// OpenComparer connects one end for a comparison.
type OpenComparer func(ctx context.Context, env Env) (Comparer, error)
