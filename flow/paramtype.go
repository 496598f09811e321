package flow

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/courierhq/courier/internal/jsontext"
	"github.com/courierhq/courier/internal/nearest"

	"github.com/courierhq/courier"
)

// schemas are what is known of the values of each type. Nothing is known of the items of
// a list and the fields of an object.
var paramSchemas = map[string]*courier.Schema{
	paramText: {Type: "string"}, paramDate: {Type: "string"}, paramInstant: {Type: "string"}, paramInteger: {Type: "integer"},
	paramNumber: {Type: "number"}, paramBoolean: {Type: "boolean"}, paramList: {Type: "array"}, paramObject: {Type: "object", Open: true},
	paramFile: {Type: "object", Open: true, Properties: []courier.Property{
		{Name: "path", Schema: &courier.Schema{Type: "string"}}, {Name: "name", Schema: &courier.Schema{Type: "string"}},
		{Name: "size", Schema: &courier.Schema{Type: "integer"}}, {Name: "sha256", Schema: &courier.Schema{Type: "string"}},
	}},
}

// schema returns what is known of the parameter's value; nil if nothing is.
func (d *param) schema() *courier.Schema { return paramSchemas[d.Type] }

// Takes says why the value of another parameter can't be given for a parameter; empty if
// it can, or if that depends on the value. The parameter must be a declared one.
func (p *Params) Takes(name string, other courier.Param) string {
	d, ok := p.Get(name)
	switch from, to := other.Type, d.Type; {
	case other.Secret && !d.Secret:
		return "is secret, and is not declared as secret here"
	case !ok || from == "" || to == "" || from == to || from == paramText && stringlike(to):
	case to == paramText && (from == paramDate || from == paramInstant):
	case isNumber(from) && isNumber(to):
	case to == paramObject && from == paramFile || to == paramFile && from == paramObject:
	default:
		return fmt.Sprintf("is %s, and must be %s here", paramWords[from], paramWords[to])
	}
	return ""
}

// TakesText says why a text that is known only later can't be given for a parameter.
func (p *Params) TakesText(name string) string { return p.Takes(name, courier.Param{Type: paramText}) }

// stringlike reports whether a text may be a value of a type.
func stringlike(typ string) bool {
	return typ == paramText || typ == paramDate || typ == paramInstant || typ == paramFile
}

// checkComparison reports a parameter in a condition that gives the same result whatever
// its value is, because it is compared with something of another type.
func (c *checker) checkComparison(i int, cond *condition) {
	if cond.op == opExists || cond.op == opContains || cond.op == opRegex {
		return
	}
	left, right := c.comparand(&cond.left), c.comparand(&cond.right)
	for _, side := range []struct {
		field      string
		own, other comparand
		with       *operand
	}{{fieldLeft, left, right, &cond.right}, {fieldRight, right, left, &cond.left}} {
		if side.own.param == nil {
			continue
		}
		why := ""
		switch v, constant := side.with.constant(); {
		case cond.op != opEquals && cond.op != opNotEquals && !side.own.ordered():
			why = fmt.Sprintf("has no order for %s", cond.op)
		case side.other.param != nil && !side.own.comparable(side.other.param):
			why = fmt.Sprintf("is never equal to %s, which %q is", paramWords[side.other.Type], side.other.ref)
		case constant:
			why = side.own.comparableTo(v, cond.op)
		}
		if why != "" {
			c.stepProblem(i, "config."+side.field, "%q is %s, which %s", side.own.ref, paramWords[side.own.Type], why)
			return
		}
	}
}

// A comparand is an operand that is a parameter with a type, as a whole; the param is nil
// if it is none.
type comparand struct {
	*param
	ref string
}

func (c *checker) comparand(o *operand) (p comparand) {
	if o.text == nil || !o.text.whole {
		return p
	}
	ref := o.text.parts[0].ref
	if ref.Head != headParams || len(ref.Path) > 0 || c.params == nil {
		return p
	}
	if d := c.params.all[ref.Name]; d != nil && d.Type != "" && !d.Secret {
		p = comparand{d, shorten(ref.String())}
	}
	return p
}

// ordered reports whether one value of the type can be less than another.
func (d *param) ordered() bool {
	return d.Type != paramBoolean && d.Type != paramList && d.Type != paramObject && d.Type != paramFile
}

// comparable reports whether values of two types can be equal. A text may write a value
// of another type.
func (d *param) comparable(other *param) bool {
	return d.Type == other.Type || isNumber(d.Type) && isNumber(other.Type) || d.Type == paramText && other.scalar() || other.Type == paramText && d.scalar()
}

func (d *param) scalar() bool {
	return d.Type != paramList && d.Type != paramObject && d.Type != paramFile
}

// comparableTo says why a value of the type can't be equal to a constant; empty if it can.
// Null and the empty text are what a parameter without a value is compared with.
func (d *param) comparableTo(v any, op operator) string {
	text := jsontext.Text(v)
	_, isText := v.(string)
	_, isNumeric := v.(json.Number)
	ok := false
	switch v.(type) {
	case []any:
		ok = d.Type == paramList || d.Type == paramText
	case map[string]any:
		ok = d.Type == paramObject || d.Type == paramFile || d.Type == paramText
	default:
		ok = text == "" || d.scalar() || isText
	}
	if ok && text != "" && (isText || isNumeric) {
		switch d.Type {
		case paramInteger, paramNumber:
			_, ok = parseDecimal(text)
		case paramBoolean:
			ok = strings.EqualFold(text, "true") || strings.EqualFold(text, "false")
		case paramDate, paramInstant:
			_, why := d.ofType(v)
			ok = why == ""
		}
	} else if _, isBool := v.(bool); isBool {
		ok = d.Type == paramBoolean || d.Type == paramText
	}
	equality := op == opEquals || op == opNotEquals
	switch {
	case !ok && equality:
		return "is never equal to " + shown(v)
	case !ok:
		return "can't be compared with " + shown(v)
	case equality && text != "" && len(d.Enum) > 0 && !slices.ContainsFunc(d.Enum, func(e any) bool { return equal(e, v) }):
		names := make([]string, len(d.Enum))
		for i, e := range d.Enum {
			names[i] = jsontext.Text(e)
		}
		return fmt.Sprintf("is never %s; %s", shown(v), nearest.DidYouMean(text, names))
	}
	return ""
}
