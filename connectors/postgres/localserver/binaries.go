package localserver

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// BinDirVar names the environment variable that overrides where the server's programs are looked for.
const BinDirVar = "TRUNKLINE_PG_BIN"

// ErrNotFound says that this machine has no PostgreSQL server, and what to install. It is one line.
var ErrNotFound = errors.New("find postgresql: no server programs on this machine; install them (Debian and Ubuntu: apt-get install postgresql; " +
	"macOS: brew install postgresql@17; Fedora: dnf install postgresql-server) or set " + BinDirVar + " to their folder")

// Binaries are the programs of one PostgreSQL version.
type Binaries struct {
	Dir     string // holds postgres and initdb
	Version string // as the server states it: 15.18
	Major   int
}

// Find returns the server programs to use: those in $TRUNKLINE_PG_BIN, else in PATH, else the newest version in the
// folders where packages put them. The error is ErrNotFound when there are none.
func Find() (Binaries, error) {
	if dir := os.Getenv(BinDirVar); dir != "" {
		b, err := look(dir)
		if err != nil {
			return Binaries{}, fmt.Errorf("find postgresql in $%s: %w", BinDirVar, err)
		}
		return b, nil
	}
	if file, err := exec.LookPath("postgres"); err == nil {
		if real, err := filepath.EvalSymlinks(file); err == nil {
			file = real
		}
		if b, err := look(filepath.Dir(file)); err == nil {
			return b, nil
		}
	}
	var found []Binaries
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin",          // Debian, Ubuntu
		"/usr/pgsql-*/bin",                   // the PostgreSQL project's RPMs
		"/opt/homebrew/opt/postgresql@*/bin", // Homebrew on Apple silicon
		"/usr/local/opt/postgresql@*/bin",    // Homebrew on Intel
		"/home/linuxbrew/.linuxbrew/opt/postgresql@*/bin",
		"/Applications/Postgres.app/Contents/Versions/*/bin",
		"/usr/local/pgsql/bin", // built from source
	} {
		dirs, _ := filepath.Glob(pattern)
		for _, dir := range dirs {
			if b, err := look(dir); err == nil {
				found = append(found, b)
			}
		}
	}
	if len(found) == 0 {
		return Binaries{}, ErrNotFound
	}
	return slices.MaxFunc(found, func(a, b Binaries) int { return a.Major - b.Major }), nil
}

// Tool returns the path of a client program such as psql or pg_recvlogical: beside the server, else in PATH.
func (b Binaries) Tool(name string) (string, error) {
	if file := filepath.Join(b.Dir, name); isFile(file) {
		return file, nil
	}
	file, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("find %s beside the server or in PATH: %w", name, err)
	}
	return file, nil
}

func look(dir string) (Binaries, error) {
	for _, name := range []string{"postgres", "initdb"} {
		if !isFile(filepath.Join(dir, name)) {
			return Binaries{}, fmt.Errorf("%s has no %s", dir, name)
		}
	}
	// postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)
	out, err := exec.Command(filepath.Join(dir, "postgres"), "--version").Output()
	if err != nil {
		return Binaries{}, fmt.Errorf("ask %s/postgres for its version: %w", dir, err)
	}
	fields := strings.Fields(string(out))
	if len(fields) < 3 {
		return Binaries{}, fmt.Errorf("ask %s/postgres for its version: no version in its answer", dir)
	}
	major, err := strconv.Atoi(strings.TrimRight(strings.SplitN(fields[2], ".", 2)[0], "abcdefghijklmnopqrstuvwxyz"))
	if err != nil {
		return Binaries{}, fmt.Errorf("ask %s/postgres for its version: %q is none", dir, fields[2])
	}
	return Binaries{Dir: dir, Version: fields[2], Major: major}, nil
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
