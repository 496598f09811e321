package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/courierhq/courier/calendar"
	"github.com/courierhq/courier/expectation"
)

// expected creates expectations with records of past days: a partner who is late today, one who
// sends too small a file, one who sends nothing, one who is closed today, and one who is always in
// time. No engine evaluates them, so that the pages are the same at every time of the day.
func (w *World) expected(ctx context.Context) error {
	today := calendar.DateOf(w.Store.Now().UTC())
	begin := calendar.DateOf(time.Now().UTC())
	if begin > today {
		today = begin
	}
	for n, x := range []struct {
		name, partner, text string
		state               expectation.State // today
	}{
		{"payroll-globex", "globex", "Payroll files, which Globex sends each day.", expectation.Missing},
		{"rates-initech", "initech", "", expectation.Late},
		{"invoices-acme", "acme", "The invoices of the day before.", expectation.Incomplete},
		{"orders-hooli", "hooli", "", expectation.Excused},
		{"statements-umbrella", "umbrella", "", expectation.Arrived},
		{Hostile[0], Hostile[5], endless[:300], expectation.DueSoon},
	} {
		e := expectation.Expectation{
			Name: x.name, Description: x.text, From: expectation.From{Monitor: "invoices"}, Pattern: "inv-*.xml", Bytes: expectation.Bytes{Least: new(int64(1024))},
			Window: expectation.Window{From: "06:00", Until: "07:50", Grace: "20m"}, Zone: "Europe/Berlin", DueSoon: "30m", Label: map[string]string{"partner": x.partner},
		}
		body, err := json.Marshal(e)
		if err != nil {
			return err
		}
		r, err := w.Store.PutExpectation(ctx, expectation.Put{After: -1, Record: expectation.Record{
			Name: x.name, Monitor: "invoices", Prefix: "inv-", Body: body,
			Progress: expectation.Progress{SeenFrom: w.Store.Now(), ArrivalsFrom: today.String(), Memory: fmt.Appendf(nil, `{"since": %q, "files_since": %q, "seen_until": %q, "matched_at": %q}`, w.Store.Now().Format(time.RFC3339), w.Store.Now().Format(time.RFC3339), w.Store.Now().Format(time.RFC3339), w.Store.Now().Add(-24*time.Hour).Format(time.RFC3339))},
		}})
		if err != nil {
			return fmt.Errorf("expectation %q: %w", x.name, err)
		}
		look := expectation.Look{Expectation: x.name, Revision: r.Revision, Progress: r.Progress, After: -1}
		for i := range 30 {
			state := expectation.Arrived
			switch {
			case i == 0:
				state = x.state
			case (i+n)%11 == 3:
				state = expectation.Late
			case x.state == expectation.Missing && i == 9:
				state = expectation.Missing
			}
			look.Arrivals = append(look.Arrivals, arrival(x.name, n*100+i, today-calendar.Date(i), state).Kept())
		}
		if _, err := w.Store.RecordLooks(ctx, []expectation.Look{look}); err != nil {
			return fmt.Errorf("days of expectation %q: %w", x.name, err)
		}
	}
	return nil
}

// arrival is the record of a day in a state.
func arrival(name string, n int, day calendar.Date, state expectation.State) *expectation.Arrival {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		berlin = time.UTC
	}
	until := day.At(7, 50, berlin)
	a := &expectation.Arrival{
		ID: fmt.Sprintf("0193a000-0000-7000-8000-%012d", n), Expectation: name, Date: day.String(), State: state, Zone: berlin.String(),
		Opens: day.At(6, 0, berlin), Until: until, Ends: until.Add(20 * time.Minute), DecidedAt: until.Add(20 * time.Minute),
	}
	came := until.Add(-time.Duration(20+n*7%50) * time.Minute)
	file := expectation.File{Name: fmt.Sprintf("inv-%04d.xml", 423+n), Size: 48_213, Appeared: 1}
	switch state {
	case expectation.Late:
		came = until.Add(time.Duration(40+n%30) * time.Minute)
		a.LateSeconds = int64(came.Sub(until) / time.Second)
	case expectation.Incomplete:
		file.Size, file.Wrong = 12, "it has 12 bytes, less than 1024"
		a.Reasons = []string{file.Name + ": " + file.Wrong}
	case expectation.Missing:
		a.Note, a.Problem = "nobody could look since 07:12", "connection globex-ftps: the server does not answer"
		return a
	case expectation.Excused:
		a.ExcusedBy, a.Excuse, a.ExcusedAt = "ann", "Hooli is closed today", a.Opens
		return a
	case expectation.DueSoon:
		a.DecidedAt = time.Time{}
		return a
	}
	file.SeenAt, file.At, file.ModifiedAt = came, came, came.Add(-time.Minute)
	a.Files = []expectation.File{file}
	if state != expectation.Incomplete {
		a.ArrivedAt = came
	}
	return a
}
