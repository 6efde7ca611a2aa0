package kafka_test

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/log/conformance"
	"github.com/trunkline/trunkline/log/kafka"
)

// fake starts a cluster inside the test process.
func fake(t *testing.T, opts ...kfake.Opt) []string {
	t.Helper()
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c.ListenAddrs()
}

func open(t *testing.T, o kafka.Options) *kafka.Log {
	t.Helper()
	l, err := kafka.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestConformance(t *testing.T) {
	brokers := fake(t)
	conformance.Run(t, func(t *testing.T) log.Log { return open(t, kafka.Options{Brokers: brokers}) },
		conformance.Features{Reopen: reopen(brokers)})
}

func reopen(brokers []string) func(*testing.T, log.Log) log.Log {
	return func(t *testing.T, l log.Log) log.Log {
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		return open(t, kafka.Options{Brokers: brokers})
	}
}
