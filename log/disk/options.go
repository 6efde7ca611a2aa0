package disk

import (
	"log/slog"
	"time"

	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/log/vfs"
)

// Options opens a log. Zero fields take the default in the comment.
type Options struct {
	Logger   *slog.Logger    // default: silent
	Defaults log.TopicConfig // what new topics take for zero fields; its own zero fields: see log.TopicConfig
	FS       vfs.FS          // default: the real one

	MaintenanceInterval time.Duration // between checks of retention and compaction; default 1 minute
	FlushInterval       time.Duration // how long commit markers may wait for a sync that nobody asked for; default 1 s

	BatchBytes       int // records of a transaction for one partition, before compression, that make a batch; default 1 MiB
	TransactionBytes int // records of one transaction that are kept in memory; default 8 MiB

	// Unsynced lets clients outside hear of a batch, and readers see it, before it is synced, as Kafka does. It is within
	// FlushInterval. A power cut may take it; the end of the process does not. Producers of this process still wait.
	Unsynced bool

	TombstoneRetention time.Duration // how long compaction keeps a tombstone; default 24 h

	ownSegmentBytes int64 // at which the log's own topics roll; default 16 MiB, and so about what an open reads of them
}

func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.FS == nil {
		o.FS = vfs.OS{}
	}
	setDefault(&o.MaintenanceInterval, time.Minute)
	setDefault(&o.FlushInterval, time.Second)
	setDefault(&o.BatchBytes, 1<<20)
	setDefault(&o.TransactionBytes, 8<<20)
	setDefault(&o.TombstoneRetention, 24*time.Hour)
	setDefault(&o.ownSegmentBytes, 16<<20)
	o.Defaults = complete(o.Defaults, log.TopicConfig{})
	return o
}

// complete fills the zero fields of c from defaults, and what is zero there too from the fixed ones.
func complete(c, defaults log.TopicConfig) log.TopicConfig {
	zstd := log.CompressionZstd
	if c.Compact {
		setDefault(&c.Retention, log.Forever) // the newest record of a key has no age at which it is not needed
	}
	for _, from := range []log.TopicConfig{defaults, {
		Partitions: 4, Retention: 168 * time.Hour, Compression: &zstd,
		SegmentBytes: 1 << 30, SegmentAge: 168 * time.Hour, MaxRecordBytes: 64 << 20,
	}} {
		setDefault(&c.Partitions, from.Partitions)
		setDefault(&c.Retention, from.Retention)
		setDefault(&c.RetentionBytes, from.RetentionBytes)
		setDefault(&c.Compression, from.Compression)
		setDefault(&c.SegmentBytes, from.SegmentBytes)
		setDefault(&c.SegmentAge, from.SegmentAge)
		setDefault(&c.MaxRecordBytes, from.MaxRecordBytes)
	}
	return c
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
