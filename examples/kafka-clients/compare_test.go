package kafkaclients

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/trunkline/trunkline/log/kafka/localcluster"
)

// compare is what makes TestCompareWithKafka run, for minutes: the number of rounds.
const compare = "TRUNKLINE_COMPARE"

// compareTime is how long the comparison may take: no round begins that would not end within it.
const compareTime = 11 * time.Minute

// rival is a log that the comparison loads.
type rival struct {
	name    string
	address string
	process int
	config  map[string]*string // of its topics
	beside  int                // the index of the rival that it is to be compared with; its own: none
}

// load is one kind of work.
type load struct{ size, partitions, count int }

func (l load) String() string { return fmt.Sprintf("%d B, %d", l.size, l.partitions) }

// figures are what Kafka's own load measures of one rival.
type figures struct{ produced, p99, consumed []float64 }

// TestCompareWithKafka runs kafka-producer-perf-test and kafka-consumer-perf-test against Kafka and against trunkline serve,
// each as it acknowledges from memory and as it waits for the disk, in turn, and prints the medians and their ratios as the
// table of docs/performance.md.
func TestCompareWithKafka(t *testing.T) {
	rounds, err := strconv.Atoi(os.Getenv(compare))
	if err != nil || rounds < 1 {
		t.Skipf("it takes minutes and wants a quiet machine: set %s to the number of rounds", compare)
	}
	// Kafka's own start script, bin/kafka-server-start.sh, gives these.
	kafka, err := localcluster.Start(t.Context(), t.TempDir(), localcluster.Options{Heap: "1g", Java: []string{"-Xms1g", "-server", "-XX:+UseG1GC",
		"-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent", "-XX:MaxInlineLevel=15"}})
	if err != nil {
		t.Fatal(err)
	}
	defer kafka.Close()
	background, always := serve(t, "  fsync: background\n"), serve(t, "  fsync: always\n")
	each := "1"
	rivals := []rival{
		{"Kafka", kafka.Addresses[0], kafka.Process(0), nil, 0},
		{"Kafka, `flush.messages=1`", kafka.Addresses[0], kafka.Process(0), map[string]*string{"flush.messages": &each}, 1},
		{"`fsync: background`", background.address, background.process, nil, 0},
		{"`fsync: always`", always.address, always.process, nil, 1},
	}
	loads := []load{{100, 1, 1_000_000}, {100, 12, 1_000_000}, {1024, 1, 200_000}, {1024, 12, 200_000}}
	got := make([][]figures, len(loads))
	for i := range got {
		got[i] = make([]figures, len(rivals))
	}
	began, done, longest := time.Now(), 0, time.Duration(0)
	for ; done < rounds && time.Since(began)+longest < compareTime; done++ {
		start := time.Now()
		for i, l := range loads {
			topic := func(rival int) string {
				return fmt.Sprintf("load-%d-%d-%d-%d", l.size, l.partitions, rival, done)
			}
			for j := range rivals {
				always.fill(&rivals[j], l, topic(j), &got[i][j])
			}
			for range reads {
				for j := range rivals {
					always.read(&rivals[j], l, topic(j), &got[i][j])
				}
			}
			for j := range rivals {
				always.drop(&rivals[j], topic(j))
			}
		}
		longest = max(longest, time.Since(start))
	}
	t.Logf("%d of %d rounds in %v, medians; in brackets %s to Kafka, %s to Kafka with flush.messages=1:%s", done, rounds,
		time.Since(began).Round(time.Second), rivals[2].name, rivals[3].name, table(t, rivals, loads, got))
}

// table is what docs/performance.md shows.
func table(t *testing.T, rivals []rival, loads []load, got [][]figures) string {
	out := &strings.Builder{}
	fmt.Fprint(out, "\n| records, partitions | |")
	for _, r := range rivals {
		fmt.Fprintf(out, " %s |", r.name)
	}
	fmt.Fprint(out, "\n|---|---|"+strings.Repeat("---|", len(rivals))+"\n")
	for i, l := range loads {
		row(out, l.String(), "produced, records/s", rivals, func(r int) float64 { return median(got[i][r].produced) })
		row(out, "", "p99, ms", rivals, func(r int) float64 { return median(got[i][r].p99) })
		row(out, "", "consumed, records/s", rivals, func(r int) float64 { return median(got[i][r].consumed) })
	}
	row(out, "memory (RSS) afterwards, MB", "", rivals, func(r int) float64 { return float64(resident(t, rivals[r].process) >> 20) })
	return out.String()
}

func median(values []float64) float64 {
	values = slices.Sorted(slices.Values(values))
	return values[len(values)/2]
}

// row writes the figures of all rivals, and beside those that are compared the ratio.
func row(out *strings.Builder, of, what string, rivals []rival, figure func(rival int) float64) {
	fmt.Fprintf(out, "| %s | %s |", of, what)
	for i, r := range rivals {
		fmt.Fprintf(out, " %.0f", figure(i))
		if r.beside != i {
			fmt.Fprintf(out, " (%.2f)", figure(i)/figure(r.beside))
		}
		fmt.Fprint(out, " |")
	}
	fmt.Fprintln(out)
}

var (
	producedLine = regexp.MustCompile(`records sent, ([0-9.]+) records/sec .* ([0-9.]+) ms 99th`)
	consumedLine = regexp.MustCompile(`(?m)^\d{4}-.*$`)
)

// reads is how often each topic is read in a round, the rivals in turn: one run of the consumer lasts about a second, in which a
// JVM has just begun to be quick.
const reads = 3

func (d *daemon) number(text string) float64 {
	d.t.Helper()
	n, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil {
		d.t.Fatal(err)
	}
	return n
}

// perf runs a tool with the flags that Kafka's scripts give clients, not those that make short programs quick.
func (d *daemon) perf(tool string, args ...string) string {
	d.t.Helper()
	return d.run("", nil, "java", slices.Concat([]string{"-Xmx512m", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-cp", jars(d.t), tool}, args)...)
}

// administer calls f with what makes and removes a rival's topics.
func (d *daemon) administer(r *rival, f func(*kadm.Client) error) {
	d.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(r.address))
	if err != nil {
		d.t.Fatal(err)
	}
	defer client.Close()
	if err := f(kadm.NewClient(client)); err != nil {
		d.t.Fatal(err)
	}
}

// fill makes a topic of a rival and fills it.
func (d *daemon) fill(r *rival, l load, topic string, f *figures) {
	d.t.Helper()
	d.administer(r, func(admin *kadm.Client) error {
		_, err := admin.CreateTopic(d.t.Context(), int32(l.partitions), 1, r.config, topic)
		return err
	})
	out := d.perf(produceBench, "--topic", topic, "--num-records", strconv.Itoa(l.count), "--record-size", strconv.Itoa(l.size), "--throughput", "-1",
		"--producer-props", "bootstrap.servers="+r.address, "acks=all")
	lines := producedLine.FindAllStringSubmatch(out, -1)
	if len(lines) == 0 {
		d.t.Fatalf("kafka-producer-perf-test: %s", out)
	}
	f.produced, f.p99 = append(f.produced, d.number(lines[len(lines)-1][1])), append(f.p99, d.number(lines[len(lines)-1][2]))
}

// read reads a topic of a rival once.
func (d *daemon) read(r *rival, l load, topic string, f *figures) {
	d.t.Helper()
	out := d.perf(consumeBench, "--bootstrap-server", r.address, "--topic", topic, "--messages", strconv.Itoa(l.count))
	fields := strings.Split(consumedLine.FindString(out), ",")
	const fetchRate = 9 // fetch.nMsg.sec: without the time to join the group
	if len(fields) <= fetchRate {
		d.t.Fatalf("kafka-consumer-perf-test: %s", out)
	}
	f.consumed = append(f.consumed, d.number(fields[fetchRate]))
}

// drop removes a topic of a rival.
func (d *daemon) drop(r *rival, topic string) {
	d.t.Helper()
	d.administer(r, func(admin *kadm.Client) error {
		_, err := admin.DeleteTopics(d.t.Context(), topic)
		return err
	})
}

// resident is how much memory a process has, in bytes; 0 where the system has no /proc.
func resident(t *testing.T, process int) int64 {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(process), "status"))
	if err != nil {
		return 0
	}
	m := regexp.MustCompile(`VmRSS:\s+(\d+) kB`).FindSubmatch(b)
	if m == nil {
		t.Fatalf("no VmRSS in the status of process %d", process)
	}
	n, err := strconv.ParseInt(string(m[1]), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n << 10
}
