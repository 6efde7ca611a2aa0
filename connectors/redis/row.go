package redis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/fold"
)

// row is what becomes of one key.
type row struct {
	key    string
	fields []any  // format hash: names and values; a value is a string or []byte
	text   []byte // format json; nil with no fields: the row is gone
}

// store replaces all that the key holds, so that nothing of an older row stays and no other type is in the way.
func (r *row) store(ctx context.Context, p redis.Pipeliner) {
	switch {
	case r.text != nil:
		p.Set(ctx, r.key, r.text, 0)
	case r.fields != nil:
		p.Del(ctx, r.key)
		p.HSet(ctx, r.key, r.fields...)
	default:
		p.Del(ctx, r.key)
	}
}

// rowMark stands in the template of a table's keys where the key of a row goes.
const rowMark = "\x00"

// template returns the keys of a table's rows with rowMark in place of what tells them apart.
func (s *sink) template(stream string, t *connectors.Table) string {
	return s.templates.Of(stream, t, func() string { return s.config.fill(stream, t, rowMark, escape) })
}

// name returns the key of a row; without key values, that of its offset.
func (s *sink) name(stream string, t *connectors.Table, key fold.Key) string {
	var text []byte
	switch len(key.Values) {
	case 0:
		text = append(text, key.Text...)
	case 1:
		text = key.Values[0].AppendText(text)
	default:
		for i, v := range key.Values {
			if i > 0 {
				text = append(text, ':')
			}
			text = append(text, escape(string(v.AppendText(nil)))...)
		}
	}
	return strings.ReplaceAll(s.template(stream, t), rowMark, string(text))
}

// pattern matches the keys of all rows of a table.
func (s *sink) pattern(stream string, t *connectors.Table) string {
	return strings.ReplaceAll(globEscaper.Replace(s.template(stream, t)), rowMark, "*")
}

// globEscaper takes the meaning from the characters of a pattern.
var globEscaper = strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`, "]", `\]`)

// fill puts names into the template. The topic is not escaped where it is all that there is, the key of a stream.
func (c *SinkConfig) fill(stream string, t *connectors.Table, key string, escape func(string) string) string {
	topic, _ := connectors.SplitStream(stream)
	var database, schema, table string
	if t != nil {
		database, schema, table = t.Database, t.Schema, t.Name
	}
	if strings.Contains(c.Key, "{key}") {
		topic = strings.ReplaceAll(strings.ReplaceAll(topic, "%", "%25"), ":", "%3A")
	}
	return strings.NewReplacer("{database}", escape(database), "{schema}", escape(schema), "{table}", escape(table),
		"{topic}", topic, "{key}", key).Replace(c.Key)
}

// rows encodes what was folded. The error names the rows that can't be.
func (s *sink) rows(ctx context.Context, tx *redis.Tx, stream string) ([]row, error) {
	out := make([]row, 0, len(s.folded.Rows))
	var refused []connectors.RowError
	for _, f := range s.folded.Rows {
		r := row{key: s.name(stream, f.Table, fold.Key{Text: f.Key, Values: f.Keys})}
		if f.Values != nil {
			old, err := s.old(ctx, tx, stream, f)
			if isType(err) {
				refused = append(refused, connectors.RowError{Index: f.Index, Err: err})
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("read the row before the change: %w", err)
			}
			s.encode(&r, f, old)
		}
		out = append(out, r)
	}
	if refused != nil {
		return nil, &connectors.RowsError{Rows: refused}
	}
	return out, nil
}

// errForeign says that a key holds something that no sink of this format wrote.
var errForeign = errors.New("the change does not carry all columns, and the key of its row holds something else than a row; remove that key")

func isType(err error) bool {
	return errors.Is(err, errForeign) || err != nil && strings.HasPrefix(err.Error(), "WRONGTYPE")
}

// old returns the fields of the row that has what the change lacks: text, or JSON.
func (s *sink) old(ctx context.Context, tx *redis.Tx, stream string, f *fold.Row) (map[string]string, error) {
	for _, from := range f.From {
		key := s.name(stream, f.Table, from)
		if s.config.Format == Hash {
			fields, err := tx.HGetAll(ctx, key).Result()
			if err != nil || len(fields) > 0 {
				return fields, err
			}
			continue
		}
		text, err := tx.Get(ctx, key).Bytes()
		if errors.Is(err, redis.Nil) {
			continue
		}
		if err != nil {
			return nil, err
		}
		return members(text)
	}
	return nil, nil
}

// members splits a JSON object into names and values as they stand.
func members(text []byte) (map[string]string, error) {
	token, rest, err := connectors.ScanJSON(text)
	if err != nil || len(rest) > 0 || token[0] != '{' {
		return nil, errForeign
	}
	out := map[string]string{}
	for body := token[1 : len(token)-1]; ; {
		name, rest, err := connectors.ScanJSON(body)
		if err != nil {
			return out, nil // the end; the whole was valid
		}
		value, behind, err := connectors.ScanJSON(rest[1:])
		if err != nil {
			return nil, errForeign
		}
		unquoted, _, err := connectors.Unquote(name, nil)
		if err != nil {
			return nil, errForeign
		}
		out[string(unquoted)] = string(value)
		if len(behind) == 0 {
			return out, nil
		}
		body = behind[1:]
	}
}

// offsetField tells rows without a key apart, and is what such a row of NULLs has at all.
const offsetField = "_offset"

// deletedField is true in rows that the source has no more, with deletes: soft; the others have no such field. In JSON it
// stands last.
const (
	deletedField = "_deleted"
	jsonMark     = `,"` + deletedField + `":true}`
)

// markGone marks the rows of keys. What holds no row of this format is left as it is.
func (s *sink) markGone(ctx context.Context, tx *redis.Tx, keys []string) error {
	texts := make([]*redis.StringCmd, len(keys))
	kinds := make([]*redis.StatusCmd, len(keys))
	if _, err := tx.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, key := range keys {
			kinds[i] = p.Type(ctx, key)
		}
		return nil
	}); err != nil {
		return err
	}
	if s.config.Format == JSON {
		_, err := tx.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i, key := range keys {
				if kinds[i].Val() == "string" {
					texts[i] = p.Get(ctx, key)
				}
			}
			return nil
		})
		if err != nil && !errors.Is(err, redis.Nil) {
			return err
		}
	}
	_, err := tx.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, key := range keys {
			switch {
			case s.config.Format == Hash && kinds[i].Val() == "hash":
				p.HSet(ctx, key, deletedField, "true")
			case texts[i] != nil:
				text := texts[i].Val()
				if body, ok := strings.CutSuffix(text, "}"); ok && !strings.HasSuffix(text, jsonMark) {
					p.Set(ctx, key, body+jsonMark, 0)
				}
			}
		}
		return nil
	})
	return err
}

// encode fills in what the key will hold. What neither the change nor the old row has is NULL.
func (s *sink) encode(r *row, f *fold.Row, old map[string]string) {
	if s.config.Format == JSON {
		r.text = append(make([]byte, 0, 256), '{')
	}
	for i, v := range f.Values {
		name := f.Table.Columns[i].Name
		if s.config.Format == JSON {
			if len(r.text) > 1 {
				r.text = append(r.text, ',')
			}
			r.text = append(connectors.AppendJSONString(r.text, []byte(name)), ':')
			if before, ok := old[name]; ok && v.IsAbsent() {
				r.text = append(r.text, before...)
			} else {
				r.text = connectors.AppendJSON(r.text, v)
			}
			continue
		}
		switch {
		case v.IsAbsent():
			if before, ok := old[name]; ok {
				r.fields = append(r.fields, name, before)
			}
		case !v.IsNull():
			r.fields = append(r.fields, name, v.AppendText([]byte{}))
		}
	}
	switch {
	case s.config.Format == JSON && f.Gone:
		r.text = append(r.text, jsonMark...)
	case s.config.Format == JSON:
		r.text = append(r.text, '}')
	case f.Gone:
		r.fields = append(r.fields, deletedField, "true")
	case f.Keys == nil:
		r.fields = append(r.fields, offsetField, f.Offset)
	}
}

// checkStreams refuses to begin a transaction that would break in its middle, which Redis does not undo.
func (s *sink) checkStreams(ctx context.Context, tx *redis.Tx, stream string, changes []connectors.Change) error {
	checked := map[string]bool{}
	for i := range changes {
		key := s.config.fill(stream, changes[i].Table, "", escape)
		if checked[key] {
			continue
		}
		checked[key] = true
		kind, err := tx.Type(ctx, key).Result()
		if err != nil {
			return fmt.Errorf("look at key %s: %w", key, err)
		}
		if kind != "stream" && kind != "none" {
			return fmt.Errorf("key %s holds a %s, not a stream; remove it or set another key: %w", key, kind, connectors.ErrFatal)
		}
	}
	return nil
}

// entries appends every change, in order.
func (s *sink) entries(ctx context.Context, p redis.Pipeliner, stream string, changes []connectors.Change) {
	for i := range changes {
		c := &changes[i]
		if s.config.Deletes == ignoreDeletes && (c.Op == connectors.Delete || c.Op == connectors.Truncate) {
			continue
		}
		line := connectors.AppendLine(nil, stream, c)
		p.XAdd(ctx, &redis.XAddArgs{
			Stream: s.config.fill(stream, c.Table, "", escape), MaxLen: s.config.MaxLength, Approx: s.config.MaxLength > 0,
			Values: []any{"op", string(c.Op.Code()), "offset", strconv.FormatInt(c.Offset, 10), "change", line[:len(line)-1]},
		})
	}
}
