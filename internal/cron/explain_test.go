package cron

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func Example() {
	e, err := Parse("0 30 2 ? * SUN")
	if err != nil {
		fmt.Println(err)
		return
	}
	berlin, err := LoadZone("Europe/Berlin")
	if err != nil {
		fmt.Println(err)
		return
	}
	after := time.Date(2027, 3, 25, 12, 0, 0, 0, time.UTC)
	next, ok := e.Next(after, berlin)
	fmt.Println(next, ok)
	fmt.Println(e.Explain(after, berlin, 2))
	// Output:
	// 2027-03-28 03:30:00 +0200 CEST true
	// At 02:30:00 on Sunday
	//   Sun 2027-03-28 03:30:00 CEST
	//   Sun 2027-04-04 02:30:00 CEST
	//   2027-03-28: 02:30 doesn't exist in Europe/Berlin; fires at 03:30
	//   2027-10-31: 02:30 comes twice in Europe/Berlin; fires at the first only
	//   2028-03-26: 02:30 doesn't exist in Europe/Berlin; fires at 03:30
}

func ExampleParseError() {
	_, err := Parse("0 3 * * 2")
	fmt.Println(err)
	fmt.Println(err.(*ParseError).Caret())
	// Output:
	// cron expression "0 3 * * 2", column 9: it has 5 fields, as in crontab; here the seconds come first, and one of the days is "?", unless the expression begins with the word crontab; did you mean "0 0 3 ? * TUE"?
	// 0 3 * * 2
	//         ^
}

func TestWords(t *testing.T) {
	for _, c := range []struct{ expression, want string }{
		{"0 0 6 ? * MON-FRI", "At 06:00:00 on weekdays (Monday to Friday)"},
		{"0 0 3 ? * TUE", "At 03:00:00 on Tuesday"},
		{"0 0 6,12,18 * * ?", "At 06:00:00, 12:00:00 and 18:00:00 every day"},
		{"59 59 23 ? * *", "At 23:59:59 every day"},
		{"* * * * * ?", "Every second"},
		{"*/10 * * * * ?", "Every 10 seconds"},
		{"5/10 * * * * ?", "Every 10 seconds from second 5"},
		{"10-20 * * * * ?", "Every second from second 10 to 20"},
		{"* 5 * * * ?", "Every second of minute 5"},
		{"* 5 8-9 * * ?", "Every second of minute 5 in the hours 8 and 9"},
		{"0 * * * * ?", "Every minute"},
		{"30 * * * * ?", "Every minute at second 30"},
		{"0 0/15 8-17 * * ?", "Every 15 minutes in the hours 8 to 17"},
		{"0 */10 2 * * ?", "Every 10 minutes in the hour 2"},
		{"5 */45 * * * ?", "At minutes 0 and 45 at second 5"},
		{"0 3/7 * * * ?", "Every 7 minutes from minute 3 to 59"},
		{"0 45/30 * * * ?", "At minute 45"},
		{"0 0,10-20 * * * ?", "At minutes 0 and 10 to 20"},
		{"0 7/10 1-3,22-2 */5 * ?", "Every 10 minutes from minute 7 in the hours 1 to 3 and 22 to 2 on days 1 to 31 in steps of 5 of the month"},
		{"0 0 * * * ?", "Every hour"},
		{"0 30 0/2 * * ?", "Every 2 hours at minute 30"},
		{"15 30 8-18 * * ?", "Every hour from hour 8 to 18 at minute 30 at second 15"},
		{"0 1,2,3,4,5 1,2,3 1 * ?", "At minutes 1, 2, 3, 4 and 5 in the hours 1, 2 and 3 on day 1 of the month"},
		{"0 0 0 L * ?", "At 00:00:00 on the last day of the month"},
		{"0 0 0 L-1 * ?", "At 00:00:00 on the day before the last of the month"},
		{"0 0 0 L-3 * ?", "At 00:00:00 on the 3rd day before the last of the month"},
		{"0 0 0 LW * ?", "At 00:00:00 on the last weekday (Monday to Friday) of the month"},
		{"0 0 0 L-3W * ?", "At 00:00:00 on the weekday nearest to the 3rd day before the last of the month"},
		{"0 15 10 15W,1,L 1,3 ?", "At 10:15:00 on day 1, the weekday nearest to the 15th and the last day of the month in January and March"},
		{"0 0 0 1-5,22W * ?", "At 00:00:00 on days 1 to 5 and the weekday nearest to the 22nd of the month"},
		{"0 0 0 ? * SAT,SUN", "At 00:00:00 on weekends (Saturday and Sunday)"},
		{"0 0 0 ? * SAT-MON", "At 00:00:00 on Saturday to Monday"},
		{"0 0 0 ? * L", "At 00:00:00 on Saturday"},
		{"0 0 12 ? * FRI#3,MONL 2027", "At 12:00:00 on the third Friday of the month and the last Monday of the month in 2027"},
		{"0 0 0 1 JAN-MAR ? 2027/2", "At 00:00:00 on day 1 of the month in January to March in 2027 to 2099 in steps of 2"},
		{"0 0 0 1 */3 ? 2027-2029", "At 00:00:00 on day 1 of the month in January, April, July and October in 2027 to 2029"},
	} {
		if got := mustParse(t, c.expression).Words(); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.expression, got, c.want)
		}
	}
}

func TestNotes(t *testing.T) {
	for _, c := range []struct{ zone, expression, after, want string }{
		{"Europe/Berlin", "0 0 6 * * ?", "2026-11-22", ""},
		{"Europe/Berlin", "0 30 2 * * ?", "2026-11-22", "2027-03-28: 02:30 doesn't exist in Europe/Berlin; fires at 03:30\n2027-10-31: 02:30 comes twice in Europe/Berlin; fires at the first only"},
		{"Europe/Berlin", "20 30 2 ? 3 *", "2026-11-22", "2027-03-28: 02:30:20 doesn't exist in Europe/Berlin; fires at 03:30:20"},
		{"Europe/Berlin", "0 15,45 2,3 ? 3 *", "2026-11-22", "2027-03-28: 02:15 to 02:45 don't exist in Europe/Berlin; fires at 03:15 to 03:45, once with what is due then"},
		{"Europe/Berlin", "0 15,45 2 ? 10 *", "2026-11-22", "2027-10-31: 02:15 to 02:45 come twice in Europe/Berlin; fires at the first only"},
		{"Europe/Berlin", "0 0/10 2 * * ?", "2026-11-22", "2027-03-28: 02:00 to 02:50 don't exist in Europe/Berlin; fires at 03:00 to 03:50\n2027-10-31: the time from 02:00 to 03:00 comes twice in Europe/Berlin; fires both times"},
		{"Europe/Berlin", "0 0/10 * * * ?", "2026-11-22", "2027-10-31: the time from 02:00 to 03:00 comes twice in Europe/Berlin; fires both times"},
		{"Europe/Berlin", "0 30 2 ? * MON", "2026-11-22", ""},
		{"Pacific/Apia", "0 0 12 * * ?", "2011-12-01", "2011-12-30: 12:00 doesn't exist in Pacific/Apia; fires at 2011-12-31 12:00, once with what is due then"},
		{"Asia/Tokyo", "0 30 2 * * ?", "2026-11-22", ""},
		{"", "0 30 2 * * ?", "2026-11-22", ""},
	} {
		after, err := time.Parse(time.DateOnly, c.after)
		if err != nil {
			t.Fatal(err)
		}
		z := mustLoad(t, c.zone)
		var notes []string
		for _, n := range mustParse(t, c.expression).Explain(after, z, 1).Notes {
			notes = append(notes, n.Text)
			if n.At.Before(after) || n.At.After(after.AddDate(0, 0, notedDays)) || n.At.Location() != z.Location() {
				t.Errorf("%s in %s: a note for %s", c.expression, c.zone, n.At)
			}
		}
		got := strings.Join(notes, "\n")
		if c.zone == "Pacific/Apia" { // the same year has more changes
			got = notes[len(notes)-1]
			for _, n := range notes {
				if strings.HasPrefix(n, "2011-12-30") {
					got = n
				}
			}
		}
		if got != c.want {
			t.Errorf("%s in %s:\n got %s\nwant %s", c.expression, c.zone, got, c.want)
		}
	}
}

func TestExplain(t *testing.T) {
	after := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	x := mustParse(t, "0 0 0 29 2 ?").Explain(after, nil, 3)
	if want := "At 00:00:00 on day 29 of the month in February\n  Tue 2028-02-29 00:00:00 UTC\n  Sun 2032-02-29 00:00:00 UTC\n  Fri 2036-02-29 00:00:00 UTC"; x.String() != want {
		t.Errorf("%s\nwant %s", x, want)
	}
	x = mustParse(t, "0 0 0 30 2 ?").Explain(after, nil, 3)
	if want := "At 00:00:00 on day 30 of the month in February\n  never fires again"; x.String() != want {
		t.Errorf("%s\nwant %s", x, want)
	}
	if x := mustParse(t, "0 0 0 1 * ?").Explain(after, nil, 0); len(x.Next) != 1 {
		t.Errorf("%d next times", len(x.Next))
	}
}
