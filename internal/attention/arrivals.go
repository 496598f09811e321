package attention

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/courierhq/courier/calendar"
	"github.com/courierhq/courier/expectation"
)

// Limits for expectations.
const (
	missedFor    = 7  // days for which a missing day is an entry
	knownDays    = 10 // earlier days whose arrival times an entry names
	mostArrivals = 50 // days that have their own entries
	namedHere    = 3  // expectations that one entry names
)

// expectations adds doubtful expectations, and their days. It takes four statements, or one if
// there are no expectations.
func (l *reading) expectations() error {
	list, err := l.Expectations.List(l.ctx, expectation.Filter{Limit: most})
	if ok, err := l.has("expectation.Store", err); !ok || len(list) == 0 {
		return err
	}
	if err := l.doubtful(list, l.cut(len(list), "expectations")); err != nil {
		return err
	}
	l.windows(list)
	return l.arrivals(list)
}

// arrivals adds the days of expectations whose files are missing, incomplete or due soon, each
// with the arrivals of the days before.
func (l *reading) arrivals(expectations []expectation.Expectation) error {
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
		l.Cut = append(l.Cut, fmt.Sprintf("There are more than %d days of expectations whose files are missing or due, and only these were checked.", mostArrivals))
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
		e.Do = "Ask the sender. The page of the expectation shows when they came before, and whether the server was reached. Excuse the day if nothing will come."
		e.Call = "Expectations.Excuse"
		what := "are missing"
		switch a.State {
		case expectation.Incomplete:
			what = "are incomplete"
		case expectation.DueSoon:
			l.due(a)
			e.Kind, e.Since, what = DueFile, time.Time{}, "are due soon"
			e.Do, e.Call = "Nothing needs to be done yet. If they always came earlier, check that the server is reachable.", ""
		}
		if off := l.switchedOff(expectations, a.Expectation); off != "" {
			e.Do = off + " " + e.Do
		}
		e.Title = fmt.Sprintf("The files of %q for %s %s.", a.Expectation, a.Day().Words(), what)
		e.Message = a.Words() + " (" + a.Zone + "); " + cameBefore(a, before)
		l.add(e)
	}
	return nil
}

// switchedOff says that a person has disabled or paused the source of an expectation's files: its
// monitor, or all schedules that start its job. It is empty if not.
func (l *reading) switchedOff(list []expectation.Expectation, name string) string {
	i := slices.IndexFunc(list, func(x expectation.Expectation) bool { return x.Name == name })
	if i < 0 {
		return ""
	}
	from := list[i].From
	for _, e := range l.away {
		switch {
		case e.Thing == "monitor" && e.Name == from.Monitor:
			return e.Title + " It looks for the files: enable it first."
		case e.Thing == "schedule" && from.Job != "" && e.Job == from.Job && !l.starts[from.Job]:
			return fmt.Sprintf("%s It starts the job %q, which fetches the files: enable it first.", e.Title, e.Job)
		}
	}
	return ""
}

// doubtful adds doubtful expectations, with one entry for each kind of doubt. More says that
// there are further expectations.
func (l *reading) doubtful(list []expectation.Expectation, more bool) error {
	told, err := l.Expectations.Told(l.ctx)
	if err != nil {
		return err
	}
	for _, part := range []struct {
		title, do, call string
		is              func(x *expectation.Expectation) string // why it looks doubtful; empty if it does not
	}{
		{
			"%s can't be checked.", "Fix the cause.", "",
			func(x *expectation.Expectation) string {
				if x.From.Path != "" {
					return "" // the entry of its monitor says so
				}
				return x.Health.Problem
			},
		},
		{
			"%s has had no file in 30 days.", "Compare the pattern with the names of the files that arrive.", "Expectations.Set",
			func(x *expectation.Expectation) string { return x.Health.Hint },
		},
		{
			"Nobody is notified if the files of %s do not come.", "Add a subscription with the event FileMissing, unless an observer in another process notifies somebody.", "Subscriptions.Set",
			func(x *expectation.Expectation) string {
				if told(x.Name) {
					return ""
				}
				return "no subscription has the event FileMissing"
			},
		},
	} {
		e := Entry{Kind: Expectation, More: more, Do: part.do, Call: part.call}
		var names []string
		for i := range list {
			x := &list[i]
			why := part.is(x)
			if x.Disabled || why == "" {
				continue
			}
			if e.Count++; e.Count == 1 {
				e.Name, e.Message, e.Since = x.Name, why, x.SavedAt
			}
			if e.Since = earlier(e.Since, x.SavedAt); len(names) < namedHere {
				names = append(names, fmt.Sprintf("%q", x.Name))
			}
		}
		switch {
		case e.Count == 0:
			continue
		case e.Count == 1:
			e.Title = fmt.Sprintf(part.title, "expectation "+names[0])
		default:
			e.Name = ""
			e.Title = fmt.Sprintf(part.title, count(e.Count, more, "expectation")+", such as "+strings.Join(names, ", "))
		}
		e.Title = strings.ToUpper(e.Title[:1]) + e.Title[1:]
		l.add(e)
	}
	return nil
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// cameBefore says when the files of the days before arrived.
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
		return "there is no record of earlier days"
	}
	return "on earlier days: the " + strings.Join(came, ", the ")
}
