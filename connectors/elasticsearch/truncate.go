package elasticsearch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/trunkline/trunkline/connectors"
)

// sweepStep is how many documents a truncate deals with at a time.
const sweepStep = 500

// hit is a document that a search found.
type hit struct {
	ID      string          `json:"_id"`
	Version int64           `json:"_version"`
	Source  json.RawMessage `json:"_source"`
}

// clear is a truncate: every document of a table goes, or is marked with deletes: soft. Each keeps the version that it has,
// so that its row comes back when the topic is read again and the row stands behind the truncate. Documents are dealt with
// in steps, each of which finds what is left; a truncate that comes again does what was not done.
func (s *sink) clear(ctx context.Context, stream string, t *connectors.Table) error {
	index, soft := s.index(stream, t), s.config.Deletes == softDeletes
	path := "/" + url.PathEscape(index)
	query := `{"size":` + strconv.Itoa(sweepStep) + `,"version":true,`
	if soft {
		query += `"query":{"bool":{"must_not":[{"term":{"` + deletedField + `":true}}]}}}`
	} else {
		query += `"_source":false,"query":{"match_all":{}}}`
	}
	for {
		if err := s.client.json(ctx, "POST", path+"/_refresh", nil, nil); err != nil {
			if isStatus(err, 404) {
				return nil
			}
			return err
		}
		var found struct{ Hits struct{ Hits []hit } }
		if err := s.client.json(ctx, "POST", path+"/_search", []byte(query), &found); err != nil {
			return err
		}
		if len(found.Hits.Hits) == 0 {
			return nil
		}
		done, err := s.sweep(ctx, index, found.Hits.Hits, soft)
		if err != nil {
			return err
		}
		if done == 0 {
			return errors.New("none of the documents that are left could be removed")
		}
	}
}

// sweep removes or marks documents, and returns how many it did.
func (s *sink) sweep(ctx context.Context, index string, hits []hit, soft bool) (done int, err error) {
	var body []byte
	for i := range hits {
		if body, err = hits[i].appendTo(body, index, soft); err != nil {
			return 0, err
		}
	}
	var answer struct{ Items []map[string]item }
	if err := s.client.json(ctx, "POST", "/_bulk?filter_path=items.*.status,items.*.error.type,items.*.error.reason", body, &answer); err != nil {
		return 0, err
	}
	for _, one := range answer.Items {
		for _, it := range one {
			switch {
			case it.Status/100 == 2, it.Status == http.StatusNotFound:
				done++
			case it.Status == http.StatusConflict: // somebody wrote a newer one; the next search finds it
			case it.Error != nil:
				return 0, fmt.Errorf("index %s: %w", index, *it.Error)
			}
		}
	}
	return done, nil
}

// appendTo appends the lines that delete the document, or store it again with the mark.
func (h *hit) appendTo(dst []byte, index string, soft bool) ([]byte, error) {
	verb := "delete"
	if soft {
		verb = "index"
	}
	dst = connectors.AppendJSONString(append(dst, `{"`+verb+`":{"_index":`...), []byte(index))
	dst = connectors.AppendJSONString(append(dst, `,"_id":`...), []byte(h.ID))
	dst = strconv.AppendInt(append(dst, `,"version":`...), h.Version, 10)
	dst = append(dst, `,"version_type":"external_gte"}}`+"\n"...)
	if !soft {
		return dst, nil
	}
	fields, err := members(h.Source)
	if err != nil {
		return nil, fmt.Errorf("read document of index %s: %w", index, err)
	}
	delete(fields, deletedField)
	dst = append(dst, '{')
	for name, value := range fields {
		dst = append(append(connectors.AppendJSONString(dst, []byte(name)), ':'), value...)
		dst = append(dst, ',')
	}
	return append(dst, `"`+deletedField+`":true}`+"\n"...), nil
}
