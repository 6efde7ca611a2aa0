package mysql

import (
	"errors"
	"fmt"
	"strings"

	"github.com/trunkline/trunkline/connectors"
)

// SinkConfig are the settings of a MySQL or MariaDB sink.
type SinkConfig struct {
	DSN         string `yaml:"dsn"`         // mysql://user:password@host:3306/database; or the single settings below
	Host        string `yaml:"host"`        // a name, an address, or the path of a unix socket
	Port        int    `yaml:"port"`        // default 3306
	User        string `yaml:"user"`        //
	Password    string `yaml:"password"`    //
	Database    string `yaml:"database"`    // where tables without a schema land
	TLS         string `yaml:"tls"`         // disable, require, verify-ca, verify-full; default: what the DSN says, else disable
	SSLRootCert string `yaml:"sslrootcert"` // the file of the authority's certificate
	SSLCert     string `yaml:"sslcert"`     // the file of our certificate
	SSLKey      string `yaml:"sslkey"`      // the file of its key

	// Table is where a table lands: {schema}, {table} and {database} stand for the source's names; the first dot outside
	// braces parts database from table.
	Table string `yaml:"table"`

	// Write is upsert (insert, update and delete by key; a table without a key is followed row by row) or append
	// (each row image becomes one more row; columns that an update did not carry are named in the column _unchanged).
	Write string `yaml:"write"`

	// Deletes is apply (rows go), soft (rows stay, the column _deleted says so) or ignore. The default is apply for
	// upsert and ignore for append, which has no rows to remove.
	Deletes string `yaml:"deletes"`

	// Schema is what happens when the target does not fit the source's table: evolve, lenient, freeze or ignore, in one
	// word or for each kind of change (connectors.SchemaPolicy).
	Schema connectors.SchemaPolicy `yaml:"schema"`

	// Unrepresentable is what happens to a value that a column of the target cannot hold: text, null or dead_letter
	// (connectors.Unrepresentable).
	Unrepresentable connectors.Unrepresentable `yaml:"unrepresentable"`

	// Offsets is the database that holds the table _trunkline_offsets; default: the connection's database.
	Offsets string `yaml:"offsets_database"`
}

// Values of SinkConfig's choices.
const (
	writeUpsert = "upsert"
	writeAppend = "append"

	deletesApply  = "apply"
	deletesSoft   = "soft"
	deletesIgnore = "ignore"

	defaultTable = "{schema}.{table}"

	// softColumn tells in a target with deletes: soft whether the source still has the row.
	softColumn = "_deleted"

	// unchangedColumn names, in a target with write: append, the columns that a row's change did not carry.
	unchangedColumn = "_unchanged"
)

// DefaultSinkConfig returns the settings of a sink that has only a DSN.
func DefaultSinkConfig() SinkConfig {
	return SinkConfig{Table: defaultTable, Write: writeUpsert, Schema: connectors.FollowAll(connectors.Evolve), Unrepresentable: connectors.UnrepresentableDeadLetter}
}

// Validate checks the settings offline and settles the defaults that depend on others.
func (c *SinkConfig) Validate() error {
	if c.DSN == "" && c.Host == "" {
		return errors.New("dsn or host is missing")
	}
	e, err := c.address().endpoint()
	if err != nil {
		return err
	}
	if c.Offsets == "" {
		c.Offsets = e.database
	}
	if c.Offsets == "" {
		return errors.New("database is missing: name one in dsn or database, or set offsets_database; it holds the table " + offsetsTable)
	}
	deletes, err := connectors.SettleDeletes(c.Write, c.Deletes)
	c.Deletes = deletes
	if err := errors.Join(err, c.Schema.Validate(), c.Unrepresentable.Validate()); err != nil {
		return err
	}
	_, err = c.target(&connectors.Table{Schema: "s", Name: "t", Database: "d"}, "d")
	return err
}

// target names the target of a table.
func (c *SinkConfig) target(t *connectors.Table, database string) (tableName, error) {
	schema, table, err := partTemplate(c.Table)
	if err != nil {
		return tableName{}, fmt.Errorf("table: %w", err)
	}
	r := strings.NewReplacer("{schema}", t.Schema, "{table}", t.Name, "{database}", t.Database)
	n := tableName{r.Replace(schema), r.Replace(table)}
	if n.schema == "" {
		n.schema = database
	}
	return n, nil
}

// partTemplate parts a template at the first dot outside braces.
func partTemplate(text string) (schema, table string, err error) {
	dot := -1
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '{':
			end := strings.IndexByte(text[i:], '}')
			if end < 0 {
				return "", "", fmt.Errorf("%q: a brace is not closed", text)
			}
			if name := text[i+1 : i+end]; name != "schema" && name != "table" && name != "database" {
				return "", "", fmt.Errorf("%q: {%s} is not one of {schema}, {table}, {database}", text, name)
			}
			i += end
		case text[i] == '.' && dot < 0:
			dot = i
		}
	}
	table = text[dot+1:]
	if dot >= 0 {
		schema = text[:dot]
	}
	if table == "" {
		return "", "", fmt.Errorf("%q names no table", text)
	}
	return schema, table, nil
}

func (c *SinkConfig) address() address {
	return address{dsn: c.DSN, host: c.Host, port: c.Port, user: c.User, password: c.Password, database: c.Database,
		tls: c.TLS, rootCert: c.SSLRootCert, cert: c.SSLCert, key: c.SSLKey}
}
