package postgres

import (
	"errors"
	"fmt"
	"strings"

	"github.com/trunkline/trunkline/connectors"
)

// SinkConfig are the settings of a PostgreSQL sink.
type SinkConfig struct {
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

	// Table is where a table lands. {schema}, {table} and {database} stand for the source's names; the first dot outside
	// braces parts schema from table. A table whose source has no schema lands in public.
	Table string `yaml:"table"`

	// Write is upsert (insert, update and delete by key; a table without a key is followed row by row) or append
	// (each row image becomes one more row; columns that an update did not carry are named in the column _unchanged,
	// which schema: evolve adds when it is first needed).
	Write string `yaml:"write"`

	// Deletes is apply (rows go), soft (rows stay, the boolean column _deleted says so) or ignore.
	// The default is apply for upsert and ignore for append, which has no rows to remove.
	Deletes string `yaml:"deletes"`

	// Schema is what happens when the target does not fit the source's table: evolve, lenient, freeze or ignore, in one
	// word or for each kind of change (connectors.SchemaPolicy).
	Schema connectors.SchemaPolicy `yaml:"schema"`

	// Role is replica (the session has session_replication_role = replica, as PostgreSQL's own subscriptions do: foreign
	// keys are not checked again, and only those triggers fire that are ENABLE REPLICA or ALWAYS, because the rows that
	// they wrote in the source come by themselves) or origin. A user that may not set it is origin.
	Role string `yaml:"replication_role"`

	// Unrepresentable is what happens to a value that a column of the target cannot hold: text, null or dead_letter
	// (connectors.Unrepresentable).
	Unrepresentable connectors.Unrepresentable `yaml:"unrepresentable"`

	// Offsets is the schema that holds the table _trunkline_offsets; default public.
	Offsets string `yaml:"offsets_schema"`
}

// Values of SinkConfig's choices.
const (
	writeUpsert = "upsert"
	writeAppend = "append"

	deletesApply  = "apply"
	deletesSoft   = "soft"
	deletesIgnore = "ignore"

	roleReplica = "replica"
	roleOrigin  = "origin"

	defaultTable  = "{schema}.{table}"
	defaultSchema = "public"

	// softColumn tells in a target with deletes: soft whether the source still has the row.
	softColumn = "_deleted"

	// unchangedColumn names, in a target with write: append, the columns that a row's change did not carry.
	unchangedColumn = "_unchanged"
)

// DefaultSinkConfig returns the settings of a sink that has only a DSN.
func DefaultSinkConfig() SinkConfig {
	return SinkConfig{Table: defaultTable, Write: writeUpsert, Schema: connectors.FollowAll(connectors.Evolve), Role: roleReplica, Offsets: defaultSchema,
		Unrepresentable: connectors.UnrepresentableDeadLetter}
}

// Validate checks the settings offline and settles the defaults that depend on others.
func (c *SinkConfig) Validate() error {
	if c.DSN == "" && c.Host == "" {
		return errors.New("dsn or host is missing")
	}
	if _, err := c.address().config(); err != nil {
		return err
	}
	var err error
	if c.Deletes, err = connectors.SettleDeletes(c.Write, c.Deletes); err != nil {
		return err
	}
	if err := c.Schema.Validate(); err != nil {
		return err
	}
	if err := oneOf("replication_role", c.Role, roleReplica, roleOrigin); err != nil {
		return err
	}
	if err := c.Unrepresentable.Validate(); err != nil {
		return err
	}
	if c.Offsets == "" {
		return errors.New("offsets_schema is empty")
	}
	if _, err := parseTemplate(c.Table); err != nil {
		return fmt.Errorf("table: %w", err)
	}
	return nil
}

func oneOf(key, value string, allowed ...string) error {
	for _, a := range allowed {
		if value == a {
			return nil
		}
	}
	return fmt.Errorf("%s: %q is not one of %s", key, value, strings.Join(allowed, ", "))
}

// template names the target of a table.
type template struct {
	schema, table string
}

// parseTemplate parts a template into its schema and its table.
func parseTemplate(text string) (template, error) {
	depth, dot := 0, -1
	for i := range len(text) {
		switch text[i] {
		case '{':
			end := strings.IndexByte(text[i:], '}')
			if end < 0 {
				return template{}, fmt.Errorf("%q: a brace is not closed", text)
			}
			if name := text[i+1 : i+end]; name != "schema" && name != "table" && name != "database" {
				return template{}, fmt.Errorf("%q: {%s} is not one of {schema}, {table}, {database}", text, name)
			}
			depth++
		case '}':
			depth--
		case '.':
			if depth == 0 && dot < 0 {
				dot = i
			}
		}
	}
	t := template{table: text[dot+1:]}
	if dot >= 0 {
		t.schema = text[:dot]
	}
	if t.table == "" {
		return template{}, fmt.Errorf("%q names no table", text)
	}
	return t, nil
}

// expand returns the schema and name of the target of a table.
func (t template) expand(table *connectors.Table) (schema, name string) {
	r := strings.NewReplacer("{schema}", table.Schema, "{table}", table.Name, "{database}", table.Database)
	if schema = r.Replace(t.schema); schema == "" {
		schema = defaultSchema
	}
	return schema, r.Replace(t.table)
}

func (c *SinkConfig) address() address {
	return address{dsn: c.DSN, host: c.Host, port: c.Port, user: c.User, password: c.Password, database: c.Database,
		tls: c.TLS, rootCert: c.SSLRootCert, cert: c.SSLCert, key: c.SSLKey}
}
