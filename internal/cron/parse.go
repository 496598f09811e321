package cron

import (
	"fmt"
	"strings"
)

// maxLength is the maximum length of an expression that Parse accepts. It is more than enough.
const maxLength = 1000

const spaces = " \t\r\n"

// parse parses an expression: first its fields one by one, then the rules between them.
func parse(text string) (*Expression, *ParseError) {
	if len(text) > maxLength {
		return nil, &ParseError{text, maxLength, fmt.Sprintf("it has %d bytes, %d at most", len(text), maxLength), ""}
	}
	words := split(text)
	e := &Expression{text: text}
	if isCrontab(text, words) {
		if err := e.parseCrontab(words[1:]); err != nil {
			return nil, err
		}
		e.compile()
		return e, nil
	}
	if err := count(text, words); err != nil {
		return nil, err
	}
	for i, w := range words {
		p := parser{text: text[:w.end], at: w.start, index: i, unit: &units[i]}
		if err := p.field(&e.fields[i]); err != nil {
			err.Expression = text
			return nil, err
		}
	}
	if len(words) == year {
		e.fields[year] = everyYear(text)
	}
	if err := e.checkDays(words); err != nil {
		return nil, err
	}
	e.compile()
	return e, nil
}

// everyYear returns the field of years of an expression that has none.
func everyYear(text string) field {
	return field{terms: []term{{kind: every, low: MinYear, high: MaxYear, step: 1}}, at: len(text)}
}

// A word is a part of the expression between spaces.
type word struct{ start, end int }

func split(text string) (words []word) {
	for at := 0; at < len(text); {
		if strings.IndexByte(spaces, text[at]) >= 0 {
			at++
			continue
		}
		end := len(text)
		if n := strings.IndexAny(text[at:], spaces); n >= 0 {
			end = at + n
		}
		words = append(words, word{at, end})
		at = end
	}
	return words
}

// compile turns the fields into sets.
func (e *Expression) compile() {
	f := &e.fields
	e.seconds, e.minutes, e.hours = f[second].set(&units[second]), f[minute].set(&units[minute]), f[hour].set(&units[hour])
	e.months, e.years = f[month].set(&units[month]), f[year].years()
	e.interval = f[second].repeats() || f[minute].repeats() || f[hour].repeats()
	for i := range e.days {
		for first := range e.days[i] {
			length := 28 + i
			ofMonth, ofWeek := f[dayOfMonth].daysOfMonth(length, first), f[dayOfWeek].daysOfWeek(length, first)
			if e.days[i][first] = ofMonth | ofWeek; e.bothDays {
				e.days[i][first] = ofMonth & ofWeek
			}
		}
	}
}

// checkDays checks that one of day of month and day of week is "?".
func (e *Expression) checkDays(words []word) *ParseError {
	ofMonth, ofWeek := &e.fields[dayOfMonth], &e.fields[dayOfWeek]
	if ofMonth.is(unspecified) != ofWeek.is(unspecified) {
		return nil
	}
	with := func(f int, s string) string {
		return didYouMean(e.text[:words[f].start] + s + e.text[words[f].end:])
	}
	err := &ParseError{Expression: e.text, Offset: ofWeek.at}
	switch {
	case ofWeek.is(unspecified):
		err.Problem, err.Hint = `day of month and day of week are both "?"`, with(dayOfMonth, "*")
	case ofWeek.all():
		err.Problem, err.Hint = neither, with(dayOfWeek, "?")
	case ofMonth.all():
		err.Offset, err.Problem, err.Hint = ofMonth.at, neither, with(dayOfMonth, "?")
	default:
		err.Problem = "it names both days of the month and days of the week, of which one must be \"?\""
		err.Hint = "one schedule for each fires on either"
	}
	return err
}

const neither = `of day of month and day of week, one says which days, and the other must be "?"`

func didYouMean(s string) string { return fmt.Sprintf("did you mean %q?", s) }

// A parser reads one field.
type parser struct {
	text  string // up to the end of the field
	at    int
	index int
	unit  *unit
	plain bool // letters are only names, as in crontab
}

func (p *parser) fail(at int, hint, format string, args ...any) *ParseError {
	return &ParseError{Offset: at, Problem: fmt.Sprintf(format, args...), Hint: hint}
}

// done reports whether the field ends here.
func (p *parser) done() bool { return p.at == len(p.text) }

// peek returns the next character; at the end it returns a character without a meaning.
func (p *parser) peek() byte {
	if p.done() {
		return 0
	}
	return p.text[p.at]
}

// accept skips the next character if it is c.
func (p *parser) accept(c byte) bool {
	if p.peek() != c {
		return false
	}
	p.at++
	return true
}

func (p *parser) field(f *field) *ParseError {
	f.at = p.at
	for {
		at := p.at
		t, err := p.term()
		if err != nil {
			return err
		}
		f.terms = append(f.terms, t)
		switch {
		case t.kind == unspecified && (len(f.terms) > 1 || !p.done()):
			return p.fail(at, "", `"?" must stand alone in its field`)
		case p.done():
			return nil
		case !p.accept(','):
			return p.unexpected()
		}
	}
}

// unexpected returns the error for the next character after a term.
func (p *parser) unexpected() *ParseError {
	rest := p.text[p.at:]
	switch c := rest[0] | 0x20; {
	case c == 'l' && p.index != dayOfMonth && p.index != dayOfWeek:
		return p.fail(p.at, "", "L belongs into the fields of days")
	case c == 'l' && p.index == dayOfMonth:
		return p.fail(p.at, "L-3 is the third day before the last", "L stands before a number in the day of month")
	case c == 'l':
		return p.fail(p.at, `the last Friday is "6L" or "FRIL"`, "L goes with one day of the week")
	case c == 'w' && p.index == dayOfMonth:
		return p.fail(p.at, `the weekday nearest to the 15th is "15W"`, "W goes with one day of the month")
	case c == 'w':
		return p.fail(p.at, "", "W belongs into the day of month, such as 15W")
	case c == '#' && p.index == dayOfWeek:
		return p.fail(p.at, `the third Friday is "6#3" or "FRI#3"`, "# goes with one day of the week")
	case c == '#':
		return p.fail(p.at, "", "# belongs into the day of week, such as 6#3")
	}
	hint := ""
	if rest[0] == ';' {
		hint = `lists are written with ","`
	}
	return p.fail(p.at, hint, "%s is not expected after %s %s", quoteFirst(rest), article(p.unit.one), p.unit.one)
}

// article returns "a" or "an".
func article(noun string) string {
	if strings.HasPrefix(noun, "hour") {
		return "an"
	}
	return "a"
}

// quoteFirst returns the first character of a text.
func quoteFirst(s string) string {
	for _, r := range s {
		return fmt.Sprintf("%q", r)
	}
	return "the end"
}

// term reads one element of a list.
func (p *parser) term() (term, *ParseError) {
	switch c := p.peek(); {
	case c == '?':
		return p.question()
	case c == '*', c == '/':
		return p.star()
	case isLetter(c) && !p.plain && p.special():
		return p.last()
	}
	at := p.at
	low, err := p.value()
	if err != nil {
		return term{}, err
	}
	t := term{kind: values, low: low, high: low, step: 1}
	switch c := p.peek() | 0x20; {
	case c == 'w' && p.index == dayOfMonth:
		p.at++
		t.kind = nearestDay
		return t, nil
	case c == 'l' && p.index == dayOfWeek:
		p.at++
		t.kind = lastOf
		return t, nil
	case c == '#' && p.index == dayOfWeek:
		p.at++
		return p.nth(t)
	}
	return p.span(t, at)
}

func (p *parser) question() (term, *ParseError) {
	if p.index != dayOfMonth && p.index != dayOfWeek {
		return term{}, p.fail(p.at, `every value is "*"`, `"?" belongs into day of month or day of week, this is the %s`, p.unit.one)
	}
	p.at++
	return term{kind: unspecified}, nil
}

// star reads "*", "*/step" or "/step".
func (p *parser) star() (t term, err *ParseError) {
	t = term{kind: every, low: p.unit.min, high: p.unit.max, step: 1}
	star := p.accept('*')
	if star && isDigit(p.peek()) {
		n := p.at
		for isDigit(p.peek()) {
			p.at++
		}
		return t, p.fail(n, didYouMean("*/"+p.text[n:p.at]), `"*" is every value`)
	}
	t.step, err = p.step()
	return t, err
}

// special reports whether the next letters are L or LW.
func (p *parser) special() bool {
	w := strings.ToUpper(p.letters())
	return w == "L" && (p.index == dayOfMonth || p.index == dayOfWeek) || w == "LW" && p.index == dayOfMonth
}

// letters returns the letters at the current position.
func (p *parser) letters() string {
	end := p.at
	for end < len(p.text) && isLetter(p.text[end]) {
		end++
	}
	return p.text[p.at:end]
}

// last reads L, LW, L-n or L-nW in the day of month, and L in the day of week.
func (p *parser) last() (term, *ParseError) {
	p.at++ // L
	if p.index == dayOfWeek {
		return term{kind: values, low: 7, high: 7, step: 1}, nil
	}
	t := term{kind: last}
	if p.accept('-') {
		at := p.at
		n, err := p.number("the number of days before the last")
		if err != nil {
			return t, err
		}
		if t.low = n; n > 30 {
			return t, p.fail(at, "", "no month has a day that is %s before its last", shown(p.text[at:p.at]))
		}
	}
	if p.peek()|0x20 == 'w' {
		p.at++
		t.kind = lastWeekday
	}
	return t, nil
}

// nth reads the number after "6#".
func (p *parser) nth(t term) (term, *ParseError) {
	at := p.at
	n, err := p.number("which one of the month")
	if err != nil {
		return t, err
	}
	if n < 1 || n > 5 {
		hint := ""
		if n > 5 {
			hint = fmt.Sprintf("the last one is %q", units[dayOfWeek].short(t.low)+"L")
		}
		return t, p.fail(at, hint, "# is followed by 1 to 5")
	}
	t.kind, t.step = nth, n
	return t, nil
}

// span reads the optional "-high" and "/step" after the first value.
func (p *parser) span(t term, at int) (_ term, err *ParseError) {
	if p.accept('-') {
		t.ranged = true
		if t.high, err = p.value(); err != nil {
			return t, err
		}
		if p.index == year && t.high < t.low {
			hint := didYouMean(fmt.Sprintf("%d-%d", t.high, t.low))
			return t, p.fail(at, hint, "the range ends before it begins")
		}
	} else if p.peek() == '/' {
		t.high, t.ranged = p.unit.max, true
	}
	t.step, err = p.step()
	return t, err
}

// step reads "/n", and returns 1 if there is none.
func (p *parser) step() (int, *ParseError) {
	if !p.accept('/') {
		return 1, nil
	}
	at := p.at
	n, err := p.number("the step, a number")
	switch {
	case err != nil:
		return 0, err
	case n == 0:
		return 0, p.fail(at, "", "a step of 0 never ends")
	case n > p.unit.most:
		hint := ""
		if next := p.index + 1; p.index < dayOfMonth && n%(p.unit.max+1) == 0 {
			hint = fmt.Sprintf("a step of %d belongs into the field of %s, the next", n/(p.unit.max+1), units[next].name)
		}
		return 0, p.fail(at, hint, "a step of %s is more than there are %s, %d at most", shown(p.text[at:p.at]), p.unit.name, p.unit.most)
	}
	return n, nil
}

// value reads a number or a name, and checks that it lies in the unit's range.
func (p *parser) value() (int, *ParseError) {
	at := p.at
	if isLetter(p.peek()) {
		return p.name()
	}
	n, err := p.number("a value")
	if err != nil {
		return 0, err
	}
	if n < p.unit.min || n > p.unit.max {
		return 0, p.outside(at, n)
	}
	return n, nil
}

// outside returns the error for a number that is out of range.
func (p *parser) outside(at, n int) *ParseError {
	hint := ""
	switch {
	case p.index == dayOfWeek && n == 0:
		hint = `Sunday is "SUN" or 1, Monday 2; crontab counts from 0`
	case p.index == hour && n == 24:
		hint = "midnight is 0"
	case p.index == minute && n == 60, p.index == second && n == 60:
		hint = "the full " + units[p.index+1].one + " is 0"
	case p.index == year && n < 100:
		hint = didYouMean(fmt.Sprint(2000 + n))
	}
	return p.fail(at, hint, "%s are %d to %d, not %s", p.unit.name, p.unit.min, p.unit.max, shown(p.text[at:p.at]))
}

// number reads digits. What names the expected number in the error message.
func (p *parser) number(what string) (int, *ParseError) {
	at, n := p.at, 0
	for ; isDigit(p.peek()); p.at++ {
		n = min(10*n+int(p.peek()-'0'), 1_000_000)
	}
	if p.at == at {
		found := "the field ends"
		if !p.done() {
			found = "there is " + quoteFirst(p.text[at:])
		}
		return 0, p.fail(at, "", "%s is expected where %s", what, found)
	}
	return n, nil
}

// name reads the name of a month or of a day of the week. It does not read the L of FRIL.
func (p *parser) name() (int, *ParseError) {
	at, name := p.at, p.letters()
	p.at += len(name)
	if v, ok := p.unit.value(name); ok {
		return v, nil
	}
	if cut := len(name) - 1; p.index == dayOfWeek && name[cut]|0x20 == 'l' {
		if v, ok := p.unit.value(name[:cut]); ok {
			p.at--
			return v, nil
		}
	}
	return 0, p.unknown(at, name)
}

func isDigit(c byte) bool  { return '0' <= c && c <= '9' }
func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }
