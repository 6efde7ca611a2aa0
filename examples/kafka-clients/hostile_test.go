package kafkaclients

import (
	"context"
	"encoding/binary"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	hostilePeers = 10_000
	// hostileMemory is what the process may have grown by: a few kilobytes for each connection that it keeps, and what
	// the collector has not given back yet.
	hostileMemory = 192 << 20
)

// TestTenThousandHalfOpenConnections lets peers connect that say nothing, say half of something, promise 2 GB, or never read
// an answer. The process stays small, and an honest client gets through while they are all still there.
func TestTenThousandHalfOpenConnections(t *testing.T) {
	t.Parallel()
	d := serve(t, "")
	before := resident(t, d.process)
	if before == 0 {
		t.Skip("the system has no /proc that tells a process's memory")
	}
	conns := make([]net.Conn, 0, hostilePeers)
	defer func() {
		for _, c := range conns {
			c.Close()
		}
	}()
	for i := range hostilePeers {
		c, err := net.DialTimeout("tcp", d.address, time.Minute)
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		conns = append(conns, c)
		_, _ = c.Write(halfOpen(i)) // too many connections are closed at once
	}
	if after := resident(t, d.process); after-before > hostileMemory {
		t.Errorf("%d peers made the process grow from %d to %d MiB", hostilePeers, before>>20, after>>20)
	} else {
		t.Logf("%d peers made the process grow from %d to %d MiB", hostilePeers, before>>20, after>>20)
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(d.address), kgo.AllowAutoTopicCreation(), kgo.DefaultProduceTopic("honest"), kgo.RetryTimeout(5*time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	for ctx.Err() == nil {
		if err = client.ProduceSync(ctx, kgo.StringRecord("v")).FirstErr(); err == nil {
			break
		}
	}
	if err != nil {
		t.Errorf("an honest client: %v", err)
	}
	if after := resident(t, d.process); after-before > hostileMemory {
		t.Errorf("afterwards the process has %d MiB", after>>20)
	}
}

// halfOpen is what a peer sends.
func halfOpen(i int) []byte {
	length := func(n uint32, more ...byte) []byte { return append(binary.BigEndian.AppendUint32(nil, n), more...) }
	switch i % 5 {
	case 1: // 2 GB
		return length(1<<31 - 1)
	case 2: // half a header
		return length(500, 0, 3, 0)
	case 3: // 90 MB of a produce request, of which little comes
		return append(length(90<<20, 0, 0, 0, 7), make([]byte, 8<<10)...)
	case 4: // metadata of all topics, whose answers are not read
		one := length(14, 0, 3, 0, 1, 0, 0, 0, 1, 255, 255, 255, 255, 255, 255)
		return append(append([]byte{}, one...), one...)
	}
	return nil
}
