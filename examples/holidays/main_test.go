package main

import (
	"strings"
	"testing"
)

// The example prints the calendar, and what it means for a schedule.
func TestRun(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), nil, &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"date": "2026-12-28"`, `"title": "Boxing Day (substitute day)"`, "next: Wed 2027-12-29 06:30:00 GMT", "note: 27 December: closed in bank-holidays (Christmas Day (substitute day)); moved to 29 December"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s\nhas no %q", out.String(), want)
		}
	}
}

// Files are read as they are written: folded lines, several days, times, and what is no date.
func TestReadICS(t *testing.T) {
	const text = "BEGIN:VEVENT\r\nDTSTART;VALUE=DATE:20270101\r\nDTEND;VALUE=DATE:20270103\r\nSUMMARY:New \r\n Year\\, and after\r\nEND:VEVENT\r\n" +
		"BEGIN:VEVENT\r\nDTSTART:20270501T000000Z\r\nEND:VEVENT\r\n"
	closed, err := readICS(text)
	if err != nil || len(closed) != 3 || closed[0].Title != "New Year, and after" || closed[1].Date != "2027-01-02" || closed[2].Date != "2027-05-01" {
		t.Errorf("%+v, %v", closed, err)
	}
	if _, err := readICS("BEGIN:VEVENT\nDTSTART:tomorrow\n"); err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("%v", err)
	}
}
