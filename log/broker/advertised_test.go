package broker

import (
	"io"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// relay listens at an address of its own and passes connections on, as a port that is forwarded into a container.
type relay struct {
	listener net.Listener
	taken    atomic.Int64 // connections
	done     sync.WaitGroup
}

func openRelay(t *testing.T) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &relay{listener: l}
	t.Cleanup(func() {
		l.Close()
		f.done.Wait()
	})
	return f
}

func (f *relay) serve(target string) {
	f.done.Go(func() {
		for {
			in, err := f.listener.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", target)
			if err != nil {
				in.Close()
				continue
			}
			f.taken.Add(1)
			pass := func(to, from net.Conn) {
				_, _ = io.Copy(to, from) // its end ends the other way too
				to.Close()
				from.Close()
			}
			f.done.Go(func() { pass(in, out) })
			f.done.Go(func() { pass(out, in) })
		}
	})
}

// TestClientsGoWhereTheyAreTold lets clients reach a server at an address that it does not listen on.
func TestClientsGoWhereTheyAreTold(t *testing.T) {
	t.Parallel()
	way := openRelay(t)
	told := way.listener.Addr().String()
	r := openRig(t, Options{Advertised: told})
	way.serve(r.address)
	host, text, err := net.SplitHostPort(told)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	w := r.wire()
	check := func(what, gotHost string, gotPort int32) {
		t.Helper()
		if gotHost != host || gotPort != int32(port) {
			t.Errorf("%s names %s:%d, want %s", what, gotHost, gotPort, told)
		}
	}
	for _, v := range []int16{0, 9, 12} {
		b := w.ask(version(kmsg.NewPtrMetadataRequest(), v)).(*kmsg.MetadataResponse).Brokers[0]
		check("Metadata", b.Host, b.Port)
	}
	cluster := w.ask(version(kmsg.NewPtrDescribeClusterRequest(), 0)).(*kmsg.DescribeClusterResponse).Brokers[0]
	check("DescribeCluster", cluster.Host, cluster.Port)
	find := version(kmsg.NewPtrFindCoordinatorRequest(), 3)
	find.CoordinatorKey = "g"
	one := w.ask(find).(*kmsg.FindCoordinatorResponse)
	check("FindCoordinator", one.Host, one.Port)
	find = version(kmsg.NewPtrFindCoordinatorRequest(), 4)
	find.CoordinatorKeys = []string{"g"}
	many := w.ask(find).(*kmsg.FindCoordinatorResponse).Coordinators[0]
	check("FindCoordinator of many", many.Host, many.Port)

	before := way.taken.Load()
	r.topic("t", 3)
	r.produce("t", 0, 30)
	c := r.client(kgo.ConsumeTopics("t"), kgo.ConsumerGroup("g"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if n := len(r.consume(c, 30)); n != 30 {
		t.Errorf("%d records", n)
	}
	if way.taken.Load() == before {
		t.Error("clients went on at the address that they had tried first")
	}
	c.Close()
}

func TestSettingsAreDescribedAsAsked(t *testing.T) {
	t.Parallel()
	r := openRig(t, Options{})
	r.topic("t", 1)
	w := r.wire()
	for v := int16(1); v <= 4; v++ {
		describe := func(names []string, kind kmsg.ConfigResourceType, name string) *kmsg.DescribeConfigsResponse {
			req := version(kmsg.NewPtrDescribeConfigsRequest(), v)
			resource := kmsg.NewDescribeConfigsRequestResource()
			resource.ResourceType, resource.ResourceName, resource.ConfigNames = kind, name, names
			req.Resources = append(req.Resources, resource)
			return w.ask(req).(*kmsg.DescribeConfigsResponse)
		}
		if n := len(w.ask(version(kmsg.NewPtrDescribeConfigsRequest(), v)).(*kmsg.DescribeConfigsResponse).Resources); n != 0 {
			t.Errorf("version %d: nothing was asked for, %d came", v, n)
		}
		all := describe(nil, kmsg.ConfigResourceTypeTopic, "t").Resources[0]
		if all.ErrorCode != 0 || len(all.Configs) < 10 {
			t.Errorf("version %d: null names give %d settings, error %d", v, len(all.Configs), all.ErrorCode)
		}
		some := describe([]string{"retention.ms", "no.such"}, kmsg.ConfigResourceTypeTopic, "t").Resources[0]
		if some.ErrorCode != 0 || len(some.Configs) != 1 || some.Configs[0].Name != "retention.ms" || *some.Configs[0].Value != "604800000" {
			t.Errorf("version %d: two names, of which one is none, give %+v", v, some)
		}
		if broker := describe(nil, kmsg.ConfigResourceTypeBroker, "1").Resources[0]; broker.ErrorCode != 0 || len(broker.Configs) == 0 {
			t.Errorf("version %d: of the broker %d settings, error %d", v, len(broker.Configs), broker.ErrorCode)
		}
	}
}
