package elasticsearch

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"
	"unicode"

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

// SinkConfig is the settings of a sink of type elasticsearch.
type SinkConfig struct {
	URL      string `yaml:"url"` // https://host:9200
	User     string `yaml:"user"`
	Password string `yaml:"password"`
	APIKey   string `yaml:"api_key"` // Elasticsearch: in place of user and password

	secure.TLS `yaml:",inline"`

	Index string        `yaml:"index"` // template with {schema}, {table}, {database}, {topic}; {schema}.{table}
	Retry time.Duration `yaml:"retry"` // how long documents that the store is too busy for are sent again before the batch is given back; 1m

	// Write is upsert (a document for each row) or append (one for each change). Default upsert.
	Write string `yaml:"write"`

	// Deletes is apply (documents go), soft (they stay and their _deleted says so; with append one more that is marked) or
	// ignore. Default apply, with append ignore.
	Deletes string `yaml:"deletes"`

	// Schema says whether missing indexes and fields are made: its add. Mappings are never changed otherwise.
	Schema connectors.SchemaPolicy `yaml:"schema"` // evolve
}

// Connector returns the type elasticsearch, which covers OpenSearch. It has no source.
func Connector() connectors.Connector {
	return connectors.NewSink("elasticsearch", decodeSink, open, check)
}

func decodeSink(decode connectors.Decode) (*SinkConfig, error) {
	c := &SinkConfig{Index: "{schema}.{table}", Retry: time.Minute, Schema: connectors.FollowAll(connectors.Evolve)}
	return c, decode(c)
}

// Validate checks the settings.
func (c *SinkConfig) Validate() error {
	errs := []error{c.TLS.Validate(), c.Schema.Validate()}
	if u, err := url.Parse(c.URL); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		errs = append(errs, errors.New("url is not http://host:9200 or https://host:9200"))
	}
	if c.APIKey != "" && (c.User != "" || c.Password != "") {
		errs = append(errs, errors.New("api_key excludes user and password"))
	}
	if !strings.Contains(c.Index, "{table}") && !strings.Contains(c.Index, "{topic}") {
		errs = append(errs, errors.New("index must contain {table} or {topic}, so that no two tables share an index"))
	}
	errs = append(errs, c.validateWrite())
	if c.Retry < 0 {
		errs = append(errs, errors.New("retry must not be negative"))
	}
	return errors.Join(errs...)
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

// index returns the name of the index of a table. What a name of an index may not hold, capitals among it, becomes % and
// the two digits of each byte, so that no two tables have one index.
func (c *SinkConfig) index(stream string, t *connectors.Table) string {
	topic, _ := connectors.SplitStream(stream)
	name := strings.NewReplacer("{database}", t.Database, "{schema}", t.Schema, "{table}", t.Name, "{topic}", topic).Replace(c.Index)
	name = strings.TrimPrefix(name, ".") // a table without a schema
	var b strings.Builder
	for i, r := range name {
		if unicode.IsUpper(r) || r <= ' ' || strings.ContainsRune(`\/*?"<>|,#:%`, r) || i == 0 && strings.ContainsRune("-_+", r) {
			for _, x := range []byte(string(r)) {
				b.WriteString("%" + hex.EncodeToString([]byte{x}))
			}
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// check looks whether the store answers.
func check(ctx context.Context, c *SinkConfig, _ connectors.Env) ([]connectors.Finding, error) {
	client, err := c.client()
	if err != nil {
		return nil, err
	}
	defer client.close()
	var health struct{ Status string }
	if err := client.json(ctx, "GET", "/_cluster/health", nil, &health); err != nil {
		return nil, fmt.Errorf("look at elasticsearch: %w", err)
	}
	if health.Status == "red" {
		return []connectors.Finding{{Severity: connectors.Warning, Subject: "cluster", Problem: "its health is red: some indexes take no documents", Remedy: "GET _cluster/allocation/explain"}}, nil
	}
	return nil, nil
}
