package log

import "context"

// Leaser is a log that several processes share. It decides which of them does what only one may do. A log without it
// belongs to one process, which does everything.
type Leaser interface {
	// Leases enters the processes of a group that share out names between them.
	Leases(ctx context.Context, o LeaseOptions) (Leases, error)
}

// LeaseOptions says what a process can do. A name is held by one process at a time, except that a process that lost
// touch with the cluster needs until the session ends to notice; producers are fenced for that reason.
type LeaseOptions struct {
	Group string
	Names []string // that this process could hold
	// Granted is called when a name is held. It returns at once.
	Granted func(name string)
	// Revoked gives a name up: another process gets it when the call returns. It is called at the side of others.
	Revoked func(ctx context.Context, name string)
}

// Leases is membership in a group that shares out names.
type Leases interface {
	// Close leaves the group. What was held goes to others at once, without Revoked: the caller has given all up.
	Close(ctx context.Context) error
}
