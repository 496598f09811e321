// Command holidays makes a calendar from an .ics file, such as governments publish for their
// holidays, and saves it. It prints the calendar as JSON, which can also be put into a bundle, and
// the effect of the calendar on a schedule.
//
//	go run ./examples/holidays
//	go run ./examples/holidays -file bank-holidays.ics -zone Europe/London
//
// Without a file it reads holidays.ics in its own directory: the bank holidays of England and Wales
// in 2026 and 2027.
package main

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/calendar"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/schedule"
	"github.com/courierhq/courier/store/memstore"
)

//go:embed holidays.ics
var sample string

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "holidays:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	f := flag.NewFlagSet("holidays", flag.ContinueOnError)
	file := f.String("file", "", "the .ics `file`; empty means the one of the example")
	name := f.String("name", "bank-holidays", "the name of the calendar")
	zone := f.String("zone", "Europe/London", "its time zone")
	if err := f.Parse(args); err != nil {
		return err
	}
	text := sample
	if *file != "" {
		data, err := os.ReadFile(*file)
		if err != nil {
			return err
		}
		text = string(data)
	}
	closed, err := readICS(text)
	if err != nil {
		return err
	}
	e := engine.New(memstore.New(), nil, nil) // a service has a store that outlives the process
	saved, err := e.Calendars().Set(ctx, calendar.Calendar{
		Name: *name, Zone: *zone, Weekend: []string{"saturday", "sunday"}, Closed: closed,
	}, courier.By{})
	if err != nil {
		return err
	}
	body, err := json.MarshalIndent(saved.Definition(), "", "  ")
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s\n\n", body)

	if len(closed) == 0 {
		return nil
	}
	last := closed[len(closed)-1].Date
	after, err := time.Parse(time.DateOnly, last)
	if err != nil {
		return err
	}
	x, err := e.Schedules().ExplainOnOpenDays(ctx, "0 30 6 * * ?", *zone, *name, schedule.ClosedNext, after.AddDate(0, 0, -7), 5)
	fmt.Fprintf(out, "A schedule at half past six, around the last of these days:\n%s", x)
	return err
}

// readICS returns the days of the events in a file of RFC 5545. An event of several days gives
// several closed days. Events that repeat by a rule are not supported, because publishers of
// holidays name each day.
func readICS(text string) (closed []calendar.Closing, err error) {
	var title string
	var from, to calendar.Date
	text = strings.ReplaceAll(text, "\r\n", "\n")
	lines := bufio.NewScanner(strings.NewReader(strings.NewReplacer("\n ", "", "\n\t", "").Replace(text))) // joins folded lines
	for n := 1; lines.Scan(); n++ {
		name, value, _ := strings.Cut(lines.Text(), ":")
		name, _, _ = strings.Cut(name, ";")
		switch strings.ToUpper(name) {
		case "BEGIN":
			title, from, to = "", 0, 0
		case "SUMMARY":
			title = strings.NewReplacer(`\,`, ",", `\;`, ";", `\\`, `\`, `\n`, " ").Replace(value)
		case "DTSTART", "DTEND":
			at, err := time.Parse("20060102", value[:min(8, len(value))])
			if err != nil {
				return nil, fmt.Errorf("line %d: %q is not a date", n, value)
			}
			if strings.EqualFold(name, "DTEND") {
				to = calendar.DateOf(at)
			} else {
				from = calendar.DateOf(at)
			}
		case "END":
			if value != "VEVENT" {
				continue
			}
			for day := from; day < max(to, from+1); day++ {
				closed = append(closed, calendar.Closing{Date: day.String(), Title: title})
			}
		}
	}
	return closed, lines.Err()
}
