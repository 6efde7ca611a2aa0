package mysql

import (
	"slices"
	"strings"
)

// ddl is a statement that may change what tables look like, as far as that matters here.
type ddl struct {
	verb    string // create, alter, drop, rename, truncate; empty: none of them
	table   tableName
	replace bool // CREATE OR REPLACE
	exists  bool // IF NOT EXISTS, of a create
	like    tableName
	opaque  bool        // the table looks as no part of the statement tells
	drops   []tableName // of a drop
	renames [][2]tableName
	specs   []ddlSpec
	charset string   // the default of the table
	lost    []string // what removes or fills rows without a trace in the binary log
}

// ddlSpec is one thing that is done to a table.
type ddlSpec struct {
	what   string // add, drop, change, rename, key, dropkey, convert
	name   string // of the column, before
	column columnSpec
	first  bool
	after  string
	key    []string
	unless bool // IF NOT EXISTS, IF EXISTS
}

// columnSpec is a column as a statement defines it.
type columnSpec struct {
	name      string
	base      string   // words of the type, lower case
	params    []string // in parentheses
	words     []string // behind them, upper case: UNSIGNED, ZEROFILL, BINARY …
	charset   string
	collate   string
	notNull   bool
	nullable  bool // says NULL
	primary   bool
	unique    bool
	generated bool
	filled    bool // has a default that is not NULL
}

// parser reads the tokens of one statement.
type parser struct {
	tokens []token
	schema string // where names without one are
}

// parseDDL reads a statement. It returns nil when it is none that matters here.
func parseDDL(text, schema string, ansi, raw bool) *ddl {
	p := &parser{tokens: tokenize(text, ansi, raw), schema: schema}
	if p.accept("SET") && p.accept("STATEMENT") { // MariaDB: SET STATEMENT x = y FOR …
		for len(p.tokens) > 0 && !p.accept("FOR") {
			p.next()
		}
	}
	switch {
	case p.accept("CREATE"):
		return p.create()
	case p.accept("ALTER"):
		p.accept("ONLINE")
		p.accept("IGNORE")
		if p.accept("TABLE") {
			return p.alter()
		}
	case p.accept("DROP"):
		temporary := p.accept("TEMPORARY")
		if (p.accept("TABLE") || p.accept("TABLES")) && !temporary {
			return p.drop()
		}
	case p.accept("RENAME"):
		if p.accept("TABLE") || p.accept("TABLES") {
			return p.rename()
		}
	case p.accept("TRUNCATE"):
		p.accept("TABLE")
		return &ddl{verb: "truncate", table: p.tableName()}
	}
	return nil
}

func (p *parser) peek() token {
	if len(p.tokens) == 0 {
		return token{}
	}
	return p.tokens[0]
}

func (p *parser) next() token {
	t := p.peek()
	if len(p.tokens) > 0 {
		p.tokens = p.tokens[1:]
	}
	return t
}

// accept takes the keywords if they come next, all of them.
func (p *parser) accept(words ...string) bool {
	if len(p.tokens) < len(words) {
		return false
	}
	for i, w := range words {
		if !p.tokens[i].is(w) {
			return false
		}
	}
	p.tokens = p.tokens[len(words):]
	return true
}

// ifExists takes IF EXISTS or IF NOT EXISTS.
func (p *parser) ifExists() bool { return p.accept("IF", "NOT", "EXISTS") || p.accept("IF", "EXISTS") }

func (p *parser) tableName() tableName {
	n := tableName{schema: p.schema, name: p.next().text}
	if p.accept(".") {
		n.schema, n.name = n.name, p.next().text
	}
	return n
}

// columnName reads a name, of which the table's part does not count.
func (p *parser) columnName() string {
	name := p.next().text
	for p.accept(".") {
		name = p.next().text
	}
	return name
}

// group takes what stands in parentheses, without them.
func (p *parser) group() []token {
	if !p.accept("(") {
		return nil
	}
	depth := 1
	for i, t := range p.tokens {
		switch {
		case t.is("("):
			depth++
		case t.is(")"):
			depth--
		}
		if depth == 0 {
			inside := p.tokens[:i]
			p.tokens = p.tokens[i+1:]
			return inside
		}
	}
	inside := p.tokens
	p.tokens = nil
	return inside
}

// split cuts tokens at the commas outside parentheses.
func split(tokens []token) (out [][]token) {
	depth, start := 0, 0
	for i, t := range tokens {
		switch {
		case t.is("("):
			depth++
		case t.is(")"):
			depth--
		case depth == 0 && t.is(","):
			out = append(out, tokens[start:i])
			start = i + 1
		}
	}
	return append(out, tokens[start:])
}

func (p *parser) create() *ddl {
	d := &ddl{verb: "create"}
	d.replace = p.accept("OR", "REPLACE")
	if p.accept("TEMPORARY") || !p.accept("TABLE") {
		return nil
	}
	d.exists = p.ifExists()
	d.table = p.tableName()
	if p.accept("LIKE") {
		d.like = p.tableName()
		return d
	}
	body := p.group()
	if len(body) >= 2 && body[0].is("LIKE") {
		d.like = (&parser{tokens: body[1:], schema: p.schema}).tableName()
		return d
	}
	for _, part := range split(body) {
		d.definition(&parser{tokens: part, schema: p.schema})
	}
	d.options(p)
	d.opaque = d.opaque || len(d.specs) == 0
	return d
}

// options looks for the default character set, and for a query whose columns nobody has told.
func (d *ddl) options(p *parser) {
	for len(p.tokens) > 0 {
		switch {
		case p.accept("CHARACTER", "SET"), p.accept("CHARSET"):
			p.accept("=")
			d.charset = strings.ToLower(p.next().text)
		case p.accept("COLLATE"):
			p.accept("=")
			if name := p.next().text; d.charset == "" {
				d.charset = charsetOf(name)
			}
		case p.accept("SELECT"):
			d.opaque = true
			return
		default:
			p.next()
		}
	}
}

// charsetOf is the character set of a collation: the part before the first underscore.
func charsetOf(collation string) string {
	name, _, _ := strings.Cut(strings.ToLower(collation), "_")
	return name
}

// definition reads a column or a key in the parentheses of CREATE TABLE, or behind ADD.
func (d *ddl) definition(p *parser) {
	if p.accept("CONSTRAINT") && !p.peek().is("PRIMARY", "UNIQUE", "FOREIGN", "CHECK") {
		p.next()
	}
	switch {
	case p.accept("PRIMARY", "KEY"):
		d.specs = append(d.specs, ddlSpec{what: "key", key: p.keyColumns()})
	case p.peek().is("UNIQUE"):
		d.specs = append(d.specs, ddlSpec{what: "unique"})
	case p.peek().is("INDEX", "KEY", "FULLTEXT", "SPATIAL", "FOREIGN", "CHECK", "PERIOD", "PARTITION", "SYSTEM", "LIKE"):
	case len(p.tokens) > 0:
		unless := p.ifExists()
		s := ddlSpec{what: "add", unless: unless, column: p.column()}
		s.first, s.after = p.place()
		d.specs = append(d.specs, s)
	}
}

func (p *parser) keyColumns() []string {
	for len(p.tokens) > 0 && !p.peek().is("(") {
		p.next()
	}
	var out []string
	for _, part := range split(p.group()) {
		if len(part) > 0 {
			out = append(out, part[0].text)
		}
	}
	return out
}

// place looks for FIRST and AFTER among what is left of a column.
func (p *parser) place() (first bool, after string) {
	for i, t := range p.tokens {
		switch {
		case t.is("FIRST") && i == len(p.tokens)-1:
			return true, ""
		case t.is("AFTER") && i == len(p.tokens)-2:
			return false, p.tokens[i+1].text
		}
	}
	return false, ""
}

func (p *parser) alter() *ddl {
	p.ifExists()
	d := &ddl{verb: "alter", table: p.tableName()}
	for p.peek().is("WAIT", "NOWAIT") {
		if p.next().is("WAIT") {
			p.next()
		}
	}
	for _, part := range split(p.tokens) {
		d.alterPart(&parser{tokens: part, schema: p.schema})
	}
	return d
}

// alterPart reads one part of ALTER TABLE. What does not change a row's layout is left out.
func (d *ddl) alterPart(p *parser) {
	switch {
	case p.accept("ADD"):
		p.accept("COLUMN")
		if p.peek().is("(") {
			for _, part := range split(p.group()) {
				d.definition(&parser{tokens: part, schema: p.schema})
			}
			return
		}
		d.definition(p)
	case p.accept("DROP"):
		d.dropPart(p)
	case p.accept("MODIFY"):
		p.accept("COLUMN")
		unless := p.ifExists()
		s := ddlSpec{what: "change", unless: unless}
		s.column = p.column()
		s.name = s.column.name
		s.first, s.after = p.place()
		d.specs = append(d.specs, s)
	case p.accept("CHANGE"):
		p.accept("COLUMN")
		s := ddlSpec{what: "change", unless: p.ifExists(), name: p.columnName(), column: p.column()}
		s.first, s.after = p.place()
		d.specs = append(d.specs, s)
	case p.accept("RENAME", "COLUMN"):
		s := ddlSpec{what: "rename", unless: p.ifExists(), name: p.columnName()}
		p.accept("TO")
		s.column.name = p.columnName()
		d.specs = append(d.specs, s)
	case p.accept("RENAME"):
		if !p.peek().is("INDEX", "KEY") {
			if !p.accept("TO") {
				p.accept("AS")
			}
			d.renames = append(d.renames, [2]tableName{d.table, p.tableName()})
		}
	case p.accept("CONVERT", "TO"):
		rest := &ddl{}
		rest.options(p)
		d.specs = append(d.specs, ddlSpec{what: "convert", column: columnSpec{charset: rest.charset}})
		d.charset = rest.charset
	case p.peek().is("TRUNCATE", "EXCHANGE"), len(p.tokens) > 1 && p.peek().is("DROP") && p.tokens[1].is("PARTITION"):
		d.lost = append(d.lost, strings.ToUpper(p.peek().text)+" PARTITION")
	default:
		d.options(p)
		d.opaque = false
	}
}

func (d *ddl) dropPart(p *parser) {
	switch {
	case p.accept("PRIMARY", "KEY"):
		d.specs = append(d.specs, ddlSpec{what: "dropkey"})
	case p.accept("PARTITION"):
		d.lost = append(d.lost, "DROP PARTITION")
	case p.peek().is("INDEX", "KEY"):
		d.specs = append(d.specs, ddlSpec{what: "unique"})
	case p.peek().is("FOREIGN", "CONSTRAINT", "CHECK", "PERIOD", "SYSTEM"):
	default:
		p.accept("COLUMN")
		s := ddlSpec{what: "drop", unless: p.ifExists()}
		s.name = p.columnName()
		d.specs = append(d.specs, s)
	}
}

func (p *parser) drop() *ddl {
	p.ifExists()
	d := &ddl{verb: "drop"}
	for {
		d.drops = append(d.drops, p.tableName())
		if !p.accept(",") {
			return d
		}
	}
}

func (p *parser) rename() *ddl {
	p.ifExists()
	d := &ddl{verb: "rename"}
	for {
		from := p.tableName()
		for len(p.tokens) > 0 && !p.accept("TO") {
			p.next() // WAIT n
		}
		d.renames = append(d.renames, [2]tableName{from, p.tableName()})
		if !p.accept(",") {
			return d
		}
	}
}

// typeWords are those that a type may have before its parentheses, besides the first.
var typeWords = []string{"PRECISION", "VARYING", "VARCHAR", "CHAR", "CHARACTER", "VARCHARACTER", "VARBINARY", "LARGE", "OBJECT"}

// column reads a name and a definition. Tokens from FIRST or AFTER on are left for place.
func (p *parser) column() columnSpec {
	c := columnSpec{name: p.columnName()}
	words := []string{strings.ToLower(p.next().text)}
	for p.peek().is(typeWords...) && slices.Contains([]string{"double", "national", "long", "char", "character", "nchar", "binary"}, words[0]) {
		if p.peek().is("CHARACTER") && len(p.tokens) > 1 && p.tokens[1].is("SET") {
			break
		}
		words = append(words, strings.ToLower(p.next().text))
	}
	c.base = strings.Join(words, " ")
	for _, part := range split(p.group()) {
		if len(part) > 0 {
			c.params = append(c.params, part[0].text)
		}
	}
	for len(p.tokens) > 0 {
		if p.peek().is("FIRST") || p.peek().is("AFTER") {
			break
		}
		p.attribute(&c)
	}
	return c
}

func (p *parser) attribute(c *columnSpec) {
	switch {
	case p.accept("NOT", "NULL"):
		c.notNull = true
	case p.accept("NULL"):
		c.nullable = true
	case p.accept("DEFAULT"):
		if p.peek().is("(") {
			p.group()
			c.filled = true
			return
		}
		c.filled = !p.next().is("NULL")
	case p.accept("ON", "UPDATE"):
		p.next()
	case p.accept("CHARACTER", "SET"), p.accept("CHAR", "SET"), p.accept("CHARSET"):
		c.charset = strings.ToLower(p.next().text)
	case p.accept("COLLATE"):
		c.collate = p.next().text
	case p.accept("COMMENT"):
		p.next()
	case p.accept("PRIMARY"), p.accept("KEY"):
		p.accept("KEY")
		c.primary = true
	case p.accept("UNIQUE"):
		p.accept("KEY")
		c.unique = true
	case p.accept("GENERATED", "ALWAYS", "AS"), p.accept("AS"):
		p.group()
		c.generated = true
	case p.accept("REFERENCES"), p.accept("CHECK"), p.accept("CONSTRAINT"):
		for len(p.tokens) > 0 && !p.peek().is("FIRST", "AFTER") {
			if p.group() == nil {
				p.next()
			}
		}
	case p.peek().is("("):
		p.group()
	default:
		c.words = append(c.words, strings.ToUpper(p.next().text))
	}
}
