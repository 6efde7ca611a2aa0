package endtoend

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"math"
	"math/big"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
	"github.com/redis/go-redis/v9"

	"github.com/trunkline/trunkline/connectors/conformance/duck"
	"github.com/trunkline/trunkline/connectors/localprocess"
)

// readSQLite returns the rows of all tables of a file that have a column id, in the words of SQLite's quote().
func readSQLite(t *testing.T, file string) storeRows {
	t.Helper()
	db := sql.OpenDB(sqliteFile(file))
	defer db.Close()
	out := storeRows{}
	for _, table := range sqliteNames(t, db, `SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE '\_%' ESCAPE '\'`) {
		columns := sqliteNames(t, db, "SELECT name FROM pragma_table_info(?)", table)
		var list []string
		for _, c := range columns {
			// The text that quote() gives of a text ends at U+0000; a real number is the sixteen hex digits of its bits.
			c = `"` + strings.ReplaceAll(c, `"`, `""`) + `"`
			list = append(list, "typeof("+c+"), CASE WHEN typeof("+c+") = 'text' THEN hex("+c+") ELSE quote("+c+") END")
		}
		rows, err := db.Query(`SELECT ` + strings.Join(list, ", ") + ` FROM "` + strings.ReplaceAll(table, `"`, `""`) + `"`)
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
			texts, into := make([]string, 2*len(columns)), make([]any, 2*len(columns))
			for i := range texts {
				into[i] = &texts[i]
			}
			if err := rows.Scan(into...); err != nil {
				t.Fatal(err)
			}
			row := map[string]cell{}
			for i, c := range columns {
				row[c] = sqliteCell(t, texts[2*i], texts[2*i+1])
			}
			out.add(table, row)
		}
		if err := rows.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func sqliteNames(t *testing.T, db *sql.DB, query string, args ...any) (out []string) {
	t.Helper()
	rows, err := db.Query(query, args...)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		out = append(out, name)
	}
	return out
}

// sqliteCell reads what SQLite says of a value.
func sqliteCell(t *testing.T, kind, quoted string) cell {
	t.Helper()
	switch kind {
	case "null":
		return cell{null: true}
	case "text", "blob":
		digits := strings.TrimSuffix(strings.TrimPrefix(quoted, "X'"), "'")
		b, err := hex.DecodeString(digits)
		if err != nil {
			t.Fatal(err)
		}
		return cell{text: string(b), bytes: kind == "blob"}
	case "real":
		// quote() has 9.0e+999 for what is infinite.
		if f, err := strconv.ParseFloat(quoted, 64); math.IsInf(f, 0) {
			return cell{text: strings.Replace(fmt.Sprintf("%vinity", f), "+", "", 1)}
		} else if err != nil {
			t.Fatal(err)
		}
	}
	return cell{text: quoted}
}

// parquetFiles calls do for each finished file of a sink.
func parquetFiles(t *testing.T, dir string, do func(path string)) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.HasSuffix(path, ".parquet") && !strings.HasPrefix(d.Name(), ".") {
			do(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// ownColumns are those of the sink that stand before those of the table.
const ownColumns = 7

// readParquetDuck reads the files of a sink with DuckDB.
func readParquetDuck(t *testing.T, dir string) storeRows {
	t.Helper()
	db := duck.Start(t, "../..")
	out := storeRows{}
	parquetFiles(t, dir, func(path string) {
		r := db.Query(t, "SELECT * FROM read_parquet('"+strings.ReplaceAll(path, "'", "''")+"', hive_partitioning=false)")
		for _, values := range r.Rows {
			_, table, _ := strings.Cut(*values[3], ".")
			row := map[string]cell{}
			for i := ownColumns; i < len(values); i++ {
				c := cell{null: values[i] == nil, list: strings.HasSuffix(r.Types[i], "[]") || strings.HasPrefix(r.Types[i], "MAP")}
				if !c.null {
					c.text = *values[i]
				}
				if r.Types[i] == "BLOB" && !c.null {
					b, err := base64.StdEncoding.DecodeString(c.text)
					if err != nil {
						t.Fatal(err)
					}
					c.text, c.bytes = string(b), true
				}
				row[r.Columns[i]] = c
			}
			out.add(table, row)
		}
	})
	return out
}

// readParquet reads the files of a sink with parquet-go's own maps of values. Lists and maps are DuckDB's to read.
func readParquet(t *testing.T, dir string) storeRows {
	t.Helper()
	out := storeRows{}
	parquetFiles(t, dir, func(path string) {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil {
			t.Fatal(err)
		}
		p, err := parquet.OpenFile(f, info.Size())
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		leaves := p.Schema().Columns()
		for _, group := range p.RowGroups() {
			rows := group.Rows()
			buffer := make([]parquet.Row, 64)
			for {
				n, err := rows.ReadRows(buffer)
				for _, values := range buffer[:n] {
					out.add(parquetRow(t, p.Schema(), leaves, values))
				}
				if err == io.EOF {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if err := rows.Close(); err != nil {
				t.Fatal(err)
			}
		}
	})
	return out
}

// parquetRow puts the values of a row's leaves together.
func parquetRow(t *testing.T, schema *parquet.Schema, leaves [][]string, values parquet.Row) (table string, row map[string]cell) {
	t.Helper()
	row = map[string]cell{}
	byColumn := map[int][]parquet.Value{}
	for _, v := range values {
		byColumn[v.Column()] = append(byColumn[v.Column()], v)
	}
	for at := 0; at < len(leaves); at++ {
		name, v := leaves[at][0], byColumn[at]
		leaf, _ := schema.Lookup(leaves[at]...)
		switch {
		case name == "_table":
			_, table, _ = strings.Cut(v[0].String(), ".")
		case len(leaves[at]) == 1:
			row[name] = parquetCell(leaf.Node.Type(), v[0])
		case leaves[at][1] == "list":
			row[name] = parquetList(leaf.Node.Type(), v)
		case leaves[at][1] == "key_value":
			row[name] = parquetMap(v, byColumn[at+1])
			at++
		}
	}
	return table, row
}

// parquetList is a list as JSON. The levels are: 0 no list, 1 an empty one, 2 a NULL element, 3 an element.
func parquetList(kind parquet.Type, values []parquet.Value) cell {
	var list []any
	for _, v := range values {
		switch v.DefinitionLevel() {
		case 0:
			return cell{null: true}
		case 1:
		case 2:
			list = append(list, nil)
		default:
			c := parquetCell(kind, v)
			if c.bytes {
				c.text = base64.StdEncoding.EncodeToString([]byte(c.text))
			}
			list = append(list, c.text)
		}
	}
	text, _ := json.Marshal(append([]any{}, list...)) // texts alone
	return cell{text: string(text), list: true}
}

// parquetMap is a map as a JSON object, with the levels of a list.
func parquetMap(keys, values []parquet.Value) cell {
	object := map[string]any{}
	for i, k := range keys {
		switch {
		case k.DefinitionLevel() == 0:
			return cell{null: true}
		case k.DefinitionLevel() == 1:
		case values[i].IsNull():
			object[string(k.ByteArray())] = nil
		default:
			object[string(k.ByteArray())] = string(values[i].ByteArray())
		}
	}
	text, _ := json.Marshal(object) // texts alone
	return cell{text: string(text), list: true}
}

// parquetCell is a single value in the words of parquet-go's logical types.
func parquetCell(kind parquet.Type, v parquet.Value) cell {
	if v.IsNull() {
		return cell{null: true}
	}
	logical := kind.LogicalType()
	if logical != nil {
		switch l := logical.Value.(type) {
		case *format.DecimalType:
			return cell{text: decimalText(v, int(l.Scale))}
		case *format.UUIDType:
			b := v.ByteArray()
			return cell{text: fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])}
		case *format.DateType:
			return cell{text: dayText(int64(v.Int32()))}
		case *format.TimeType:
			return cell{text: clockOf(v.Int64())}
		case *format.TimestampType:
			micros := v.Int64()
			day := micros / 86400e6
			if micros%86400e6 < 0 {
				day--
			}
			return cell{text: dayText(day) + "T" + clockOf(micros-day*86400e6)}
		case *format.IntType:
			if !l.IsSigned {
				return cell{text: strconv.FormatUint(v.Uint64(), 10)}
			}
		}
	}
	switch v.Kind() {
	case parquet.Boolean:
		return cell{text: strconv.FormatBool(v.Boolean())}
	case parquet.Double:
		return cell{text: doubleText(v.Double())}
	case parquet.ByteArray:
		return cell{text: string(v.ByteArray()), bytes: logical == nil}
	}
	return cell{text: v.String()}
}

// readClickHouse reads the visible rows of all tables of a database, strings in hex and floats by their bits.
func readClickHouse(t *testing.T, address, database string) storeRows {
	t.Helper()
	out := storeRows{}
	kinds, columns := map[string][]string{}, map[string][]string{}
	for _, r := range askClickHouse(t, address, "SELECT table, name, type FROM system.columns WHERE database = '"+database+"' ORDER BY table, position") {
		table := *r[0]
		columns[table], kinds[table] = append(columns[table], *r[1]), append(kinds[table], *r[2])
	}
	for table, names := range columns {
		var list []string
		for i, name := range names {
			name = "`" + strings.ReplaceAll(name, "`", "\\`") + "`"
			switch kind := kinds[table][i]; {
			case strings.HasPrefix(kind, "Array("):
				list = append(list, "toJSONString("+name+")")
			case strings.Contains(kind, "String"):
				list = append(list, "hex("+name+")")
			case strings.Contains(kind, "Float64"):
				list = append(list, "toString(reinterpretAsInt64("+name+"))")
			default:
				list = append(list, "toString("+name+")")
			}
		}
		for _, values := range askClickHouse(t, address, "SELECT "+strings.Join(list, ", ")+" FROM "+database+".`"+table+"` FINAL WHERE _deleted = 0") {
			row := map[string]cell{}
			for i, v := range values {
				row[names[i]] = clickhouseCell(t, kinds[table][i], v)
			}
			out.add(table, row)
		}
	}
	return out
}

func clickhouseCell(t *testing.T, kind string, v *string) cell {
	t.Helper()
	if v == nil {
		return cell{null: true}
	}
	c := cell{text: *v}
	switch {
	case strings.HasPrefix(kind, "Array("):
		c.list = true
	case strings.Contains(kind, "String"):
		b, err := hex.DecodeString(*v)
		if err != nil {
			t.Fatal(err)
		}
		c.text, c.raw = string(b), true
	case strings.Contains(kind, "Float64"):
		bits, err := strconv.ParseInt(*v, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		c.text = doubleText(math.Float64frombits(uint64(bits)))
	case strings.Contains(kind, "Bool"):
		c.text = map[string]string{"true": "1", "false": "0"}[*v]
	case strings.Contains(kind, "Decimal"):
		c.exact = true
	}
	return c
}

// askClickHouse runs a query over HTTP and returns its rows as the server writes them.
func askClickHouse(t *testing.T, address, query string) (out [][]*string) {
	t.Helper()
	resp, err := http.Post("http://"+address+"/?default_format=JSONCompactStringsEachRow&query="+url.QueryEscape(query), "", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("ask ClickHouse: %s: %v %s", query, err, body)
	}
	for line := range bytes.Lines(body) {
		var row []*string
		if err := json.Unmarshal(line, &row); err != nil {
			t.Fatalf("read ClickHouse's answer: %v: %s", err, line)
		}
		for i, v := range row {
			if v != nil && *v == "ᴺᵁᴸᴸ" {
				row[i] = nil
			}
		}
		out = append(out, row)
	}
	return out
}

// startClickHouse runs the engine of ClickHouse that scripts/setup-stores installs, behind HTTP, and returns its address.
func startClickHouse(t *testing.T) string {
	t.Helper()
	folder, err := filepath.Abs("../../bin/chdb")
	if dir := os.Getenv("TRUNKLINE_CHDB"); dir != "" {
		folder = dir
	}
	if err != nil {
		t.Fatal(err)
	}
	script, err := filepath.Abs("../../connectors/clickhouse/testdata/chdb_server.py")
	if err != nil {
		t.Fatal(err)
	}
	return localprocess.Start(t, localprocess.Server{
		Program: "python3", Missing: "install Python 3, and run scripts/setup-stores",
		Args: func(dir string, ports []int) ([]string, error) {
			return []string{script, folder, strconv.Itoa(ports[0]), dir}, nil
		},
		Ready: func(ctx context.Context, address string) error {
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/?query=SELECT+1", nil)
			if err != nil {
				return err
			}
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				return err
			}
			return resp.Body.Close()
		},
	}).Address
}

// startRedis runs redis-server and returns its address.
func startRedis(t *testing.T) string {
	t.Helper()
	return localprocess.Start(t, localprocess.Server{
		Program: "redis-server", Missing: "apt-get install redis-server",
		Args: func(dir string, ports []int) ([]string, error) {
			return []string{"--port", strconv.Itoa(ports[0]), "--bind", "127.0.0.1", "--dir", dir, "--save", ""}, nil
		},
		Ready: func(ctx context.Context, address string) error {
			db := redis.NewClient(&redis.Options{Addr: address})
			defer db.Close()
			return db.Ping(ctx).Err()
		},
	}).Address
}

// redisKeys calls do for the key of each row.
func redisKeys(t *testing.T, address string, database int, do func(db *redis.Client, table, key string)) {
	t.Helper()
	db := redis.NewClient(&redis.Options{Addr: address, DB: database, Protocol: 2})
	defer db.Close()
	keys, err := db.Keys(t.Context(), "t_*").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		table, _, _ := strings.Cut(key, ":")
		do(db, table, key)
	}
}

// readHashes reads rows with HGETALL. NULL is no field, so the columns are the source's.
func readHashes(t *testing.T, address string, database int, source map[string]map[string]map[string]json.RawMessage) storeRows {
	t.Helper()
	out := storeRows{}
	redisKeys(t, address, database, func(db *redis.Client, table, key string) {
		fields, err := db.HGetAll(t.Context(), key).Result()
		if err != nil {
			t.Fatal(err)
		}
		row := map[string]cell{}
		for column := range source[table][`{"id":`+fields["id"]+`}`] {
			row[column] = cell{null: true}
		}
		for name, text := range fields {
			row[name] = cell{text: text, raw: true}
		}
		out.add(table, row)
	})
	return out
}

// readDocuments reads rows with GET.
func readDocuments(t *testing.T, address string, database int) storeRows {
	t.Helper()
	out := storeRows{}
	redisKeys(t, address, database, func(db *redis.Client, table, key string) {
		text, err := db.Get(t.Context(), key).Bytes()
		if err != nil {
			t.Fatal(err)
		}
		var members map[string]json.RawMessage
		if err := json.Unmarshal(text, &members); err != nil {
			t.Fatal(err)
		}
		row := map[string]cell{}
		for name, v := range members {
			row[name] = cell{null: string(v) == "null", text: flat(t, v)}
		}
		out.add(table, row)
	})
	return out
}

func doubleText(f float64) string {
	switch {
	case math.IsInf(f, 0):
		return strings.Replace(fmt.Sprintf("%vinity", f), "+", "", 1)
	case f == 0 && math.Signbit(f):
		return "-0.0"
	}
	return strconv.FormatFloat(f, 'g', -1, 64)
}

// decimalText is a decimal with its scale.
func decimalText(v parquet.Value, scale int) string {
	n := big.NewInt(0)
	switch v.Kind() {
	case parquet.FixedLenByteArray:
		b := v.ByteArray()
		if n.SetBytes(b); b[0] >= 0x80 {
			n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
		}
	case parquet.Int32:
		n.SetInt64(int64(v.Int32()))
	default:
		n.SetInt64(v.Int64())
	}
	sign := ""
	if n.Sign() < 0 {
		sign = "-"
	}
	digits := fmt.Sprintf("%0*s", scale+1, n.Abs(n).String())
	if scale == 0 {
		return sign + digits
	}
	return sign + digits[:len(digits)-scale] + "." + digits[len(digits)-scale:]
}

// dayText is a day counted from 1970-01-01.
func dayText(days int64) string { return time.Unix(days*86400, 0).UTC().Format("2006-01-02") }

// clockOf is a time of day in microseconds.
func clockOf(micros int64) string {
	return time.UnixMicro(micros).UTC().Format("15:04:05.000000")
}
