// Package localcluster starts private Kafka clusters for tests: real brokers in KRaft mode, on loopback, with their data
// in a folder that the test owns.
//
// It promises that a cluster that Start returns can be used, and that Close ends every process that Start began, by its
// id. It downloads nothing: scripts/kafka-jars does. Only tests call it.
package localcluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// JarsVar names the environment variable that overrides where Kafka's jars are looked for.
const JarsVar = "TRUNKLINE_KAFKA_JARS"

// ErrNotFound says what is missing, in one line.
var ErrNotFound = errors.New("find kafka: Java or Kafka's jars are missing; install Java 17 and Maven and run scripts/kafka-jars, or set " + JarsVar)

// clusterID is any 16 bytes in base64; a cluster is told apart by its ports and folder.
const clusterID = "dHJ1bmtsaW5ldHJ1bmtsaQ"

const (
	startTime = 3 * time.Minute // a busy machine starts Java slowly
	pollTime  = 100 * time.Millisecond
)

// Options says what to start. Zero takes the default in the comment.
type Options struct {
	Brokers int      // 1
	Heap    string   // of each broker; 256m
	Java    []string // flags of the brokers' Java; those of a quick start
	Secure  *Secure  // a second listener with TLS and logins; none
}

// Secure is a listener with TLS that wants a login, with each of PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512.
type Secure struct {
	Certificate, Key string // PEM, the key as PKCS #8
	User, Password   string
}

// Cluster is a running cluster.
type Cluster struct {
	Addresses []string // host:port, by broker
	Secure    []string // those of the secure listeners
	nodes     []*node
}

type node struct {
	dir     string
	java    string
	jars    string
	heap    string
	flags   []string
	secure  *Secure
	process *exec.Cmd
	ended   chan struct{} // closed when the process has ended
}

// Find returns the Java program and the folder of the jars; ErrNotFound if one is missing.
func Find() (java, jars string, err error) {
	java, err = exec.LookPath("java")
	if err != nil {
		return "", "", ErrNotFound
	}
	if dir := os.Getenv(JarsVar); dir != "" {
		return java, dir, nil
	}
	dir, err := os.Getwd()
	if err != nil {
		return "", "", fmt.Errorf("find kafka: %w", err)
	}
	for {
		jars = filepath.Join(dir, "bin", "kafka")
		if found, _ := filepath.Glob(filepath.Join(jars, "kafka_2.13-*.jar")); len(found) > 0 {
			return java, jars, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", "", ErrNotFound
		}
		dir = parent
	}
}

// startTries is how often a cluster is started anew after somebody else took one of its ports first.
const startTries = 3

// errPort says that a port which was free is not any more.
var errPort = errors.New("a port was taken in between")

// Start starts a cluster whose data is in dir, and returns when every broker answers.
func Start(ctx context.Context, dir string, o Options) (*Cluster, error) {
	java, jars, err := Find()
	if err != nil {
		return nil, err
	}
	if o.Brokers == 0 {
		o.Brokers = 1
	}
	if o.Heap == "" {
		o.Heap = "256m"
	}
	for try := range startTries {
		var c *Cluster
		c, err = start(ctx, filepath.Join(dir, "try-"+strconv.Itoa(try+1)), o, &node{java: java, jars: jars, heap: o.Heap, flags: o.Java, secure: o.Secure})
		if err == nil {
			return c, nil
		}
		if !errors.Is(err, errPort) {
			break
		}
	}
	return nil, err
}

func start(ctx context.Context, dir string, o Options, like *node) (*Cluster, error) {
	const portsEach = 3
	ports, err := freePorts(portsEach * o.Brokers)
	if err != nil {
		return nil, err
	}
	c := &Cluster{}
	var voters []string
	for i := range o.Brokers {
		own := ports[portsEach*i:]
		c.Addresses = append(c.Addresses, "127.0.0.1:"+strconv.Itoa(own[0]))
		voters = append(voters, fmt.Sprintf("%d@127.0.0.1:%d", i+1, own[1]))
		if o.Secure != nil {
			c.Secure = append(c.Secure, "127.0.0.1:"+strconv.Itoa(own[2]))
		}
	}
	for i := range o.Brokers {
		n := *like
		n.dir = filepath.Join(dir, "broker-"+strconv.Itoa(i+1))
		if err := n.prepare(i+1, ports[portsEach*i:portsEach*(i+1)], voters); err != nil {
			return nil, err
		}
		c.nodes = append(c.nodes, &n)
	}
	for i := range c.nodes {
		if err := c.StartBroker(i); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	if err := c.wait(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// freePorts reserves ports by listening on all of them at once.
func freePorts(n int) ([]int, error) {
	var out []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		defer l.Close()
		out = append(out, l.Addr().(*net.TCPAddr).Port)
	}
	return out, nil
}

// prepare writes a broker's settings and formats its data folder. The ports are that of clients, that of controllers, and
// that of the secure listener.
func (n *node) prepare(id int, ports []int, voters []string) error {
	data := filepath.Join(n.dir, "data")
	if err := os.MkdirAll(data, 0o750); err != nil {
		return fmt.Errorf("prepare broker %d: %w", id, err)
	}
	copies := min(len(voters), 3)
	listeners := "PLAINTEXT://127.0.0.1:" + strconv.Itoa(ports[0])
	if n.secure != nil {
		listeners += ",SECURE://127.0.0.1:" + strconv.Itoa(ports[2])
	}
	settings := fmt.Sprintf(`process.roles=broker,controller
node.id=%d
controller.quorum.voters=%s
listeners=%s,CONTROLLER://127.0.0.1:%d
advertised.listeners=%s
inter.broker.listener.name=PLAINTEXT
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURE:SASL_SSL
log.dirs=%s
default.replication.factor=%d
offsets.topic.replication.factor=%d
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=%d
transaction.state.log.min.isr=%d
transaction.state.log.num.partitions=4
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
num.replica.fetchers=1
log.cleaner.dedupe.buffer.size=8388608
socket.request.max.bytes=209715200
broker.session.timeout.ms=6000
controlled.shutdown.enable=false
`, id, strings.Join(voters, ","), listeners, ports[1], listeners, data, copies, copies, copies, max(1, copies-1)) + n.secure.settings()
	for name, text := range map[string]string{
		n.settings(): settings,
		filepath.Join(n.dir, "log4j.properties"): "log4j.rootLogger=WARN, stdout\nlog4j.appender.stdout=org.apache.log4j.ConsoleAppender\n" +
			"log4j.appender.stdout.layout=org.apache.log4j.PatternLayout\nlog4j.appender.stdout.layout.ConversionPattern=%d %p %m (%c)%n\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o640); err != nil {
			return fmt.Errorf("prepare broker %d: %w", id, err)
		}
	}
	format := n.command("kafka.tools.StorageTool", append([]string{"format", "-t", clusterID, "-c", n.settings()}, n.secure.users()...)...)
	if output, err := format.CombinedOutput(); err != nil {
		return fmt.Errorf("format data of broker %d: %w: %s", id, err, tail(output))
	}
	return nil
}

// settings are those of a secure listener; nil has none.
func (s *Secure) settings() string {
	if s == nil {
		return ""
	}
	line := func(pem string) string { return strings.ReplaceAll(strings.TrimSpace(pem), "\n", "\\n") }
	const listener = "listener.name.secure."
	text := listener + "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512\n" +
		listener + "ssl.keystore.type=PEM\n" + listener + "ssl.keystore.certificate.chain=" + line(s.Certificate) + "\n" +
		listener + "ssl.keystore.key=" + line(s.Key) + "\n" + listener + "plain.sasl.jaas.config=" +
		fmt.Sprintf("org.apache.kafka.common.security.plain.PlainLoginModule required user_%s=\"%s\";\n", s.User, s.Password)
	for _, mechanism := range []string{"scram-sha-256", "scram-sha-512"} {
		text += listener + mechanism + ".sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;\n"
	}
	return text
}

// users are arguments that put a user into the new data folder.
func (s *Secure) users() []string {
	if s == nil {
		return nil
	}
	var args []string
	for _, mechanism := range []string{"SCRAM-SHA-256", "SCRAM-SHA-512"} {
		args = append(args, "--add-scram", fmt.Sprintf("%s=[name=%s,password=%s]", mechanism, s.User, s.Password))
	}
	return args
}

func (n *node) settings() string { return filepath.Join(n.dir, "server.properties") }

// command runs one of Kafka's programs, without further flags with a small heap and a quick start.
func (n *node) command(class string, args ...string) *exec.Cmd {
	flags := n.flags
	if len(flags) == 0 {
		flags = []string{"-Xms64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"}
	}
	flags = append(slices.Clone(flags), "-Xmx"+n.heap, "-Dlog4j.configuration=file:"+filepath.Join(n.dir, "log4j.properties"), "-cp", filepath.Join(n.jars, "*"), class)
	return exec.Command(n.java, append(flags, args...)...)
}

// Process returns the id of the process of a broker that runs.
func (c *Cluster) Process(i int) int { return c.nodes[i].process.Process.Pid }

// StartBroker starts the broker with that index, which does not run.
func (c *Cluster) StartBroker(i int) error {
	n := c.nodes[i]
	out, err := os.OpenFile(filepath.Join(n.dir, "output"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
	if err != nil {
		return fmt.Errorf("start broker %d: %w", i+1, err)
	}
	defer out.Close()
	n.process = n.command("kafka.Kafka", n.settings())
	n.process.Stdout, n.process.Stderr = out, out
	n.process.SysProcAttr = procAttr()
	if err := n.process.Start(); err != nil {
		return fmt.Errorf("start broker %d: %w", i+1, err)
	}
	ended := make(chan struct{})
	n.ended = ended
	process := n.process
	go func() {
		_ = process.Wait() // how a killed broker ended says nothing
		close(ended)
	}()
	return nil
}

// KillBroker ends a broker as a power failure would, and returns when it is gone.
func (c *Cluster) KillBroker(i int) error {
	n := c.nodes[i]
	if n.process == nil {
		return nil
	}
	err := n.process.Process.Kill()
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill broker %d: %w", i+1, err)
	}
	<-n.ended
	n.process = nil
	return nil
}

// Close ends all brokers. Their data stays.
func (c *Cluster) Close() error {
	var errs []error
	for i := range c.nodes {
		errs = append(errs, c.KillBroker(i))
	}
	return errors.Join(errs...)
}

// wait returns when all brokers are part of the cluster.
func (c *Cluster) wait(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(c.Addresses...))
	if err != nil {
		return fmt.Errorf("start cluster: %w", err)
	}
	defer client.Close()
	ticker := time.NewTicker(pollTime)
	defer ticker.Stop()
	for {
		if client.Ping(ctx) == nil && len(client.DiscoveredBrokers()) == len(c.nodes) {
			return nil
		}
		for i, n := range c.nodes {
			select {
			case <-n.ended:
				output, _ := os.ReadFile(filepath.Join(n.dir, "output"))
				err := fmt.Errorf("start broker %d: it ended: %s", i+1, tail(output))
				if strings.Contains(string(output), "Address already in use") {
					err = fmt.Errorf("%w: %w", errPort, err)
				}
				return err
			default:
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("start cluster: wait for %d brokers: %w", len(c.nodes), ctx.Err())
		case <-ticker.C:
		}
	}
}

func tail(output []byte) string {
	const shown = 2000
	return string(output[max(0, len(output)-shown):])
}
