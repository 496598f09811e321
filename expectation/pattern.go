package expectation

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/courierhq/courier/calendar"
	"github.com/courierhq/courier/internal/errtext"
)

// A pattern selects files by name.
type pattern struct {
	text   string
	expr   *regexp.Regexp
	layout string // of the date; empty for none
	prefix string // the prefix of all names
}

// elements are the possible elements of a layout, the longest first, and the expressions that
// match them.
var elements = []struct{ layout, expr string }{
	{"January", `[A-Z][a-z]{2,8}`}, {"2006", `[0-9]{4}`}, {"Jan", `[A-Z][a-z]{2}`}, {"002", `[0-9]{3}`}, {"06", `[0-9]{2}`}, {"01", `[0-9]{2}`}, {"02", `[0-9]{2}`},
}

// readPattern parses a pattern.
func readPattern(text string) (*pattern, error) {
	switch {
	case text == "":
		return nil, errors.New("it is missing; give one such as PAY_{date:20060102}_*.csv, or * for all files")
	case strings.ContainsAny(text, "/\\"):
		return nil, fmt.Errorf("%q has a path separator, but is compared with names", errtext.Shorten(text, 60))
	case len(text) > maxPattern || !utf8.ValidString(text) || strings.ContainsRune(text, 0):
		return nil, fmt.Errorf("%q is longer than %d bytes, has a NUL character, or is not valid UTF-8", errtext.Shorten(text, 60), maxPattern)
	}
	p := &pattern{text: text}
	var expr strings.Builder
	expr.WriteString(`(?s)\A`)
	literal := true // so far
	for rest := text; rest != ""; {
		c, size := utf8.DecodeRuneInString(rest)
		switch c {
		case '*':
			expr.WriteString(`.*`)
		case '?':
			expr.WriteString(`.`)
		case '}':
			return nil, fmt.Errorf(`%q has a "}" without a "{"; write {date:20060102} for the day`, text)
		case '{':
			inner, after, closed := strings.Cut(rest[1:], "}")
			layout, isDate := strings.CutPrefix(inner, "date:")
			if !closed || !isDate {
				return nil, fmt.Errorf(`%q has "{%s", which is not a day; write {date:20060102} or the like`, text, errtext.Shorten(inner, 60))
			}
			if p.layout != "" {
				return nil, fmt.Errorf("%q has two days; leave one of them out", text)
			}
			group, err := readLayout(layout)
			if err != nil {
				return nil, err
			}
			p.layout = layout
			expr.WriteString("(" + group + ")")
			rest, literal = after, false
			continue
		default:
			expr.WriteString(regexp.QuoteMeta(rest[:size]))
			if literal {
				p.prefix += rest[:size]
			}
			rest = rest[size:]
			continue
		}
		rest, literal = rest[size:], false
	}
	expr.WriteString(`\z`)
	var err error
	p.expr, err = regexp.Compile(expr.String())
	return p, err
}

// readLayout returns the expression that matches the days of a layout.
func readLayout(layout string) (string, error) {
	var expr strings.Builder
next:
	for rest := layout; rest != ""; {
		for _, e := range elements {
			if after, ok := strings.CutPrefix(rest, e.layout); ok {
				expr.WriteString(e.expr)
				rest = after
				continue next
			}
		}
		if !strings.ContainsRune("-_. ", rune(rest[0])) {
			return "", fmt.Errorf(`{date:%s} has %q, which is not of a day; write year, month and day of 2 January 2006, as in 20060102, 2006-01-02 or 020106`, errtext.Shorten(layout, 60), errtext.Shorten(rest, 20))
		}
		expr.WriteString(regexp.QuoteMeta(rest[:1]))
		rest = rest[1:]
	}
	for _, day := range []time.Time{time.Date(2031, 11, 28, 0, 0, 0, 0, time.UTC), time.Date(2032, 2, 29, 0, 0, 0, 0, time.UTC)} {
		if back, err := time.Parse(layout, day.Format(layout)); err != nil || !back.Equal(day) {
			return "", fmt.Errorf("{date:%s} does not say year, month and day; write 20060102, 2006-01-02 or the like", errtext.Shorten(layout, 60))
		}
	}
	return expr.String(), nil
}

// glob returns a pattern of * and ? that matches all names that the pattern matches.
func (p *pattern) glob() string {
	before, after, dated := strings.Cut(p.text, "{")
	if !dated {
		return p.text
	}
	_, after, _ = strings.Cut(after, "}")
	return before + "*" + after
}

// match reports whether the pattern matches a name, and returns the day in it. Dated says that
// the pattern has a day. Known says that the day in the name exists.
func (p *pattern) match(name string) (day calendar.Date, dated, known, ok bool) {
	found := p.expr.FindStringSubmatch(name)
	if found == nil {
		return 0, false, false, false
	}
	if p.layout == "" {
		return 0, false, false, true
	}
	at, err := time.Parse(p.layout, found[1])
	if err != nil {
		return 0, true, false, true
	}
	return calendar.DateOf(at), true, true, true
}
