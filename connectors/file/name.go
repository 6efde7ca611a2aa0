package file

import (
	"fmt"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/rowfile"
)

// offsetDigits is the width of an offset in a name, as in the log's own files: names sort as offsets do.
const offsetDigits = 20

// span is a finished file: the offsets from first to last, both included.
type span struct {
	first, last int64
	ending      string // of the name: jsonl, csv.gz, parquet
	folder      string // below the partition's: date=2026-01-30, or none
	size        int64
}

func (s span) name() string {
	return fmt.Sprintf("%0*d-%0*d.%s", offsetDigits, s.first, offsetDigits, s.last, s.ending)
}

// parseName is the inverse of name. Files with other names are not ours.
func parseName(name string) (span, bool) {
	base, ending, ok := strings.Cut(name, ".")
	if !ok {
		return span{}, false
	}
	if _, _, ok := rowfile.ParseEnding(ending); !ok {
		return span{}, false
	}
	if len(base) != 2*offsetDigits+1 || base[offsetDigits] != '-' {
		return span{}, false
	}
	first, ok1 := parseOffset(base[:offsetDigits])
	last, ok2 := parseOffset(base[offsetDigits+1:])
	if !ok1 || !ok2 || last < first {
		return span{}, false
	}
	return span{first: first, last: last, ending: ending}, true
}

func parseOffset(digits string) (int64, bool) {
	if digits[0] < '0' || digits[0] > '9' {
		return 0, false // a sign
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	return n, err == nil
}

// datePrefix begins the folders of a partition in the layout hive.
const datePrefix = "date="

// directory returns the folder of a stream. A topic is one folder whatever characters it has.
func directory(root, stream string, layout Layout) string {
	topic, partition := connectors.SplitStream(stream)
	name := url.PathEscape(topic)
	if strings.Trim(name, ".") == "" {
		name = strings.ReplaceAll(name, ".", "%2E")
	}
	if layout == Hive {
		return filepath.Join(root, "topic="+name, "partition="+strconv.Itoa(partition))
	}
	return filepath.Join(root, name, strconv.Itoa(partition))
}
