package cron

import (
	"strings"
	"testing"
	"time"
)

// TestCrontab compares expressions of crontab with what its manual says, day by day.
func TestCrontab(t *testing.T) {
	day := func(is func(t time.Time) bool) func(time.Time) bool { return is }
	on := func(days ...time.Weekday) func(time.Time) bool {
		return func(t time.Time) bool {
			for _, d := range days {
				if t.Weekday() == d {
					return true
				}
			}
			return false
		}
	}
	for _, c := range []struct {
		expression, words string
		fires             func(time.Time) bool // at noon of a day
	}{
		{"crontab 0 12 * * *", "At 12:00:00 every day", day(func(time.Time) bool { return true })},
		{"CRONTAB  0 12 * * 1-5 ", "At 12:00:00 on weekdays (Monday to Friday)", on(1, 2, 3, 4, 5)},
		{"crontab 0 12 * * 0", "At 12:00:00 on Sunday", on(0)},
		{"crontab 0 12 * * 7", "At 12:00:00 on Sunday", on(0)},
		{"crontab 0 12 * * 5-7", "At 12:00:00 on Friday to Sunday", on(5, 6, 0)},
		{"crontab 0 12 * * SAT,sun", "At 12:00:00 on weekends (Saturday and Sunday)", on(6, 0)},
		{"crontab 0 12 * * 0-6/2", "At 12:00:00 on Sunday, Tuesday, Thursday and Saturday", on(0, 2, 4, 6)},
		{"crontab 0 12 * * */2", "At 12:00:00 on Sunday, Tuesday, Thursday and Saturday", on(0, 2, 4, 6)},
		{"crontab 0 12 13 * *", "At 12:00:00 on day 13 of the month", day(func(t time.Time) bool { return t.Day() == 13 })},
		{"crontab 0 12 13 * 5", "At 12:00:00 on day 13 of the month or on Friday", day(func(t time.Time) bool { return t.Day() == 13 || t.Weekday() == 5 })},
		{"crontab 0 12 1,15 * mon", "At 12:00:00 on days 1 and 15 of the month or on Monday", day(func(t time.Time) bool { return t.Day() == 1 || t.Day() == 15 || t.Weekday() == 1 })},
		{"crontab 0 12 */2 * 1", "", day(func(t time.Time) bool { return t.Day()%2 == 1 && t.Weekday() == 1 })},
		{"crontab 0 12 1-7 * */7", "", day(func(t time.Time) bool { return t.Day() <= 7 && t.Weekday() == 0 })},
		{"crontab 0 12 31 feb-apr *", "", day(func(t time.Time) bool { return t.Day() == 31 && t.Month() == 3 })},
	} {
		e, err := Parse(c.expression)
		if err != nil {
			t.Errorf("%s: %v", c.expression, err)
			continue
		}
		if got := e.Words(); c.words != "" && got != c.words {
			t.Errorf("%s: %s, want %s", c.expression, got, c.words)
		}
		if again, err := Parse(e.String()); err != nil || again.Words() != e.Words() {
			t.Errorf("%s: %v", e, err)
		}
		at := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
		for range 400 {
			noon := time.Date(at.Year(), at.Month(), at.Day(), 12, 0, 0, 0, time.UTC)
			next, ok := e.Next(at, nil)
			if got := ok && next.Equal(noon); got != c.fires(noon) {
				t.Fatalf("%s on %s: %v", c.expression, noon.Format("Mon 2006-01-02"), got)
			}
			at = at.AddDate(0, 0, 1)
		}
	}
	often, err := Parse("crontab */15 8-17 * * *")
	if err != nil || often.Words() != "Every 15 minutes in the hours 8 to 17" {
		t.Errorf("%v, %v", often, err)
	}
}

// TestCrontabErrors: what is wrong is named with its place, also what is Quartz' alone.
func TestCrontabErrors(t *testing.T) {
	for expression, want := range map[string]string{
		"crontab":                  "column 8: behind the word crontab it has 0 fields, 5 are needed: minute, hour, day of month, month, day of week",
		"crontab 0 12 * *":         "column 17: behind the word crontab it has 4 fields, 5 are needed",
		"crontab 0 0 12 * * ?":     "column 20: behind the word crontab it has 6 fields, 5 are needed",
		"crontab 0 12 ? * 1":       `column 14: crontab has no "?", L, W and #`,
		"crontab 0 12 15W * *":     `column 14: crontab has no "?", L, W and #`,
		"crontab 0 12 * * 6#3":     `column 18: crontab has no "?", L, W and #`,
		"crontab 0 12 * * FRIL":    `column 18: crontab has no "?", L, W and #`,
		"crontab 0 12 L * *":       "column 14: L is not expected in the field of days of the month",
		"crontab 0 12 * * 8":       "column 18: days of the week are 0 to 7, not 8",
		"crontab 60 12 * * *":      "column 9: minutes are 0 to 59, not 60",
		"crontab 0 12 * * MON-BAD": "column 22: BAD is no day of week",
	} {
		if _, err := Parse(expression); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v\nwant %s", expression, err, want)
		}
	}
}
