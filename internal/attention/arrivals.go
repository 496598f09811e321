package attention

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/courierhq/courier/calendar"
	"github.com/courierhq/courier/expectation"
)

// What is read of expectations.
const (
	missedFor    = 7  // days for which a missing day is an entry
	knownDays    = 10 // days of which it is said when the files came
	mostArrivals = 50 // days that are entries of their own
)

// arrivals adds the days of expectations whose files are missing, incomplete or due soon, each with
// what is known of the days before. It takes two statements.
func (l *reading) arrivals() error {
	today := calendar.DateOf(l.At.UTC())
	list, err := l.Expectations.Arrivals(l.ctx, expectation.ArrivalFilter{
		From: (today - missedFor).String(), To: (today + 1).String(), Limit: mostArrivals + 1,
		States: []expectation.State{expectation.Missing, expectation.Incomplete, expectation.DueSoon},
	})
	if ok, err := l.has("expectation.Store", err); !ok || len(list) == 0 {
		return err
	}
	if len(list) > mostArrivals {
		list = list[:mostArrivals]
		l.Cut = append(l.Cut, fmt.Sprintf("There are more than %d days of expectations whose files are missing or due, of which these were looked at.", mostArrivals))
	}
	var names []string
	for i := range list {
		if !slices.Contains(names, list[i].Expectation) {
			names = append(names, list[i].Expectation)
		}
	}
	before, err := l.Expectations.Arrivals(l.ctx, expectation.ArrivalFilter{
		Expectations: names, From: (today - 2*knownDays).String(), To: today.String(), Limit: len(names) * 2 * knownDays,
	})
	if err != nil {
		return err
	}
	for i := range list {
		a := &list[i]
		e := Entry{Kind: MissingFile, Name: a.Expectation, Date: a.Date, Count: 1, Since: a.Ends}
		e.Do = "Ask who sends them, and look at the page of the expectation: when they came before, and whether the server was reached. Excuse the day if nothing will come."
		e.Call = "Expectations.Excuse"
		what := "are missing"
		switch a.State {
		case expectation.Incomplete:
			what = "are incomplete"
		case expectation.DueSoon:
			e.Kind, e.Since, what = DueFile, time.Time{}, "are due soon"
			e.Do, e.Call = "Nothing has to be done yet. Look whether the server is reached if they always came earlier.", ""
		}
		e.Title = fmt.Sprintf("The files of %q for %s %s.", a.Expectation, a.Day().Words(), what)
		e.Message = a.Words() + "; " + cameBefore(a, before)
		l.add(e)
	}
	return nil
}

// cameBefore says when the files of the days before one came.
func cameBefore(of *expectation.Arrival, list []expectation.Arrival) string {
	var came []string
	for i := range list { // the latest first
		a := &list[i]
		if a.Expectation != of.Expectation || a.Date >= of.Date || len(came) == knownDays {
			continue
		}
		day := fmt.Sprintf("%d %s", a.Day().Number(), strings.ReplaceAll(string(a.State), "_", " "))
		if !a.ArrivedAt.IsZero() {
			day = fmt.Sprintf("%d at %s", a.Day().Number(), a.ArrivedAt.In(a.Location()).Format("15:04"))
			if a.State == expectation.Late {
				day += " (late)"
			}
		}
		came = append(came, day)
	}
	if len(came) == 0 {
		return "nothing is known of days before"
	}
	return "on the days before: the " + strings.Join(came, ", the ")
}
