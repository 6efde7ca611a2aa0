package pipeline

// State is what a source, a sink or a table is doing. The reason beside it is in words.
type State string

// The states. Only retrying ends by itself; paused by a full log does too.
const (
	Stopped  State = "stopped"   // not started yet, or ended with the program
	Opening  State = "opening"   // a sink whose store has not answered yet
	Running  State = "running"   // at work, behind its end
	CaughtUp State = "caught up" // at work, nothing is left to do
	Snapshot State = "snapshot"  // a table whose present rows are being read
	Retrying State = "retrying"  // an attempt ended with an error; the next comes after a pause
	Standby  State = "standby"   // another process that shares the log runs it
	Paused   State = "paused"    // by a person, or because the log has no room
	Gap      State = "gap"       // what it must read next is gone; waits for a person
	Failed   State = "failed"    // trying again cannot help; waits for a person
	Done     State = "done"      // bounded, and read to its end
)

// Healthy reports whether readiness accepts the state.
func (s State) Healthy() bool {
	return s == Running || s == CaughtUp || s == Snapshot || s == Standby || s == Done
}
