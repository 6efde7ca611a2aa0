package transform

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"

	"github.com/trunkline/trunkline/connectors"
)

// moment is a date or a time in canonical text. Within ISO's range the order of such texts, without a Z at the end, is
// the order of time.
type moment string

func (m moment) plain() string { return strings.TrimSuffix(string(m), "Z") }

// kindError says that an operation makes no sense for the kinds of its operands, whatever their values.
type kindError struct{ problem string }

func (e *kindError) Error() string { return e.problem }

func kindName(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case int, float64, decimal:
		return "a number"
	case string:
		return "a text"
	case moment:
		return "a date or time"
	case []byte:
		return "bytes"
	}
	return "a list or object"
}

// operators are the functions that stand in for the language's own operators, which know neither exact numbers nor NULL.
var operators = map[string]string{
	"+": "_add", "-": "_subtract", "*": "_multiply", "/": "_divide", "%": "_rest", "==": "_equal", "!=": "_unequal",
	"<": "_less", "<=": "_least", ">": "_greater", ">=": "_most", "in": "_in",
	"startsWith": "_starts", "endsWith": "_ends", "contains": "_contains",
}

// patch replaces operators, and lets NULL be false wherever a condition is wanted.
type patch struct{}

func (patch) Visit(node *ast.Node) {
	switch n := (*node).(type) {
	case *ast.IdentifierNode:
		if n.Value == "null" {
			ast.Patch(node, &ast.NilNode{})
		}
	case *ast.BinaryNode:
		switch n.Operator {
		case "and", "or", "&&", "||":
			n.Left, n.Right = call("_truth", n.Left), call("_truth", n.Right)
			return
		case "matches":
			n.Left = call("_text", n.Left)
			return
		}
		if f := operators[n.Operator]; f != "" {
			ast.Patch(node, call(f, n.Left, n.Right))
		}
	case *ast.UnaryNode:
		switch n.Operator {
		case "not", "!":
			n.Node = call("_truth", n.Node)
		case "-":
			if _, number := n.Node.(*ast.IntegerNode); !number {
				ast.Patch(node, call("_subtract", &ast.IntegerNode{}, n.Node))
			}
		}
	case *ast.ConditionalNode:
		n.Cond = call("_truth", n.Cond)
	}
}

func call(name string, args ...ast.Node) ast.Node {
	if len(args) == 1 { // a visitor may come twice
		if c, ok := args[0].(*ast.CallNode); ok {
			if id, ok := c.Callee.(*ast.IdentifierNode); ok && id.Value == name {
				return c
			}
		}
	}
	return &ast.CallNode{Callee: &ast.IdentifierNode{Value: name}, Arguments: args}
}

// functions are what an expression can call beside the language's own.
var functions = []expr.Option{
	two("_add", func(a, b any) (any, error) { return arithmetic("+", a, b) }),
	two("_subtract", func(a, b any) (any, error) { return arithmetic("-", a, b) }),
	two("_multiply", func(a, b any) (any, error) { return arithmetic("*", a, b) }),
	two("_divide", func(a, b any) (any, error) { return arithmetic("/", a, b) }),
	two("_rest", func(a, b any) (any, error) { return arithmetic("%", a, b) }),
	condition("_equal", func(a, b any) (bool, error) { return equal(a, b), nil }),
	condition("_unequal", func(a, b any) (bool, error) { return !equal(a, b), nil }),
	order("_less", func(c int) bool { return c < 0 }),
	order("_least", func(c int) bool { return c <= 0 }),
	order("_greater", func(c int) bool { return c > 0 }),
	order("_most", func(c int) bool { return c >= 0 }),
	condition("_in", in),
	texts("_starts", strings.HasPrefix),
	texts("_ends", strings.HasSuffix),
	texts("_contains", strings.Contains),
	expr.Function("_truth", func(p ...any) (any, error) { return truth(p[0]) }, new(func(any) bool)),
	expr.Function("_text", func(p ...any) (any, error) { return textOf(p[0]) }, new(func(any) string)),
	expr.Function("div", func(p ...any) (any, error) { return divide(p[0], p[1], p[2]) }, new(func(any, any, any) any)),
	expr.Function("round", func(p ...any) (any, error) { return round(p[0], p[1]) }, new(func(any, any) any)),
	expr.Function("json", func(p ...any) (any, error) { return parseJSON(p[0]) }, new(func(any) any)),
	expr.Function("decimal", func(p ...any) (any, error) { return toDecimal(p[0]) }, new(func(any) any)),
	expr.Function("text", func(p ...any) (any, error) { return toText(p[0]) }, new(func(any) any)),
}

func two(name string, f func(a, b any) (any, error)) expr.Option {
	return expr.Function(name, func(p ...any) (any, error) { return f(p[0], p[1]) }, new(func(any, any) any))
}

func condition(name string, f func(a, b any) (bool, error)) expr.Option {
	return expr.Function(name, func(p ...any) (any, error) { return f(p[0], p[1]) }, new(func(any, any) bool))
}

func order(name string, f func(int) bool) expr.Option {
	return condition(name, func(a, b any) (bool, error) {
		if a == nil || b == nil {
			return false, nil
		}
		c, err := compare(a, b)
		return err == nil && f(c), err
	})
}

func texts(name string, f func(text, part string) bool) expr.Option {
	return condition(name, func(a, b any) (bool, error) {
		if a == nil || b == nil {
			return false, nil
		}
		text, err := textOf(a)
		if err != nil {
			return false, err
		}
		part, err := textOf(b)
		return err == nil && f(text, part), err
	})
}

func truth(v any) (bool, error) {
	switch x := v.(type) {
	case nil:
		return false, nil
	case bool:
		return x, nil
	}
	return false, &kindError{kindName(v) + " is no condition"}
}

func textOf(v any) (string, error) {
	switch x := v.(type) {
	case nil:
		return "", nil
	case string:
		return x, nil
	case moment:
		return string(x), nil
	}
	return "", &kindError{kindName(v) + " where a text is wanted; text(x) makes one"}
}

// number returns a number as an exact one.
func number(v any) (decimal, bool) {
	switch x := v.(type) {
	case int:
		return decimalOfInt(x), true
	case decimal:
		return x, true
	case float64:
		return decimalOfFloat(x), true
	}
	return decimal{}, false
}

func compare(a, b any) (int, error) {
	if x, ok := a.(int); ok {
		if y, ok := b.(int); ok {
			return cmpInt(x, y), nil
		}
	}
	if x, ok := number(a); ok {
		if y, ok := number(b); ok {
			return x.compare(y), nil
		}
	}
	switch x := a.(type) {
	case string:
		switch y := b.(type) {
		case string:
			return strings.Compare(x, y), nil
		case moment:
			return strings.Compare(moment(x).plain(), y.plain()), nil
		}
	case moment:
		switch y := b.(type) {
		case string:
			return strings.Compare(x.plain(), moment(y).plain()), nil
		case moment:
			return strings.Compare(x.plain(), y.plain()), nil
		}
	case []byte:
		if y, ok := b.([]byte); ok {
			return bytes.Compare(x, y), nil
		}
	case bool:
		if y, ok := b.(bool); ok && x == y {
			return 0, nil
		} else if ok && y {
			return -1, nil
		} else if ok {
			return 1, nil
		}
	}
	return 0, &kindError{fmt.Sprintf("%s cannot be compared with %s", kindName(a), kindName(b))}
}

func cmpInt(x, y int) int {
	switch {
	case x < y:
		return -1
	case x > y:
		return 1
	}
	return 0
}

// equal takes values of kinds that cannot be compared for different.
func equal(a, b any) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	if x, ok := a.([]any); ok {
		y, ok := b.([]any)
		return ok && slices.EqualFunc(x, y, equal)
	}
	c, err := compare(a, b)
	return err == nil && c == 0
}

func in(a, b any) (bool, error) {
	switch list := b.(type) {
	case nil:
		return false, nil
	case []any:
		return slices.ContainsFunc(list, func(x any) bool { return equal(a, x) }), nil
	case []int:
		return slices.ContainsFunc(list, func(x int) bool { return equal(a, x) }), nil
	case []string:
		return slices.ContainsFunc(list, func(x string) bool { return equal(a, x) }), nil
	case map[string]any:
		name, ok := a.(string)
		_, has := list[name]
		return ok && has, nil
	}
	return false, &kindError{"in wants a list, not " + kindName(b)}
}

// arithmetic is exact for whole numbers and decimals; NULL makes NULL; text is joined by +.
func arithmetic(op string, a, b any) (any, error) {
	if a == nil || b == nil {
		return nil, nil
	}
	if x, ok := a.(string); ok && op == "+" {
		if y, ok := b.(string); ok {
			return x + y, nil
		}
	}
	if x, ok := a.(int); ok {
		if y, ok := b.(int); ok {
			return integers(op, x, y)
		}
	}
	x, oneIs := number(a)
	y, twoIs := number(b)
	if !oneIs || !twoIs {
		return nil, &kindError{fmt.Sprintf("%s %s %s cannot be computed", kindName(a), op, kindName(b))}
	}
	_, exactA := a.(decimal)
	_, exactB := b.(decimal)
	if exactA || exactB {
		return x.arithmetic(op, y)
	}
	f, g := parseFloat(x.String()), parseFloat(y.String())
	switch op {
	case "+":
		return f + g, nil
	case "-":
		return f - g, nil
	case "*":
		return f * g, nil
	case "/":
		return f / g, nil
	}
	return nil, errors.New("% is for whole and exact numbers")
}

func parseFloat(text string) float64 {
	f, _ := strconv.ParseFloat(text, 64) // out of range gives the infinity that is meant
	return f
}

// integers computes with integers; a result that has no room in 64 bits is an exact number.
func integers(op string, x, y int) (any, error) {
	switch op {
	case "+":
		if sum := x + y; (sum > x) == (y > 0) {
			return sum, nil
		}
	case "-":
		if difference := x - y; (difference < x) == (y > 0) {
			return difference, nil
		}
	case "*":
		high, low := bits.Mul64(magnitude(x), magnitude(y))
		if high == 0 && low <= 1<<63-1 {
			return x * y, nil
		}
	case "/":
		if y == 0 {
			return nil, errDivision
		}
		return float64(x) / float64(y), nil
	case "%":
		if y == 0 {
			return nil, errDivision
		}
		return x % y, nil
	}
	return decimalOfInt(x).arithmetic(op, decimalOfInt(y))
}

func magnitude(x int) uint64 {
	if x < 0 {
		return -uint64(x)
	}
	return uint64(x)
}

func divide(a, b, digits any) (any, error) {
	n, ok := digits.(int)
	if !ok || n < 0 || n > 1000 {
		return nil, &kindError{"div wants a number of digits from 0 to 1000"}
	}
	if a == nil || b == nil {
		return nil, nil
	}
	x, oneIs := number(a)
	y, twoIs := number(b)
	if !oneIs || !twoIs {
		return nil, &kindError{fmt.Sprintf("%s divided by %s cannot be computed", kindName(a), kindName(b))}
	}
	return x.div(y, n)
}

func round(a, digits any) (any, error) {
	n, ok := digits.(int)
	if !ok || n < 0 || n > 1000 {
		return nil, &kindError{"round wants a number of digits from 0 to 1000"}
	}
	if a == nil {
		return nil, nil
	}
	x, ok := number(a)
	if !ok {
		return nil, &kindError{kindName(a) + " cannot be rounded"}
	}
	return x.round(n), nil
}

func toDecimal(a any) (any, error) {
	if a == nil {
		return nil, nil
	}
	if x, ok := number(a); ok {
		return x, nil
	}
	if s, ok := a.(string); ok {
		d, err := parseDecimal(strings.TrimSpace(s))
		if err != nil {
			return nil, errors.New("the text " + err.Error())
		}
		return d, nil
	}
	return nil, &kindError{kindName(a) + " is no number"}
}

func toText(a any) (any, error) {
	switch x := a.(type) {
	case nil, string:
		return x, nil
	case moment:
		return string(x), nil
	case bool:
		return strconv.FormatBool(x), nil
	case int:
		return strconv.Itoa(x), nil
	case float64:
		return string(floatValue(x).Data()), nil
	case decimal:
		return x.String(), nil
	case []byte:
		if !utf8.Valid(x) {
			return nil, errors.New("the bytes are not UTF-8")
		}
		return string(x), nil
	}
	b, err := appendJSON(nil, a)
	return string(b), err
}

// parseJSON reads a document without loss: a whole number is an int where it has room, every other an exact number.
func parseJSON(a any) (any, error) {
	if a == nil {
		return nil, nil
	}
	s, err := textOf(a)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(strings.NewReader(s))
	d.UseNumber()
	var out any
	if err := d.Decode(&out); err != nil {
		return nil, errors.New("the text is not JSON")
	}
	return exact(out), nil
}

func exact(v any) any {
	switch x := v.(type) {
	case json.Number:
		if n, err := strconv.Atoi(x.String()); err == nil {
			return n
		}
		if d, err := parseDecimal(x.String()); err == nil {
			return d
		}
		return x.String()
	case []any:
		for i := range x {
			x[i] = exact(x[i])
		}
	case map[string]any:
		for k := range x {
			x[k] = exact(x[k])
		}
	}
	return v
}

// appendJSON writes a result that is a list or an object, the names of an object in order.
func appendJSON(dst []byte, v any) ([]byte, error) {
	var err error
	switch x := v.(type) {
	case nil:
		return append(dst, "null"...), nil
	case bool:
		return strconv.AppendBool(dst, x), nil
	case int:
		return strconv.AppendInt(dst, int64(x), 10), nil
	case decimal:
		if x.form == 0 {
			return append(dst, x.String()...), nil
		}
		return connectors.AppendJSONString(dst, []byte(x.String())), nil
	case float64:
		return connectors.AppendJSON(dst, floatValue(x)), nil
	case string:
		return connectors.AppendJSONString(dst, []byte(x)), nil
	case moment:
		return connectors.AppendJSONString(dst, []byte(x)), nil
	case []byte:
		return connectors.AppendJSONString(dst, base64.StdEncoding.AppendEncode(nil, x)), nil
	case []any:
		dst = append(dst, '[')
		for i := range x {
			if i > 0 {
				dst = append(dst, ',')
			}
			if dst, err = appendJSON(dst, x[i]); err != nil {
				return dst, err
			}
		}
		return append(dst, ']'), nil
	case map[string]any:
		return appendObject(dst, x)
	}
	return dst, &kindError{fmt.Sprintf("a result of type %T has no place in a column", v)}
}

func appendObject(dst []byte, x map[string]any) ([]byte, error) {
	keys := make([]string, 0, len(x))
	for k := range x {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	dst = append(dst, '{')
	var err error
	for i, k := range keys {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(connectors.AppendJSONString(dst, []byte(k)), ':')
		if dst, err = appendJSON(dst, x[k]); err != nil {
			return dst, err
		}
	}
	return append(dst, '}'), nil
}
