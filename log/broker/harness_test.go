package broker

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/log/disk"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a server on a log of its own.
type rig struct {
	t       *testing.T
	dir     string
	journal *disk.Log
	server  *Server
	address string
}

func openRig(t *testing.T, o Options) *rig {
	t.Helper()
	r := &rig{t: t, dir: t.TempDir()}
	if o.Address == "" {
		o.Address = "127.0.0.1:0"
	}
	if o.RebalanceDelay == 0 {
		o.RebalanceDelay = 20 * time.Millisecond
	}
	r.open(o)
	t.Cleanup(r.close)
	return r
}

func (r *rig) open(o Options) {
	r.t.Helper()
	var err error
	r.journal, err = disk.Open(r.dir, disk.Options{Defaults: log.TopicConfig{Partitions: 3}, FlushInterval: 5 * time.Millisecond})
	if err != nil {
		r.t.Fatal(err)
	}
	if r.server, err = Listen(r.journal, o); err != nil {
		r.t.Fatal(err)
	}
	r.address = r.server.Addr().String()
}

func (r *rig) close() {
	if err := r.server.Close(); err != nil {
		r.t.Error(err)
	}
	if err := r.journal.Close(); err != nil {
		r.t.Error(err)
	}
}

// restart closes the log and serves it again at the same address.
func (r *rig) restart(o Options) {
	r.t.Helper()
	r.close()
	o.Address = r.address
	if o.RebalanceDelay == 0 {
		o.RebalanceDelay = 20 * time.Millisecond
	}
	r.open(o)
}

// client is a kgo client of the rig.
func (r *rig) client(opts ...kgo.Opt) *kgo.Client {
	r.t.Helper()
	c, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(r.address), kgo.DisableClientMetrics(),
		kgo.RetryTimeout(time.Minute), kgo.FetchMaxWait(100 * time.Millisecond)}, opts...)...)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(c.Close)
	return c
}

func (r *rig) admin() *kadm.Client { return kadm.NewClient(r.client()) }

func (r *rig) topic(name string, partitions int32, settings ...string) {
	r.t.Helper()
	configs := map[string]*string{}
	for i := 0; i < len(settings); i += 2 {
		configs[settings[i]] = &settings[i+1]
	}
	c := r.client()
	defer c.Close()
	if _, err := kadm.NewClient(c).CreateTopic(r.context(), partitions, 1, configs, name); err != nil {
		r.t.Fatalf("create topic %s: %v", name, err)
	}
}

func (r *rig) context() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	r.t.Cleanup(cancel)
	return ctx
}

// produce writes values v0, v1 … with keys k0, k1 ….
func (r *rig) produce(topic string, from, to int, opts ...kgo.Opt) {
	r.t.Helper()
	c := r.client(opts...)
	var records []*kgo.Record
	for i := from; i < to; i++ {
		records = append(records, &kgo.Record{Topic: topic, Key: fmt.Appendf(nil, "k%d", i), Value: fmt.Appendf(nil, "v%d", i)})
	}
	if err := c.ProduceSync(r.context(), records...).FirstErr(); err != nil {
		r.t.Fatalf("produce: %v", err)
	}
	c.Close()
}

// consume reads until it has n records.
func (r *rig) consume(c *kgo.Client, n int) []*kgo.Record {
	r.t.Helper()
	var out []*kgo.Record
	ctx := r.context()
	for len(out) < n {
		f := c.PollFetches(ctx)
		if err := f.Err0(); err != nil {
			r.t.Fatalf("consume: %d of %d records, then %v", len(out), n, err)
		}
		f.EachError(func(topic string, p int32, err error) { r.t.Errorf("fetch %s-%d: %v", topic, p, err) })
		out = append(out, f.Records()...)
	}
	return out
}

// wire is a bare connection.
type wire struct {
	t    *testing.T
	conn net.Conn
	corr int32
}

func (r *rig) wire() *wire {
	r.t.Helper()
	conn, err := net.Dial("tcp", r.address)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { conn.Close() })
	return &wire{t: r.t, conn: conn}
}

func (w *wire) write(b []byte) {
	w.t.Helper()
	if _, err := w.conn.Write(b); err != nil {
		w.t.Fatal(err)
	}
}

// frame writes a length and the bytes.
func (w *wire) frame(b []byte) {
	w.t.Helper()
	w.write(append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...))
}

// read returns the next frame.
func (w *wire) read() ([]byte, error) {
	if err := w.conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		return nil, err
	}
	var size [4]byte
	if _, err := io.ReadFull(w.conn, size[:]); err != nil {
		return nil, err
	}
	b := make([]byte, binary.BigEndian.Uint32(size[:]))
	_, err := io.ReadFull(w.conn, b)
	return b, err
}

func (w *wire) send(req kmsg.Request) {
	w.t.Helper()
	w.corr++
	w.write(kmsg.NewRequestFormatter(kmsg.FormatterClientID("wire")).AppendRequest(nil, req, w.corr))
}

// ask sends a request in exactly its version and returns the response.
func (w *wire) ask(req kmsg.Request) kmsg.Response {
	w.t.Helper()
	w.send(req)
	return w.answer(req)
}

func (w *wire) answer(req kmsg.Request) kmsg.Response {
	w.t.Helper()
	b, err := w.read()
	if err != nil {
		w.t.Fatalf("key %d version %d: %v", req.Key(), req.GetVersion(), err)
	}
	reader := kbin.Reader{Src: b}
	reader.Int32()
	resp := req.ResponseKind()
	if resp.IsFlexible() && req.Key() != 18 {
		kmsg.SkipTags(&reader)
	}
	if err := resp.ReadFrom(reader.Src); err != nil {
		w.t.Fatalf("key %d version %d: %v in % x", req.Key(), req.GetVersion(), err, b)
	}
	return resp
}

// closed waits for the end of the connection.
func (w *wire) closed() {
	w.t.Helper()
	if b, err := w.read(); err == nil {
		w.t.Fatalf("got % x, wanted the end of the connection", b)
	} else if ne, ok := err.(net.Error); ok && ne.Timeout() {
		w.t.Fatal("the connection stays open")
	}
}

func version[R kmsg.Request](r R, v int16) R {
	r.SetVersion(v)
	return r
}
