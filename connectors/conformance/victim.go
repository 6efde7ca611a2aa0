package conformance

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/trunkline/trunkline/connectors"
)

// victimEnv makes a test binary a victim: a process that writes to a sink until it is killed.
const victimEnv = "TRUNKLINE_TEST_VICTIM"

// RunVictim is the first call of a TestMain. In a process that KillVictim started it opens a sink by the arguments given there,
// writes to it, and does not return; in any other it does nothing.
func RunVictim(open func(ctx context.Context, args []string) (Promiser, error)) {
	if os.Getenv(victimEnv) == "" {
		return
	}
	ctx := context.Background()
	p, err := open(ctx, os.Args[1:])
	if err == nil {
		err = p.promise(ctx)
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// Promiser is what a victim writes.
type Promiser struct {
	Sink   connectors.Sink // it has to be Transactional
	Stream string
	Batch  func(first, count int64) connectors.Batch // the rows from first on; its position is the number of the row after them
}

// promise goes on where the sink's position ends, and prints each position that is durable: the rows below it are promised.
func (p Promiser) promise(ctx context.Context) error {
	at, err := p.Sink.(connectors.Transactional).Committed(ctx, p.Stream)
	if err != nil {
		return err
	}
	next := int64(0)
	if at != nil {
		if next, err = strconv.ParseInt(string(at), 10, 64); err != nil {
			return err
		}
	}
	for {
		count := next%7 + 1
		if err := p.Sink.Write(ctx, p.Batch(next, count)); err != nil {
			return err
		}
		next += count
		fmt.Println(next)
	}
}

// KillVictim lets a victim write until it has promised enough rows, calls do while it goes on (nil: nothing), kills it with
// SIGKILL in the middle of what comes next, and returns how many rows it had promised.
func KillVictim(t testing.TB, enough int64, do func(), args ...string) (promised int64) {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), victimEnv+"=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	killed := false
	for lines := bufio.NewScanner(out); lines.Scan(); {
		n, err := strconv.ParseInt(lines.Text(), 10, 64)
		if err != nil {
			break // the last line may be cut
		}
		if promised = n; promised >= enough && !killed {
			if do != nil {
				do()
			}
			killed = true
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = cmd.Wait() // it says "killed"
	if !killed {
		t.Fatalf("the victim ended by itself after %d rows", promised)
	}
	return promised
}
