// Package localserver runs a private MariaDB or MySQL server from the programs that are on this machine: for tests, for the
// demo and for benchmarks.
//
// It promises a server that listens on 127.0.0.1 and on a unix socket in its own folder only, with a binary log of row
// images, and that does not outlive the process that started it. Anyone on the machine's loopback may log in as
// root without a password, so it is no place for real data. It installs nothing and touches no other server.
package localserver

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
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

	"github.com/go-sql-driver/mysql"
)

// User is the superuser of every server that this package starts. It has no password.
const User = "root"

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

	// Settings are flags of the server without their dashes (binlog_row_image: MINIMAL), on top of the package's own.
	Settings map[string]string

	// Unsafe turns fsync off: several times faster, and a crash of the machine (not of the server) ruins the data.
	// It is meant for tests.
	Unsafe bool

	// Binaries are the programs to run. Zero: whatever Find returns, which is MariaDB.
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
		return nil, fmt.Errorf("start mariadb: %w", err)
	}
	if _, err := os.Stat(filepath.Join(s.dataDir(), "mysql")); err != nil {
		if err := s.install(ctx); err != nil {
			s.removeFolders()
			return nil, fmt.Errorf("start mariadb: %w", err)
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
		return nil, fmt.Errorf("start mariadb: %w", err)
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

// DSN returns the connection string of a database, over TCP, in the form that Trunkline's configuration has.
func (s *Server) DSN(database string) string {
	u := url.URL{Scheme: "mysql", User: url.User(User), Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)), Path: "/" + database}
	return u.String()
}

// Open returns a pool of connections to a database, with the parameters of go-sql-driver/mysql (multiStatements=true).
func (s *Server) Open(database, params string) (*sql.DB, error) {
	config, err := mysql.ParseDSN(fmt.Sprintf("%s@tcp(127.0.0.1:%d)/%s?%s", User, s.port, database, params))
	if err != nil {
		return nil, fmt.Errorf("open database %q: %w", database, err)
	}
	config.Logger = &mysql.NopLogger{}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, fmt.Errorf("open database %q: %w", database, err)
	}
	return sql.OpenDB(connector), nil
}

// CreateDatabase creates an empty database and returns its connection string.
func (s *Server) CreateDatabase(ctx context.Context, name string) (string, error) {
	if err := s.exec(ctx, "CREATE DATABASE "+quote(name)); err != nil {
		return "", fmt.Errorf("create database %q: %w", name, err)
	}
	return s.DSN(name), nil
}

// DropDatabase drops a database.
func (s *Server) DropDatabase(ctx context.Context, name string) error {
	if err := s.exec(ctx, "DROP DATABASE IF EXISTS "+quote(name)); err != nil {
		return fmt.Errorf("drop database %q: %w", name, err)
	}
	return nil
}

func quote(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }

// Stop ends the server: a shutdown, a kill when clients hold that up. A temporary folder is removed.
// Stopping a stopped server is no error.
func (s *Server) Stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.halt()
	s.endGuard()
	s.removeFolders()
	return err
}

// Kill ends the server with SIGKILL, as a crash does. The data stays: Restart recovers it.
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
		return fmt.Errorf("restart mariadb: %w", err)
	}
	if err := s.start(ctx); err != nil {
		return fmt.Errorf("restart mariadb: %w", err)
	}
	return nil
}

func (s *Server) dataDir() string { return filepath.Join(s.dir, "data") }

// tempDir is the server's own: two servers that begin at once would take each other's temporary tables from a common one.
func (s *Server) tempDir() string { return filepath.Join(s.dir, "tmp") }

func (s *Server) exec(ctx context.Context, statement string) error {
	db, err := s.Open("", "timeout=5s")
	if err != nil {
		return err
	}
	defer db.Close()
	_, err = db.ExecContext(ctx, statement)
	return err
}

// prepare settles the folders, their owner and the port.
func prepare(opts Options) (*Server, error) {
	if opts.Binaries.Server == "" {
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
		if s.dir, err = os.MkdirTemp("", "trunkline-maria-"); err != nil {
			return nil, fmt.Errorf("create temporary folder: %w", err)
		}
		s.temporary = true
	} else if s.dir, err = filepath.Abs(s.dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return nil, err
	}
	for _, path := range []string{s.dir, opts.Binaries.Server} {
		if err := s.owner.reach(path); err != nil {
			return nil, err
		}
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

// install creates the data folder.
func (s *Server) install(ctx context.Context) error {
	for _, dir := range []string{s.dataDir(), s.tempDir()} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		if err := s.owner.take(dir); err != nil {
			return err
		}
	}
	if b := s.opts.Binaries; b.mysql != "" {
		return s.copyNew(filepath.Join(b.mysql, "data"))
	}
	args := []string{"--no-defaults", "--datadir=" + s.dataDir(), "--tmpdir=" + s.tempDir(), "--auth-root-authentication-method=normal", "--skip-test-db",
		"--innodb-log-file-size=8M", "--innodb-use-native-aio=0", "--skip-log-bin"}
	if s.owner != nil {
		args = append(args, "--user="+s.owner.String())
	}
	cmd := exec.CommandContext(ctx, s.opts.Binaries.Install, args...)
	cmd.Dir = s.dir
	s.owner.run(cmd)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("run mariadb-install-db as %s in %s: %w: %s", s.owner, s.dir, err, firstError(out))
	}
	return nil
}

// copyNew makes the data folder from that of a new server, which MySQL 5.6 comes with.
func (s *Server) copyNew(from string) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		part, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		to := filepath.Join(s.dataDir(), part)
		if entry.IsDir() {
			if err := os.MkdirAll(to, 0o755); err != nil {
				return err
			}
			return s.owner.take(to)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := os.WriteFile(to, data, 0o644); err != nil {
			return err
		}
		return s.owner.take(to)
	})
}

// flags returns the settings as flags: the port changes from start to start.
func (s *Server) flags() []string {
	settings := map[string]string{
		"datadir":                        s.dataDir(),
		"tmpdir":                         s.tempDir(),
		"socket":                         filepath.Join(s.socketDir, "mysqld.sock"),
		"pid-file":                       filepath.Join(s.dir, "mysqld.pid"),
		"bind-address":                   "127.0.0.1",
		"port":                           strconv.Itoa(s.port),
		"server-id":                      "1",
		"log-bin":                        "mysql-bin",
		"binlog-format":                  "ROW",
		"skip-name-resolve":              "1",
		"max-connections":                "150",
		"innodb-buffer-pool-size":        "64M",
		"innodb-use-native-aio":          "0", // of which a machine has few
		"innodb-log-file-size":           "32M",
		"performance-schema":             "OFF",
		"default-time-zone":              "+00:00",
		"character-set-server":           "utf8mb4",
		"innodb-flush-log-at-trx-commit": "1",
		"sync-binlog":                    "1",
	}
	if dir := s.opts.Binaries.mysql; dir != "" {
		maps.Copy(settings, map[string]string{"lc-messages-dir": filepath.Join(dir, "share"), "character-sets-dir": filepath.Join(dir, "share", "charsets"),
			"gtid-mode": "ON", "enforce-gtid-consistency": "ON", "log-slave-updates": "ON",
			"innodb-large-prefix": "ON", "innodb-file-format": "Barracuda", // as from 5.7 on: keys of up to 3072 bytes
			"explicit-defaults-for-timestamp": "ON"})
	}
	if s.opts.Unsafe {
		maps.Copy(settings, map[string]string{"innodb-flush-log-at-trx-commit": "0", "sync-binlog": "0", "innodb-doublewrite": "0"})
	}
	for name, value := range s.opts.Settings {
		settings[strings.ReplaceAll(name, "_", "-")] = value
	}
	flags := []string{"--no-defaults"}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		flags = append(flags, "--"+name+"="+settings[name])
	}
	return flags
}

// start runs the server and waits until it answers.
func (s *Server) start(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	run, err := startProcess(&s.opts.Binaries, s.flags(), s.dir, s.LogFile(), s.owner)
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
			return fmt.Errorf("the server ended at once: %s", firstError(text))
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
	db, err := s.Open("", "timeout=1s")
	if err != nil {
		return err
	}
	defer db.Close()
	var dir string
	if err := db.QueryRowContext(ctx, "SELECT @@datadir").Scan(&dir); err != nil {
		return err
	}
	if filepath.Clean(dir) != filepath.Clean(s.dataDir()) {
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

// firstError returns the first line that says ERROR, else the last line.
func firstError(text []byte) string {
	last := ""
	for line := range strings.Lines(string(text)) {
		if last = strings.TrimSpace(line); strings.Contains(last, "ERROR") {
			return last
		}
	}
	return last
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
