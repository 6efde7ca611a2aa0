// Package s3 writes changes as objects into a bucket: JSON lines, CSV or Parquet.
//
// It promises each change exactly once. An object is named for the offset of its first change,
// <prefix>topic=<topic>/partition=<n>/date=<day>/<first>.parquet, and its metadata says which offset comes next, so the
// objects of a partition are a chain, and its end is the position. An object is put only where none has its name
// (If-None-Match), so of two writers that would add the same link one gets it and the other is told. A put is one request:
// an object is there whole, or not at all. It is never changed.
//
// Beside the objects each partition has _writer, which names the writer that has claimed it, and a position that no object
// says. A writer that finds another one's name there is fenced.
//
// It relies on a store that answers a conditional put with 412, and that lists what was put before, as S3 does since 2024.
// It removes nothing and merges nothing: how large objects are is what the sink's batch says. The pipeline calls it.
package s3

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/minio/minio-go/v7"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/rowfile"
)

// sink is used by one goroutine.
type sink struct {
	config     *Config
	env        connectors.Env
	client     *minio.Client
	transport  *http.Transport
	id         string // of this writer
	partitions map[string]*partition
	encoder    *rowfile.Encoder
}

func open(ctx context.Context, c *Config, env connectors.Env) (connectors.Sink, error) {
	client, transport, err := connect(c)
	if err != nil {
		return nil, err
	}
	found, err := client.BucketExists(ctx, c.Bucket)
	if err == nil && !found {
		err = fmt.Errorf("it does not exist; make it, or correct bucket: %w", connectors.ErrFatal)
	}
	if err != nil {
		transport.CloseIdleConnections()
		return nil, fmt.Errorf("open bucket %s: %w", c.Bucket, err)
	}
	id := make([]byte, 16)
	_, _ = rand.Read(id) // it never fails
	return &sink{
		config: c, env: env, client: client, transport: transport, id: hex.EncodeToString(id),
		partitions: map[string]*partition{}, encoder: rowfile.NewEncoder(c.Settings, env.Report),
	}, nil
}

// Committed claims the stream for this writer and returns the offset after the last object.
func (s *sink) Committed(ctx context.Context, stream string) (connectors.Position, error) {
	delete(s.partitions, stream)
	p, err := s.claim(ctx, stream)
	if err != nil {
		return nil, fmt.Errorf("read position of %s: %w", stream, err)
	}
	if p.next() == 0 {
		return nil, nil
	}
	return strconv.AppendInt(nil, p.next(), 10), nil
}

// Write makes objects of the batch. After an error some of them may be there; the position says so, and what comes again
// is left out.
func (s *sink) Write(ctx context.Context, b connectors.Batch) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	next, err := strconv.ParseInt(string(b.Position), 10, 64)
	if err != nil || next < 0 {
		return fmt.Errorf("write batch of %s: its position is not an offset: %w", b.Stream, connectors.ErrFatal)
	}
	p, err := s.claim(ctx, b.Stream)
	if err != nil {
		return fmt.Errorf("write batch of %s: %w", b.Stream, err)
	}
	changes, err := s.encoder.Fit(b.Changes)
	if err != nil {
		return err
	}
	for len(changes) > 0 && changes[0].Offset < p.next() {
		changes = changes[1:]
	}
	if len(changes) == 0 && len(b.Changes) > 0 {
		return nil
	}
	if n := len(changes); n > 0 && changes[n-1].Offset >= next {
		return fmt.Errorf("write batch of %s: offset %d is not before its position %d: %w", b.Stream, changes[n-1].Offset, next, connectors.ErrFatal)
	}
	err = s.mine(ctx, p)
	if err == nil {
		err = s.add(ctx, p, b.Stream, changes, next)
	}
	if err == nil {
		s.encoder.Written()
		err = s.place(ctx, p, next)
	}
	if err != nil {
		delete(s.partitions, b.Stream)
		return fmt.Errorf("write batch of %s: %w", b.Stream, err)
	}
	return nil
}

// add puts the changes, one object for each run of rows that may stand in one.
func (s *sink) add(ctx context.Context, p *partition, stream string, changes []connectors.Change, next int64) error {
	for len(changes) > 0 {
		day, n := rowfile.Day(changes)
		data, n, err := s.encoder.Encode(stream, changes[:n])
		if err != nil {
			return err
		}
		behind := next
		if n < len(changes) {
			behind = changes[n].Offset
		}
		first := changes[0].Offset
		if behind <= first {
			return fmt.Errorf("offset %d holds rows of several tables, which one %s object cannot; use format jsonl: %w", first, s.config.Format, connectors.ErrFatal)
		}
		if len(data) > 0 {
			if err := s.put(ctx, p, p.object(day, first, s.config.Ending()), data, behind); err != nil {
				return err
			}
			p.end = behind
		}
		changes = changes[n:]
	}
	return nil
}

// put adds a link to the chain.
func (s *sink) put(ctx context.Context, p *partition, name string, data []byte, next int64) error {
	opts := minio.PutObjectOptions{
		ContentType: "application/octet-stream", DisableMultipart: true,
		UserMetadata: map[string]string{nextKey: strconv.FormatInt(next, 10), groupKey: s.env.Group},
	}
	opts.SetMatchETagExcept("*")
	_, err := s.client.PutObject(ctx, s.config.Bucket, name, bytes.NewReader(data), int64(len(data)), opts)
	if !refused(err) {
		return err
	}
	// Either the put was answered so late that it came twice, or a writer that is fenced by now was faster.
	if err := s.mine(ctx, p); err != nil {
		return err
	}
	return fmt.Errorf("put %s: it is there already; what it holds counts as written", name)
}

// place stores a position that no object says. One before the last object is refused, because what came again would stand
// in two objects.
func (s *sink) place(ctx context.Context, p *partition, next int64) error {
	if p.next() == next {
		return nil
	}
	if next < p.end {
		return fmt.Errorf("set position %d: %s has objects up to offset %d; move them away first: %w", next, p.dir, p.end-1, connectors.ErrFatal)
	}
	return s.sign(ctx, p, next)
}

// Close releases the connections.
func (s *sink) Close(context.Context) error {
	s.transport.CloseIdleConnections()
	return nil
}

// refused reports that the condition of a put did not hold.
func refused(err error) bool {
	if err == nil {
		return false
	}
	r := minio.ToErrorResponse(err)
	return r.StatusCode == http.StatusPreconditionFailed || r.StatusCode == http.StatusConflict && r.Code == "ConditionalRequestConflict"
}

func missing(err error) bool {
	var r minio.ErrorResponse
	return errors.As(err, &r) && (r.StatusCode == http.StatusNotFound || r.Code == minio.NoSuchKey)
}
