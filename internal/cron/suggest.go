package cron

import (
	"fmt"
	"strings"
	"time"
)

// count returns the error for an expression with too many or too few fields. Most of these are
// written for another cron.
func count(text string, words []word) *ParseError {
	err := &ParseError{Expression: text}
	switch n := len(words); {
	case n == 0:
		err.Problem = "it is empty"
		err.Hint = `six fields are needed, such as "0 0 3 * * ?" for 03:00 every day`
	case text[words[0].start] == '@':
		err.Offset = words[0].start
		err.Problem, err.Hint = macro(text[words[0].start:])
	case n == 5:
		err.Offset = words[4].start
		err.Problem = "it has 5 fields, as in crontab; here the seconds come first, and one of the days is \"?\", unless the expression begins with the word crontab"
		err.Hint = fromCrontab(text, words)
	case n < 6:
		err.Offset = len(text)
		err.Problem = fmt.Sprintf("it has %s, 6 or 7 are needed: second, minute, hour, day of month, month, day of week, year", fieldCount(n))
	case n > numFields:
		err.Offset = words[numFields].start
		err.Problem = fmt.Sprintf("it has %s, 7 at most: second, minute, hour, day of month, month, day of week, year", fieldCount(n))
	default:
		return nil
	}
	return err
}

func fieldCount(n int) string {
	if n == 1 {
		return "1 field"
	}
	return fmt.Sprintf("%d fields", n)
}

// macros are the short forms of other crons.
var macros = []struct{ name, expression string }{
	{"@yearly", "0 0 0 1 1 ?"},
	{"@annually", "0 0 0 1 1 ?"},
	{"@monthly", "0 0 0 1 * ?"},
	{"@weekly", "0 0 0 ? * SUN"},
	{"@daily", "0 0 0 * * ?"},
	{"@midnight", "0 0 0 * * ?"},
	{"@hourly", "0 0 * * * ?"},
}

// macro says what to write instead of a short form.
func macro(text string) (problem, hint string) {
	name, arg, _ := strings.Cut(strings.ToLower(strings.TrimRight(text, spaces)), " ")
	problem = "short forms that begin with @ are not known here"
	if name == "@every" {
		if e := everyDuration(strings.TrimSpace(arg)); e != "" {
			return problem, didYouMean(e)
		}
		return problem, "use an interval in place of a cron expression"
	}
	if name == "@reboot" {
		return problem, "nothing fires at a start"
	}
	names := make([]string, len(macros))
	for i, m := range macros {
		names[i] = m.name
	}
	found := nearestNames(name, names, 1)
	for _, m := range macros {
		if len(found) > 0 && m.name == found[0] {
			return problem, fmt.Sprintf("%s is %q", m.name, m.expression)
		}
	}
	return problem, `six fields are needed, such as "0 0 3 * * ?" for 03:00 every day`
}

// everyDuration returns the expression that fires at an interval, or "" if no expression has the
// same interval all day.
func everyDuration(text string) string {
	d, err := time.ParseDuration(text)
	switch {
	case err != nil || d <= 0:
		return ""
	case d < time.Minute && time.Minute%d == 0 && d%time.Second == 0:
		return fmt.Sprintf("0/%d * * * * ?", d/time.Second)
	case d < time.Hour && time.Hour%d == 0 && d%time.Minute == 0:
		return fmt.Sprintf("0 0/%d * * * ?", d/time.Minute)
	case d < 24*time.Hour && 24*time.Hour%d == 0 && d%time.Hour == 0:
		return fmt.Sprintf("0 0 0/%d * * ?", d/time.Hour)
	}
	return ""
}

// fromCrontab converts the five fields of a crontab to this format.
func fromCrontab(text string, words []word) string {
	var f [5]string
	for i, w := range words {
		f[i] = text[w.start:w.end]
	}
	if f[4] == "?" {
		f[4] = "*"
	}
	switch {
	case f[4] == "*" && f[2] == "?":
		f[2], f[4] = "*", "?"
	case f[4] == "*":
		f[4] = "?"
	case f[2] == "*" || f[2] == "?":
		f[2], f[4] = "?", crontabDays(f[4])
	default:
		meant := crontabWord + " " + strings.Join(f[:], " ")
		if _, err := parse(meant); err != nil {
			return ""
		}
		return didYouMean(meant)
	}
	meant := "0 " + strings.Join(f[:], " ")
	if _, err := parse(meant); err != nil {
		return ""
	}
	return didYouMean(meant)
}

// crontabDays replaces the days of the week of a crontab, which are numbers from 0, with names,
// which are the same in all formats.
func crontabDays(list string) string {
	var b strings.Builder
	for at := 0; at < len(list); at++ {
		c := list[at]
		alone := at+1 == len(list) || !isDigit(list[at+1])
		if '0' <= c && c <= '7' && alone && (at == 0 || list[at-1] == ',' || list[at-1] == '-') {
			b.WriteString(units[dayOfWeek].short(int(c-'0')%7 + 1))
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// unknown returns the error for a word that is not the name of a value.
func (p *parser) unknown(at int, name string) *ParseError {
	word := strings.ToUpper(shown(name))
	hint := ""
	for i := range units {
		if _, ok := units[i].value(name); ok {
			hint = fmt.Sprintf("it is a %s, which is field %d", units[i].one, i+1)
		}
	}
	if p.unit.names == nil {
		return p.fail(at, hint, "%s is not expected in the field of %s, which are %d to %d", word, p.unit.name, p.unit.min, p.unit.max)
	}
	if hint == "" {
		hint = p.unit.meant(name)
	}
	return p.fail(at, hint, "%s is no %s", word, p.unit.one)
}

// meant suggests a name for a word.
func (u *unit) meant(word string) string {
	var names, known []string
	for v := u.min; v < u.min+len(u.names); v++ {
		short := u.short(v)
		names, known = append(names, short, u.names[v-u.min]), append(known, short)
		if strings.HasPrefix(strings.ToUpper(word), short) {
			return didYouMean(short)
		}
	}
	if found := nearestNames(word, names, 1); len(found) > 0 {
		return didYouMean(strings.ToUpper(found[0][:3]))
	}
	return "known are " + strings.Join(known, ", ")
}
