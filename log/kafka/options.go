package kafka

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/trunkline/trunkline/log"
)

const (
	// requestTime bounds what a broker may take to answer a request that changes something.
	requestTime = 15 * time.Second
	// deliveryTime bounds how long a record may wait for brokers that do not answer.
	deliveryTime = time.Minute
	// closeTime bounds what Close waits for brokers that do not answer.
	closeTime = 5 * time.Second
)

// Options says which cluster, and how. Zero takes the default in the comment.
type Options struct {
	Brokers []string        // host:port
	TLS     *tls.Config     // none
	SASL    SASL            // none
	Logger  *slog.Logger    // silent
	Default log.TopicConfig // what new topics take where their config is zero

	Replication int // copies of each partition of a new topic; the brokers' default.replication.factor
	MinInSync   int // copies that must have a record before it counts; one less than Replication, at least 1

	ConnectTimeout     time.Duration // 15 s
	SessionTimeout     time.Duration // a member that is silent for so long has left its group; 10 s
	RebalanceTimeout   time.Duration // how long a member may take to give partitions up; 5 min
	TransactionTimeout time.Duration // a transaction that is open longer is aborted by the brokers; 15 min
}

// SASL is how to log in.
type SASL struct {
	Mechanism string // PLAIN, SCRAM-SHA-256, SCRAM-SHA-512; empty: none
	User      string
	Password  string
}

// Mechanisms are the values of SASL.Mechanism.
func Mechanisms() []string { return []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"} }

func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&o.ConnectTimeout, 15 * time.Second}, {&o.SessionTimeout, 10 * time.Second},
		{&o.RebalanceTimeout, 5 * time.Minute}, {&o.TransactionTimeout, 15 * time.Minute},
	} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	if o.MinInSync == 0 && o.Replication > 0 {
		o.MinInSync = max(1, o.Replication-1)
	}
	o.Default = completed(o.Default, log.TopicConfig{
		Partitions: 4, Retention: 168 * time.Hour, Compression: new(log.CompressionZstd),
		SegmentBytes: 1 << 30, SegmentAge: 168 * time.Hour, MaxRecordBytes: 64 << 20,
	})
	return o
}

func (o Options) address() string { return strings.Join(o.Brokers, ",") }

// clientOptions are the options of every client of the cluster.
func (o Options) clientOptions() ([]kgo.Opt, error) {
	opts := []kgo.Opt{
		kgo.SeedBrokers(o.Brokers...), kgo.ClientID("trunkline"), kgo.DisableClientMetrics(),
		kgo.WithLogger(slogger{o.Logger}), kgo.RetryTimeout(requestTime), kgo.MetadataMaxAge(time.Minute),
	}
	if o.TLS != nil {
		opts = append(opts, kgo.DialTLSConfig(o.TLS))
	}
	var mechanism sasl.Mechanism
	switch o.SASL.Mechanism {
	case "":
		return opts, nil
	case "PLAIN":
		mechanism = plain.Auth{User: o.SASL.User, Pass: o.SASL.Password}.AsMechanism()
	case "SCRAM-SHA-256":
		mechanism = scram.Auth{User: o.SASL.User, Pass: o.SASL.Password}.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		mechanism = scram.Auth{User: o.SASL.User, Pass: o.SASL.Password}.AsSha512Mechanism()
	default:
		return nil, fmt.Errorf("sasl mechanism %q: not one of %s", o.SASL.Mechanism, strings.Join(Mechanisms(), ", "))
	}
	return append(opts, kgo.SASL(mechanism)), nil
}
