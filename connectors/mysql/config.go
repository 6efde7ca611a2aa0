package mysql

import (
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"github.com/trunkline/trunkline/connectors"
)

// SourceConfig are the settings of a MySQL or MariaDB source.
type SourceConfig struct {
	DSN         string `yaml:"dsn"`         // mysql://user:password@host:3306/database; or the single settings below
	Host        string `yaml:"host"`        // a name, an address, or the path of a unix socket
	Port        int    `yaml:"port"`        // default 3306
	User        string `yaml:"user"`        //
	Password    string `yaml:"password"`    //
	Database    string `yaml:"database"`    // the one that is current after connecting; tables have their own
	TLS         string `yaml:"tls"`         // disable, require, verify-ca, verify-full; default: what the DSN says, else disable
	SSLRootCert string `yaml:"sslrootcert"` // the file of the authority's certificate
	SSLCert     string `yaml:"sslcert"`     // the file of our certificate
	SSLKey      string `yaml:"sslkey"`      // the file of its key

	// Mode is cdc (the binary log) or timestamp (the rows whose cursor is newer, again and again).
	Mode       string        `yaml:"mode"`
	Poll       time.Duration `yaml:"poll"`        // mode timestamp: how often a run begins; default 1s
	NullCursor string        `yaml:"null_cursor"` // mode timestamp: rows whose cursor is NULL: first or skip; default first
	Settle     time.Duration `yaml:"settle"`      // mode timestamp: how old rows are that are read without the right PROCESS; default 60s

	Deletes      string            `yaml:"deletes"`       // mode timestamp: ignore, or detect compares the keys; default ignore
	DeletesEvery connectors.Timing `yaml:"deletes_every"` // mode timestamp: when they are compared; default 1h

	// Tables are the tables to read: names (database.table), globs, or objects with columns, key and topic. The first
	// entry that matches a table counts. The server's own databases never match.
	Tables  []connectors.TableSpec `yaml:"tables"`
	Exclude []string               `yaml:"exclude"` // globs of tables to leave out

	// Snapshot is initial (rows that are there first, then changes), never (only changes) or only (rows that are
	// there, then the end).
	Snapshot        string          `yaml:"snapshot"`
	SnapshotWorkers int             `yaml:"snapshot_workers"` // connections that read the snapshot; default 2
	SnapshotBuffer  connectors.Size `yaml:"snapshot_buffer"`  // of one worker; default 16MiB
	SnapshotChunk   int             `yaml:"snapshot_chunk"`   // rows that one query of the snapshot reads, about; default 50000

	// Altered is what happens when a statement has changed rows without an event for each: resync reads the table anew, warn
	// says so.
	Altered string `yaml:"altered"` // default resync

	ServerID uint32 `yaml:"server_id"` // what we call ourselves as a replica; default: derived from the source's name and address
	GTID     string `yaml:"gtid"`      // auto (where the server has them), on, off (file and position); default auto

	Heartbeat time.Duration `yaml:"heartbeat"` // how often a position without changes is stored; default 10s
	Silence   time.Duration `yaml:"silence"`   // how long a server may say nothing before it counts as lost; default 30s

	margin time.Duration // boundMargin; tests in which nothing is open make it shorter
}

// Values of SourceConfig's choices.
const (
	modeCDC       = "cdc"
	modeTimestamp = "timestamp"

	snapshotInitial = "initial"
	snapshotNever   = "never"
	snapshotOnly    = "only"

	gtidAuto = "auto"
	gtidOn   = "on"
	gtidOff  = "off"

	maxWorkers = 64
)

// DefaultSourceConfig returns the settings of a source that has only a DSN and tables.
func DefaultSourceConfig() SourceConfig {
	return SourceConfig{
		Mode:            modeCDC,
		Poll:            time.Second,
		NullCursor:      nullFirst,
		Settle:          time.Minute,
		Deletes:         deletesIgnore,
		DeletesEvery:    connectors.Every(time.Hour),
		margin:          boundMargin,
		Snapshot:        snapshotInitial,
		SnapshotWorkers: 2,
		SnapshotBuffer:  16 << 20,
		SnapshotChunk:   50_000,
		Altered:         alteredResync,
		GTID:            gtidAuto,
		Heartbeat:       10 * time.Second,
		Silence:         30 * time.Second,
	}
}

// Validate checks the settings offline.
func (c *SourceConfig) Validate() error {
	if c.DSN == "" && c.Host == "" {
		return errors.New("dsn or host is missing")
	}
	if _, err := c.address().endpoint(); err != nil {
		return err
	}
	if err := errors.Join(choice("mode", c.Mode, modeCDC, modeTimestamp),
		choice("snapshot", c.Snapshot, snapshotInitial, snapshotNever, snapshotOnly),
		choice("gtid", c.GTID, gtidAuto, gtidOn, gtidOff),
		choice("altered", c.Altered, alteredResync, alteredWarn)); err != nil {
		return err
	}
	if c.SnapshotWorkers < 1 || c.SnapshotWorkers > maxWorkers {
		return fmt.Errorf("snapshot_workers is %d; it can be 1 to %d", c.SnapshotWorkers, maxWorkers)
	}
	if c.SnapshotChunk < 1 {
		return errors.New("snapshot_chunk must be at least 1")
	}
	if len(c.Tables) == 0 {
		return errors.New("tables is missing: list the tables to read, as database.table or as globs (shop.*)")
	}
	for i := range c.Tables {
		if err := validateTable(&c.Tables[i], c.Mode); err != nil {
			return err
		}
	}
	if c.Mode == modeTimestamp {
		if err := c.validateExtract(); err != nil {
			return err
		}
	}
	if slices.Contains(c.Exclude, "") {
		return errors.New("exclude has an empty pattern")
	}
	if c.Heartbeat <= 0 || c.Silence <= 0 {
		return errors.New("heartbeat and silence must be longer than nothing")
	}
	return nil
}

func validateTable(t *connectors.TableSpec, mode string) error {
	if err := t.Validate(); err != nil {
		return fmt.Errorf("tables: %w", err)
	}
	if !strings.Contains(t.Name, ".") && !strings.Contains(t.Name, "*") {
		return fmt.Errorf("tables: name %q has no database; write it as database.table", t.Name)
	}
	if (t.Where != "" || t.Query != "") && mode == modeCDC {
		return fmt.Errorf("tables: where and query of %q belong to mode timestamp; the binary log cannot be filtered by it", t.Name)
	}
	return nil
}

func choice(name, value string, options ...string) error {
	if slices.Contains(options, value) {
		return nil
	}
	return fmt.Errorf("%s is %q; it can be %s", name, value, strings.Join(options, ", "))
}

// spec returns the entry for a table, nil when it is not to be read.
func (c *SourceConfig) spec(n tableName) *connectors.TableSpec {
	if strings.HasPrefix(n.name, "_trunkline_") || slices.Contains(systemSchemas, strings.ToLower(n.schema)) {
		return nil
	}
	full := n.full()
	for _, pattern := range c.Exclude {
		if connectors.MatchName(pattern, full) {
			return nil
		}
	}
	for i := range c.Tables {
		if c.Tables[i].Matches(full) {
			return &c.Tables[i]
		}
	}
	return nil
}

// systemSchemas are the databases that the server keeps for itself.
var systemSchemas = []string{"mysql", "information_schema", "performance_schema", "sys"}

// serverID returns the number that we register with. The derived one lies above 2^28, where people rarely number their
// servers, and differs with the source's name and the server's address.
func (c *SourceConfig) serverID(source string) uint32 {
	if c.ServerID != 0 {
		return c.ServerID
	}
	h := fnv.New32a()
	h.Write([]byte(source + "\x00" + c.DSN + "\x00" + c.Host))
	return 1<<28 | h.Sum32()>>2
}

func (c *SourceConfig) address() address {
	return address{dsn: c.DSN, host: c.Host, port: c.Port, user: c.User, password: c.Password, database: c.Database,
		tls: c.TLS, rootCert: c.SSLRootCert, cert: c.SSLCert, key: c.SSLKey}
}
