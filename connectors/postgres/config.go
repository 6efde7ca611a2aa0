package postgres

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/trunkline/trunkline/connectors"
)

// SourceConfig are the settings of a PostgreSQL source.
type SourceConfig struct {
	DSN         string `yaml:"dsn"`         // a connection URL or key=value pairs; or the single settings below
	Host        string `yaml:"host"`        //
	Port        int    `yaml:"port"`        // default 5432
	User        string `yaml:"user"`        //
	Password    string `yaml:"password"`    //
	Database    string `yaml:"database"`    // default: the user's name
	TLS         string `yaml:"tls"`         // disable, require, verify-ca, verify-full; default: what the DSN says
	SSLRootCert string `yaml:"sslrootcert"` // the file of the authority's certificate
	SSLCert     string `yaml:"sslcert"`     // the file of our certificate
	SSLKey      string `yaml:"sslkey"`      // the file of its key

	// Mode is cdc (logical replication) or timestamp (the rows whose cursor is newer, again and again).
	Mode       string        `yaml:"mode"`
	Poll       time.Duration `yaml:"poll"`        // mode timestamp: how often a run begins; default 1s
	NullCursor string        `yaml:"null_cursor"` // mode timestamp: rows whose cursor is NULL: first or skip; default first

	// Deletes says whether mode timestamp looks for rows that are gone: ignore, or detect, which compares all keys with
	// those that are known when DeletesEvery says.
	Deletes      string            `yaml:"deletes"`       // default ignore
	DeletesEvery connectors.Timing `yaml:"deletes_every"` // default 1h

	// Scan says whether a run of mode timestamp looks at the whole table (always), at the part from the cursor of the
	// oldest open transaction on (never), or at the whole while that is cheap (auto). Only the whole table finds a row
	// whose cursor is older than the transaction that wrote it by more than Settle.
	Scan   string        `yaml:"scan"`   // default auto
	Settle time.Duration `yaml:"settle"` // default 60s

	// Tables are the tables to read: names (schema.table), globs, or objects with columns, where, key and topic. The
	// first entry that matches a table counts. A table without an own entry in a schema that PostgreSQL keeps for
	// itself never matches.
	Tables  []connectors.TableSpec `yaml:"tables"`
	Exclude []string               `yaml:"exclude"` // globs of tables to leave out

	// Snapshot is initial (rows that are there first, then changes), never (only changes) or only (rows that are
	// there, then the end).
	Snapshot        string          `yaml:"snapshot"`
	SnapshotWorkers int             `yaml:"snapshot_workers"` // connections that read the snapshot; default 2
	SnapshotBuffer  connectors.Size `yaml:"snapshot_buffer"`  // of one worker; default 16MiB

	// Altered is what happens when an ALTER changed rows without a word in the stream: resync (the table is read anew) or
	// warn.
	Altered string `yaml:"altered"` // default resync

	// DDL is what happens to statements that change the schema: ignore, or capture, which makes event triggers that put
	// them into the stream.
	DDL string `yaml:"ddl"` // default ignore

	// Protocol is the version of pgoutput's protocol, 1 to 4; default the newest of 1 and 2 that the server has. Streaming
	// says whether the server sends large transactions in parts before they end; from protocol 2 on.
	Protocol  int  `yaml:"protocol"`
	Streaming bool `yaml:"streaming"` // default true

	Slot        string `yaml:"slot"`        // default: trunkline_ and the source's name
	Publication string `yaml:"publication"` // default: likewise

	Heartbeat time.Duration `yaml:"heartbeat"` // how often a position without changes is stored; default 10s
	Rescan    time.Duration `yaml:"rescan"`    // how often new tables are looked for; default 30s
	Silence   time.Duration `yaml:"silence"`   // how long a server may say nothing before it counts as lost; default 30s
}

// Values of SourceConfig's choices.
const (
	modeCDC       = "cdc"
	modeTimestamp = "timestamp"

	snapshotInitial = "initial"
	snapshotNever   = "never"
	snapshotOnly    = "only"

	alteredResync = "resync"
	alteredWarn   = "warn"

	ddlIgnore  = "ignore"
	ddlCapture = "capture"

	maxWorkers  = 64
	maxProtocol = 4
)

// DefaultSourceConfig returns the settings of a source that has only a DSN and tables.
func DefaultSourceConfig() SourceConfig {
	return SourceConfig{
		Mode:            modeCDC,
		Snapshot:        snapshotInitial,
		Altered:         alteredResync,
		DDL:             ddlIgnore,
		Streaming:       true,
		SnapshotWorkers: 2,
		SnapshotBuffer:  16 << 20,
		Heartbeat:       10 * time.Second,
		Rescan:          30 * time.Second,
		Silence:         30 * time.Second,
		Poll:            defaultPoll,
		Settle:          defaultSettle,
		Deletes:         deletesIgnore,
		DeletesEvery:    connectors.Every(time.Hour),
	}
}

var slotName = regexp.MustCompile(`^[a-z0-9_]{1,63}$`)

// Validate checks the settings offline.
func (c *SourceConfig) Validate() error {
	if c.DSN == "" && c.Host == "" {
		return errors.New("dsn or host is missing")
	}
	if _, err := c.address().config(); err != nil {
		return err
	}
	if err := choice("mode", c.Mode, modeCDC, modeTimestamp); err != nil {
		return err
	}
	if err := c.validateExtract(); err != nil {
		return err
	}
	if err := choice("snapshot", c.Snapshot, snapshotInitial, snapshotNever, snapshotOnly); err != nil {
		return err
	}
	if err := choice("altered", c.Altered, alteredResync, alteredWarn); err != nil {
		return err
	}
	if err := choice("ddl", c.DDL, ddlIgnore, ddlCapture); err != nil {
		return err
	}
	if c.Protocol < 0 || c.Protocol > maxProtocol {
		return fmt.Errorf("protocol is %d; it can be 1 to %d", c.Protocol, maxProtocol)
	}
	if c.SnapshotWorkers < 1 || c.SnapshotWorkers > maxWorkers {
		return fmt.Errorf("snapshot_workers is %d; it can be 1 to %d", c.SnapshotWorkers, maxWorkers)
	}
	if len(c.Tables) == 0 {
		return errors.New("tables is missing: list the tables to read, as schema.table or as globs (public.*)")
	}
	for i := range c.Tables {
		if err := c.validateTable(&c.Tables[i]); err != nil {
			return err
		}
	}
	for _, pattern := range c.Exclude {
		if pattern == "" {
			return errors.New("exclude has an empty pattern")
		}
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"heartbeat", c.Heartbeat}, {"rescan", c.Rescan}, {"silence", c.Silence}} {
		if d.value <= 0 {
			return fmt.Errorf("%s must be longer than nothing", d.name)
		}
	}
	if c.Slot != "" && !slotName.MatchString(c.Slot) {
		return fmt.Errorf("slot %q is no name of a slot: 1 to 63 lower-case letters, digits and underscores", c.Slot)
	}
	if len(c.Publication) > 63 {
		return errors.New("publication has a name of more than 63 bytes")
	}
	return nil
}

func (c *SourceConfig) validateTable(t *connectors.TableSpec) error {
	if err := t.Validate(); err != nil {
		return fmt.Errorf("tables: %w", err)
	}
	if !strings.Contains(t.Name, ".") && !strings.Contains(t.Name, "*") {
		return fmt.Errorf("tables: name %q has no schema; write it as schema.table", t.Name)
	}
	if t.Query != "" && c.Mode != modeTimestamp {
		return fmt.Errorf("tables: query of %q belongs to mode timestamp", t.Name)
	}
	if t.Query != "" {
		return validateQuery(t)
	}
	if t.Cursor == "" && c.Mode == modeTimestamp {
		return fmt.Errorf("tables: %q has no cursor; mode timestamp needs a column that grows with every change: {name: %q, cursor: updated_at}", t.Name, t.Name)
	}
	return nil
}

// spec returns the entry for a table, nil when it is not to be read.
func (c *SourceConfig) spec(full string) *connectors.TableSpec {
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

// named returns a copy in which the slot and the publication have names, derived from the source's.
func (c SourceConfig) named(source string) SourceConfig {
	derived := "trunkline_" + strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '_':
			return r
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		}
		return '_'
	}, source)
	derived = derived[:min(len(derived), 63)]
	if c.Slot == "" {
		c.Slot = derived
	}
	if c.Publication == "" {
		c.Publication = derived
	}
	return c
}

func (c *SourceConfig) address() address {
	return address{dsn: c.DSN, host: c.Host, port: c.Port, user: c.User, password: c.Password, database: c.Database,
		tls: c.TLS, rootCert: c.SSLRootCert, cert: c.SSLCert, key: c.SSLKey}
}
