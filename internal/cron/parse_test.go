package cron

import (
	"errors"
	"strconv"
	"strings"
	"testing"
)

func TestParseErrors(t *testing.T) {
	for _, c := range []struct{ expression, want string }{
		{"", `column 1: it is empty; six fields are needed, such as "0 0 3 * * ?" for 03:00 every day`},
		{" \t", `column 1: it is empty; six fields are needed, such as "0 0 3 * * ?" for 03:00 every day`},
		{"x", "column 2: it has 1 field, 6 or 7 are needed: second, minute, hour, day of month, month, day of week, year"},
		{"1 2 3", "column 6: it has 3 fields, 6 or 7 are needed: second, minute, hour, day of month, month, day of week, year"},
		{"0 0 3 * * ? 2027 x", "column 18: it has 8 fields, 7 at most: second, minute, hour, day of month, month, day of week, year"},
		{strings.Repeat("0", 1001), "column 1001: it has 1001 bytes, 1000 at most"},

		// Other crons.
		{"0 3 * * 2", crontab(9, "0 0 3 ? * TUE")},
		{"*/5 * * * *", crontab(11, "0 */5 * * * ?")},
		{"0 0 * * 0-5", crontab(9, "0 0 0 ? * SUN-FRI")},
		{"30 4 * * 6,7", crontab(10, "0 30 4 ? * SAT,SUN")},
		{"30 4 * * 1-5/2", crontab(10, "0 30 4 ? * MON-FRI/2")},
		{"30 4 1,15 * *", crontab(13, "0 30 4 1,15 * ?")},
		{"30 4 ? * mon", crontab(10, "0 30 4 ? * mon")},
		{"30 4 ? * *", crontab(10, "0 30 4 * * ?")},
		{"0 3 1 * 2", `column 9: it has 5 fields, as in crontab; here the seconds come first, and one of the days is "?", unless the expression begins with the word crontab; did you mean "crontab 0 3 1 * 2"?`},
		{"0 99 * * 2", `column 10: it has 5 fields, as in crontab; here the seconds come first, and one of the days is "?", unless the expression begins with the word crontab`},
		{"@daily", `column 1: short forms that begin with @ are not known here; @daily is "0 0 0 * * ?"`},
		{" @Montly ", `column 2: short forms that begin with @ are not known here; @monthly is "0 0 0 1 * ?"`},
		{"@every 5m", `column 1: short forms that begin with @ are not known here; did you mean "0 0/5 * * * ?"?`},
		{"@every 15s", `column 1: short forms that begin with @ are not known here; did you mean "0/15 * * * * ?"?`},
		{"@every 6h0m0s", `column 1: short forms that begin with @ are not known here; did you mean "0 0 0/6 * * ?"?`},
		{"@every 7m", "column 1: short forms that begin with @ are not known here; use an interval in place of a cron expression"},
		{"@every day at six o'clock", "column 1: short forms that begin with @ are not known here; use an interval in place of a cron expression"},
		{"@reboot", "column 1: short forms that begin with @ are not known here; nothing fires at a start"},
		{"@x", `column 1: short forms that begin with @ are not known here; six fields are needed, such as "0 0 3 * * ?" for 03:00 every day`},

		// The two fields of days.
		{"0 0 3 * * *", `column 11: of day of month and day of week, one says which days, and the other must be "?"; did you mean "0 0 3 * * ?"?`},
		{"0 0 3 * * MON", `column 7: of day of month and day of week, one says which days, and the other must be "?"; did you mean "0 0 3 ? * MON"?`},
		{"0 0 3 15 * *  2027", `column 12: of day of month and day of week, one says which days, and the other must be "?"; did you mean "0 0 3 15 * ?  2027"?`},
		{"0 0 3 1 * 2", `column 11: it names both days of the month and days of the week, of which one must be "?"; one schedule for each fires on either`},
		{"0 0 3 ? * ?", `column 11: day of month and day of week are both "?"; did you mean "0 0 3 * * ?"?`},
		{"0 0 3 ? ? ?", `column 9: "?" belongs into day of month or day of week, this is the month; every value is "*"`},
		{"? 0 3 * * ?", `column 1: "?" belongs into day of month or day of week, this is the second; every value is "*"`},
		{"0 0 3 * * ?*", `column 11: "?" must stand alone in its field`},
		{"0 0 3 * * 2,?", `column 13: "?" must stand alone in its field`},

		// Values.
		{"60 * * * * ?", "column 1: seconds are 0 to 59, not 60; the full minute is 0"},
		{"0 60 * * * ?", "column 3: minutes are 0 to 59, not 60; the full hour is 0"},
		{"0 0 24 * * ?", "column 5: hours are 0 to 23, not 24; midnight is 0"},
		{"0 0 8-25 * * ?", "column 7: hours are 0 to 23, not 25"},
		{"0 0 3 32 * ?", "column 7: days of the month are 1 to 31, not 32"},
		{"0 0 3 0 * ?", "column 7: days of the month are 1 to 31, not 0"},
		{"0 0 3 1 13 ?", "column 9: months are 1 to 12, not 13"},
		{"0 0 3 ? * 0", `column 11: days of the week are 1 to 7, not 0; Sunday is "SUN" or 1, Monday 2; crontab counts from 0`},
		{"0 0 3 ? * 8", "column 11: days of the week are 1 to 7, not 8"},
		{"0 0 3 * * ? 27", `column 13: years are 1970 to 2099, not 27; did you mean "2027"?`},
		{"0 0 3 * * ? 2100", "column 13: years are 1970 to 2099, not 2100"},
		{"0 0 3 * * ? 2030-2027", `column 13: the range ends before it begins; did you mean "2027-2030"?`},
		{"99999999999999999999 0 3 * * ?", "column 1: seconds are 0 to 59, not 99999999999999999999"},

		// Names.
		{"0 0 3 ? * TUES", `column 11: TUES is no day of week; did you mean "TUE"?`},
		{"0 0 3 ? * MOO", `column 11: MOO is no day of week; did you mean "MON"?`},
		{"0 0 3 ? * TUE,Wendesday", `column 15: WENDESDAY is no day of week; did you mean "WED"?`},
		{"0 0 3 ? * PAYDAY", "column 11: PAYDAY is no day of week; known are SUN, MON, TUE, WED, THU, FRI, SAT"},
		{"0 0 3 1 SEPTEMBR ?", `column 9: SEPTEMBR is no month; did you mean "SEP"?`},
		{"0 0 3 1 MON ?", `column 9: MON is no month; it is a day of week, which is field 6`},
		{"0 0 MON * * ?", "column 5: MON is not expected in the field of hours, which are 0 to 23; it is a day of week, which is field 6"},
		{"0 0 3 ? * Jan-Mar", "column 11: JAN is no day of week; it is a month, which is field 5"},
		{"0 0 L * * ?", "column 5: L is not expected in the field of hours, which are 0 to 23"},
		{"0 0 3 JAN * ?", "column 7: JAN is not expected in the field of days of the month, which are 1 to 31; it is a month, which is field 5"},

		// Steps.
		{"0 0/60 * * * ?", "column 5: a step of 60 is more than there are minutes, 59 at most; a step of 1 belongs into the field of hours, the next"},
		{"0/120 * * * * ?", "column 3: a step of 120 is more than there are seconds, 59 at most; a step of 2 belongs into the field of minutes, the next"},
		{"0 0/90 * * * ?", "column 5: a step of 90 is more than there are minutes, 59 at most"},
		{"0 0 3 1-10/32 * ?", "column 12: a step of 32 is more than there are days of the month, 31 at most"},
		{"0 0/0 * * * ?", "column 5: a step of 0 never ends"},
		{"0 0/ * * * ?", "column 5: the step, a number is expected where the field ends"},
		{"0 0/x * * * ?", "column 5: the step, a number is expected where there is 'x'"},
		{"0 0 *5 * * ?", `column 6: "*" is every value; did you mean "*/5"?`},

		// L, W and #.
		{"0 0 3 L-31 * ?", "column 9: no month has a day that is 31 before its last"},
		{"0 0 3 L- * ?", "column 9: the number of days before the last is expected where the field ends"},
		{"0 0 3 15L * ?", "column 9: L stands before a number in the day of month; L-3 is the third day before the last"},
		{"0 0 3 1-5W * ?", `column 10: W goes with one day of the month; the weekday nearest to the 15th is "15W"`},
		{"0 0 3 ? * 6W", "column 12: W belongs into the day of month, such as 15W"},
		{"0 0 3 ? * MON-FRIL", `column 18: L goes with one day of the week; the last Friday is "6L" or "FRIL"`},
		{"0 0 3L * * ?", "column 6: L belongs into the fields of days"},
		{"0 0 3 ? * 6#6", `column 13: # is followed by 1 to 5; the last one is "FRIL"`},
		{"0 0 3 ? * 6#0", "column 13: # is followed by 1 to 5"},
		{"0 0 3 ? * 6#", "column 13: which one of the month is expected where the field ends"},
		{"0 0 3 ? * 2-6#1", `column 14: # goes with one day of the week; the third Friday is "6#3" or "FRI#3"`},
		{"0 0 3 6#3 * ?", "column 8: # belongs into the day of week, such as 6#3"},

		// Signs.
		{"0 0 3 1;2 * ?", `column 8: ';' is not expected after a day of month; lists are written with ","`},
		{"0 0 3:30 * * ?", "column 6: ':' is not expected after an hour"},
		{"0 0 3 ? * MON-", "column 15: a value is expected where the field ends"},
		{"0 0 3, * * ?", "column 7: a value is expected where the field ends"},
		{"0 0 3,,4 * * ?", "column 7: a value is expected where there is ','"},
		{"0 0 3\x00 * * ?", `column 6: '\x00' is not expected after an hour`},
		{"0 0 3 *\x00 * ?", `column 8: '\x00' is not expected after a day of month`},
		{"0 0 -3 * * ?", "column 5: a value is expected where there is '-'"},
		{"0 0 ３ * * ?", "column 5: a value is expected where there is '３'"},
		{"0 0 3 \xff * ?", "column 7: a value is expected where there is '�'"},
	} {
		_, err := Parse(c.expression)
		if err == nil {
			t.Errorf("%q is taken", c.expression)
			continue
		}
		want := "cron expression " + strconv.Quote(shown(c.expression)) + ", " + c.want
		if err.Error() != want {
			t.Errorf("%q:\n got %s\nwant %s", c.expression, err, want)
		}
		checkError(t, c.expression, err)
	}
}

func crontab(column int, meant string) string {
	return "column " + strconv.Itoa(column) + `: it has 5 fields, as in crontab; here the seconds come first, and one of the days is "?", unless the expression begins with the word crontab; did you mean "` + meant + `"?`
}

// checkError holds any error of Parse to what its type says, and to suggesting
// only what is right.
func checkError(t *testing.T, expression string, err error) {
	t.Helper()
	var e *ParseError
	if !errors.As(err, &e) {
		t.Fatalf("%q: the error is a %T", expression, err)
	}
	if e.Expression != expression || e.Offset < 0 || e.Offset > len(expression) || e.Problem == "" {
		t.Fatalf("%q: %+v", expression, e)
	}
	if strings.ContainsAny(err.Error(), "\n\x00\x1b") {
		t.Errorf("%q: the message has more than one line: %q", expression, err)
	}
	line, mark, ok := strings.Cut(e.Caret(), "\n")
	if !ok || len(mark) > len(line)+1 || strings.Trim(mark, " ") != "^" {
		t.Errorf("%q: caret %q", expression, e.Caret())
	}
	if _, quoted, ok := strings.Cut(e.Hint, `"`); ok && strings.Contains(quoted, " ") {
		quoted, _ = strconv.QuotedPrefix(`"` + quoted)
		meant, _ := strconv.Unquote(quoted)
		if _, err := Parse(meant); err != nil && len(strings.Fields(meant)) > 1 {
			t.Errorf("%q: suggests %q, but: %v", expression, meant, err)
		}
	}
}

func TestCaret(t *testing.T) {
	for _, c := range []struct{ expression, want string }{
		{"0 3 * * 2", "0 3 * * 2\n        ^"},
		{"0 0 3 ? * MON-", "0 0 3 ? * MON-\n              ^"},
		{"0\t0 ３x * * ?", "0 0 ?x * * ?\n    ^"},
		{"0 0 3 \x1b[2J * ?", "0 0 3 ?[2J * ?\n      ^"},
		{strings.Repeat(" ", 500) + "61 * * * * ?" + strings.Repeat(" ", 400), strings.Repeat(" ", 60) + "61 * * * * ?        \n" + strings.Repeat(" ", 60) + "^"},
	} {
		_, err := Parse(c.expression)
		var e *ParseError
		if !errors.As(err, &e) {
			t.Fatalf("%q: %v", c.expression, err)
		}
		if got := e.Caret(); got != c.want {
			t.Errorf("%q:\n%s\nwant\n%s", c.expression, got, c.want)
		}
	}
}

// TestSame holds different ways of writing to one meaning.
func TestSame(t *testing.T) {
	for _, same := range [][]string{
		{"0 0 3 ? * 6#3", "0 0 3 ? * FRI#3", " 0  0\t3 ? * fri#3 \n", "0 0 3 ? * Friday#3 *", "0 0 3 ? * FRI#3 1970-2099"},
		{"0 0 3 ? * 7", "0 0 3 ? * L", "0 0 3 ? * SAT", "0 0 3 ? * Saturday"},
		{"0 0 3 ? * 6L", "0 0 3 ? * FRIL", "0 0 3 ? * fridayl"},
		{"0 0 3 L * ?", "0 0 3 L-0 * ?", "0 0 3 l * ?"},
		{"0 0 3 ? * 2-6", "0 0 3 ? * MON-FRI", "0 0 3 ? * MON,TUE,WED,THU,FRI"},
		{"0 0 3 ? * SAT-MON", "0 0 3 ? * 7-2", "0 0 3 ? * 1,2,7"},
		{"0 0 3 ? * MON-FRI/2", "0 0 3 ? * 2-6/2", "0 0 3 ? * MON,WED,FRI"},
		{"0 */15 3 * * ?", "0 /15 3 * * ?", "0 0/15 3 * * ?", "0 0-59/15 3 * * ?"},
		{"0 50-10/10 3 * * ?", "0 50,0,10 3 * * ?", "0 50-0/10,10-10 3 * * ?"},
		{"0 0 3 1 NOV-FEB ?", "0 0 3 1 11,12,1,2 ?", "0 0 3 1 november-February ?"},
		{"0 0 3 28-3 * ?", "0 0 3 1,2,3,28,29,30,31 * ?"},
		{"0 0 3 LW,1 1/3 ?", "0 0 3 1,LW JAN,APR,JUL,OCT ?"},
	} {
		first := mustParse(t, same[0])
		for _, other := range same[1:] {
			e := mustParse(t, other)
			if e.String() != other {
				t.Errorf("%q reads as %q", other, e)
			}
			if e.seconds != first.seconds || e.minutes != first.minutes || e.hours != first.hours ||
				e.months != first.months || e.years != first.years || e.days != first.days {
				t.Errorf("%q and %q differ", same[0], other)
			}
		}
	}
}
