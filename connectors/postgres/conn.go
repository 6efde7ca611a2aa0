package postgres

import (
	"context"
	"errors"
	"fmt"
	network "net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/trunkline/trunkline/connectors"
)

const (
	connectTimeout = 15 * time.Second
	keepAliveIdle  = 15 * time.Second // of TCP, so that a dead peer ends a statement that waits
	keepAliveEvery = 5 * time.Second
	keepAliveCount = 4
)

// tlsModes are those that mean one thing on every connection. allow and prefer, which fall back to plain text, are
// possible in a DSN only.
var tlsModes = []string{"disable", "require", "verify-ca", "verify-full"}

// address is where a server is and how to log in.
type address struct {
	dsn, host                string
	port                     int
	user, password, database string
	tls, rootCert, cert, key string
}

// config returns the settings of a connection. Errors never hold the DSN, which may hold a password.
func (a address) config() (*pgx.ConnConfig, error) {
	if a.tls != "" {
		if err := choice("tls", a.tls, tlsModes...); err != nil {
			return nil, err
		}
	}
	if a.dsn != "" && a.host != "" {
		return nil, errors.New("dsn and host exclude each other")
	}
	extra := map[string]string{"sslmode": a.tls, "sslrootcert": a.rootCert, "sslcert": a.cert, "sslkey": a.key}
	var text string
	switch {
	case strings.HasPrefix(a.dsn, "postgres://"), strings.HasPrefix(a.dsn, "postgresql://"):
		u, err := url.Parse(a.dsn)
		if err != nil {
			return nil, errors.New("dsn is no valid connection URL; special characters in its password must be percent-encoded, or use host, user and password instead")
		}
		q := u.Query()
		for name, value := range extra {
			if value != "" {
				q.Set(name, value)
			}
		}
		u.RawQuery = q.Encode()
		text = u.String()
	default:
		text = a.dsn
		if a.host != "" {
			extra["host"], extra["user"], extra["password"], extra["dbname"] = a.host, a.user, a.password, a.database
			if a.port != 0 {
				extra["port"] = strconv.Itoa(a.port)
			}
		}
		for name, value := range extra {
			if value != "" {
				text += " " + name + "='" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(value) + "'"
			}
		}
	}
	config, err := pgx.ParseConfig(text)
	if err != nil {
		return nil, errors.New(describeParse(a, err))
	}
	config.ConnectTimeout = connectTimeout
	config.DialFunc = (&network.Dialer{KeepAliveConfig: network.KeepAliveConfig{Enable: true, Idle: keepAliveIdle,
		Interval: keepAliveEvery, Count: keepAliveCount}}).DialContext
	return config, nil
}

// describeParse says which setting is wrong, without repeating any.
func describeParse(a address, err error) string {
	text := err.Error()
	for _, word := range []string{"sslmode", "sslrootcert", "sslcert", "sslkey", "port", "CA file", "tls"} {
		if strings.Contains(text, word) {
			problem := "host or a setting beside it is not valid: " + word
			if a.dsn != "" {
				problem = "dsn has a setting that is not valid: " + word
			}
			if word == "sslmode" {
				problem += ", which is one of " + strings.Join(tlsModes, ", ")
			}
			return problem
		}
	}
	if a.dsn == "" {
		return "host, port, user and database do not make a valid connection string"
	}
	return "dsn is no valid connection string; it looks like postgres://user:password@host:5432/database"
}

// sessionSettings are those that change what a value looks like, or that end a long statement. Each is set on every
// connection, whatever the server, the database or the user has set.
var sessionSettings = map[string]string{
	"datestyle":                           "ISO, YMD",
	"intervalstyle":                       "postgres",
	"extra_float_digits":                  "3",
	"bytea_output":                        "hex",
	"timezone":                            "UTC",
	"search_path":                         "", // names of user types and objects always come with their schema
	"lc_monetary":                         "C",
	"client_encoding":                     "UTF8",
	"quote_all_identifiers":               "off",
	"standard_conforming_strings":         "on",
	"row_security":                        "off", // a policy that would hide rows is an error
	"statement_timeout":                   "0",
	"lock_timeout":                        "0",
	"idle_in_transaction_session_timeout": "0",
	"xmlbinary":                           "base64",
}

// dialer opens the connections of one source.
type dialer struct {
	base *pgx.ConnConfig
	name string // of the application
}

func newDialer(config SourceConfig, source string) (*dialer, error) {
	base, err := config.address().config()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", connectors.ErrFatal, err)
	}
	return &dialer{base: base, name: "trunkline " + source}, nil
}

// sql opens a connection for statements.
func (d *dialer) sql(ctx context.Context) (*pgx.Conn, error) {
	config := d.base.Copy()
	d.setup(&config.Config)
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, d.fault(err)
	}
	return conn, nil
}

// replication opens a connection for the commands of the replication protocol.
func (d *dialer) replication(ctx context.Context) (*pgconn.PgConn, error) {
	config := d.base.Config.Copy()
	d.setup(config)
	config.RuntimeParams["replication"] = "database"
	conn, err := pgconn.ConnectConfig(ctx, config)
	if err != nil {
		return nil, d.fault(err)
	}
	return conn, nil
}

func (d *dialer) setup(config *pgconn.Config) {
	for name, value := range sessionSettings {
		config.RuntimeParams[name] = value
	}
	config.RuntimeParams["application_name"] = d.name
}

// fault tells errors that only a person can repair from those that pass.
func (d *dialer) fault(err error) error {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		if strings.Contains(err.Error(), "server refused TLS") {
			return fmt.Errorf("connect: the server has no TLS; switch it on there, or set tls: disable: %w", connectors.ErrFatal)
		}
		if strings.Contains(err.Error(), "x509: ") || strings.Contains(err.Error(), "tls: ") {
			return fmt.Errorf("connect: the server's certificate does not pass tls verification: %w: %w", connectors.ErrFatal, reach(err))
		}
		return reach(err)
	}
	switch {
	case pg.Code == "28P01" || pg.Code == "28000":
		return fmt.Errorf("connect as %q: %s: %w", d.base.User, pg.Message, connectors.ErrFatal)
	case pg.Code == "3D000":
		return fmt.Errorf("connect: %s: %w", pg.Message, connectors.ErrFatal)
	case pg.Code == "42501":
		return fmt.Errorf("connect as %q: %s; the user needs the REPLICATION attribute (ALTER ROLE %s REPLICATION) and CONNECT on the database: %w",
			d.base.User, pg.Message, ident(d.base.User), connectors.ErrFatal)
	}
	return reach(err)
}

// ident quotes names for use in a statement, joined by dots.
func ident(names ...string) string { return pgx.Identifier(names).Sanitize() }

// choice checks a setting that has a closed list of values.
func choice(key, value string, allowed ...string) error {
	if slices.Contains(allowed, value) {
		return nil
	}
	return fmt.Errorf("%s %q is not one of %s", key, value, strings.Join(allowed, ", "))
}

// quoteLiteral doubles quotes for use inside a literal.
func quoteLiteral(text string) string { return strings.ReplaceAll(text, "'", "''") }
