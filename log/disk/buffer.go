package disk

import (
	"sync"

	"github.com/trunkline/trunkline/log/batch"
)

// maxKeptBuffer bounds the memory of a buffer that waits for its next use.
const maxKeptBuffer = 4 << 20

// buffers hold compressed batches on their way to a file.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

func takeBuffer() *[]byte { return buffers.Get().(*[]byte) }

func giveBuffer(b *[]byte) {
	if cap(*b) <= maxKeptBuffer {
		buffers.Put(b)
	}
}

// builders collect the records of appends outside transactions.
var builders = sync.Pool{New: func() any { return new(batch.Builder) }}

func giveBuilder(b *batch.Builder) {
	if b.Size() <= maxKeptBuffer {
		b.Reset()
		builders.Put(b)
	}
}
