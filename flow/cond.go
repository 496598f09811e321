package flow

import (
	"cmp"
	"encoding/json"
	"errors"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/courierhq/courier/internal/jsontext"

	"github.com/courierhq/courier"
)

// The fields of the markers' configurations.
const (
	fieldLeft     = "left"
	fieldOperator = "operator"
	fieldRight    = "right"
	fieldSource   = "source"
	fieldOnResume = "on_resume"
	fieldMaxIter  = "max_iterations"
	fieldLabel    = "label"
)

// An operator is what a flow.if compares by. Letter case does not count.
type operator string

const (
	opEquals         operator = "equals"
	opNotEquals      operator = "not_equals"
	opContains       operator = "contains"
	opGreaterThan    operator = "greater_than"
	opLessThan       operator = "less_than"
	opGreaterOrEqual operator = "greater_or_equal"
	opLessOrEqual    operator = "less_or_equal"
	opExists         operator = "exists"
	opRegex          operator = "regex"
)

// operators lists the operators in the order in which messages name them.
var operators = []operator{opEquals, opNotEquals, opContains, opGreaterThan, opLessThan, opGreaterOrEqual, opLessOrEqual, opExists, opRegex}

// A condition is what a flow.if asks.
type condition struct {
	op          operator
	left, right operand
	pattern     *pattern // of regex, if right is the same each time
}

// An operand is a value of a marker's configuration.
type operand struct {
	value any    // if there is nothing to replace
	text  *text  // a string with references
	field *field // a list or an object with references
}

// eval returns the operand's value in s.
func (o *operand) eval(s courier.Scope) (any, error) {
	switch {
	case o.text != nil && o.text.whole:
		return o.text.parts[0].ref.Resolve(s)
	case o.text != nil:
		return o.text.expand(s)
	case o.field != nil:
		raw, errs := o.field.render(nil, form{}, s, nil, nil)
		if len(errs) > 0 {
			return nil, joinErrors(errs)
		}
		return jsontext.Parse(raw)
	}
	return o.value, nil
}

// constant returns the operand's value if it is the same each time.
func (o *operand) constant() (any, bool) { return o.value, o.text == nil && o.field == nil }

// exists reports whether the operand has a value that is not null and not
// empty. A reference to what is not there is no error.
func (o *operand) exists(s courier.Scope) (bool, error) {
	if o.text != nil {
		for _, p := range o.text.parts {
			if p.ref == nil {
				continue
			}
			// The error of Resolve lists what there is, which takes long if there
			// is much.
			if _, ok := s.Value(p.ref.Head, p.ref.Name); !ok {
				return false, nil
			}
		}
	}
	v, err := o.eval(s)
	if err != nil {
		if errors.Is(err, courier.ErrNotFound) {
			return false, nil
		}
		return false, err
	}
	switch v := v.(type) {
	case nil:
		return false, nil
	case string:
		return v != "", nil
	case []any:
		return len(v) > 0, nil
	case map[string]any:
		return len(v) > 0, nil
	}
	return true, nil
}

// eval returns whether the condition holds in s; if that can't be told, field
// is the part that is to blame. The work is added to m.
func (c *condition) eval(s courier.Scope, m *matcher) (holds bool, field string, err error) {
	if c.op == opExists {
		holds, err = c.left.exists(s)
		return holds, fieldLeft, err
	}
	left, err := c.left.eval(s)
	if err != nil {
		return false, fieldLeft, err
	}
	right, err := c.right.eval(s)
	if err != nil {
		return false, fieldRight, err
	}
	m.spent += weight(left) + weight(right)
	switch c.op {
	case opEquals:
		return equal(left, right), "", nil
	case opNotEquals:
		return !equal(left, right), "", nil
	case opContains:
		return strings.Contains(fold(jsontext.Text(left)), fold(jsontext.Text(right))), "", nil
	case opGreaterThan:
		return compare(left, right) > 0, "", nil
	case opLessThan:
		return compare(left, right) < 0, "", nil
	case opGreaterOrEqual:
		return compare(left, right) >= 0, "", nil
	case opLessOrEqual:
		return compare(left, right) <= 0, "", nil
	}
	return c.match(left, right, m)
}

// weight is how much work it is to compare a value.
func weight(v any) int {
	const list = maxSpent >> 10 // for an element of a list or object, whose text would have to be made for more
	switch v := v.(type) {
	case string:
		return len(v)
	case []any:
		return list * min(len(v), 1<<10)
	case map[string]any:
		return list * min(len(v), 1<<10)
	}
	return 0
}

// equal compares by exact decimal value if one side is a number and the other
// one too, or a text that writes one. Otherwise it compares as text without
// regard to letter case: two texts are never numbers, for "007" is another id
// than "7". Nothing equals a null on the right; a null on the left is the empty
// text.
func equal(left, right any) bool {
	if right == nil {
		return false
	}
	a, b := jsontext.Text(left), jsontext.Text(right)
	if isNumeric(left) || isNumeric(right) {
		if x, ok := parseDecimal(a); ok {
			if y, ok := parseDecimal(b); ok {
				return x.compare(y) == 0
			}
		}
	}
	return strings.EqualFold(a, b)
}

// isNumeric reports whether a value is a number, and not a text that writes one.
func isNumeric(v any) bool {
	_, ok := v.(json.Number)
	return ok
}

// compare orders by exact decimal value if both are numbers, otherwise as text
// without regard to letter case. Null is below any text.
func compare(left, right any) int {
	switch {
	case left == nil && right == nil:
		return 0
	case left == nil:
		return -1
	case right == nil:
		return 1
	}
	a, b := jsontext.Text(left), jsontext.Text(right)
	if x, ok := parseDecimal(a); ok {
		if y, ok := parseDecimal(b); ok {
			return x.compare(y)
		}
	}
	return compareFold(a, b)
}

// compareFold compares two texts rune by rune, without regard to letter case.
func compareFold(a, b string) int {
	for a != "" && b != "" {
		r, n := utf8.DecodeRuneInString(a)
		s, m := utf8.DecodeRuneInString(b)
		if r != s {
			if c := cmp.Compare(foldRune(r), foldRune(s)); c != 0 {
				return c
			}
		}
		a, b = a[n:], b[m:]
	}
	return cmp.Compare(len(a), len(b))
}

// fold returns s such that texts that differ in letter case only are equal.
func fold(s string) string { return strings.Map(foldRune, s) }

// foldRune returns the least of the runes that differ from r in letter case
// only.
func foldRune(r rune) rune {
	if r < utf8.RuneSelf {
		if 'a' <= r && r <= 'z' {
			return r - ('a' - 'A')
		}
		return r
	}
	least := r
	for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
		least = min(least, f)
	}
	return least
}
