package transform

import (
	"errors"
	"fmt"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/trunkline/trunkline/connectors"
)

func expression(t testing.TB, text string) Expression {
	t.Helper()
	var e Expression
	if err := e.UnmarshalText([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return e
}

func text(s string) connectors.Value { return textValue(connectors.Text, s) }

// orders is a table of four columns, and a batch of its rows.
func orders(n int) (*connectors.Table, []connectors.Change) {
	table := &connectors.Table{Dialect: "postgres", Schema: "public", Name: "orders", Key: []int{0}, Columns: []connectors.Column{
		{Name: "id", Kind: connectors.Int, Type: "bigint", ID: 1}, {Name: "email", Kind: connectors.Text, Type: "text", ID: 2},
		{Name: "ssn", Kind: connectors.Text, Type: "text", ID: 3}, {Name: "total", Kind: connectors.Decimal, Type: "numeric", ID: 4},
	}}
	changes := make([]connectors.Change, n)
	for i := range changes {
		row := []connectors.Value{connectors.IntValue(int64(i)), text(fmt.Sprintf("user%d@example.com", i)), text("123-45-6789"), textValue(connectors.Decimal, "12.50")}
		changes[i] = connectors.Change{Op: connectors.Update, Table: table, Before: connectors.CloneRow(row), After: row, Offset: int64(i)}
	}
	return table, changes
}

func TestPlainStepsAllocateNothingPerValue(t *testing.T) {
	_, changes := orders(5000)
	chain, err := New([]Step{
		{Drop: &Drop{Columns: []string{"ssn"}}},
		{Rename: &Rename{Columns: map[string]string{"total": "amount"}}},
		{Mask: &Mask{Columns: []string{"email"}, With: Hash, Salt: "pepper and salt"}},
		{Route: &Route{Table: "sales.{table}"}},
	}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	allocs := testing.AllocsPerRun(5, func() {
		if _, err := chain.Apply(t.Context(), changes); err != nil {
			t.Fatal(err)
		}
	})
	if allocs > 100 { // chunks that are still growing; 20,000 rows would be 20,000 and more
		t.Errorf("%v allocations for 10000 rows of 4 columns", allocs)
	}
}

func TestOneTableComesOutForOneTableThatGoesIn(t *testing.T) {
	t.Parallel()
	table, changes := orders(3)
	other := clone(table)
	changes[1].Table = other
	chain, err := New([]Step{{Drop: &Drop{Columns: []string{"ssn"}}}, {Route: &Route{Table: "all"}}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var first []connectors.Change
	for range 3 {
		out, err := chain.Apply(t.Context(), changes)
		if err != nil || len(out) != 3 {
			t.Fatalf("%d changes, %v", len(out), err)
		}
		if out[0].Table != out[2].Table || out[0].Table == out[1].Table || !out[0].Table.Equal(out[1].Table) {
			t.Fatalf("tables %p %p %p", out[0].Table, out[1].Table, out[2].Table)
		}
		if first == nil {
			first = append(first, out...)
		}
		if out[0].Table != first[0].Table || out[1].Table != first[1].Table {
			t.Fatal("another call made other tables")
		}
	}
}

func TestWhatGoesInStaysAsItIs(t *testing.T) {
	t.Parallel()
	first, last := "?", 2
	steps := []Step{
		{Drop: &Drop{Columns: []string{"ssn"}}}, {Mask: &Mask{Columns: []string{"email"}, With: Redact, Replacement: &first}},
		{Mask: &Mask{Columns: []string{"ssn"}, With: Partial, Last: last}}, {Filter: &Filter{When: expression(t, "total > 20")}},
		{Cast: &Cast{Columns: map[string]Type{"total": {name: "text", kind: connectors.Text, scale: -1}}}},
		{Set: &Set{Columns: map[string]Computed{"email": {Value: expression(t, "upper(email)")}, "more": {Value: expression(t, "total * 2")}}}},
		{Route: &Route{Table: "{email}"}},
	}
	rapid.Check(t, func(t *rapid.T) {
		_, changes := orders(20)
		for i := range changes {
			switch rapid.IntRange(0, 3).Draw(t, "op") {
			case 0:
				changes[i].Op, changes[i].Before = connectors.Insert, nil
			case 1:
				changes[i].Op, changes[i].After = connectors.Delete, nil
			case 2:
				changes[i].After[3] = textValue(connectors.Decimal, "99")
			}
		}
		before := make([]connectors.Change, len(changes))
		for i, c := range changes {
			c.Before, c.After = connectors.CloneRow(c.Before), connectors.CloneRow(c.After)
			before[i] = c
		}
		chain, err := New(rapid.SliceOfN(rapid.SampledFrom(steps), 1, 4).Draw(t, "steps"), Options{})
		if err != nil {
			t.Fatal(err)
		}
		out, err := chain.Apply(t.Context(), changes)
		var rows *connectors.RowsError
		if err != nil && !errors.As(err, &rows) && !errors.Is(err, connectors.ErrFatal) {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(before, changes) {
			t.Fatal("the input changed")
		}
		for i := range out {
			if i > 0 && out[i].Offset < out[i-1].Offset {
				t.Fatal("the order changed")
			}
			for _, image := range [][]connectors.Value{out[i].Before, out[i].After} {
				if image != nil && len(image) != len(out[i].Table.Columns) {
					t.Fatalf("%d values for %d columns", len(image), len(out[i].Table.Columns))
				}
			}
		}
	})
}

func TestASourceStopsAtARowThatItRefuses(t *testing.T) {
	t.Parallel()
	_, changes := orders(2)
	chain, err := New([]Step{{Cast: &Cast{Tables: Tables{"public.*"}, Columns: map[string]Type{"ssn": {name: "int", kind: connectors.Int, scale: -1}}}}}, Options{Source: true})
	if err != nil {
		t.Fatal(err)
	}
	_, err = chain.Apply(t.Context(), changes)
	if !errors.Is(err, connectors.ErrFatal) {
		t.Fatalf("got %v", err)
	}
	if want := `transform a row of public.orders: transforms[0].cast: column "ssn": a value of kind text is no int: cannot continue`; err.Error() != want {
		t.Errorf("got %s", err)
	}
}

func TestDecimalsComputeAsIntegersOfAnySize(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ op, a, b, want string }{
		{"+", "0.1", "0.2", "0.3"}, {"-", "1", "1.000", "0.000"}, {"*", "-1.5", "0.3", "-0.45"}, {"%", "7.5", "2", "1.5"},
		{"+", "99999999999999999999999999", "1e-20", "99999999999999999999999999.00000000000000000001"}, {"+", "1e3", "0", "1000"},
	} {
		a, errA := parseDecimal(c.a)
		b, errB := parseDecimal(c.b)
		got, err := a.arithmetic(c.op, b)
		if errA != nil || errB != nil || err != nil || got.String() != c.want {
			t.Errorf("%s %s %s = %v (%v %v %v), want %s", c.a, c.op, c.b, got, errA, errB, err, c.want)
		}
	}
	order := []string{"-Infinity", "-1.10", "0", "0.1", "1", "1e2", "Infinity", "NaN"}
	for i, a := range order {
		for j, b := range order {
			x, _ := parseDecimal(a)
			y, _ := parseDecimal(b)
			if c := x.compare(y); (c < 0) != (i < j) || (c == 0) != (i == j) {
				t.Errorf("%s compared with %s: %d", a, b, c)
			}
		}
	}
	for text, want := range map[string]string{"2.345": "2.35", "-2.345": "-2.35", "2.3449": "2.34", "1": "1.00"} {
		d, _ := parseDecimal(text)
		if got := d.round(2).String(); got != want {
			t.Errorf("%s rounded: %s, want %s", text, got, want)
		}
	}
	for _, text := range []string{"", "x", "1.", "0x10", "1_0", "--1", "1e999999", "1.2.3"} {
		if d, err := parseDecimal(text); err == nil && text != "1." {
			t.Errorf("%q became %s", text, d)
		}
	}
}

func TestWholeNumbersNeverWrapAround(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.Int().Draw(t, "a"), rapid.Int().Draw(t, "b")
		op := rapid.SampledFrom([]string{"+", "-", "*"}).Draw(t, "op")
		got, err := integers(op, a, b)
		want, wantErr := decimalOfInt(a).arithmetic(op, decimalOfInt(b))
		if err != nil || wantErr != nil {
			t.Fatal(err, wantErr)
		}
		if d, ok := number(got); !ok || d.compare(want) != 0 {
			t.Fatalf("%d %s %d = %v, want %v", a, op, b, got, want)
		}
	})
}

func FuzzExpression(f *testing.F) {
	for _, s := range []string{"id > 1", "email ?? 'x'", "json(ssn).a[0]", "let x = id; x + 1", "total * 1.1 in [1, 2]", "change.before.id == id", "-id", "not (id == null)"} {
		f.Add(s)
	}
	table, changes := orders(1)
	f.Fuzz(func(t *testing.T, s string) {
		var e Expression
		if e.UnmarshalText([]byte(s)) != nil {
			return
		}
		p, err := e.compile(table)
		if err != nil {
			return
		}
		out, err := p.run(&changes[0], changes[0].After)
		if err == nil {
			_, _ = fromExpr(out, Type{kind: connectors.Text, scale: -1})
		}
	})
}

func FuzzDocument(f *testing.F) {
	f.Add([]byte(`{"a":{"b":[1,"x"]},"payload":{"op":"c","after":{"a":1}}}`))
	f.Add([]byte(` { "\u0061" : { "b" : null } , "a" : 2 } `))
	f.Fuzz(func(t *testing.T, b []byte) {
		var r rows
		row := make([]connectors.Value, 2)
		list := []member{{path: []string{"a", "b"}, typ: Type{kind: connectors.JSON, scale: -1}}, {path: []string{"a"}, typ: Type{kind: connectors.Decimal, scale: -1}, to: 1}}
		if err := take(&r, connectors.DataValue(connectors.JSON, b), list, row); err == nil && !connectors.ValidJSON(b) {
			t.Fatalf("accepted %q", b)
		}
	})
}
