package http

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"time"
)

// keyBytes of a key's hash are kept, behind its time: 4 bytes of seconds since 1970.
const keyBytes = 12

type hash [keyBytes]byte

func hashOf(path, key string) (h hash) {
	full := sha256.Sum256([]byte(path + "\x00" + key))
	copy(h[:], full[:])
	return h
}

// remembered is a key that came.
type remembered struct {
	key hash
	at  uint32 // seconds since 1970
}

// dedup remembers idempotency keys, the newest last. It belongs to whoever holds the source's lock.
type dedup struct {
	window time.Duration
	limit  int
	list   []remembered
	seq    map[hash]int64 // the number of the request that brought the key
}

func newDedup(window time.Duration, limit int, text string) (*dedup, bool) {
	d := &dedup{window: window, limit: limit, seq: map[hash]int64{}}
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(b)%(4+keyBytes) != 0 {
		return nil, false
	}
	for ; len(b) > 0; b = b[4+keyBytes:] {
		r := remembered{at: binary.BigEndian.Uint32(b)}
		copy(r.key[:], b[4:])
		d.list = append(d.list, r)
		d.seq[r.key] = 0
	}
	return d, true
}

// find returns the number of the request that brought a key, 0 for one before the start.
func (d *dedup) find(key hash, now time.Time) (int64, bool) {
	d.forget(now)
	seq, ok := d.seq[key]
	return seq, ok
}

func (d *dedup) add(key hash, seq int64, now time.Time) {
	if d.limit == 0 || d.window == 0 {
		return
	}
	d.list = append(d.list, remembered{key, uint32(now.Unix())})
	d.seq[key] = seq
	d.forget(now)
}

// forget drops the keys that are too old or too many.
func (d *dedup) forget(now time.Time) {
	n := max(0, len(d.list)-d.limit)
	for n < len(d.list) && now.Sub(time.Unix(int64(d.list[n].at), 0)) > d.window {
		n++
	}
	for _, r := range d.list[:n] {
		delete(d.seq, r.key)
	}
	d.list = d.list[n:]
}

// text is what a position holds.
func (d *dedup) text() string {
	b := make([]byte, 0, len(d.list)*(4+keyBytes))
	for _, r := range d.list {
		b = append(binary.BigEndian.AppendUint32(b, r.at), r.key[:]...)
	}
	return base64.StdEncoding.EncodeToString(b)
}
