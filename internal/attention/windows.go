package attention

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/courierhq/courier/calendar"
	"github.com/courierhq/courier/expectation"
)

// A Window is the next window of an expectation: when it opens, or when its missing files are
// due.
type Window struct {
	Expectation string
	At          time.Time
	Due         bool
}

// maxWindows is the maximum number of windows in a list.
const maxWindows = 5

// windows adds the next windows of expectations by their timetables. That takes no statement,
// because the calendars have been read. Whether the files of an open window are missing is known
// only shortly before its end, from the days that are due soon.
func (l *reading) windows(list []expectation.Expectation) {
	for i := range list {
		if list[i].Disabled {
			continue
		}
		t, err := expectation.New(list[i].Definition(), l.days[list[i].Calendar])
		if err != nil {
			continue // another entry says so
		}
		day := calendar.DateOf(l.At.In(t.Zone())) - 1
		for {
			next, ok := t.Next(day)
			if !ok {
				break
			}
			if at := t.At(next).Open; at.After(l.At) {
				l.Windows = append(l.Windows, Window{Expectation: list[i].Name, At: at})
				break
			}
			day = next
		}
	}
	l.firstWindows()
}

// due adds a day whose files are due soon.
func (l *reading) due(a *expectation.Arrival) {
	if a.Until.After(l.At) {
		l.Windows = append(l.Windows, Window{a.Expectation, a.Until, true})
		l.firstWindows()
	}
}

// firstWindows keeps only the earliest windows.
func (l *reading) firstWindows() {
	slices.SortStableFunc(l.Windows, func(x, y Window) int {
		return cmp.Or(x.At.Compare(y.At), strings.Compare(x.Expectation, y.Expectation))
	})
	l.Windows = slices.Clip(l.Windows[:min(len(l.Windows), maxWindows)])
}
