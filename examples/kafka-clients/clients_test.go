// Package kafkaclients holds small programs that use the log through Kafka's clients, unchanged but for host and port.
// Its test runs them, and Kafka's own tools, against a running trunkline serve.
package kafkaclients

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// skip is what leaves these tests out on machines without the clients.
const skip = "TRUNKLINE_SKIP_CLIENTS"

var program = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "trunkline-clients")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "trunkline")
	out, err := exec.Command("go", "build", "-o", path, "../../cmd/trunkline").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build trunkline: %w: %s", err, out)
	}
	return path, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if path, err := program(); err == nil {
		os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(code)
}

// daemon is a running trunkline serve.
type daemon struct {
	t       *testing.T
	dir     string
	address string
	process int
}

// serve starts one; settings are lines of the log's part of the configuration.
func serve(t *testing.T, settings string) *daemon {
	t.Helper()
	if os.Getenv(skip) != "" {
		t.Skip(skip + " is set")
	}
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	d := &daemon{t: t, dir: t.TempDir()}
	text := fmt.Sprintf("log:\n  dir: log\n  listen: 127.0.0.1:0\n%shttp: {listen: off}\n", settings)
	if err := os.WriteFile(filepath.Join(d.dir, "pipelines.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "serve", "--log", "plain")
	cmd.Dir = d.dir
	output := &said{}
	cmd.Stdout, cmd.Stderr = output, output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	d.process = cmd.Process.Pid
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		if err := <-ended; err != nil {
			t.Errorf("serve: %v: %s", err, output)
		}
	})
	for deadline := time.Now().Add(2 * time.Minute); d.address == ""; time.Sleep(10 * time.Millisecond) {
		if m := regexp.MustCompile(`clients can connect to (\S+)`).FindStringSubmatch(output.String()); m != nil {
			d.address = m[1]
		} else if time.Now().After(deadline) {
			t.Fatalf("serve does not listen: %s", output)
		}
	}
	return d
}

// said is what a process prints, to be read while it runs.
type said struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *said) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(b)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// run runs a program with the address in its environment and returns what it prints.
func (d *daemon) run(input string, environment []string, name string, args ...string) string {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(append(os.Environ(), "BOOTSTRAP="+d.address, "STATE="+d.t.TempDir()), environment...)
	cmd.Stdin = strings.NewReader(input)
	var problems strings.Builder
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil {
		d.t.Fatalf("%s %s: %v: %s%s", filepath.Base(name), strings.Join(args, " "), err, out, problems.String())
	}
	return string(out)
}

// python finds an interpreter that has the clients.
func python(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"python3", "/usr/bin/python3"} {
		if exec.Command(name, "-c", "import kafka, confluent_kafka, google.protobuf").Run() == nil {
			return name
		}
	}
	t.Fatalf("python3 with kafka, confluent_kafka and protobuf is missing: run scripts/setup, or set %s", skip)
	return ""
}

func TestPythonClients(t *testing.T) {
	t.Parallel()
	d := serve(t, "")
	interpreter := python(t)
	for _, script := range []string{"kafka_python.py", "confluent.py"} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			inner := *d
			inner.t = t
			t.Log(inner.run("", nil, interpreter, script))
		})
	}
}

// TestNewestLibrdkafka runs confluent-kafka of a release that knows groups whose partitions the broker assigns.
func TestNewestLibrdkafka(t *testing.T) {
	t.Parallel()
	d := serve(t, "")
	dir := installed(t, "confluent/confluent_kafka")
	for _, script := range []string{"confluent.py", "consumer_protocol.py"} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			inner := *d
			inner.t = t
			t.Log(inner.run("", []string{"PYTHONPATH=" + filepath.Dir(dir)}, python(t), script))
		})
	}
}

// installed returns where scripts/setup-clients has put something.
func installed(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("../../bin", name))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("bin/%s is missing: run scripts/setup, or set %s", name, skip)
	}
	return path
}

func TestKafkajs(t *testing.T) {
	t.Parallel()
	d := serve(t, "")
	modules := installed(t, "npm/node_modules/kafkajs")
	t.Log(d.run("", []string{"NODE_PATH=" + filepath.Dir(modules)}, "node", "kafkajs.js"))
}

// TestSarama builds its program first: it is a module of its own, so that nothing of it is in Trunkline's.
func TestSarama(t *testing.T) {
	t.Parallel()
	d := serve(t, "")
	built := filepath.Join(t.TempDir(), "sarama")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-C", "sarama", "-o", built, ".").CombinedOutput(); err != nil {
		t.Fatalf("build the program with sarama; its modules come with scripts/setup, or set %s: %v: %s", skip, err, out)
	}
	t.Log(d.run("", nil, built))
}

// users are who login.py and kafkajs_login.js log in as.
const users = "  users:\n    - {name: ada, password: correct horse}\n    - {name: bob, password: battery staple, access: read}\n"

func TestKafkajsLogsIn(t *testing.T) {
	t.Parallel()
	d := serve(t, users)
	modules := installed(t, "npm/node_modules/kafkajs")
	t.Log(d.run("", []string{"NODE_PATH=" + filepath.Dir(modules)}, "node", "kafkajs_login.js"))
}

func TestPythonClientsLogIn(t *testing.T) {
	t.Parallel()
	d := serve(t, users)
	interpreter := python(t)
	t.Log(d.run("", nil, interpreter, "login.py"))
	// Java asks for the versions before it logs in.
	settings := filepath.Join(t.TempDir(), "client.properties")
	text := "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\nsasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule " +
		"required username=\"bob\" password=\"battery staple\";\n"
	if err := os.WriteFile(settings, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out := d.java("", topicsTool, "--bootstrap-server", d.address, "--command-config", settings, "--list"); !strings.Contains(out, "login") {
		t.Errorf("kafka-topics --list, logged in: %s", out)
	}
}

func TestKcat(t *testing.T) {
	t.Parallel()
	d := serve(t, "")
	if _, err := exec.LookPath("kcat"); err != nil {
		t.Fatalf("kcat is missing: run scripts/setup, or set %s", skip)
	}
	for number, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		d.run("k1:v1\nk2:v2\nk3:v3\n", nil, "kcat", "-b", d.address, "-P", "-t", "t", "-K:", "-z", codec)
		value := strings.Repeat("long ", 200)
		d.run(value, nil, "kcat", "-b", d.address, "-P", "-t", "z-"+codec, "-p", "0", "-z", codec)
		stored, err := os.ReadFile(filepath.Join(d.dir, "log", "z-"+codec+"-0", fmt.Sprintf("%020d.log", 0)))
		const attributes = 22 // of a batch; the codec is in its three lowest bits
		if err != nil || len(stored) <= attributes || int(stored[attributes]&7) != number {
			t.Errorf("a batch with %s is not stored as it was sent: %d bytes, %v", codec, len(stored), err)
		}
	}
	out := d.run("", nil, "kcat", "-b", d.address, "-C", "-t", "t", "-e", "-q", "-K:")
	if n := strings.Count(out, "\n"); n != 15 || strings.Count(out, "k2:v2") != 5 {
		t.Errorf("kcat read %d lines: %s", n, out)
	}
	if out := d.run("", nil, "kcat", "-b", d.address, "-L"); !strings.Contains(out, `topic "t" with 4 partitions`) {
		t.Errorf("kcat -L: %s", out)
	}
}

// jars returns the class path of Kafka's jars.
func jars(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("java"); err != nil {
		t.Fatalf("java is missing: run scripts/setup, or set %s", skip)
	}
	dir, err := filepath.Abs("../../bin/kafka")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "complete")); err != nil {
		t.Fatalf("Kafka's jars are missing: run scripts/kafka-jars, or set %s", skip)
	}
	return filepath.Join(dir, "*")
}

// quick are flags for Java that save a program of a few seconds half of its time.
var quick = []string{"-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"}

// java runs a class or a source file.
func (d *daemon) java(input, class string, args ...string) string {
	d.t.Helper()
	return d.run(input, nil, "java", slices.Concat(quick, []string{"-cp", jars(d.t), class}, args)...)
}

func TestJavaClients(t *testing.T) {
	t.Parallel()
	d := serve(t, "")
	for _, source := range []string{"Clients.java", "WordCount.java"} {
		t.Log(d.java("", source))
	}
}

// TestJavaClientsOfOtherReleases runs the oldest and the newest client that people use, and the newest in a group whose
// partitions the broker assigns.
func TestJavaClientsOfOtherReleases(t *testing.T) {
	t.Parallel()
	d := serve(t, "")
	for _, c := range []struct{ name, release, protocol string }{
		{"2.6", "2.6.3", ""}, {"4.1", "4.1.0", ""}, {"4.1 and the consumer protocol", "4.1.0", "consumer"},
	} {
		classes := release(t, c.release)
		t.Run(c.name, func(t *testing.T) {
			inner := *d
			inner.t = t
			environment := []string{"TOPIC=java-" + strings.ReplaceAll(c.name, " ", "-")}
			if c.protocol != "" {
				environment = append(environment, "GROUP_PROTOCOL="+c.protocol)
			}
			t.Log(inner.run("", environment, "java", slices.Concat(quick, []string{"-cp", classes, "Clients.java"})...))
		})
	}
}

// release returns the class path of the clients of a release.
func release(t *testing.T, version string) string {
	t.Helper()
	classes := []string{installed(t, "kafka-clients/kafka-clients-"+version+".jar")}
	for _, library := range []string{"slf4j-api-*", "lz4-*", "snappy-*", "zstd-*"} {
		found, err := filepath.Glob(filepath.Join(filepath.Dir(jars(t)), library+".jar"))
		if err != nil || len(found) == 0 {
			t.Fatalf("no %s among Kafka's jars: %v", library, err)
		}
		classes = append(classes, found...)
	}
	return strings.Join(classes, string(filepath.ListSeparator))
}

// TestGroupMigratesBetweenProtocols lets members of the classic and of the consumer protocol of Java's newest client take
// each other's place in one group.
func TestGroupMigratesBetweenProtocols(t *testing.T) {
	t.Parallel()
	d := serve(t, "")
	t.Log(d.run("", nil, "java", slices.Concat(quick, []string{"-cp", release(t, "4.1.0"), "Migrate.java"})...))
}

// Names of Kafka's tools.
const (
	topicsTool   = "org.apache.kafka.tools.TopicCommand"
	produceTool  = "kafka.tools.ConsoleProducer"
	consumeTool  = "org.apache.kafka.tools.consumer.ConsoleConsumer"
	groupsTool   = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
	transactTool = "org.apache.kafka.tools.TransactionsCommand"
	offsetsTool  = "org.apache.kafka.tools.GetOffsetShell"
	dumpTool     = "kafka.tools.DumpLogSegments"
	produceBench = "org.apache.kafka.tools.ProducerPerformance"
	consumeBench = "org.apache.kafka.tools.ConsumerPerformance"
	connectTool  = "org.apache.kafka.connect.cli.ConnectStandalone"
)

func TestKafkasOwnTools(t *testing.T) {
	t.Parallel()
	d := serve(t, "")
	server := []string{"--bootstrap-server", d.address}
	with := func(args ...string) []string { return append(append([]string{}, server...), args...) }
	d.java("", topicsTool, with("--create", "--topic", "orders", "--partitions", "3", "--config", "segment.bytes=65536")...)
	if out := d.java("", topicsTool, with("--describe", "--topic", "orders")...); !strings.Contains(out, "PartitionCount: 3") {
		t.Errorf("kafka-topics --describe: %s", out)
	}
	d.java("k1:v1\nk2:v2\nk3:v3\n", produceTool, with("--topic", "orders", "--property", "parse.key=true", "--property", "key.separator=:")...)
	out := d.java("", consumeTool, with("--topic", "orders", "--from-beginning", "--max-messages", "3", "--group", "console", "--property", "print.key=true")...)
	if !strings.Contains(out, "k1\tv1") || !strings.Contains(out, "k3\tv3") {
		t.Errorf("kafka-console-consumer: %s", out)
	}
	if out := d.java("", groupsTool, with("--timeout", "120000", "--describe", "--group", "console")...); strings.Count(out, "orders") != 3 {
		t.Errorf("kafka-consumer-groups --describe: %s", out)
	}
	d.java("", groupsTool, with("--timeout", "120000", "--reset-offsets", "--to-earliest", "--group", "console", "--topic", "orders", "--execute")...)
	if out := d.java("", groupsTool, with("--timeout", "120000", "--describe", "--group", "console")...); !regexp.MustCompile(`orders +\d +0 +1 +1 `).MatchString(out) {
		t.Errorf("after the reset: %s", out)
	}
	d.java("", groupsTool, with("--timeout", "120000", "--delete", "--group", "console")...)
	if out := d.java("", offsetsTool, with("--topic", "orders")...); !strings.Contains(out, "orders:0:1") {
		t.Errorf("kafka-get-offsets: %s", out)
	}
	d.bench("orders", 50_000)
	d.dump("orders")
}

// TestKafkasTransactionsTool looks with kafka-transactions at a transaction that is open, and aborts it.
func TestKafkasTransactionsTool(t *testing.T) {
	t.Parallel()
	d := serve(t, "")
	client, err := kgo.NewClient(kgo.SeedBrokers(d.address), kgo.TransactionalID("etl"), kgo.TransactionTimeout(10*time.Minute), kgo.AllowAutoTopicCreation(), kgo.DefaultProduceTopic("orders"),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := client.ProduceSync(t.Context(), &kgo.Record{Value: []byte("v")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	id, _, err := client.ProducerID(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"list"}, `etl\s+\S+\s+%d\s+Ongoing`},
		{[]string{"describe", "--transactional-id", "etl"}, `etl\s+%d\s+\d+\s+Ongoing.*orders-0`},
		{[]string{"describe-producers", "--topic", "orders", "--partition", "0"}, `%d\s+\d+\s+\d+\s+0\s+\d+\s+0`},
	} {
		out := d.java("", transactTool, append([]string{"--bootstrap-server", d.address}, c.args...)...)
		if !regexp.MustCompile(fmt.Sprintf(c.want, id)).MatchString(out) {
			t.Errorf("kafka-transactions %s: %s", c.args[0], out)
		}
	}
	d.java("", transactTool, "--bootstrap-server", d.address, "abort", "--topic", "orders", "--partition", "0", "--start-offset", "0")
	reader, err := kgo.NewClient(kgo.SeedBrokers(d.address), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"orders": {0: kgo.NewOffset().AtStart()}}))
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	other, err := kgo.NewClient(kgo.SeedBrokers(d.address), kgo.DefaultProduceTopic("orders"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := other.ProduceSync(t.Context(), &kgo.Record{Value: []byte("behind it")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	waits, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for got := reader.PollFetches(waits); ; got = reader.PollFetches(waits) {
		if got.NumRecords() == 0 && waits.Err() == nil {
			continue
		}
		if r := got.Records(); len(r) != 1 || string(r[0].Value) != "behind it" {
			t.Errorf("after the abort %d records are read: %v", len(r), got.Err())
		}
		break
	}
	if err := client.EndTransaction(t.Context(), kgo.TryCommit); err == nil {
		t.Error("the transaction was committed after it was aborted")
	}
}

// bench runs Kafka's own load on a topic.
func (d *daemon) bench(topic string, n int) {
	d.t.Helper()
	count := fmt.Sprint(n)
	out := d.java("", produceBench, "--topic", topic, "--num-records", count, "--record-size", "100", "--throughput", "-1",
		"--producer-props", "bootstrap.servers="+d.address, "acks=all")
	if !strings.Contains(out, count+" records sent") {
		d.t.Errorf("kafka-producer-perf-test: %s", out)
	}
	d.t.Log(strings.TrimSpace(out))
	d.t.Log(strings.TrimSpace(d.java("", consumeBench, "--bootstrap-server", d.address, "--topic", topic, "--messages", count)))
}

// dump lets kafka-dump-log look at every file of a topic: segments, indexes, time indexes and snapshots.
func (d *daemon) dump(topic string) {
	d.t.Helper()
	var files []string
	for _, pattern := range []string{"*.log", "*.index", "*.timeindex", "*.snapshot"} {
		found, err := filepath.Glob(filepath.Join(d.dir, "log", topic+"-*", pattern))
		if err != nil || len(found) == 0 {
			d.t.Fatalf("no %s: %v", pattern, err)
		}
		files = append(files, found...)
	}
	out := d.java("", dumpTool, "--files", strings.Join(files, ","))
	if bad := regexp.MustCompile(`(?i).*(mismatch|invalid|isvalid: false|exception|out of order|truncated).*`).FindString(out); bad != "" {
		d.t.Errorf("kafka-dump-log complains: %s", bad)
	}
	if n := strings.Count(out, "isvalid: true"); n < 100 {
		d.t.Errorf("kafka-dump-log saw %d batches", n)
	}
}

func TestKafkaConnectWritesAFile(t *testing.T) {
	t.Parallel()
	d := serve(t, "")
	dir := t.TempDir()
	sink := filepath.Join(dir, "sink.txt")
	worker := fmt.Sprintf("bootstrap.servers=%s\nkey.converter=org.apache.kafka.connect.storage.StringConverter\n"+
		"value.converter=org.apache.kafka.connect.storage.StringConverter\noffset.storage.file.filename=%s\noffset.flush.interval.ms=1000\n"+
		"listeners=http://127.0.0.1:0\nplugin.discovery=service_load\n", d.address, filepath.Join(dir, "offsets"))
	connector := fmt.Sprintf("name=lines\nconnector.class=org.apache.kafka.connect.file.FileStreamSinkConnector\ntasks.max=1\ntopics=lines\nfile=%s\n", sink)
	for name, text := range map[string]string{"worker.properties": worker, "connector.properties": connector} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d.run("one\ntwo\nthree\n", nil, "kcat", "-b", d.address, "-P", "-t", "lines")
	cmd := exec.CommandContext(t.Context(), "java", "-Xmx256m", "-cp", jars(t), connectTool,
		filepath.Join(dir, "worker.properties"), filepath.Join(dir, "connector.properties"))
	var output strings.Builder
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	defer func() {
		_ = cmd.Process.Kill()
		<-ended
	}()
	for deadline := time.Now().Add(5 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		b, err := os.ReadFile(sink)
		if err == nil && strings.Count(string(b), "\n") == 3 && strings.Contains(string(b), "two\n") {
			return
		}
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("connect ended: %v: %s", err, output.String())
		default:
		}
		if time.Now().After(deadline) {
			t.Fatalf("the sink holds %q: %s", b, output.String())
		}
	}
}
