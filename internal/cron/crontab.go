package cron

import "strings"

// crontabWord begins an expression in crontab format.
const crontabWord = "crontab"

// crontabDay is the day of the week as crontab counts it; 7 is Sunday too.
var crontabDay = unit{"days of the week", "day of week", 0, 7, 7, units[dayOfWeek].names}

// isCrontab reports whether an expression is in crontab format.
func isCrontab(text string, words []word) bool {
	return len(words) > 0 && strings.EqualFold(text[words[0].start:words[0].end], crontabWord)
}

// parseCrontab parses the fields after the word crontab.
func (e *Expression) parseCrontab(words []word) *ParseError {
	if len(words) != 5 {
		at := len(e.text)
		if len(words) > 5 {
			at = words[5].start
		}
		return &ParseError{e.text, at, "behind the word crontab it has " + fieldCount(len(words)) + ", 5 are needed: minute, hour, day of month, month, day of week", ""}
	}
	e.fields[second] = field{terms: []term{{kind: values, step: 1}}}
	for i, w := range words {
		p := parser{text: e.text[:w.end], at: w.start, index: minute + i, unit: &units[minute+i], plain: true}
		if p.index == dayOfWeek {
			p.unit = &crontabDay
		}
		f := &e.fields[p.index]
		if err := p.field(f); err != nil {
			err.Expression = e.text
			return err
		}
		for _, t := range f.terms {
			if t.kind != every && t.kind != values {
				return &ParseError{e.text, w.start, `crontab has no "?", L, W and #`, ""}
			}
		}
	}
	e.fields[year] = everyYear(e.text)
	e.crontabDays()
	return nil
}

// crontabDays converts the day fields to those of Quartz, as far as Quartz can express them.
func (e *Expression) crontabDays() {
	ofMonth, ofWeek := &e.fields[dayOfMonth], &e.fields[dayOfWeek]
	for i := range ofWeek.terms {
		t := &ofWeek.terms[i]
		if t.kind == every {
			t.high = 6
		} else if t.low == 7 {
			t.low, t.high = 0, t.high%7
		}
		t.low, t.high = t.low+1, t.high+1 // 8 is Sunday, as the end of a range
	}
	unsaid := []term{{kind: unspecified}}
	switch {
	case ofWeek.all():
		ofWeek.terms = unsaid
	case ofMonth.all():
		ofMonth.terms = unsaid
	default:
		e.bothDays = ofMonth.terms[0].kind == every || ofWeek.terms[0].kind == every
	}
}
