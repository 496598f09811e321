package attention

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/courierhq/courier/calendar"
	"github.com/courierhq/courier/expectation"
)

// A Window is the next one of an expectation: when it opens, or when its files are due that are not
// there yet.
type Window struct {
	Expectation string
	At          time.Time
	Due         bool
}

// maxWindows is how many windows a list has.
const maxWindows = 5

// windows adds the next windows of expectations, by their timetables, which takes no statement:
// calendars have been read. Of a window that is open it is known only shortly before its end that
// its files are not there, by the days that are due soon.
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

// firstWindows leaves those that come first.
func (l *reading) firstWindows() {
	slices.SortStableFunc(l.Windows, func(x, y Window) int {
		return cmp.Or(x.At.Compare(y.At), strings.Compare(x.Expectation, y.Expectation))
	})
	l.Windows = slices.Clip(l.Windows[:min(len(l.Windows), maxWindows)])
}
