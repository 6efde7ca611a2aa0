package transform

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/parser"
	"github.com/expr-lang/expr/types"
	"github.com/expr-lang/expr/vm"

	"github.com/trunkline/trunkline/connectors"
)

// changeName is the one name in an expression that is no column: what happened to the row.
const changeName = "change"

// Expression is text in the language of expr-lang.org, over the columns of a row. Its numbers are exact, and a
// comparison with NULL is false; docs/transforms.md says what else differs.
type Expression struct {
	text  string
	names []string // the columns that it looks at
	event bool     // it looks at change
}

// UnmarshalText checks the grammar. Whether its columns exist is known with a table.
func (e *Expression) UnmarshalText(text []byte) error {
	e.text = string(text)
	tree, err := parser.Parse(e.text)
	if err != nil {
		return errors.New("is no expression: " + oneLine(err))
	}
	walk := &names{found: map[string]bool{}, let: map[string]bool{}}
	ast.Walk(&tree.Node, walk)
	e.names = nil
	for name := range walk.found {
		switch {
		case name == changeName:
			e.event = true
		case name == "null", name == "$env":
		case !walk.let[name] && !walk.called[name]:
			e.names = append(e.names, name)
		}
	}
	slices.Sort(e.names)
	return nil
}

func oneLine(err error) string {
	var at *file.Error
	if errors.As(err, &at) {
		return fmt.Sprintf("%s, at character %d", at.Message, at.Column+1)
	}
	first, _, _ := strings.Cut(err.Error(), "\n")
	return first
}

// names collects the identifiers of a tree.
type names struct {
	found, let map[string]bool
	called     map[string]bool
}

func (n *names) Visit(node *ast.Node) {
	switch x := (*node).(type) {
	case *ast.IdentifierNode:
		n.found[x.Value] = true
	case *ast.MemberNode: // $env["a name with spaces"]
		id, ok := x.Node.(*ast.IdentifierNode)
		if name, text := x.Property.(*ast.StringNode); ok && text && id.Value == "$env" {
			n.found[name.Value] = true
		}
	case *ast.VariableDeclaratorNode:
		n.let[x.Name] = true
	case *ast.CallNode:
		if id, ok := x.Callee.(*ast.IdentifierNode); ok {
			if n.called == nil {
				n.called = map[string]bool{}
			}
			n.called[id.Value] = true
		}
	}
}

// program is an expression that was compiled for one version of a table. It belongs to one goroutine.
type program struct {
	expression *Expression
	table      *connectors.Table
	columns    []int // that it looks at
	code       *vm.Program
	machine    vm.VM
	env        map[string]any
	change     map[string]any // nil: it does not look at it
}

// compile makes the program, and tries it on a row of the table so that what can never work is known at once.
func (e *Expression) compile(t *connectors.Table) (*program, error) {
	p := &program{expression: e, table: t, env: map[string]any{}}
	declared := types.Map{}
	for _, name := range e.names {
		i := t.Column(name)
		if i < 0 {
			return nil, &columnError{Table: t, Column: name}
		}
		p.columns = append(p.columns, i)
		declared[name] = types.Any
	}
	if e.event {
		p.change = map[string]any{}
		p.env[changeName] = p.change
		declared[changeName] = types.Any
	}
	options := append([]expr.Option{expr.Env(declared), expr.Patch(patch{}), expr.DisableBuiltin("now"), expr.DisableBuiltin("date")}, functions...)
	code, err := expr.Compile(e.text, options...)
	if err != nil {
		return nil, errors.New(oneLine(err))
	}
	p.code = code
	sample := make([]connectors.Value, len(t.Columns))
	for i := range t.Columns {
		sample[i] = sampleOf(t.Columns[i].Kind)
	}
	if _, err := p.run(&connectors.Change{Op: connectors.Insert, Table: t, After: sample}, sample); err != nil {
		var kinds *kindError
		if errors.As(err, &kinds) {
			return nil, err
		}
	}
	return p, nil
}

// sampleOf returns a value of a kind with which an expression is tried.
func sampleOf(k connectors.Kind) connectors.Value {
	switch k {
	case connectors.Bool:
		return connectors.BoolValue(true)
	case connectors.Int:
		return connectors.IntValue(1)
	case connectors.Uint:
		return connectors.UintValue(1)
	case connectors.Float, connectors.Decimal:
		return textValue(k, "1")
	case connectors.JSON, connectors.Map:
		return textValue(k, "{}")
	case connectors.Array:
		return textValue(k, "[]")
	case connectors.Date, connectors.Time, connectors.Timestamp, connectors.TimestampTZ:
		return textValue(k, "2026-01-30")
	case connectors.Absent, connectors.Null:
		return connectors.NullValue()
	}
	return textValue(k, "x")
}

// lacks returns the first column that the expression looks at and the row does not carry, -1 if there is none.
func (p *program) lacks(row []connectors.Value) int {
	for _, i := range p.columns {
		if i >= len(row) || row[i].IsAbsent() {
			return i
		}
	}
	return -1
}

// run evaluates the expression on an image of the row; nil has no columns.
func (p *program) run(c *connectors.Change, row []connectors.Value) (any, error) {
	for i, name := range p.expression.names {
		p.env[name] = nil
		if at := p.columns[i]; at < len(row) {
			p.env[name] = toExpr(row[at])
		}
	}
	if p.change != nil {
		p.fillChange(c)
	}
	out, err := p.machine.Run(p.code, p.env)
	if err != nil {
		var kinds *kindError
		if errors.As(err, &kinds) {
			return nil, kinds
		}
		return nil, errors.New("evaluate the expression: " + oneLine(err))
	}
	return out, nil
}

func (p *program) fillChange(c *connectors.Change) {
	p.change["op"] = string(c.Op.Code())
	p.change["database"], p.change["schema"], p.change["table"] = p.table.Database, p.table.Schema, p.table.Name
	p.change["time"] = nil
	if !c.Time.IsZero() {
		p.change["time"] = moment(c.Time.UTC().Format("2006-01-02T15:04:05.999999999Z"))
	}
	before := make(map[string]any, len(c.Before))
	for i, v := range c.Before {
		before[p.table.Columns[i].Name] = toExpr(v)
	}
	p.change["before"] = before
}

// truth evaluates a condition. NULL is false.
func (p *program) truth(c *connectors.Change, row []connectors.Value) (bool, error) {
	out, err := p.run(c, row)
	if err != nil {
		return false, err
	}
	return truth(out)
}

// toExpr turns a value into what an expression computes with.
func toExpr(v connectors.Value) any {
	switch v.Kind() {
	case connectors.Absent, connectors.Null:
		return nil
	case connectors.Bool:
		return v.Bool()
	case connectors.Int:
		return int(v.Int())
	case connectors.Uint:
		if u := v.Uint(); u > 1<<63-1 {
			d, _ := parseDecimal(string(v.AppendText(nil)))
			return d
		}
		return int(v.Uint())
	case connectors.Float:
		return parseFloat(string(v.Data()))
	case connectors.Decimal:
		if d, err := parseDecimal(string(v.Data())); err == nil {
			return d
		}
		return string(v.Data())
	case connectors.Bytes:
		return slices.Clone(v.Data())
	case connectors.Date, connectors.Time, connectors.Timestamp, connectors.TimestampTZ:
		return moment(v.Data())
	}
	return string(v.Data())
}

// fromExpr turns a result into a value of a column.
func fromExpr(out any, t Type) (connectors.Value, error) {
	var v connectors.Value
	switch x := out.(type) {
	case nil:
		return connectors.NullValue(), nil
	case bool:
		v = connectors.BoolValue(x)
	case int:
		v = connectors.IntValue(int64(x))
	case float64:
		v = floatValue(x)
	case decimal:
		v = textValue(connectors.Decimal, x.String())
	case moment:
		if v = textValue(connectors.TimestampTZ, string(x)); !strings.HasSuffix(string(x), "Z") {
			v = textValue(connectors.Timestamp, string(x))
		}
		if !strings.Contains(string(x), "T") {
			v = textValue(t.kind, string(x)) // a date, or a time of the day
		}
	case string:
		v = textValue(connectors.Text, x)
	case []byte:
		v = connectors.DataValue(connectors.Bytes, x)
	default:
		text, err := appendJSON(nil, x)
		if err != nil {
			return v, err
		}
		v = connectors.DataValue(connectors.JSON, text)
	}
	if v.Kind() == t.kind && t.scale < 0 && intBits[t.name] == 0 {
		return v, nil
	}
	return cast(v, t)
}

// kindOf returns the kind that holds a result; false if it says nothing (null).
func kindOf(out any) (connectors.Kind, bool) {
	switch out.(type) {
	case nil:
		return 0, false
	case bool:
		return connectors.Bool, true
	case int:
		return connectors.Int, true
	case float64:
		return connectors.Float, true
	case decimal:
		return connectors.Decimal, true
	case moment:
		return connectors.TimestampTZ, true
	case string:
		return connectors.Text, true
	case []byte:
		return connectors.Bytes, true
	}
	return connectors.JSON, true
}
