//go:build unix

package endtoend

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/trunkline/trunkline/log/kafka/localcluster"
	"github.com/trunkline/trunkline/pipeline/api"
)

// What is said of a topic's copies is what the brokers say: all three hold it, and when one is killed, it leads nothing and
// is not up to date. Three brokers take long to start; the test of one stands in cluster_test.go.
func TestKilledBrokerShowsInTheDescriptionOfATopic(t *testing.T) {
	t.Parallel()
	if os.Getenv("TRUNKLINE_SOAK") == "" {
		t.Skip("three brokers take minutes to start on two cores; TRUNKLINE_SOAK=1 runs it, and the test of one broker runs always")
	}
	cluster, log := onCluster(t, 3)
	l := newLineOn(t, log+"  replication: 3\n", "  in: {type: memory}\n", fileSink)
	if code, out := l.run("topics", "create", "orders", "--partitions", "3"); code != 0 {
		t.Fatalf("topics create ended with %d: %s", code, out)
	}
	produce := exec.Command(l.self, "produce", "orders", "-f", l.config)
	produce.Stdin = strings.NewReader("a\nb\nc\nd\n")
	if out, err := produce.CombinedOutput(); err != nil {
		t.Fatalf("produce: %v: %s", err, out)
	}
	all := []int32{1, 2, 3}
	eventually(t, "three brokers have all records", func() bool { return described(l, "orders", 4, all, all) })
	if err := cluster.KillBroker(1); err != nil {
		t.Fatal(err)
	}
	eventually(t, "two brokers lead and are up to date, and the one that was killed still counts as a replica", func() bool {
		return described(l, "orders", 4, all, []int32{1, 3})
	})
}

// held is how many offsets of a topic its cluster has.
func held(t *testing.T, c *localcluster.Cluster, topic string) (sum int64) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(c.Addresses...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	for sign, list := range map[int64]func(context.Context, ...string) (kadm.ListedOffsets, error){-1: admin.ListStartOffsets, 1: admin.ListEndOffsets} {
		offsets, err := list(t.Context(), topic)
		if err == nil {
			err = offsets.Error()
		}
		if err != nil {
			t.Fatal(err)
		}
		offsets.Each(func(o kadm.ListedOffset) { sum += sign * o.Offset })
	}
	return sum
}

// described reports whether a topic is described as holding that many records in partitions that all have these replicas,
// of which these are up to date and one leads, in a table as in JSON.
func described(l *line, topic string, records int64, replicas, inSync []int32) bool {
	l.t.Helper()
	code, out := l.run("topics", "describe", topic, "--json")
	var t api.Topic
	if code != 0 || json.Unmarshal([]byte(out), &t) != nil || len(t.Partitions) == 0 || t.Records != records {
		return false
	}
	_, table := l.run("topics", "describe", topic)
	sum := int64(0)
	for _, p := range t.Partitions {
		sum += p.HighWatermark - p.LogStart
		if p.Leader == nil || !slices.Contains(inSync, *p.Leader) ||
			!slices.Equal(slices.Sorted(slices.Values(p.Replicas)), replicas) || !slices.Equal(slices.Sorted(slices.Values(p.InSync)), inSync) {
			return false
		}
		row := []string{fmt.Sprint(p.Partition), fmt.Sprint(*p.Leader), commas(p.Replicas), commas(p.InSync), fmt.Sprint(p.LogStart), fmt.Sprint(p.HighWatermark)}
		if !slices.ContainsFunc(strings.Split(table, "\n"), func(line string) bool {
			fields := strings.Fields(line)
			return len(fields) > len(row) && slices.Equal(fields[:len(row)], row)
		}) {
			return false
		}
	}
	return sum == records
}

func commas(ids []int32) string {
	var out []string
	for _, id := range ids {
		out = append(out, fmt.Sprint(id))
	}
	return strings.Join(out, ",")
}
