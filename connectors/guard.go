package connectors

import "context"

// Guard looks after what a server keeps so that a source can go on where it stood: a slot's WAL. It works whether the
// source is open or not, with connections of its own, and may be called beside it.
type Guard interface {
	// Retained returns the bytes of change log that the server keeps for the source; 0: none.
	Retained(ctx context.Context, env Env) (int64, error)

	// Release lets the server forget the source, which must not be open. The source cannot go on from its position then.
	Release(ctx context.Context, env Env) error
}

// Renewer is a guard that can find out of which tables the server forgets something.
type Renewer interface {
	Guard

	// Renew lets the server forget what it keeps until that is below limit bytes, and returns a position from which the
	// source, which must not be open, goes on: it reads the tables anew of which something was forgotten, and no others. ctx
	// bounds how long that may take. After an error the server may have forgotten a part, so that Release is what is left.
	Renew(ctx context.Context, env Env, from Position, limit int64) (to Position, tables []string, err error)
}

// Purging is a guard of a server that forgets by rules of its own, whoever still needs what it forgets.
type Purging interface {
	Guard

	// Ahead says how much change log the server has before and behind a position. The zero Ahead: it cannot be told.
	Ahead(ctx context.Context, env Env, at Position) (Ahead, error)
}

// Ahead is what a server has around a position.
type Ahead struct {
	Bytes  int64 // of change log from the position to the end
	Older  int   // files before the position's own: the server purges these first
	Newer  int   // files behind it
	Purged bool  // the position's own file is gone
}
