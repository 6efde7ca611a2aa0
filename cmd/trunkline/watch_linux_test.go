package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trunkline/trunkline/cmd/trunkline/command"
	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/memory"
)

// openTerminal returns the two ends of a terminal: what a person has, and what the program has.
func openTerminal(t *testing.T) (person, program *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { person.Close() })
	if err := unix.IoctlSetPointerInt(int(person.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(person.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { program.Close() })
	if err := unix.IoctlSetWinsize(int(program.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 10, Col: 40}); err != nil {
		t.Fatal(err)
	}
	return person, program
}

func TestTheWatchDrawsInPlaceAndEndsAtQ(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close()
	file := filepath.Join(t.TempDir(), "pipelines.yaml")
	text := fmt.Sprintf("log: {listen: off, dir: %s}\nhttp: {listen: %q}\nsources:\n  shop: {type: memory}\nsinks:\n  copy: {type: memory, topics: [\"shop.*\"]}\n",
		filepath.Join(t.TempDir(), "log"), address)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	o := command.Options{Connectors: []connectors.Connector{memory.NewSpace().Connector()}}
	ctx, cancel := context.WithCancel(t.Context())
	daemon := make(chan int, 1)
	go func() {
		daemon <- command.Run(ctx, o, []string{"run", "-f", file}, strings.NewReader(""), &bytes.Buffer{}, &bytes.Buffer{})
	}()
	defer func() {
		cancel()
		if code := <-daemon; code != 0 {
			t.Errorf("the daemon ends with %d", code)
		}
	}()
	deadline := time.Now().Add(time.Minute)
	for command.Run(t.Context(), o, []string{"status", "--addr", address}, strings.NewReader(""), &bytes.Buffer{}, &bytes.Buffer{}) != 0 {
		if time.Now().After(deadline) {
			t.Fatal("the daemon does not answer")
		}
		time.Sleep(20 * time.Millisecond) // between two looks at the condition
	}

	person, program := openTerminal(t)
	var mu sync.Mutex
	var seen bytes.Buffer
	go func() {
		part := make([]byte, 4096)
		for {
			n, err := person.Read(part)
			mu.Lock()
			seen.Write(part[:n])
			mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	screen := func() string {
		mu.Lock()
		defer mu.Unlock()
		return seen.String()
	}
	ended := make(chan int, 1)
	go func() {
		ended <- command.Run(t.Context(), o, []string{"status", "--watch", "--every", "50ms", "--addr", address}, program, program, &bytes.Buffer{})
	}()
	for strings.Count(screen(), "q quits") < 3 {
		if time.Now().After(deadline) {
			t.Fatalf("screen: %q", screen())
		}
		time.Sleep(20 * time.Millisecond) // between two looks at the condition
	}
	for frame := range strings.SplitSeq(screen(), "\x1b[H") {
		if n := strings.Count(frame, "\n"); n > 9 {
			t.Errorf("a frame of %d lines on a screen of 10: %q", n+1, frame)
		}
	}
	if _, err := person.Write([]byte("q")); err != nil {
		t.Fatal(err)
	}
	if code := <-ended; code != 0 {
		t.Errorf("exit code %d", code)
	}
	for !strings.HasSuffix(screen(), "\x1b[?25h\x1b[?1049l") {
		if time.Now().After(deadline) {
			t.Fatalf("the terminal is not given back: %q", screen())
		}
		time.Sleep(20 * time.Millisecond) // between two looks at the condition
	}
}
