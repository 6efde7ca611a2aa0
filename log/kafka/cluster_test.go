package kafka_test

import (
	"errors"
	"os"
	"testing"

	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/log/conformance"
	"github.com/trunkline/trunkline/log/kafka"
	"github.com/trunkline/trunkline/log/kafka/localcluster"
)

// cluster starts real brokers, or fails the test with a line that says what is missing; TRUNKLINE_SKIP_CLIENTS leaves it out.
func cluster(t *testing.T, brokers int) *localcluster.Cluster {
	t.Helper()
	return startCluster(t, localcluster.Options{Brokers: brokers})
}

func startCluster(t *testing.T, o localcluster.Options) *localcluster.Cluster {
	t.Helper()
	if testing.Short() {
		t.Skip("a real broker takes seconds to start")
	}
	c, err := localcluster.Start(t.Context(), t.TempDir(), o)
	if errors.Is(err, localcluster.ErrNotFound) && os.Getenv("TRUNKLINE_SKIP_CLIENTS") != "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func TestConformanceOfRealBroker(t *testing.T) {
	c := cluster(t, 1)
	conformance.Run(t, func(t *testing.T) log.Log { return open(t, kafka.Options{Brokers: c.Addresses}) },
		conformance.Features{Reopen: reopen(c.Addresses)})
}
