package broker

import (
	"encoding/binary"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// heap returns what is in use after a collection.
func heap() uint64 {
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}

// TestHostilePeersCostLittleMemory holds many connections that send half a request, promise gigabytes, or do not read
// what they asked for, and looks at memory, and whether an honest client still gets through. It does not run beside other
// tests, whose memory it would count. TRUNKLINE_SOAK makes it almost ten times as many.
func TestHostilePeersCostLittleMemory(t *testing.T) {
	peers := 1000
	if os.Getenv("TRUNKLINE_SOAK") != "" {
		peers = 9_500 // with both ends in one process that is 19,000 descriptors, where 20,000 is a common limit
	}
	r := openRig(t, Options{MaxConnections: peers + 50, MaxBufferedBytes: 64 << 20})
	r.topic("t", 1)
	big := make([]byte, 1<<20)
	c := r.client(kgo.DefaultProduceTopic("t"), kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProducerBatchMaxBytes(2<<20))
	for range 64 {
		if err := c.ProduceSync(r.context(), &kgo.Record{Value: big}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	before := heap()
	var conns []net.Conn
	defer func() {
		for _, c := range conns {
			c.Close()
		}
	}()
	for i := range peers {
		conn, err := net.Dial("tcp", r.address)
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		conns = append(conns, conn)
		misbehave(t, conn, i)
	}
	const each = 80 << 10 // a goroutine or two and a small buffer, on both sides: the peers are in this process
	limit := before + uint64(peers)*each + 128<<20
	if after := heap(); after > limit {
		t.Errorf("%d hostile peers cost %d MiB, the limit is %d MiB", peers, (after-before)>>20, (limit-before)>>20)
	} else {
		t.Logf("%d hostile peers cost %d MiB", peers, int64(after-before)>>20)
	}
	r.produce("t", 0, 10, kgo.ProducerBatchMaxBytes(1<<20))
}

// misbehave sends one of several kinds of half a conversation.
func misbehave(t *testing.T, conn net.Conn, kind int) {
	t.Helper()
	var out []byte
	switch kind % 5 {
	case 0: // nothing
	case 1:
		out = binary.BigEndian.AppendUint32(nil, 1<<31-1)
	case 2: // half a header
		out = append(binary.BigEndian.AppendUint32(nil, 500), 0, 3, 0)
	case 3: // a produce request of 90 MB, of which little comes
		out = append(binary.BigEndian.AppendUint32(nil, 90<<20), 0, 0, 0, 7)
		out = append(out, make([]byte, 60<<10)...)
	case 4: // a fetch of 50 MB that is not read
		req := fetchRequest(11, "t", 0, 50<<20)
		out = kmsg.NewRequestFormatter().AppendRequest(nil, req, 1)
		for range 3 {
			out = append(out, out...)
		}
	}
	if _, err := conn.Write(out); err != nil {
		t.Logf("peer %d: %v", kind, err)
	}
}

func TestTooManyConnectionsAreClosed(t *testing.T) {
	t.Parallel()
	r := openRig(t, Options{MaxConnections: 3})
	var open []*wire
	for range 3 {
		w := r.wire()
		w.ask(version(kmsg.NewPtrApiVersionsRequest(), 0))
		open = append(open, w)
	}
	r.wire().closed()
	open[0].conn.Close()
	for deadline := time.Now().Add(time.Minute); r.server.Connections() == 3; {
		if time.Now().After(deadline) {
			t.Fatal("a closed connection still counts")
		}
		runtime.Gosched()
	}
	r.wire().ask(version(kmsg.NewPtrApiVersionsRequest(), 0))
}

func TestSilentPeersAreClosed(t *testing.T) {
	t.Parallel()
	r := openRig(t, Options{IdleTimeout: 50 * time.Millisecond, ReceiveTimeout: 50 * time.Millisecond})
	t.Run("before a request", func(t *testing.T) {
		w := r.wire()
		w.t = t
		w.closed()
	})
	t.Run("in the middle of one", func(t *testing.T) {
		w := r.wire()
		w.t = t
		w.write([]byte{0, 0, 1, 0, 0, 3, 0, 0, 0})
		w.closed()
	})
	t.Run("when they do not read", func(t *testing.T) {
		r := openRig(t, Options{ReceiveTimeout: 2 * time.Second})
		r.topic("t", 1)
		c := r.client(kgo.DefaultProduceTopic("t"), kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProducerBatchMaxBytes(2<<20))
		for range 32 {
			if err := c.ProduceSync(r.context(), &kgo.Record{Value: make([]byte, 1<<20)}).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		c.Close()
		w := r.wire()
		w.t = t
		w.ask(version(kmsg.NewPtrApiVersionsRequest(), 0))
		until := func(n int) {
			t.Helper()
			for deadline := time.Now().Add(time.Minute); r.server.Connections() != n; time.Sleep(time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatalf("%d connections are open, want %d", r.server.Connections(), n)
				}
			}
		}
		until(1)
		w.send(fetchRequest(11, "t", 0, 50<<20))
		until(0)
	})
}
