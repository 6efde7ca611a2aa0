package s3

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"path"
	"strconv"
	"strings"

	"github.com/minio/minio-go/v7"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/rowfile"
)

const (
	offsetDigits = 20 // names sort as offsets do
	writerName   = "_writer"
	nextKey      = "Trunkline-Next"
	groupKey     = "Trunkline-Group"
)

// partition is the objects of one stream.
type partition struct {
	dir   string // topic=…/partition=…/, with the prefix
	end   int64  // the offset after the last object
	floor int64  // the position that _writer holds; 0: none
	etag  string // of _writer as this writer has left it
}

// next is the offset after the last one that is durable; zero for an empty partition.
func (p *partition) next() int64 { return max(p.end, p.floor) }

func (p *partition) object(day string, first int64, ending string) string {
	return fmt.Sprintf("%sdate=%s/%0*d.%s", p.dir, day, offsetDigits, first, ending)
}

// parseName returns the first offset of an object, which the last part of its name says. Other objects are not ours.
func parseName(key string) (int64, bool) {
	digits, ending, _ := strings.Cut(path.Base(key), ".")
	if _, _, ok := rowfile.ParseEnding(ending); !ok || len(digits) != offsetDigits || digits[0] < '0' || digits[0] > '9' {
		return 0, false
	}
	first, err := strconv.ParseInt(digits, 10, 64)
	return first, err == nil
}

// directory returns what the names of a stream's objects begin with. A topic is one folder whatever characters it has.
func directory(prefix, stream string) string {
	topic, partition := connectors.SplitStream(stream)
	return prefix + "topic=" + url.PathEscape(topic) + "/partition=" + strconv.Itoa(partition) + "/"
}

// writer says who has a partition, and a position where no object says it.
type writer struct {
	Group  string `json:"group"`
	Writer string `json:"writer"`
	Next   int64  `json:"next,omitempty"`
}

// claim returns the partition, taken over from older writers.
func (s *sink) claim(ctx context.Context, stream string) (*partition, error) {
	if p := s.partitions[stream]; p != nil {
		return p, nil
	}
	p := &partition{dir: directory(s.config.Prefix, stream)}
	w, etag, err := s.read(ctx, p)
	if err != nil {
		return nil, err
	}
	if w.Group != "" && w.Group != s.env.Group {
		return nil, fmt.Errorf("%s belongs to group %q; give each sink a prefix of its own: %w", p.dir, w.Group, connectors.ErrFatal)
	}
	p.floor, p.etag = w.Next, etag
	if err := s.sign(ctx, p, w.Next); err != nil {
		return nil, err
	}
	if err := s.find(ctx, p); err != nil {
		return nil, err
	}
	s.partitions[stream] = p
	return p, nil
}

// find looks for the end of the chain.
func (s *sink) find(ctx context.Context, p *partition) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // it ends the listing
	last, name := int64(-1), ""
	for o := range s.client.ListObjects(ctx, s.config.Bucket, minio.ListObjectsOptions{Prefix: p.dir, Recursive: true}) {
		if o.Err != nil {
			return fmt.Errorf("list %s: %w", p.dir, o.Err)
		}
		if first, ok := parseName(o.Key); ok && first > last {
			last, name = first, o.Key
		}
	}
	if name == "" {
		return nil
	}
	info, err := s.client.StatObject(ctx, s.config.Bucket, name, minio.StatObjectOptions{})
	if err != nil {
		return fmt.Errorf("look at %s: %w", name, err)
	}
	p.end, err = strconv.ParseInt(info.Metadata.Get("X-Amz-Meta-"+nextKey), 10, 64)
	if err != nil || p.end <= last {
		return fmt.Errorf("look at %s: its metadata does not say which offset comes next; put it back as it was, or move the objects of the partition away: %w", name, connectors.ErrFatal)
	}
	return nil
}

// read returns what _writer says, and its tag; both are empty where there is none.
func (s *sink) read(ctx context.Context, p *partition) (w writer, etag string, err error) {
	o, err := s.client.GetObject(ctx, s.config.Bucket, p.dir+writerName, minio.GetObjectOptions{})
	if err != nil {
		return w, "", fmt.Errorf("read %s: %w", p.dir+writerName, err)
	}
	defer o.Close()
	text, err := io.ReadAll(o)
	if missing(err) {
		return w, "", nil
	}
	if err != nil {
		return w, "", fmt.Errorf("read %s: %w", p.dir+writerName, err)
	}
	info, err := o.Stat()
	if err != nil {
		return w, "", fmt.Errorf("read %s: %w", p.dir+writerName, err)
	}
	if err := json.Unmarshal(text, &w); err != nil {
		return w, "", fmt.Errorf("read %s: %w: %w", p.dir+writerName, err, connectors.ErrFatal)
	}
	return w, info.ETag, nil
}

// sign writes this writer's name and a position into _writer, if nobody has since it was read.
func (s *sink) sign(ctx context.Context, p *partition, next int64) error {
	text, err := json.Marshal(writer{Group: s.env.Group, Writer: s.id, Next: next})
	if err != nil {
		return err
	}
	opts := minio.PutObjectOptions{ContentType: "application/json", DisableMultipart: true}
	if p.etag == "" {
		opts.SetMatchETagExcept("*")
	} else {
		opts.SetMatchETag(p.etag)
	}
	info, err := s.client.PutObject(ctx, s.config.Bucket, p.dir+writerName, bytes.NewReader(text), int64(len(text)), opts)
	switch {
	case refused(err):
		return fmt.Errorf("claim %s: another writer was faster: %w", p.dir, connectors.ErrFenced)
	case err != nil:
		return fmt.Errorf("claim %s: %w", p.dir, err)
	}
	p.etag, p.floor = info.ETag, next
	return nil
}

// mine reports ErrFenced where another writer has claimed the partition.
func (s *sink) mine(ctx context.Context, p *partition) error {
	info, err := s.client.StatObject(ctx, s.config.Bucket, p.dir+writerName, minio.StatObjectOptions{})
	if err != nil && !missing(err) {
		return fmt.Errorf("look at %s: %w", p.dir+writerName, err)
	}
	if err != nil || info.ETag != p.etag {
		return fmt.Errorf("write into %s: %w", p.dir, connectors.ErrFenced)
	}
	return nil
}
