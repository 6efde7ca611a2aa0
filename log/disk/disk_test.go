package disk_test

import (
	"testing"

	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/log/conformance"
	"github.com/trunkline/trunkline/log/disk"
)

func open(t *testing.T, dir string, o disk.Options) *disk.Log {
	t.Helper()
	l, err := disk.Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestConformance(t *testing.T) {
	conformance.Run(t, func(t *testing.T) log.Log {
		return open(t, t.TempDir(), disk.Options{})
	}, conformance.Features{Reopen: func(t *testing.T, l log.Log) log.Log {
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		return open(t, l.(*disk.Log).Dir(), disk.Options{})
	}})
}
