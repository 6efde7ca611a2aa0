// Package localserver runs a private PostgreSQL server from the programs that are on this machine: for tests, for the
// demo and for benchmarks.
//
// It promises a server that listens on 127.0.0.1 and on a unix socket in its own folder only, with logical decoding
// switched on, and that does not outlive the process that started it. Anyone on the machine's loopback may log in as
// postgres without a password, so it is no place for real data. It installs nothing and touches no other server.
package localserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// User is the superuser of every server that this package starts. It has no password.
const User = "postgres"

const (
	startTimeout = 60 * time.Second // for a start that recovers from a crash
	stopTimeout  = 5 * time.Second  // a fast shutdown waits for replication clients; after this it is immediate
	probeEvery   = 20 * time.Millisecond
	portAttempts = 3
	maxSocketDir = 85 // bytes: a socket's path may have 107 (104 on macOS), of which 18 are its name
)

// Options are how to start a server. The zero value is a server in a temporary folder.
type Options struct {
	// Dir is where the server lives (data, socket, server.log). It is created when missing; a server that was
	// stopped there is started again. Empty: a temporary folder that Stop removes.
	Dir string

	// Settings are added to postgresql.conf, on top of the package's own (wal_level=logical and enough slots).
	Settings map[string]string

	// Unsafe turns fsync off: several times faster, and a crash of the machine (not of the server) ruins the data.
	// It is meant for tests.
	Unsafe bool

	// Binaries are the programs to run. Zero: whatever Find returns.
	Binaries Binaries
}

// Server is a running server, until Stop or Kill. Its methods may be called from any goroutine, one at a time.
type Server struct {
	opts      Options
	dir       string
	socketDir string
	port      int
	temporary bool
	owner     *owner // the user that the server runs as; nil: our own

	mu    sync.Mutex
	run   *process  // nil: not running
	guard *exec.Cmd // the process that ends the server when ours is killed; nil: none
}

// Start creates a server when Dir holds none, and runs it. It returns once the server answers.
func Start(ctx context.Context, opts Options) (*Server, error) {
	s, err := prepare(opts)
	if err != nil {
		return nil, fmt.Errorf("start postgresql: %w", err)
	}
	if _, err := os.Stat(filepath.Join(s.dataDir(), "PG_VERSION")); err != nil {
		if err := s.initDB(ctx); err != nil {
			s.removeFolders()
			return nil, fmt.Errorf("start postgresql: %w", err)
		}
	}
	for attempt := 1; ; attempt++ {
		err := s.start(ctx)
		if err == nil {
			return s, nil
		}
		if attempt < portAttempts && errors.Is(err, syscall.EADDRINUSE) { // taken since we found it free
			if s.port, err = freePort(); err == nil {
				continue
			}
		}
		s.removeFolders()
		return nil, fmt.Errorf("start postgresql: %w", err)
	}
}

// Version returns the server's version: 15.18.
func (s *Server) Version() string { return s.opts.Binaries.Version }

// Binaries returns the programs that the server runs from.
func (s *Server) Binaries() Binaries { return s.opts.Binaries }

// Port returns the port on 127.0.0.1. It stays the same over Restart.
func (s *Server) Port() int { return s.port }

// LogFile returns the path of the server's own log.
func (s *Server) LogFile() string { return filepath.Join(s.dir, "server.log") }

// DSN returns the connection string of a database, over TCP.
func (s *Server) DSN(database string) string {
	u := url.URL{Scheme: "postgres", User: url.User(User), Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)),
		Path: "/" + database, RawQuery: "sslmode=disable"}
	return u.String()
}

// SocketDSN returns the connection string of a database, over the unix socket.
func (s *Server) SocketDSN(database string) string {
	q := url.Values{"host": {s.socketDir}, "port": {strconv.Itoa(s.port)}}
	u := url.URL{Scheme: "postgres", User: url.User(User), Path: "/" + database, RawQuery: q.Encode()}
	return u.String()
}

// CreateDatabase creates an empty database and returns its connection string.
func (s *Server) CreateDatabase(ctx context.Context, name string) (string, error) {
	if err := s.exec(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize()); err != nil {
		return "", fmt.Errorf("create database %q: %w", name, err)
	}
	return s.DSN(name), nil
}

// DropDatabase drops a database together with its replication slots and its connections.
func (s *Server) DropDatabase(ctx context.Context, name string) error {
	conn, err := pgx.Connect(ctx, s.DSN("postgres"))
	if err != nil {
		return fmt.Errorf("drop database %q: %w", name, err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for {
		_, err = conn.Exec(ctx, `SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE database = $1 AND active`, name)
		if err == nil {
			_, err = conn.Exec(ctx, `SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = $1`, name)
		}
		if err == nil {
			_, err = conn.Exec(ctx, "DROP DATABASE IF EXISTS "+pgx.Identifier{name}.Sanitize()+" WITH (FORCE)")
		}
		if err == nil {
			return nil
		}
		select { // a walsender that was told to end needs a moment
		case <-ctx.Done():
			return fmt.Errorf("drop database %q: %w", name, err)
		case <-time.After(probeEvery):
		}
	}
}

// Stop ends the server: a fast shutdown, immediate when clients hold that up. A temporary folder is removed.
// Stopping a stopped server is no error.
func (s *Server) Stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.halt()
	s.endGuard()
	s.removeFolders()
	return err
}

// Kill ends the server's processes with SIGKILL, as a crash does. The data stays: Restart recovers it.
func (s *Server) Kill() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run == nil {
		return nil
	}
	err := s.run.kill()
	s.run = nil
	s.endGuard()
	return err
}

// Restart stops the server if it runs and starts it on the same data and port.
func (s *Server) Restart(ctx context.Context) error {
	s.mu.Lock()
	err := s.halt()
	s.endGuard()
	s.mu.Unlock()
	if err != nil {
		return fmt.Errorf("restart postgresql: %w", err)
	}
	if err := s.start(ctx); err != nil {
		return fmt.Errorf("restart postgresql: %w", err)
	}
	return nil
}

func (s *Server) dataDir() string { return filepath.Join(s.dir, "data") }

func (s *Server) exec(ctx context.Context, sql string) error {
	conn, err := pgx.Connect(ctx, s.DSN("postgres"))
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	_, err = conn.Exec(ctx, sql)
	return err
}

// prepare settles the folders, their owner and the port.
func prepare(opts Options) (*Server, error) {
	if opts.Binaries.Dir == "" {
		b, err := Find()
		if err != nil {
			return nil, err
		}
		opts.Binaries = b
	}
	s := &Server{opts: opts, dir: opts.Dir}
	var err error
	if s.owner, err = serverOwner(); err != nil {
		return nil, err
	}
	if s.dir == "" {
		if s.dir, err = os.MkdirTemp("", "trunkline-pg-"); err != nil {
			return nil, fmt.Errorf("create temporary folder: %w", err)
		}
		s.temporary = true
	} else if s.dir, err = filepath.Abs(s.dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return nil, err
	}
	if err := s.owner.reach(s.dir); err != nil {
		return nil, err
	}
	s.socketDir = s.dir
	if len(s.dir) > maxSocketDir {
		if s.socketDir, err = os.MkdirTemp("", "tl-"); err != nil {
			return nil, fmt.Errorf("create folder of the socket: %w", err)
		}
	}
	for _, dir := range []string{s.dir, s.socketDir} {
		if err := s.owner.take(dir); err != nil {
			return nil, fmt.Errorf("give %s to the server's user: %w", dir, err)
		}
	}
	s.port, err = freePort()
	return s, err
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// initDB creates the data folder. The locale is C, so that order and messages are the same on every machine.
func (s *Server) initDB(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, filepath.Join(s.opts.Binaries.Dir, "initdb"), "--pgdata", s.dataDir(), "--username", User,
		"--encoding", "UTF8", "--locale", "C", "--auth", "reject", "--no-sync")
	cmd.Dir = s.dir
	s.owner.run(cmd)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("run initdb as %s in %s: %w: %s", s.owner, s.dir, err, lastLine(out))
	}
	const hba = "# Written by Trunkline: loopback only, so without passwords.\n" +
		"local all,replication all trust\nhost all,replication all 127.0.0.1/32 trust\n"
	if err := os.WriteFile(filepath.Join(s.dataDir(), "pg_hba.conf"), []byte(hba), 0o600); err != nil {
		return err
	}
	return s.owner.take(filepath.Join(s.dataDir(), "pg_hba.conf"))
}

// configFlags returns the settings as flags of the postgres program: the port changes from start to start.
func (s *Server) configFlags() []string {
	settings := map[string]string{
		"listen_addresses":        "127.0.0.1",
		"port":                    strconv.Itoa(s.port),
		"unix_socket_directories": s.socketDir,
		"wal_level":               "logical",
		"max_wal_senders":         "40",
		"max_replication_slots":   "40",
		"max_connections":         "150",
		"max_worker_processes":    "8",
		"shared_buffers":          "64MB",
		"timezone":                "UTC",
		"log_timezone":            "UTC",
		"lc_messages":             "C",
		"logging_collector":       "off",
		"cluster_name":            "trunkline",
	}
	if s.opts.Unsafe {
		maps.Copy(settings, map[string]string{"fsync": "off", "full_page_writes": "off"})
	}
	maps.Copy(settings, s.opts.Settings)
	var flags []string
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		flags = append(flags, "-c", name+"="+settings[name])
	}
	return flags
}

// start runs the server and waits until it answers.
func (s *Server) start(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	run, err := startProcess(filepath.Join(s.opts.Binaries.Dir, "postgres"), append([]string{"-D", s.dataDir()}, s.configFlags()...), s.dir, s.LogFile(), s.owner)
	if err != nil {
		return err
	}
	for {
		err := s.probe(ctx)
		if err == nil {
			break
		}
		select {
		case <-run.done:
			text := readTail(s.LogFile())
			if bytes.Contains(text, []byte("Address already in use")) {
				return fmt.Errorf("port %d: %w", s.port, syscall.EADDRINUSE)
			}
			return fmt.Errorf("the server ended at once: %s", lastLine(text))
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("wait for the server: %w", err), run.kill())
		case <-time.After(probeEvery):
		}
	}
	s.run = run
	return s.startGuard()
}

// probe reports whether the server answers, and that it is ours and not one that took the port.
func (s *Server) probe(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, s.DSN("postgres"))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	var dir string
	if err := conn.QueryRow(ctx, "SHOW data_directory").Scan(&dir); err != nil {
		return err
	}
	if dir != s.dataDir() {
		return errors.New("another server answers on its port")
	}
	return nil
}

// halt ends the server process if there is one.
func (s *Server) halt() error {
	if s.run == nil {
		return nil
	}
	err := s.run.stop(stopTimeout)
	s.run = nil
	return err
}

// removeFolders removes what prepare created for this run alone.
func (s *Server) removeFolders() {
	if s.temporary {
		os.RemoveAll(s.dir)
	}
	if s.socketDir != s.dir {
		os.RemoveAll(s.socketDir)
	}
}

func lastLine(text []byte) string {
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return lines[len(lines)-1]
}

// readTail returns the end of a file, empty when it cannot be read.
func readTail(file string) []byte {
	f, err := os.Open(file)
	if err != nil {
		return nil
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > 4096 {
		f.Seek(-4096, io.SeekEnd)
	}
	text, _ := io.ReadAll(f)
	return text
}
