package disk

import (
	"time"
)

// wakeFlusher says that something was written without a sync.
func (l *Log) wakeFlusher() {
	select {
	case l.dirty <- struct{}{}:
	default:
	}
}

// flusher makes durable, within FlushInterval, what was written without a sync: commit markers, above all. It writes the
// markers that a full disk had kept from being written, too.
func (l *Log) flusher() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-l.closing:
			return
		case <-l.dirty:
		}
		timer.Reset(l.o.FlushInterval)
		select {
		case <-l.closing:
			return
		case <-timer.C:
		}
		for _, p := range l.partitionList() {
			if err := p.flushTail(); err != nil {
				l.logger.Warn("markers wait for a sync", "topic", p.tp.Topic, "partition", p.tp.Partition, "error", err)
				l.wakeFlusher()
			}
		}
	}
}

// maintenance applies retention and compaction from time to time.
func (l *Log) maintenance() {
	ticker := time.NewTicker(l.o.MaintenanceInterval)
	defer ticker.Stop()
	for {
		select {
		case <-l.closing:
			return
		case now := <-ticker.C:
			l.maintain(now)
		}
	}
}

// maintain does one round of maintenance. What fails is told and tried again in the next.
func (l *Log) maintain(now time.Time) {
	for _, p := range l.partitionList() {
		if err := p.retain(now); err != nil {
			l.logger.Error("retention", "topic", p.tp.Topic, "partition", p.tp.Partition, "error", err)
		}
		if err := p.compact(now); err != nil {
			l.logger.Error("compaction", "topic", p.tp.Topic, "partition", p.tp.Partition, "error", err)
		}
	}
}
