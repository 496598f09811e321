package flow_test

import (
	"encoding/json"
	"fmt"
	"math/big"
	"strings"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/flow"
)

// holds evaluates a condition by walking over an if.
func holds(t testing.TB, left any, operator string, right any, v values) (bool, error) {
	t.Helper()
	tree, err := flow.Parse([]courier.StepSpec{when(left, operator, right), do("a.b"), end})
	if err != nil {
		return false, err
	}
	w, err := tree.Walk(courier.Position{}, v)
	if err != nil {
		return false, err
	}
	step, err := w.Next()
	return step == 1, err
}

func TestConditions(t *testing.T) {
	const huge = "1e1000000000"
	v := values{
		"params.null": nil, "params.empty": "", "params.text": "Some Text", "params.zero": json.Number("0"), "params.false": false,
		"params.list": []any{}, "params.files": []any{"a.csv", json.Number("1.50")}, "params.object": m{"a": nil, "b": m{}}, "params.pattern": "^some",
		"params.big": json.Number("9007199254740993"), "params.number": json.Number("7"), "params.padded": "007",
	}
	for _, c := range []struct {
		left     any
		operator string
		right    any
		want     bool
	}{
		{"abc", "equals", "ABC", true},
		{"abc", "Equals", "abd", false},
		{"abc", "not_equals", "ABC", false},
		{"abc", "NOT_EQUALS", "abd", true},
		{"straße", "equals", "STRASSE", false}, // simple folding keeps the length
		{"ÄÖ", "equals", "äö", true},
		{"\u212a", "equals", "k", true}, // the Kelvin sign
		{"ſ", "equals", "S", true},
		{true, "equals", "True", true},
		{nil, "equals", "", true},
		{"", "equals", nil, false},
		{nil, "equals", nil, false},
		{nil, "not_equals", nil, true},

		// numbers
		{json.Number("1"), "equals", "1.0", true},
		{"1", "equals", json.Number("1.00e0"), true},
		{json.Number("100"), "equals", "1e2", true},
		{"0.1e1", "equals", 1, true},
		{json.Number("-0"), "equals", "+0.0e99", true},
		{json.Number("0"), "equals", "0e99999999999999999", true},
		{json.Number("1e2147483648"), "equals", "10e2147483647", true},
		{json.Number("7"), "equals", "007", true},
		{"context:params.big", "equals", "9007199254740992", false},
		{"context:params.big", "equals", "9007199254740993.0", true},
		{"0.1", "equals", "0.10000000000000000000000000001", false},
		{json.Number("1"), "equals", ".1e1", true},
		{"1,000", "equals", "1000", false},
		{" 1", "equals", "1", false},
		{"0x10", "equals", "16", false},
		{"1_0", "equals", "10", false},
		{"Infinity", "equals", "infinity", true}, // as text
		{"9", "less_than", "10", true},
		{"9", "less_than", "10a", false}, // as text
		{"-10", "less_than", "-9", true},
		{"-1e9", "less_than", "1e-9", true},
		{"1e-1000000000", "greater_than", "0", true},
		{huge, "greater_than", "1e999999999", true},
		{huge, "greater_than", "-" + huge, true},
		{"-" + huge, "less_than", huge, true},
		{json.Number(huge), "equals", "10e999999999", true},
		{"1e99999999999999999999", "equals", "10e99999999999999999998", false}, // too long an exponent: text
		{"1e00000000000000000000001", "equals", 10, true},
		{json.Number("123.450"), "equals", "123.45", true},
		{"123.45", "less_than", "123.450001", true},
		{"123.4", "less_than", "123.45", true},
		{"123.45", "greater_than", "123.4", true},
		{"0.00012", "less_than", "0.0012", true},
		{"12e", "equals", "12", false},
		{"1e+", "equals", "1", false},
		{".", "equals", "0", false},
		{"+", "equals", "0", false},
		{"1", "greater_or_equal", "1.0", true},
		{"1", "less_or_equal", "1.0", true},
		{"2", "less_or_equal", "1.0", false},
		{"0", "greater_or_equal", "1.0", false},

		// Two texts are the same text, or not.
		{"007", "equals", "7", false},
		{"007", "not_equals", "7", true},
		{"1e3", "equals", "1000", false},
		{"1", "equals", "1.0", false},
		{"-0", "equals", "0", false},
		{"1E3", "equals", "1e3", true},
		{"007", "equals", 7, true},
		{7, "not_equals", "007", false},
		{"1e3", "equals", 1000, true},
		{json.Number("1e3"), "equals", 1000, true},
		{"context:params.number", "equals", "context:params.padded", true},
		{"${context:params.number}", "equals", "context:params.padded", false},
		{"context:params.padded", "equals", "7", false},
		{"context:params.padded", "less_or_equal", "7", true}, // in order they are numbers
		{"context:params.padded", "greater_or_equal", "7", true},
		{true, "equals", 1, false},
		{nil, "equals", 0, false},
		{7, "equals", "seven", false},
		{[]any{7}, "equals", "[7]", true},
		{[]any{7}, "equals", 7, false},

		// order of texts
		{"apple", "less_than", "BANANA", true},
		{"b", "greater_than", "A", true},
		{"a", "less_than", "ab", true},
		{"ab", "greater_than", "a", true},
		{"É", "greater_or_equal", "é", true},
		{"_", "greater_than", "a", true}, // letters count as capitals
		{nil, "less_than", "", true},
		{"", "greater_than", nil, true},
		{nil, "less_than", nil, false},
		{"a", "greater_than", nil, true},
		{"a", "less_than", nil, false},

		{"Some Text", "contains", "TEXT", true},
		{"Some Text", "contains", "", true},
		{"Some Text", "contains", nil, true},
		{nil, "contains", "x", false},
		{"Some Text", "contains", "textual", false},
		{"\u212aelvin", "contains", "KEL", true},
		{"context:params.files", "contains", `"A.csv",1.50`, true},
		{12345, "contains", 234, true},

		{"Some Text", "regex", "^Some", true},
		{"Some Text", "regex", "^some", false},
		{"Some Text", "regex", "(?i)te.t$", true},
		{"Some Text", "regex", "", true},
		{"Some Text", "regex", nil, false},
		{"Some Text", "regex", "context:params.pattern", false},
		{"some Text", "regex", "context:params.pattern", true},
		{"x5", "regex", 5, true},
		{nil, "regex", "^$", true},

		{"context:params.none", "exists", nil, false},
		{"context:params.none.x", "exists", nil, false},
		{"a ${context:params.none} b", "exists", nil, false},
		{"a ${context:params.text} b", "exists", nil, true},
		{"context:nobody.none", "exists", "context:ignored.too", false},
		{"context:params.null", "exists", nil, false},
		{"context:params.empty", "exists", nil, false},
		{"context:params.text", "exists", nil, true},
		{"context:params.text.x", "exists", nil, false},
		{"context:params.zero", "exists", nil, true},
		{"context:params.false", "exists", nil, true},
		{"context:params.list", "exists", nil, false},
		{"context:params.list[0]", "exists", nil, false},
		{"context:params.files", "exists", nil, true},
		{"context:params.files[1]", "exists", nil, true},
		{"context:params.files[2]", "exists", nil, false},
		{"context:params.object", "exists", nil, true},
		{"context:params.object.a", "exists", nil, false},
		{"context:params.object.b", "exists", nil, false},
		{"context:params.object.c", "exists", nil, false},
		{[]any{"context:params.none"}, "exists", nil, false},
		{[]any{"context:params.text"}, "exists", nil, true},
		{"", "exists", nil, false},
	} {
		got, err := holds(t, c.left, c.operator, c.right, v)
		if err != nil || got != c.want {
			t.Errorf("%v %s %v = %t, %v, want %t", c.left, c.operator, c.right, got, err, c.want)
		}
	}
}

func TestExistsReportsOtherErrors(t *testing.T) {
	_, err := holds(t, []any{"context:params.nul"}, "exists", nil, values{"params.nul": "\x00"})
	if err == nil || !strings.HasPrefix(err.Error(), "flow.if: left: config.left[0]: the value of \"params.nul\": contains a NUL character") {
		t.Errorf("error = %v", err)
	}
}

func TestExistsNeedsNoRight(t *testing.T) {
	tree := parse(t, with("flow.if", m{"left": "x", "operator": "exists"}), do("a.b"), end)
	if step, err := walk(t, tree, courier.Position{}, values{}).Next(); step != 1 || err != nil {
		t.Errorf("Next() = %d, %v, want 1", step, err)
	}
}

func TestPatternOfEachIteration(t *testing.T) {
	tree := parse(t, forEach([]any{"^a", "^a", "^b"}), when("abc", "regex", "context:loop.current_item"), do("a.b"), end, end)
	if got := trace(t, walk(t, tree, courier.Position{}, values{}), nil); fmt.Sprint(got) != "[2 0 2 1 5]" {
		t.Errorf("the walk is %v", got)
	}
}

// FuzzCond checks the order of numbers against math/big, and the laws that
// hold between the operators for any operands.
func FuzzCond(f *testing.F) {
	for _, s := range []string{"", "0", "-0.0", "1", "1.0", "10e-1", "-7.25", "1e5", "1e1000000000", "abc", "ABC", "\u212a", "k", "ſ", ".5", "5.", "+3", "00012.300", "1e-9"} {
		f.Add(s, "1")
		f.Add("ABC", s)
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		v := values{"params.a": a, "params.b": b, "params.number": json.Number(a)}
		is := func(left, operator, right string) bool {
			got, err := holds(t, "context:params."+left, operator, "context:params."+right, v)
			if err != nil {
				t.Fatalf("%q %s %q: %v", a, operator, b, err)
			}
			return got
		}
		eq, lt, gt := is("a", "equals", "b"), is("a", "less_than", "b"), is("a", "greater_than", "b")
		switch {
		case lt && gt, eq && (lt || gt), !is("a", "equals", "a"), is("a", "less_than", "a"):
			t.Errorf("%q, %q: equal %t, less %t, greater %t", a, b, eq, lt, gt)
		case lt != is("b", "greater_than", "a"), eq != is("b", "equals", "a"), eq == is("a", "not_equals", "b"):
			t.Errorf("%q, %q: the other way round is different", a, b)
		case is("a", "less_or_equal", "b") == gt, is("a", "greater_or_equal", "b") == lt:
			t.Errorf("%q, %q: or equal", a, b)
		case eq != strings.EqualFold(a, b):
			t.Errorf("%q, %q: equal as texts %t", a, b, eq)
		case !is("a", "contains", "a"):
			t.Errorf("%q does not contain itself", a)
		}
		x, y := rational(a), rational(b)
		if x == nil || y == nil {
			return
		}
		same := is("number", "equals", "b")
		if c := x.Cmp(y); same != (c == 0) || lt != (c < 0) || gt != (c > 0) {
			t.Errorf("%q, %q: equal as numbers %t, less %t, greater %t, but Cmp is %d", a, b, same, lt, gt, c)
		}
	})
}

// rational reads a decimal number whose exponent is small, or returns nil.
func rational(s string) *big.Rat {
	mantissa, exp, _ := strings.Cut(strings.ToLower(s), "e")
	if len(strings.TrimLeft(exp, "+-0")) > 3 || strings.Trim(mantissa, "0123456789+-.") != "" || strings.ContainsAny(exp, "_xob./") {
		return nil
	}
	r, ok := new(big.Rat).SetString(s)
	if !ok {
		return nil
	}
	return r
}
