package config

import (
	"strings"
	"testing"
)

// TestTyposAreNamedWithLineAndRemedy holds one file for each slip. The first line of every text is line 1.
func TestTyposAreNamedWithLineAndRemedy(t *testing.T) {
	t.Parallel()
	source := "sources:\n  shop:\n    type: postgres\n"
	sink := "sinks:\n  out:\n    type: file\n    topics: ['*']\n"
	for name, c := range map[string]struct{ text, want string }{
		"top key":             {"sourcse: {}", `p.yaml:1: sourcse: unknown key; did you mean "sources"?`},
		"tabels":              {source + "    tabels: [a]", `p.yaml:4: sources.shop.tabels: unknown key; did you mean "tables"?`},
		"a key of both parts": {source + "    topci: a", `p.yaml:4: sources.shop.topci: unknown key; did you mean "topic"?`},
		"far from any":        {"qqqqqq: 1", `p.yaml:1: qqqqqq: unknown key; valid here: http, log, registry, sinks, sources`},
		"10k":                 {source + "    batch_size: '10k'", `p.yaml:4: sources.shop.batch_size: "10k": not a size: a whole number of bytes, or with one of the units B, kB, MB,`},
		"a word too many":     {sink + "    batch_rows: 10", `p.yaml:5: sinks.out.batch_rows: unknown key; did you mean "batch"?`},
		"two kinds at once":   {source + "    mode: maybe\n    tabels: [a]", "p.yaml:4: sources.shop.mode: is not one of cdc, timestamp (got password )\np.yaml:5: sources.shop.tabels: unknown key; did you mean \"tables\"?"},
		"key twice":           {source + "    dsn: a\n    dsn: b", `p.yaml:5: sources.shop.dsn: repeated key, first given in line 4`},
		"section twice":       {"log: {}\nlog: {}", `p.yaml:2: log: repeated key, first given in line 1`},
		"source twice":        {source + "  shop: {type: sqlite}", `p.yaml:4: sources.shop: repeated key, first given in line 2`},
		"nested key":          {source + "    tables:\n      - public.*\n      - name: a\n        cursr: x", `p.yaml:7: sources.shop.tables[1].cursr: unknown key; did you mean "cursor"?`},
		"table without name":  {source + "    tables: [{cursor: x}]", `p.yaml:4: sources.shop.tables[0]: name is missing`},
		"unknown type":        {"sinks:\n  out:\n    type: fiel\n    topics: [a]", `p.yaml:3: sinks.out.type: "fiel" is no type of sink; valid here: file, postgres; did you mean "file"?`},
		"wrong role":          {"sources:\n  a: {type: file}", `p.yaml:2: sources.a.type: "file" cannot be a source; valid here: postgres, sqlite`},
		"no type":             {"sources:\n  a: {dsn: x}", `p.yaml:2: sources.a: type is missing; valid here: postgres, sqlite`},
		"scalar for list":     {source + "    tables: public.*", `p.yaml:4: sources.shop.tables: expected a list such as [a, b], found "public.*"`},
		"list for text":       {source + "    dsn: [a]", `p.yaml:4: sources.shop.dsn: expected text, found a list`},
		"map for text":        {source + "    dsn: {a: b}", `p.yaml:4: sources.shop.dsn: expected text, found keys with values`},
		"text for section":    {"log: data/log", `p.yaml:1: log: expected keys with values, found "data/log"`},
		"duration unit":       {source + "    heartbeat: 10", `p.yaml:4: sources.shop.heartbeat: expected a duration in the units ms, s, m, h (10s, 1h30m), found "10"`},
		"negative duration":   {source + "    heartbeat: -1s", `expected a duration`},
		"port too high":       {source + "    port: 65536", `p.yaml:4: sources.shop.port: expected a whole number, found "65536"`},
		"yes for true":        {source + "    follow: yes", `p.yaml:4: sources.shop.follow: expected true or false, found "yes"`},
		"nothing for number":  {source + "    port:", `p.yaml:4: sources.shop.port: expected a whole number, found nothing`},
		"nothing for size":    {source + "    batch_size:", `p.yaml:4: sources.shop.batch_size: has no value`},
		"number of rows":      {sink + "    batch: {rows: 5k}", `p.yaml:5: sinks.out.batch.rows: expected a whole number, found "5k"`},
		"bad connector value": {source + "    mode: maybe", `p.yaml:4: sources.shop.mode: is not one of cdc, timestamp`},
		"missing variable":    {source + "    dsn: x${NOPE}y${NOPE2}", "p.yaml:4: sources.shop.dsn: environment variable NOPE is not set\np.yaml:4: sources.shop.dsn: environment variable NOPE2 is not set"},
		"missing file":        {source + "    dsn: ${file:/nowhere/x}", `p.yaml:4: sources.shop.dsn: read ${file:…}: open /nowhere/x`},
		"bad reference":       {source + "    dsn: ${a b}", `p.yaml:4: sources.shop.dsn: ${a b} is none of ${NAME}, ${NAME:-default}, ${file:/path}`},
		"open reference":      {source + "    dsn: ${NAME", `p.yaml:4: sources.shop.dsn: a ${ without its }`},
		"kind of a step":      {sink + "    transforms:\n      - dorp: {columns: [ssn]}", `p.yaml:6: sinks.out.transforms[0].dorp: unknown key; did you mean "drop"?`},
		"verify":              {sink + "    verify: {every: 1h}\n    transforms:\n      - drop: {columns: [ssn]}", `p.yaml:5: sinks.out.verify: has every, and transforms change rows: they could not be compared with those of the sources`},
		"expression":          {sink + "    transforms:\n      - filter: a ==", `p.yaml:6: sinks.out.transforms[0].filter: "a ==": is no expression: unexpected token EOF, at character 4`},
		"schedule":            {source + "    schedule: '@dayly'", `p.yaml:4: sources.shop.schedule: "@dayly": no schedule`},
		"broker without port": {"log:\n  brokers: [a:9092, b]", `p.yaml:2: log.brokers: has entry 2, which is not host:port`},
		"sasl without broker": {"log:\n  sasl: {mechanism: PLAIN, user: a, password: b}", `brokers is missing`},
		"sasl mechanism":      {"log:\n  brokers: [a:9092]\n  sasl: {mechanism: plain, user: a, password: b}", `p.yaml:3: log.sasl.mechanism: is not one of PLAIN`},
		"open to the network": {"http: {listen: '0.0.0.0:8080'}", `p.yaml:1: http.listen: is reachable from other machines and there is no token and there are no users: set http.users or http.token, or use a loopback address such as 127.0.0.1:8080`},
		"a short token":       {"http: {listen: '0.0.0.0:8080', token: guessable}", `p.yaml:1: http.token: is shorter than 16 characters`},
		"any interface":       {"http: {listen: ':8080'}", `p.yaml:1: http.listen: is reachable from other machines`},
		"kafka open":          {"log: {listen: '10.0.0.1:9092'}", `p.yaml:1: log.listen: is reachable from other machines`},
		"no port":             {"http: {listen: localhost}", `p.yaml:1: http.listen: is not host:port (127.0.0.1:8080) or off`},
		"compression":         {"log: {topics: {compression: zst}}", `p.yaml:1: log.topics.compression: is not one of none, gzip, snappy, lz4, zstd`},
		"no topics":           {"sinks:\n  out: {type: file}", `p.yaml:2: sinks.out: topics is missing`},
		"from":                {sink + "    from: erliest", `p.yaml:5: sinks.out.from: "erliest": not one of earliest, latest, or a time`},
		"on_error":            {sink + "    on_error: skip", `p.yaml:5: sinks.out.on_error: is not one of dead_letter, stop`},
		"topic template":      {source + "    topic: '{sorce}.{table}'", `p.yaml:4: sources.shop.topic: has {sorce}, which is none of`},
		"internal topic":      {source + "    topic: _trunkline.x", `p.yaml:4: sources.shop.topic: begins with _trunkline.`},
		"same name":           {source + "sinks:\n  shop: {type: file, topics: [a]}", `p.yaml:5: sinks.shop: the name is taken by the one in line 2`},
		"same group":          {sink + "    group: g\n  two: {type: file, topics: [a], group: g}", `p.yaml:6: sinks.two.group: g is also the group of sink out`},
		"name":                {"sources:\n  a.b: {type: postgres}", `p.yaml:2: sources.a.b: a name is 1 to 100 letters`},
		"merge":               {"log: {<<: {dir: x}}", `p.yaml:1: log: merging with << is not supported`},
		"not YAML":            {"log:\n  a: [\n", `not valid YAML`},
		"tab":                 {"log:\n\tdir: x\n", `p.yaml:2: not valid YAML`},
		"two documents":       {"log: {}\n---\nlog: {}\n", `a second document begins here`},
		"not a mapping":       {"- a", `p.yaml:1: expected keys with values, found a list`},
		"endless alias":       {"log: &a {topics: *a}", `unknown key`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, _, err := parse(t, c.text, nil)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}

func TestAllErrorsComeAtOnceInLineOrder(t *testing.T) {
	t.Parallel()
	_, _, err := parse(t, `log: {dirr: x, topics: {partitions: many}}
sources:
  shop:
    type: postgres
    tabels: [a]
    password: ${NONE}
    batch_size: 10k
    tables: [{nam: x}]
    tables: []
sinks:
  out: {type: fiel, topics: x}
`, nil)
	var lines []string
	for _, e := range err.(Errors) {
		lines = append(lines, e.Path)
	}
	want := "log.dirr log.topics.partitions sources.shop.tabels sources.shop.password sources.shop.batch_size " +
		"sources.shop.tables[0].nam sources.shop.tables sinks.out.topics sinks.out.type"
	if got := strings.Join(lines, " "); got != want {
		t.Errorf("got  %s\nwant %s\n%v", got, want, err)
	}
}
