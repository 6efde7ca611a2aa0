package kafka

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/secure"
)

const (
	applyDeletes  = "apply"
	ignoreDeletes = "ignore"
)

// SASL is how to log in.
type SASL struct {
	Mechanism string `yaml:"mechanism"` // PLAIN | SCRAM-SHA-256 | SCRAM-SHA-512
	User      string `yaml:"user"`
	Password  string `yaml:"password"`
}

// Cluster says where the brokers are, and how to log in.
type Cluster struct {
	Brokers []string `yaml:"brokers"` // host:port

	secure.TLS `yaml:",inline"`
	SASL       *SASL `yaml:"sasl"` // none
}

func (c *Cluster) validate() error {
	errs := []error{c.TLS.Validate()}
	if len(c.Brokers) == 0 {
		errs = append(errs, errors.New("brokers is missing: a list of host:port"))
	}
	for i, b := range c.Brokers {
		if _, _, err := net.SplitHostPort(b); err != nil {
			errs = append(errs, fmt.Errorf("brokers has entry %d, which is not host:port", i+1))
		}
	}
	if c.SASL != nil {
		if _, err := c.SASL.mechanism(); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// SinkConfig is the settings of a sink of type kafka.
type SinkConfig struct {
	Cluster `yaml:",inline"`

	Topic       string `yaml:"topic"`       // template with {topic}, {schema}, {table}, {database}; {topic}
	Partitions  int    `yaml:"partitions"`  // of topics that are made; what the brokers are set to
	Replication int    `yaml:"replication"` // of topics that are made; what the brokers are set to
	Deletes     string `yaml:"deletes"`     // apply | ignore; apply
	Tombstones  bool   `yaml:"tombstones"`  // after each delete a record of its key without a value, for compacted topics
}

// Connector returns the type kafka.
func Connector() connectors.Connector {
	return connectors.AddSource(connectors.NewSink("kafka", decodeSink, open, check), decodeSource, openSource, checkSource)
}

func decodeSink(decode connectors.Decode) (*SinkConfig, error) {
	c := &SinkConfig{Topic: "{topic}", Deletes: applyDeletes}
	return c, decode(c)
}

// Validate checks the settings.
func (c *SinkConfig) Validate() error {
	errs := []error{c.Cluster.validate()}
	if c.Topic == "" {
		errs = append(errs, errors.New("topic is empty"))
	}
	if c.Partitions < 0 || c.Replication < 0 {
		errs = append(errs, errors.New("partitions and replication must not be negative"))
	}
	if c.Deletes != applyDeletes && c.Deletes != ignoreDeletes {
		errs = append(errs, errors.New("deletes is not one of apply, ignore"))
	}
	return errors.Join(errs...)
}

func (s *SASL) mechanism() (sasl.Mechanism, error) {
	switch s.Mechanism {
	case "PLAIN":
		return plain.Auth{User: s.User, Pass: s.Password}.AsMechanism(), nil
	case "SCRAM-SHA-256":
		return scram.Auth{User: s.User, Pass: s.Password}.AsSha256Mechanism(), nil
	case "SCRAM-SHA-512":
		return scram.Auth{User: s.User, Pass: s.Password}.AsSha512Mechanism(), nil
	}
	return nil, errors.New("sasl.mechanism is not one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512")
}

const (
	requestTime = 30 * time.Second // for an answer before the pipeline tries again
	recordTime  = 2 * time.Minute  // for the records of a batch to be taken
	maxBytes    = 64 << 20         // of a record; the brokers' own limit is less as a rule
)

// client returns a client with more options.
func (c *Cluster) client(more ...kgo.Opt) (*kgo.Client, error) {
	opts := []kgo.Opt{
		kgo.SeedBrokers(c.Brokers...), kgo.ClientID("trunkline"), kgo.DisableClientMetrics(), kgo.RetryTimeout(requestTime),
		kgo.ProducerBatchMaxBytes(maxBytes), kgo.BrokerMaxWriteBytes(2 * maxBytes),
		kgo.ProducerLinger(0), kgo.MetadataMinAge(100 * time.Millisecond),
	}
	host, _, err := net.SplitHostPort(c.Brokers[0])
	if err != nil {
		return nil, fmt.Errorf("open kafka: %w", err)
	}
	config, err := c.Config(host, "disable")
	if err != nil {
		return nil, fmt.Errorf("open kafka: %w", err)
	}
	if config != nil {
		if c.TLS.TLS == "verify-full" {
			config.ServerName = "" // each broker has its own
		}
		opts = append(opts, kgo.DialTLSConfig(config))
	}
	if c.SASL != nil {
		mechanism, err := c.SASL.mechanism()
		if err != nil {
			return nil, err
		}
		opts = append(opts, kgo.SASL(mechanism))
	}
	client, err := kgo.NewClient(append(opts, more...)...)
	if err != nil {
		return nil, fmt.Errorf("open kafka: %w", err)
	}
	return client, nil
}

// topic returns where a change goes. Characters that the name of a topic may not have become underscores.
func (c *SinkConfig) topic(stream string, t *connectors.Table) string {
	topic, _ := connectors.SplitStream(stream)
	if c.Topic == "{topic}" {
		return topic
	}
	if t == nil {
		t = &connectors.Table{}
	}
	name := strings.NewReplacer("{topic}", topic, "{database}", t.Database, "{schema}", t.Schema, "{table}", t.Name).Replace(c.Topic)
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '_' || r == '-' {
			return r
		}
		return '_'
	}, name)
}

// check looks whether the brokers answer, and whether the sink's topic of positions can be.
func check(ctx context.Context, c *SinkConfig, _ connectors.Env) ([]connectors.Finding, error) {
	client, err := c.client()
	if err != nil {
		return nil, err
	}
	defer client.Close()
	brokers, err := kadm.NewClient(client).ListBrokers(ctx)
	if err != nil {
		return nil, fmt.Errorf("look at kafka: %w", err)
	}
	if c.Replication > len(brokers) {
		return []connectors.Finding{{Severity: connectors.Fatal, Subject: "replication", Problem: fmt.Sprintf("it is %d and there are %d brokers", c.Replication, len(brokers)), Remedy: "set it lower"}}, nil
	}
	return nil, nil
}
