package localserver

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// BinDirVar and MySQLDirVar name the environment variables that override where the servers' programs are looked for.
const (
	BinDirVar   = "TRUNKLINE_MARIADB_BIN"
	MySQLDirVar = "TRUNKLINE_MYSQL_DIR"
)

// ErrNotFound says that this machine has no MariaDB server, and what to install. It is one line.
var ErrNotFound = errors.New("find mariadb: no server programs on this machine; install them (Debian and Ubuntu: apt-get install mariadb-server; " +
	"macOS: brew install mariadb; Fedora: dnf install mariadb-server) or set " + BinDirVar + " to their folder")

// ErrNoMySQL says that this machine has no MySQL server, and what to do. It is one line.
var ErrNoMySQL = errors.New("find mysql: no server program on this machine; run scripts/setup, which fetches one for Linux on x86-64, or set " +
	MySQLDirVar + " to a folder with mysqld, share and data, the folder of a new server")

// Binaries are the programs of one version of MariaDB or MySQL.
type Binaries struct {
	Server  string // mariadbd, or mysqld
	Install string // mariadb-install-db; empty with MySQL
	Version string // as the server states it: 10.11.19-MariaDB
	mysql   string // of MySQL, the folder that has all of it: mysqld, share, data; empty: MariaDB
}

// Find returns the server programs to use: those in $TRUNKLINE_MARIADB_BIN, else in PATH or where packages put them. The
// error is ErrNotFound when there are none.
func Find() (Binaries, error) {
	dirs := filepath.SplitList(os.Getenv("PATH"))
	dirs = append(dirs, "/usr/sbin", "/usr/local/sbin", "/usr/libexec", "/opt/homebrew/opt/mariadb/bin", "/usr/local/opt/mariadb/bin",
		"/home/linuxbrew/.linuxbrew/opt/mariadb/bin", "/usr/local/mysql/bin", "/usr/bin")
	if dir := os.Getenv(BinDirVar); dir != "" {
		dirs = []string{dir}
	}
	var b Binaries
	for _, dir := range dirs {
		if file := filepath.Join(dir, "mariadbd"); b.Server == "" && isFile(file) {
			b.Server = file
		}
		for _, sub := range []string{"", "scripts", "../scripts"} {
			if file := filepath.Join(dir, sub, "mariadb-install-db"); b.Install == "" && isFile(file) {
				b.Install = file
			}
		}
	}
	if b.Server == "" || b.Install == "" {
		return Binaries{}, ErrNotFound
	}
	return b, b.ask()
}

// FindMySQL returns the MySQL server that scripts/setup has fetched, or the one in $TRUNKLINE_MYSQL_DIR. The error is
// ErrNoMySQL when there is none.
func FindMySQL() (Binaries, error) {
	dirs := []string{"/usr/local/lib/trunkline/mysql-5.6"}
	if home, err := os.UserCacheDir(); err == nil {
		dirs = append(dirs, filepath.Join(home, "trunkline", "mysql-5.6"))
	}
	if dir := os.Getenv(MySQLDirVar); dir != "" {
		dirs = []string{dir}
	}
	for _, dir := range dirs {
		if file := filepath.Join(dir, "mysqld"); isFile(file) {
			b := Binaries{Server: file, mysql: dir}
			return b, b.ask()
		}
	}
	return Binaries{}, ErrNoMySQL
}

// ask asks the program for its version.
func (b *Binaries) ask() error {
	// mariadbd  Ver 10.11.19-MariaDB-0+deb12u1 for debian-linux-gnu on x86_64 (Debian 12)
	cmd := exec.Command(b.Server, "--no-defaults", "--version")
	cmd.Env = b.env()
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("ask %s for its version: %w", b.Server, err)
	}
	if _, after, ok := strings.Cut(string(out), "Ver "); ok {
		b.Version, _, _ = strings.Cut(after, " ")
	}
	return nil
}

// env is what the program runs with: MySQL's folder has a library that not every machine has.
func (b *Binaries) env() []string {
	if b.mysql == "" {
		return nil
	}
	return append(os.Environ(), "LD_LIBRARY_PATH="+b.mysql)
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
