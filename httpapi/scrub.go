package httpapi

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

// scrubbed stands in a problem where a value was that the client has sent.
const scrubbed = "…"

// scrub takes the values that the client has sent out of a problem: who reads an answer in a
// log or on a screen need not be the one who may know them. The names of fields stay, since
// nobody could find the mistake without them, and so do the definitions of editors.
func (c *call) scrub(p *problem) {
	values := c.sent()
	if p.code == codeNotFound && c.route != nil {
		for name := range c.route.wildcards() {
			values = append(values, c.r.PathValue(name))
		}
	}
	if len(values) == 0 {
		return
	}
	for i, v := range values {
		quoted := strconv.Quote(v)
		values[i] = quoted[1 : len(quoted)-1] // as it stands in messages
	}
	slices.SortFunc(values, func(a, b string) int { return len(b) - len(a) })
	p.Detail = without(p.Detail, values)
	p.Problems = slices.Clone(p.Problems)
	for i := range p.Problems {
		p.Problems[i].Message = without(p.Problems[i].Message, values)
	}
}

// sent returns the values of the query and the texts in the body, which has been read.
func (c *call) sent() (values []string) {
	for name, list := range c.query {
		if !slices.Contains([]string{"limit", "version"}, name) {
			values = append(values, list...)
		}
	}
	if c.raw == nil {
		return values
	}
	var v any
	if json.Unmarshal(c.raw, &v) != nil {
		return values
	}
	return texts(v, values)
}

// texts adds the texts in a JSON value to a list, but for the names.
func texts(v any, list []string) []string {
	switch v := v.(type) {
	case string:
		return append(list, v)
	case []any:
		for _, e := range v {
			list = texts(e, list)
		}
	case map[string]any:
		for _, e := range v {
			list = texts(e, list)
		}
	}
	return list
}

// Values that are shorter stand in a text by chance; they are looked for in quotes.
const shortValue = 4

// Messages cut off longer values: what begins like one is taken out as far as it is alike.
const longValue = 16

// without returns a text without some values.
func without(text string, values []string) string {
	for _, v := range values {
		switch {
		case v == "":
		case len(v) < shortValue:
			text = strings.ReplaceAll(text, `"`+v+`"`, `"`+scrubbed+`"`)
		case len(v) <= longValue:
			text = strings.ReplaceAll(text, v, scrubbed)
		default:
			text = withoutRuns(text, v)
		}
	}
	return text
}

// withoutRuns takes out what begins like a value, as far as it goes on like it.
func withoutRuns(text, value string) string {
	var b strings.Builder
	for {
		i := strings.Index(text, value[:longValue])
		if i < 0 {
			return b.String() + text
		}
		n := longValue
		for n < len(value) && i+n < len(text) && text[i+n] == value[n] {
			n++
		}
		b.WriteString(text[:i] + scrubbed)
		text = text[i+n:]
	}
}
