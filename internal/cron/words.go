package cron

import (
	"fmt"
	"strings"
)

// Words returns the expression in English, such as "At 06:00:00 on weekdays (Monday to Friday)".
func (e *Expression) Words() string {
	var s string
	if times := e.times(); times == "" {
		s = e.often()
	} else {
		s = "at " + times
		if e.fields[dayOfMonth].all() || e.fields[dayOfWeek].all() {
			s += " every day"
		}
	}
	ofMonth, ofWeek := e.fields[dayOfMonth].monthDays(), e.fields[dayOfWeek].weekDays()
	if ofMonth != "" && ofWeek != "" { // of crontab
		between := " or"
		if e.bothDays {
			between = " if it falls"
		}
		ofMonth += between
	}
	s += ofMonth + ofWeek +
		e.fields[month].phrase(month, "in", "") + e.fields[year].phrase(year, "in", "")
	return strings.ToUpper(s[:1]) + s[1:]
}

// times lists the times of a day, or returns "" if there are many.
func (e *Expression) times() string {
	const few = 12
	if e.interval {
		return ""
	}
	var list []string
	for at, ok := e.time(0); ok; at, ok = e.time(at + 1) {
		if list = append(list, clockText(int64(at), "15:04:05")); len(list) > few {
			return ""
		}
	}
	return join(list, "and")
}

// often says how often a schedule fires within a day, by the smallest unit that
// repeats, such as "every 15 minutes in the hours 8 to 17".
func (e *Expression) often() string {
	s, m, h := &e.fields[second], &e.fields[minute], &e.fields[hour]
	atSecond := s.phrase(second, "at", "second")
	if s.zero() {
		atSecond = ""
	}
	inHour := h.phrase(hour, "in the", "hour")
	switch {
	case s.repeats():
		return s.pace(second) + m.phrase(minute, "of", "minute") + inHour
	case m.repeats():
		return m.pace(minute) + atSecond + inHour
	case h.repeats() && m.zero():
		return h.pace(hour) + atSecond
	case h.repeats():
		return h.pace(hour) + m.phrase(minute, "at", "minute") + atSecond
	}
	return strings.TrimSpace(m.phrase(minute, "at", "minute") + atSecond + inHour)
}

// zero reports whether the field is 0.
func (f *field) zero() bool { return f.is(values) && f.terms[0].low == 0 && !f.terms[0].ranged }

// pace says how often a field repeats, such as "every 15 minutes".
func (f *field) pace(index int) string {
	u, t := &units[index], &f.terms[0]
	n := t.list(u)
	const few = 3
	even := len(n)*t.step == u.max-u.min+1 && n[0] < u.min+t.step
	if len(f.terms) > 1 || len(n) == 1 || !even && t.step > 1 && len(n) <= few {
		return strings.TrimSpace(f.phrase(index, "at", u.one))
	}
	s := "every " + u.one
	if t.step > 1 {
		s = fmt.Sprintf("every %d %ss", t.step, u.one)
	}
	switch {
	case even && n[0] == u.min:
		return s
	case even:
		return s + fmt.Sprintf(" from %s %d", u.one, n[0])
	}
	return s + fmt.Sprintf(" from %s %d to %d", u.one, n[0], n[len(n)-1])
}

// phrase names the values of a field after a preposition and a noun, such as " in
// the hours 8 to 17", or returns "" if they are all.
func (f *field) phrase(index int, preposition, noun string) string {
	if f.all() {
		return ""
	}
	if noun != "" && (len(f.terms) > 1 || len(f.terms[0].list(&units[index])) > 1) {
		noun += "s"
	}
	var items []string
	for i := range f.terms {
		items = append(items, f.terms[i].words(&units[index])...)
	}
	return " " + strings.TrimSpace(preposition+" "+noun) + " " + join(items, "and")
}

// words names the values of a term.
func (t *term) words(u *unit) (items []string) {
	name := func(v int) string {
		if u.names != nil {
			return u.names[v-u.min]
		}
		return fmt.Sprint(v)
	}
	const few = 6
	n := t.list(u)
	last := n[len(n)-1]
	switch {
	case t.step == 1 && len(n) > 2:
		return []string{name(n[0]) + " to " + name(last)}
	case len(n) > few:
		return []string{fmt.Sprintf("%s to %s in steps of %d", name(n[0]), name(last), t.step)}
	}
	for _, v := range n {
		items = append(items, name(v))
	}
	return items
}

// list returns the values of a term in the order in which it is written.
func (t *term) list(u *unit) (list []int) {
	t.each(u, func(v int) { list = append(list, v) })
	return list
}

// monthDays returns the days of the month as text, such as " on the last day of the month".
func (f *field) monthDays() string {
	if f.all() || f.is(unspecified) {
		return ""
	}
	var plain field
	var items []string
	for _, t := range f.terms {
		switch t.kind {
		case last:
			items = append(items, "the "+fromEnd(t.low, "last day"))
		case lastWeekday:
			if t.low == 0 {
				items = append(items, "the last weekday (Monday to Friday)")
			} else {
				items = append(items, "the weekday nearest to the "+fromEnd(t.low, ""))
			}
		case nearestDay:
			items = append(items, "the weekday nearest to the "+ordinal(t.low))
		default:
			plain.terms = append(plain.terms, t)
		}
	}
	if len(plain.terms) > 0 {
		items = append([]string{strings.TrimSpace(plain.phrase(dayOfMonth, "", "day"))}, items...)
	}
	return " on " + join(items, "and") + " of the month"
}

// fromEnd names a day by the number of days after it; itself is the name of the last day.
func fromEnd(n int, itself string) string {
	switch n {
	case 0:
		return itself
	case 1:
		return "day before the last"
	}
	return ordinal(n) + " day before the last"
}

// weekDays returns the days of the week as text, such as " on weekdays (Monday to Friday)".
func (f *field) weekDays() string {
	if f.all() || f.is(unspecified) {
		return ""
	}
	u := &units[dayOfWeek]
	var items []string
	var plain uint64
	special := false
	for i := range f.terms {
		switch t := &f.terms[i]; t.kind {
		case nth:
			items = append(items, "the "+[]string{"first", "second", "third", "fourth", "fifth"}[t.step-1]+" "+u.names[t.low-1]+" of the month")
			special = true
		case lastOf:
			items = append(items, "the last "+u.names[t.low-1]+" of the month")
			special = true
		default:
			items = append(items, t.words(u)...)
			t.each(u, func(v int) { plain |= 1 << v })
		}
	}
	switch {
	case !special && plain == 0b1111100:
		return " on weekdays (Monday to Friday)"
	case !special && plain == 0b10000010:
		return " on weekends (Saturday and Sunday)"
	}
	return " on " + join(items, "and")
}

// ordinal returns n as 1st, 2nd, 3rd, 4th ...
func ordinal(n int) string {
	suffix := "th"
	if n/10 != 1 {
		switch n % 10 {
		case 1:
			suffix = "st"
		case 2:
			suffix = "nd"
		case 3:
			suffix = "rd"
		}
	}
	return fmt.Sprint(n, suffix)
}

// join joins items as in "a, b and c".
func join(items []string, and string) string {
	switch n := len(items); n {
	case 0:
		return ""
	case 1:
		return items[0]
	default:
		return strings.Join(items[:n-1], ", ") + " " + and + " " + items[n-1]
	}
}
