package kafka_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/log/kafka"
)

// register notes who holds what, and fails the test when two hold the same.
type register struct {
	t  *testing.T
	mu sync.Mutex
	by map[string]string
}

func (r *register) holder(process string) log.LeaseOptions {
	return log.LeaseOptions{
		Granted: func(name string) {
			r.mu.Lock()
			defer r.mu.Unlock()
			if r.by[name] != "" {
				r.t.Errorf("%s is granted to %s while %s holds it", name, process, r.by[name])
			}
			r.by[name] = process
		},
		Revoked: func(_ context.Context, name string) { r.giveUp(process, name) },
	}
}

func (r *register) giveUp(process, name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.by[name] == process {
		delete(r.by, name)
	}
}

func (r *register) held(process string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	for name, p := range r.by {
		if p == process {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

func (r *register) eventually(what string, condition func() bool) {
	r.t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !condition() {
		if time.Now().After(deadline) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.t.Fatalf("%s: %v", what, r.by)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestLeases(t *testing.T) {
	t.Parallel()
	brokers := fake(t, kfake.GroupMinSessionTimeout(100*time.Millisecond))
	r := &register{t: t, by: map[string]string{}}
	names := []string{"a", "b", "c", "d"}
	enter := func(process string, names ...string) log.Leases {
		l := open(t, kafka.Options{Brokers: brokers, SessionTimeout: time.Second})
		t.Cleanup(func() { l.Close() })
		o := r.holder(process)
		o.Group, o.Names = "_trunkline.sources", names
		s, err := l.Leases(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	count := func(process string) int { return len(r.held(process)) }

	first := enter("first", names...)
	r.eventually("one process holds all", func() bool { return count("first") == 4 })
	second := enter("second", names...)
	r.eventually("two processes hold two each", func() bool { return count("first") == 2 && count("second") == 2 })
	before := fmt.Sprint(r.held("first"), r.held("second"))
	third := enter("third", "e")
	r.eventually("a process holds what only it can", func() bool { return count("third") == 1 })
	if after := fmt.Sprint(r.held("first"), r.held("second")); after != before {
		t.Errorf("held %s, and %s after a process came that takes nothing from them", before, after)
	}

	for _, name := range r.held("first") {
		r.giveUp("first", name)
	}
	if err := first.Close(t.Context()); err != nil {
		t.Error(err)
	}
	r.eventually("the other holds what the first gave up", func() bool { return count("second") == 4 })
	for _, s := range []log.Leases{second, third} {
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
