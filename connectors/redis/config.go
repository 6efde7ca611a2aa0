package redis

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/secure"
)

// Format is what a row becomes.
type Format string

// The formats.
const (
	Hash   Format = "hash"
	JSON   Format = "json"
	Stream Format = "stream"
)

// SinkConfig is the settings of a sink of type redis.
type SinkConfig struct {
	DSN      string `yaml:"dsn"` // redis:// or rediss://user:password@host:port/number
	Host     string `yaml:"host"`
	Port     int    `yaml:"port"` // 6379
	User     string `yaml:"user"`
	Password string `yaml:"password"`
	Database int    `yaml:"database"` // the number of the database; 0

	secure.TLS `yaml:",inline"`

	// Format is hash (one field for each column; NULL is no field), json (a string with a JSON object) or stream (one entry
	// for each change). Default hash.
	Format Format `yaml:"format"`

	// Key names the key of a row; {schema}, {table}, {database}, {topic} and {key} stand for what they say. Default
	// {schema}.{table}:{key}, for a stream {topic}.
	Key string `yaml:"key"`

	// Write is upsert (a key for each row) or, for format: stream alone, append (an entry for each change). It is what the
	// format does.
	Write string `yaml:"write"`

	// Deletes is apply (keys go), soft (they stay and the field _deleted says so) or ignore. A stream has an entry for each
	// delete, or none with ignore. Default apply.
	Deletes   string `yaml:"deletes"`
	MaxLength int64  `yaml:"max_length"` // stream: entries that it keeps, about; 0: all
}

const (
	writeUpsert   = "upsert"
	writeAppend   = "append"
	applyDeletes  = "apply"
	softDeletes   = "soft"
	ignoreDeletes = "ignore"
)

// Connector returns the type redis. It has no source.
func Connector() connectors.Connector {
	return connectors.NewSink("redis", decodeSink, open, check)
}

func decodeSink(decode connectors.Decode) (*SinkConfig, error) {
	c := &SinkConfig{Format: Hash, Deletes: applyDeletes}
	return c, decode(c)
}

// Validate checks the settings and fills in the key.
func (c *SinkConfig) Validate() error {
	errs := []error{c.TLS.Validate()}
	switch {
	case c.DSN == "" && c.Host == "":
		errs = append(errs, errors.New("dsn is missing; or set host"))
	case c.DSN != "" && (c.Host != "" || c.Port != 0 || c.User != "" || c.Password != "" || c.Database != 0):
		errs = append(errs, errors.New("dsn excludes host, port, user, password and database"))
	case c.DSN != "":
		if _, err := redis.ParseURL(c.DSN); err != nil {
			errs = append(errs, errors.New("dsn is not redis://user:password@host:port/number or rediss://…"))
		}
	}
	if c.Database < 0 {
		errs = append(errs, errors.New("database must be a number from 0"))
	}
	switch c.Format {
	case Hash, JSON:
		if c.Key == "" {
			c.Key = "{schema}.{table}:{key}"
		}
		if !strings.Contains(c.Key, "{key}") || !strings.Contains(c.Key, "{table}") && !strings.Contains(c.Key, "{topic}") {
			errs = append(errs, errors.New("key must contain {key}, and {table} or {topic}, so that no two rows have one key"))
		}
		if c.MaxLength != 0 {
			errs = append(errs, errors.New("max_length is for format: stream"))
		}
	case Stream:
		if c.Key == "" {
			c.Key = "{topic}"
		}
		if strings.Contains(c.Key, "{key}") {
			errs = append(errs, errors.New("key of a stream must not contain {key}: its entries are changes of all rows"))
		}
	default:
		errs = append(errs, errors.New("format is not one of hash, json, stream"))
	}
	for rest := c.Key; ; {
		_, after, ok := strings.Cut(rest, "{")
		if !ok {
			break
		}
		name, behind, _ := strings.Cut(after, "}")
		switch name {
		case "schema", "table", "database", "topic", "key":
		default:
			errs = append(errs, fmt.Errorf("key has {%s}, which is not one of {schema}, {table}, {database}, {topic}, {key}", name))
		}
		rest = behind
	}
	errs = append(errs, c.validateWrite())
	if c.MaxLength < 0 {
		errs = append(errs, errors.New("max_length must not be negative"))
	}
	return errors.Join(errs...)
}

// validateWrite checks what becomes of changes and deletes against the format, and fills in what is empty.
func (c *SinkConfig) validateWrite() error {
	switch {
	case c.Deletes != applyDeletes && c.Deletes != softDeletes && c.Deletes != ignoreDeletes:
		return errors.New("deletes is not one of apply, soft, ignore")
	case c.Write != "" && c.Write != writeUpsert && c.Write != writeAppend:
		return errors.New("write is not one of upsert, append")
	case c.Format == Stream && c.Write == writeUpsert:
		return errors.New("write: upsert is for format: hash and format: json; a stream has an entry for each change")
	case c.Format == Stream && c.Deletes == softDeletes:
		return errors.New("deletes: soft is for format: hash and format: json; an entry of a stream says in op that its row is gone")
	case c.Format != Stream && c.Write == writeAppend:
		return errors.New("write: append needs format: stream, which has an entry for each change; a key for each would fill the memory and have no order")
	}
	if c.Write = writeUpsert; c.Format == Stream {
		c.Write = writeAppend
	}
	return nil
}

const (
	dialTimeout  = 10 * time.Second
	replyTimeout = 60 * time.Second // a transaction of a whole batch is one reply
)

// silence keeps the library from writing to standard error: what it says there comes back as an error too.
var silence = sync.OnceFunc(func() { redis.SetLogger(&logging.VoidLogger{}) })

// client returns a client with one connection, which retries nothing: that is the pipeline's.
func (c *SinkConfig) client() (*redis.Client, error) {
	o, mode := &redis.Options{}, "disable"
	if c.DSN != "" {
		var err error
		if o, err = redis.ParseURL(c.DSN); err != nil {
			return nil, errors.New("open redis: dsn is not a redis URL")
		}
		if o.TLSConfig != nil {
			mode = "verify-full"
		}
	} else {
		port := 6379
		if c.Port != 0 {
			port = c.Port
		}
		o.Addr, o.Username, o.Password, o.DB = net.JoinHostPort(c.Host, strconv.Itoa(port)), c.User, c.Password, c.Database
	}
	host, _, err := net.SplitHostPort(o.Addr)
	if err != nil {
		host = o.Addr
	}
	if o.TLSConfig, err = c.Config(host, mode); err != nil {
		return nil, fmt.Errorf("open redis: %w", err)
	}
	silence()
	o.Protocol, o.PoolSize, o.MaxRetries, o.DialerRetries = 2, 1, -1, 1
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.ContextTimeoutEnabled = dialTimeout, replyTimeout, replyTimeout, true
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return redis.NewClient(o), nil
}
