package disk_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/log/disk"
)

func TestFullFileSystemStopsWritersOnly(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=16m"); err != nil {
		t.Skipf("mount a small file system: %v", err)
	}
	defer func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	}()
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 8<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	l := open(t, filepath.Join(dir, "log"), disk.Options{})
	createOrders(t, l, log.TopicConfig{})
	value := make([]byte, 30_000)
	acked := fillDisk(t, l, value)
	commitFull(t, l, value)
	checkAfterFull(t, l, acked, value, func() {
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
	})
	closeLog(t, l)
	l = open(t, filepath.Join(dir, "log"), disk.Options{})
	defer closeLog(t, l)
	if n := len(readPartition(t, l, orders(0))); n != acked+1 {
		t.Errorf("%d records after a reopen, want %d", n, acked+1)
	}
}
