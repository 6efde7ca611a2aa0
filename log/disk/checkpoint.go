package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/log/vfs"
)

// maxCheckpoint bounds what is read as a checkpoint file.
const maxCheckpoint = 256 << 20

// writeLogStarts stores the log start offset of every partition.
func (l *Log) writeLogStarts() error {
	return l.writeCheckpoint(logStartName, func(p *partition) int64 { return p.start.Load() })
}

// writeRecoveryPoints stores, at a clean end, where every partition ends.
func (l *Log) writeRecoveryPoints() error {
	return l.writeCheckpoint(recoveryPointName, func(p *partition) int64 { return p.high.Load() })
}

// writeCheckpoint replaces a checkpoint file. Its format is Kafka's:
//
//	0            version
//	2            number of lines that follow
//	orders 0 17  topic, partition, offset
//	orders 1 0
func (l *Log) writeCheckpoint(name string, offset func(p *partition) int64) error {
	l.checkpointMu.Lock()
	defer l.checkpointMu.Unlock()
	var b strings.Builder
	all := l.partitionList()
	fmt.Fprintf(&b, "0\n%d\n", len(all))
	for _, p := range all {
		fmt.Fprintf(&b, "%s %d %d\n", p.tp.Topic, p.tp.Partition, offset(p))
	}
	if err := vfs.WriteFile(l.fs, filepath.Join(l.dir, name), []byte(b.String())); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// readCheckpoint returns what writeCheckpoint stored; nothing if there is no file. The file is replaced as a whole, so
// one that cannot be read is damaged, and a log that went on without it could show again what retention had removed.
func (l *Log) readCheckpoint(name string) (log.Offsets, error) {
	b, err := vfs.ReadFile(l.fs, filepath.Join(l.dir, name), maxCheckpoint)
	if errors.Is(err, fs.ErrNotExist) {
		return log.Offsets{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	offsets, err := parseCheckpoint(string(b))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return offsets, nil
}

func parseCheckpoint(text string) (log.Offsets, error) {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	var version, count int
	if len(lines) < 2 {
		return nil, errors.New("less than two lines")
	}
	if _, err := fmt.Sscanf(lines[0], "%d", &version); err != nil || version != 0 {
		return nil, fmt.Errorf("version %q", lines[0])
	}
	if _, err := fmt.Sscanf(lines[1], "%d", &count); err != nil || count != len(lines)-2 {
		return nil, fmt.Errorf("%d lines, the header says %q", len(lines)-2, lines[1])
	}
	out := make(log.Offsets, count)
	for _, line := range lines[2:] {
		var tp log.TopicPartition
		var offset int64
		if _, err := fmt.Sscanf(line, "%s %d %d", &tp.Topic, &tp.Partition, &offset); err != nil || offset < 0 {
			return nil, fmt.Errorf("line %q", line)
		}
		out[tp] = offset
	}
	return out, nil
}
