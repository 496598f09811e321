package flow

import (
	"cmp"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/courierhq/courier/internal/jsontext"
	"github.com/courierhq/courier/internal/nearest"

	"github.com/courierhq/courier"
)

// maxUnknown is how many unknown parameters get a problem of their own: to look for what was
// meant takes time.
const maxUnknown = 100

// Values returns the values of the parameters of an execution: those that are given,
// which may be any that encoding/json can handle, and the declared ones in place of
// those that are not. There is one problem for each parameter that is unknown, missing
// or not as it was declared, in the order of the names; of unknown ones only [maxUnknown]
// are named. Partial says that more will be given later, so that none is missing.
func (p *Params) Values(given map[string]any, partial bool) (values map[string]any, problems []courier.Problem) {
	values = make(map[string]any, len(given)+len(p.Names()))
	bad := func(name, format string, args ...any) {
		problems = append(problems, courier.Problem{Step: -1, Field: "params." + shorten(name), Message: fmt.Sprintf(format, args...)})
	}
	unknown := 0
	for _, name := range sortedNames(given) {
		values[name] = given[name]
		if p == nil || p.all[name] != nil {
			continue
		}
		if unknown++; unknown <= maxUnknown {
			bad(name, "unknown parameter %q; %s", shorten(name), nearest.DidYouMean(name, p.names))
		}
	}
	if unknown > maxUnknown {
		problems = append(problems, courier.Problem{Step: -1, Field: "params", Message: fmt.Sprintf("%d more parameters are unknown", unknown-maxUnknown)})
	}
	for _, name := range p.Names() {
		v, ok := given[name]
		if !ok {
			v = nil
		}
		d := p.all[name]
		x, why := d.given(v, ok)
		switch {
		case why == missingParam && partial:
		case why != "":
			bad(name, "%s", why)
			continue
		}
		values[name] = x
	}
	slices.SortStableFunc(problems, func(a, b courier.Problem) int { return cmp.Compare(a.Field, b.Field) })
	return values, problems
}

// Check returns a value of a parameter in the form in which it is stored, and the problem
// with it, or "". It accepts any value of an undeclared parameter.
func (p *Params) Check(name string, v any) (value any, problem string) {
	if p == nil || p.all[name] == nil {
		return v, ""
	}
	return p.all[name].given(v, true)
}

const missingParam = "is required, and was not given"

// given returns the value that holds where v is given, or nothing is.
func (d *param) given(v any, is bool) (any, string) {
	if d.broken {
		return v, "its declaration has problems; mend the definition"
	}
	if d.Type == "" {
		if !is {
			return d.Default, ""
		}
		return v, ""
	}
	x, err := plainJSON(v)
	switch {
	case err != nil && d.Secret:
		return nil, "is not text that can be stored"
	case err != nil:
		return nil, err.Error()
	case x == nil && d.Required:
		return nil, missingParam
	case x == nil:
		return d.Default, ""
	}
	return d.value(x)
}

// value returns a value as it is stored, and what is wrong with it.
func (d *param) value(v any) (any, string) {
	x, why := d.ofType(v)
	if why == "" {
		why = d.within(x)
	}
	if why != "" && d.Secret { // what was given may be the secret itself
		why = "must be the name of a secret, without secret: before it"
		if len(d.Enum) > 0 {
			why += "; permitted are " + listed(d.Enum)
		}
	}
	return x, why
}

// within says which bound a value of the type exceeds.
func (d *param) within(v any) string {
	n, unit := 0, "characters"
	switch v := v.(type) {
	case string:
		if d.Type == paramText {
			n = utf8.RuneCountInString(v)
		}
	case []any:
		n, unit = len(v), "items"
	}
	switch {
	case len(d.Enum) > 0 && !slices.ContainsFunc(d.Enum, func(e any) bool { return d.compare(v, e) == 0 }):
		return fmt.Sprintf("%s is not one of the possible values; %s", shown(v), d.nearest(v))
	case d.Min != nil && d.compare(v, d.Min) < 0:
		return fmt.Sprintf("must be at least %s, not %s", shown(d.Min), shown(v))
	case d.Max != nil && d.compare(v, d.Max) > 0:
		return fmt.Sprintf("must be at most %s, not %s", shown(d.Max), shown(v))
	case n < d.MinLength:
		return fmt.Sprintf("must have at least %d %s, not %d", d.MinLength, unit, n)
	case d.MaxLength > 0 && n > d.MaxLength:
		return fmt.Sprintf("must have at most %d %s, not %d", d.MaxLength, unit, n)
	}
	if d.pattern == nil {
		return ""
	}
	text, _ := v.(string)
	if err := d.pattern.check(len(text)); err != nil {
		return err.Error()
	}
	if !d.pattern.re.MatchString(text) {
		return fmt.Sprintf("%s does not match the pattern %s as a whole", shown(v), d.Param.Pattern)
	}
	return ""
}

// nearest ends a message about a value that is not among those that are permitted.
func (d *param) nearest(v any) string {
	names := make([]string, len(d.Enum))
	for i, e := range d.Enum {
		names[i] = jsontext.Text(e)
	}
	if d.Type == paramText {
		return nearest.DidYouMean(jsontext.Text(v), names)
	}
	return "known are " + listed(d.Enum)
}

// listed is a list of values for a message.
func listed(list []any) string {
	const few = 12
	names := make([]string, 0, few)
	for i, v := range list {
		if i == few {
			return fmt.Sprintf("%s and %d more", strings.Join(names, ", "), len(list)-i)
		}
		names = append(names, shorten(jsontext.Text(v)))
	}
	return strings.Join(names, ", ")
}

// compare orders two values of the type: numbers by their exact value, instants by
// when they are, dates and text by their characters.
func (d *param) compare(a, b any) int {
	x, y := jsontext.Text(a), jsontext.Text(b)
	switch d.Type {
	case paramInteger, paramNumber:
		m, _ := parseDecimal(x)
		n, _ := parseDecimal(y)
		return m.compare(n)
	case paramInstant:
		m, _ := parseInstant(x)
		n, _ := parseInstant(y)
		return m.Compare(n)
	}
	return cmp.Compare(x, y)
}

var instantForm = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$`)

// parseInstant reads an instant strictly, unlike package time.
func parseInstant(s string) (time.Time, error) {
	if !instantForm.MatchString(s) {
		return time.Time{}, strconv.ErrSyntax
	}
	return time.Parse(time.RFC3339, s)
}

// ofType returns a value in the form of the type, and what is wrong with it.
func (d *param) ofType(v any) (any, string) {
	text, isText := v.(string)
	number, isNumber := v.(json.Number)
	ok, form := false, paramWords[d.Type]
	switch d.Type {
	case paramText:
		if ok = isText; d.Secret {
			ok = isText && text != "" && !strings.HasPrefix(text, secretPrefix) && !hasControl(text) && len(text) <= maxName
		}
	case paramInteger:
		ok = isNumber && !strings.ContainsAny(number.String(), ".eE")
		if isNumber {
			form += " in digits alone"
		}
	case paramNumber:
		if _, ok = parseDecimal(number.String()); isNumber && !ok {
			return v, fmt.Sprintf("%s has too large an exponent", shown(v))
		}
	case paramBoolean:
		_, ok = v.(bool)
	case paramDate:
		_, err := time.Parse(time.DateOnly, text)
		ok, form = isText && err == nil, "a date that exists, such as 2026-11-23"
	case paramInstant:
		_, err := parseInstant(text)
		ok, form = isText && err == nil, "an instant of RFC 3339, such as 2026-11-23T07:30:00+01:00"
	case paramList:
		_, ok = v.([]any)
	case paramObject:
		_, ok = v.(map[string]any)
	case paramFile:
		return fileValue(v)
	}
	if !ok {
		return v, fmt.Sprintf("must be %s, not %s", form, shown(v))
	}
	return v, ""
}

// shown is a value in a message.
func shown(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case string:
		return fmt.Sprintf("%q", shorten(v))
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	}
	return shorten(jsontext.Text(v))
}

// fileValue returns the object of a file.
func fileValue(v any) (any, string) {
	const form = `must be the absolute path of a file, or an object with "path" or "name"`
	given, isObject := v.(map[string]any)
	file := maps.Clone(given)
	switch v := v.(type) {
	case string:
		file = map[string]any{"path": v}
	case map[string]any:
	default:
		return v, form + ", not " + shown(v)
	}
	path, hasPath := file["path"].(string)
	name, hasName := file["name"].(string)
	size, hasSize := file["size"].(json.Number)
	sum, hasSum := file["sha256"].(string)
	digest, err := hex.DecodeString(sum)
	at := strings.LastIndexAny(path, `/\`)
	switch {
	case file["path"] == nil && file["name"] == nil:
		return v, form
	case file["path"] != nil && (!hasPath || !isAbsolute(path)) && !isObject:
		return v, form + ", not " + shown(v)
	case file["path"] != nil && (!hasPath || !isAbsolute(path)):
		return v, "path: must be an absolute path, not " + shown(file["path"])
	case at == len(path)-1 && hasPath:
		return v, "path: " + shown(path) + " names a directory"
	case file["name"] != nil && (!hasName || name == "" || name == "." || name == ".." || strings.ContainsAny(name, `/\`)):
		return v, "name: must be the name of a file without a directory, not " + shown(file["name"])
	case file["size"] != nil && (!hasSize || strings.ContainsAny(size.String(), ".eE-")):
		return v, "size: must be the number of bytes, not " + shown(file["size"])
	case file["sha256"] != nil && (!hasSum || err != nil || len(digest) != 32):
		return v, "sha256: must be 64 hexadecimal digits, not " + shown(file["sha256"])
	}
	if file["name"] == nil {
		file["name"] = path[at+1:]
	}
	return file, ""
}

// isAbsolute reports whether a path is absolute on some system: the execution may run
// on another one.
func isAbsolute(path string) bool {
	drive := len(path) > 2 && path[1] == ':' && isSeparator(rune(path[2]))
	return strings.HasPrefix(path, "/") || strings.HasPrefix(path, `\\`) || drive
}
