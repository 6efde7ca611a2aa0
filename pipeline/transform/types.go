package transform

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/pipeline/spelling"
)

// typeNames are the types that a configuration can name. A length or precision may stand behind them in parentheses, and
// [] for an array.
var typeNames = map[string]connectors.Kind{
	"text": connectors.Text, "varchar": connectors.Text, "string": connectors.Text, "uuid": connectors.Text,
	"smallint": connectors.Int, "int": connectors.Int, "integer": connectors.Int, "bigint": connectors.Int,
	"unsigned": connectors.Uint,
	"real":     connectors.Float, "double": connectors.Float, "float": connectors.Float,
	"numeric": connectors.Decimal, "decimal": connectors.Decimal,
	"boolean": connectors.Bool, "bool": connectors.Bool,
	"bytes": connectors.Bytes, "bytea": connectors.Bytes,
	"json": connectors.JSON, "jsonb": connectors.JSON,
	"date": connectors.Date, "time": connectors.Time, "timestamp": connectors.Timestamp, "timestamptz": connectors.TimestampTZ,
	"interval": connectors.Interval, "bits": connectors.Bits, "map": connectors.Map,
}

// Type is the type of a column as a configuration writes it: numeric(10,2), text, bigint[].
type Type struct {
	name     string // in lower case, without what is in parentheses
	modifier string // (10,2)
	kind     connectors.Kind
	elem     connectors.Kind
	scale    int // of a numeric with one; else -1
}

// UnmarshalText reads a type.
func (t *Type) UnmarshalText(text []byte) error {
	parsed, err := parseType(string(text))
	*t = parsed
	return err
}

func parseType(text string) (Type, error) {
	t := Type{scale: -1}
	rest, array := strings.CutSuffix(strings.ToLower(strings.TrimSpace(text)), "[]")
	if i := strings.IndexByte(rest, '('); i > 0 && strings.HasSuffix(rest, ")") {
		rest, t.modifier = strings.TrimSpace(rest[:i]), rest[i:]
	}
	kind, ok := typeNames[rest]
	if !ok {
		names := make([]string, 0, len(typeNames))
		for n := range typeNames {
			names = append(names, n)
		}
		slices.Sort(names)
		hint := spelling.Nearest(rest, names)
		if hint != "" {
			return t, fmt.Errorf("is no type; did you mean %q?", hint)
		}
		return t, fmt.Errorf("is no type; there are %s", strings.Join(names, ", "))
	}
	t.name, t.kind = rest, kind
	if array {
		t.kind, t.elem, t.modifier = connectors.Array, kind, ""
		return t, nil
	}
	if err := t.parseModifier(); err != nil {
		return t, err
	}
	return t, nil
}

func (t *Type) parseModifier() error {
	if t.modifier == "" {
		return nil
	}
	parts := strings.Split(strings.Trim(t.modifier, "()"), ",")
	for i, p := range parts {
		n, err := strconv.Atoi(strings.TrimSpace(p))
		if err != nil || n < 0 || n > 1000 && t.kind != connectors.Text {
			return fmt.Errorf("%s: a length or precision is a whole number", t.modifier)
		}
		if t.kind == connectors.Decimal && i == 1 {
			t.scale = n
		}
	}
	if t.kind == connectors.Decimal && len(parts) == 1 {
		t.scale = 0
	}
	return nil
}

// dialectTypes are the types of new columns in the terms of the system that the table came from: a sink of the same kind
// takes them as they are. They hold every value of their kind.
var dialectTypes = map[string]map[connectors.Kind]string{
	"postgres": {
		connectors.Bool: "boolean", connectors.Int: "bigint", connectors.Uint: "numeric(20,0)", connectors.Float: "double precision",
		connectors.Text: "text", connectors.Bytes: "bytea", connectors.Decimal: "numeric", connectors.JSON: "json", connectors.Date: "date",
		connectors.Time: "time without time zone", connectors.Timestamp: "timestamp without time zone",
		connectors.TimestampTZ: "timestamp with time zone", connectors.Interval: "interval", connectors.Bits: "bit varying", connectors.Map: "jsonb",
	},
	"mysql": {
		connectors.Bool: "tinyint(1)", connectors.Int: "bigint", connectors.Uint: "bigint unsigned", connectors.Float: "double",
		connectors.Text: "longtext", connectors.Bytes: "longblob", connectors.Decimal: "decimal(65,30)", connectors.JSON: "json", connectors.Date: "date",
		connectors.Time: "time(6)", connectors.Timestamp: "datetime(6)", connectors.TimestampTZ: "timestamp(6)", connectors.Interval: "longtext",
		connectors.Bits: "longtext", connectors.Array: "json", connectors.Map: "json",
	},
	"sqlite": {
		connectors.Bool: "BOOLEAN", connectors.Int: "INTEGER", connectors.Uint: "", connectors.Float: "REAL", connectors.Bytes: "BLOB",
		connectors.Text: "TEXT", connectors.Decimal: "TEXT", connectors.JSON: "TEXT", connectors.Date: "TEXT", connectors.Time: "TEXT",
		connectors.Timestamp: "TEXT", connectors.TimestampTZ: "TEXT", connectors.Interval: "TEXT", connectors.Bits: "TEXT",
		connectors.Array: "TEXT", connectors.Map: "TEXT",
	},
}

// Column returns a column of a type that a configuration names, in the terms of the system that its table comes from.
func (t Type) Column(dialect, name string) connectors.Column {
	c := connectors.Column{Name: name, Kind: t.kind, Elem: t.elem, Type: dialectTypes[dialect][t.kind]}
	switch {
	case t.kind == connectors.Array && dialect == "postgres":
		c.Type = dialectTypes[dialect][t.elem] + "[]"
	case t.kind == connectors.Decimal && t.modifier != "" && dialect == "postgres":
		c.Type = "numeric" + t.modifier
	case t.kind == connectors.Decimal && t.modifier != "" && dialect == "mysql":
		c.Type = "decimal" + t.modifier
	case dialect == "" && t.name != "":
		c.Type = t.name + t.modifier
	}
	return c
}

// columnOfKind returns a column of a kind that follows from what a step does.
func columnOfKind(dialect, name string, kind connectors.Kind) connectors.Column {
	return connectors.Column{Name: name, Kind: kind, Type: dialectTypes[dialect][kind]}
}
