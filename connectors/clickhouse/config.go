package clickhouse

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/secure"
)

const (
	writeUpsert   = "upsert"
	writeAppend   = "append"
	applyDeletes  = "apply"
	softDeletes   = "soft"
	ignoreDeletes = "ignore"
)

// SinkConfig is the settings of a sink of type clickhouse.
type SinkConfig struct {
	DSN      string `yaml:"dsn"` // clickhouse://user:password@host:9000/database, or http:// and https:// with port 8123
	Host     string `yaml:"host"`
	Port     int    `yaml:"port"` // 9000
	User     string `yaml:"user"`
	Password string `yaml:"password"`
	Database string `yaml:"database"` // default

	secure.TLS `yaml:",inline"`

	// Table names the target, database.table. {database}, {schema} and {table} stand for the source's names. Without a
	// schema the database is the connection's. Default {schema}.{table}.
	Table string `yaml:"table"`

	// Write is upsert (the newest row of a key is seen) or append (each change is one more row). Default upsert.
	Write string `yaml:"write"`

	// Deletes is apply (rows are seen no more), soft (they stay and _deleted says so; with append one more row that is
	// marked) or ignore. Default apply, with append ignore.
	Deletes string `yaml:"deletes"`

	Schema          connectors.SchemaPolicy    `yaml:"schema"`          // evolve
	Unrepresentable connectors.Unrepresentable `yaml:"unrepresentable"` // dead_letter | text | null; dead_letter
}

// Connector returns the type clickhouse. It has no source.
func Connector() connectors.Connector {
	c := connectors.NewSink("clickhouse", decodeSink, open, check)
	c.SinkBatch.BatchRows = 50_000 // each batch is a part on the server's disk, which has to merge them
	return c
}

func decodeSink(decode connectors.Decode) (*SinkConfig, error) {
	c := &SinkConfig{Table: "{schema}.{table}", Schema: connectors.FollowAll(connectors.Evolve), Unrepresentable: connectors.UnrepresentableDeadLetter}
	return c, decode(c)
}

// Validate checks the settings.
func (c *SinkConfig) Validate() error {
	errs := []error{c.TLS.Validate()}
	switch {
	case c.DSN == "" && c.Host == "":
		errs = append(errs, errors.New("dsn is missing; or set host"))
	case c.DSN != "" && (c.Host != "" || c.Port != 0 || c.User != "" || c.Password != "" || c.Database != ""):
		errs = append(errs, errors.New("dsn excludes host, port, user, password and database"))
	case c.DSN != "":
		if _, err := clickhouse.ParseDSN(c.DSN); err != nil {
			errs = append(errs, errors.New("dsn is not clickhouse://user:password@host:9000/database or http://…:8123/database"))
		}
	}
	if !strings.Contains(c.Table, "{table}") {
		errs = append(errs, errors.New("table must contain {table}, so that no two tables share a target"))
	}
	return errors.Join(append(errs, c.validateWrite(), c.Schema.Validate(), c.Unrepresentable.Validate())...)
}

// validateWrite checks what becomes of changes and deletes, and fills in what is empty.
func (c *SinkConfig) validateWrite() error {
	if c.Write == "" {
		c.Write = writeUpsert
	}
	var err error
	c.Deletes, err = connectors.SettleDeletes(c.Write, c.Deletes)
	return err
}

const (
	dialTimeout = 10 * time.Second
	readTimeout = 5 * time.Minute // an INSERT is answered when its part is written
)

// connect returns a connection, of which the library opens again what breaks. It retries no statement.
func (c *SinkConfig) connect() (driver.Conn, string, error) {
	o := &clickhouse.Options{}
	if c.DSN != "" {
		var err error
		if o, err = clickhouse.ParseDSN(c.DSN); err != nil {
			return nil, "", errors.New("open clickhouse: dsn is not a ClickHouse URL")
		}
	} else {
		port := 9000
		if c.Port != 0 {
			port = c.Port
		}
		o.Addr = []string{net.JoinHostPort(c.Host, strconv.Itoa(port))}
		o.Auth = clickhouse.Auth{Database: c.Database, Username: c.User, Password: c.Password}
	}
	if c.TLS.TLS != "" && len(o.Addr) > 0 {
		host, _, err := net.SplitHostPort(o.Addr[0])
		if err != nil {
			host = o.Addr[0]
		}
		if o.TLS, err = c.Config(host, "disable"); err != nil {
			return nil, "", fmt.Errorf("open clickhouse: %w", err)
		}
	}
	database := o.Auth.Database
	if database == "" {
		database = "default"
	}
	o.DialTimeout, o.ReadTimeout, o.MaxOpenConns, o.MaxIdleConns = dialTimeout, readTimeout, 1, 1
	conn, err := clickhouse.Open(o)
	if err != nil {
		return nil, "", fmt.Errorf("open clickhouse: %w", err)
	}
	return quietConn{conn}, database, nil
}

// name returns the database and table that rows of t go to.
func (c *SinkConfig) name(t *connectors.Table, database string) [2]string {
	schema, table := "", c.Table
	if before, after, ok := strings.Cut(c.Table, "."); ok {
		schema, table = before, after
	}
	fill := strings.NewReplacer("{database}", t.Database, "{schema}", t.Schema, "{table}", t.Name).Replace
	if schema = fill(schema); schema == "" {
		schema = database
	}
	return [2]string{schema, fill(table)}
}
