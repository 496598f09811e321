package httpapi

import (
	"bytes"
	"context"
	"encoding/csv"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/calendar"
	"github.com/courierhq/courier/expectation"
	"github.com/courierhq/courier/internal/desk"
	"github.com/courierhq/courier/store"
)

// An ExcuseRequest is the body that excuses a day: nothing is expected on it any more.
type ExcuseRequest struct {
	Date   string `json:"date"`   // such as 2026-11-29
	Reason string `json:"reason"` // such as: closed today
}

// An ArrivalView is the record of a day of an expectation.
type ArrivalView struct {
	expectation.Arrival
	Text string `json:"text"` // the state in words
}

var expectations = &kept[expectation.Expectation, *expectation.Expectation]{
	Kept: desk.Expectations,
	list: func(c *call, after string, limit int) ([]expectation.Expectation, string, error) {
		return c.Expectations(c.ctx(), after, limit)
	},
}

// arrivalParams select arrivals.
var arrivalParams = []param{
	{name: "date", kind: "string", does: "The day, such as 2026-11-29, in the time zone of each expectation. Without it and without a bound it is today in UTC."},
	{name: "since", kind: "string", does: "The first day, in place of date."},
	{name: "until", kind: "string", does: "The last day, in place of date."},
	{name: "expectation", kind: "string", does: "The name of an expectation.", many: true},
	{name: "state", kind: "string", does: "A state.", many: true, enum: words(expectation.States...)},
}

var expectationRoutes = slices.Concat(expectations.routes(), []route{
	{
		method: "POST", path: "v1/expectations/{name}/excuse", id: "excuseExpectation", group: "expectations", on: onBody,
		does: "Excuses a day, with the reason: nothing is expected on it any more. Its files must not be there.", body: ExcuseRequest{},
		answers: map[int]any{http.StatusOK: ArrivalView{}}, problems: []*code{codeConflict}, do: (*call).excuse,
	},
	{
		method: "GET", path: "v1/arrivals", id: "listArrivals", group: "expectations", on: onAll,
		does:  "Lists the days of expectations, the latest first.",
		query: slices.Concat(arrivalParams, []param{limitParam, cursorParam}), answers: map[int]any{http.StatusOK: page[ArrivalView]{}}, do: (*call).listArrivals,
	},
	{
		method: "GET", path: "v1/arrivals.csv", id: "exportArrivals", group: "expectations", on: onAll,
		does:  "Returns the same list as CSV, at most 10,000 days. A date is one in the time zone beside it; instants are in UTC.",
		query: arrivalParams, answers: map[int]any{http.StatusOK: ""}, media: "text/csv; charset=utf-8", do: (*call).exportArrivals,
	},
})

func (c *call) excuse() error {
	x, err := expectations.find(c)
	if err != nil {
		return err
	}
	var b ExcuseRequest
	if err := c.body(&b); err != nil {
		return err
	}
	if _, err := calendar.ParseDate(b.Date); err != nil {
		return oneProblem(item{Pointer: "/date", Message: "it must be a day such as 2026-11-29"})
	}
	if strings.TrimSpace(b.Reason) == "" {
		return oneProblem(item{Pointer: "/reason", Message: "it is missing: say why nothing is expected, such as: closed today"})
	}
	var a expectation.Arrival
	err = c.Do(c.ctx(), store.Action{Verb: "excuse", Kind: "expectation", Name: x.Name, Reason: b.Reason}, func(ctx context.Context) (err error) {
		a, err = c.h.e.Expectations().Excuse(ctx, x.Name, b.Date, c.By(b.Reason))
		return err
	})
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, c.arrival(&a))
}

// arrival returns an arrival in the form for the visitor.
func (c *call) arrival(a *expectation.Arrival) *ArrivalView {
	v := &ArrivalView{*a, ""}
	if !c.Has(c.ctx(), []string{""}, access.RightSee|access.RightValues) {
		desk.HideArrival(&v.Arrival)
	}
	v.Text = v.Words()
	return v
}

// arrivals returns the filter in the URL.
func (c *call) arrivals() (f expectation.ArrivalFilter, err error) {
	day := func(name string) string {
		text := c.query.Get(name)
		if _, wrong := calendar.ParseDate(text); text != "" && wrong != nil && err == nil {
			err = oneProblem(item{Parameter: name, Message: "it must be a day such as 2026-11-29"})
		}
		return text
	}
	date := day("date")
	f.From, f.To = day("since"), day("until")
	switch {
	case date != "" && (f.From != "" || f.To != ""):
		return f, oneProblem(item{Parameter: "date", Message: "leave it out, or give it without since and until"})
	case f.From == "" && f.To == "" && date == "":
		date = calendar.DateOf(time.Now().UTC()).String()
	}
	if date != "" {
		f.From, f.To = date, date
	}
	if names := c.query["expectation"]; len(names) > 0 {
		f.Expectations = names
	}
	for _, s := range c.query["state"] {
		f.States = append(f.States, expectation.State(s))
	}
	return f, err
}

func (c *call) listArrivals() error {
	f, err := c.arrivals()
	if err != nil {
		return err
	}
	place := func(v *ArrivalView) string { return v.Date + " " + v.Expectation }
	return answerList(c, "arrival", func(after string, limit int) ([]ArrivalView, string, error) {
		if date, name, ok := strings.Cut(after, " "); ok {
			if _, err := calendar.ParseDate(date); err != nil {
				return nil, "", errCursor()
			}
			f.After = &expectation.Kept{Date: date, Expectation: name}
		} else if after != "" {
			return nil, "", errCursor()
		}
		f.Limit = limit
		got, err := c.h.e.Expectations().Arrivals(c.ctx(), f)
		list := make([]ArrivalView, len(got))
		for i := range got {
			list[i] = *c.arrival(&got[i])
		}
		list, next := fullPage(list, limit, place)
		return list, next, err
	}, place)
}

// maxExported is the largest number of arrivals in an exported file.
const maxExported = 10_000

func (c *call) exportArrivals() error {
	f, err := c.arrivals()
	if err != nil {
		return err
	}
	const part = 1000
	f.Limit = part
	var text bytes.Buffer
	w := csv.NewWriter(&text)
	_ = w.Write([]string{"date", "time_zone", "expectation", "state", "opens_at", "until", "ends_at", "arrived_at", "late_seconds", "files", "text"}) // to memory
	for n := 0; n < maxExported; n += part {
		list, err := c.h.e.Expectations().Arrivals(c.ctx(), f)
		if err != nil {
			return err
		}
		for i := range list {
			v := c.arrival(&list[i])
			_ = w.Write([]string{
				v.Date, v.Zone, plainCell(v.Expectation), string(v.State), instantText(v.Opens), instantText(v.Until), instantText(v.Ends), instantText(v.ArrivedAt),
				strconv.FormatInt(v.LateSeconds, 10), strconv.Itoa(len(v.Files) + v.More), plainCell(v.Text),
			})
		}
		if len(list) < part {
			break
		}
		last := list[part-1].Kept()
		f.After = &last
	}
	w.Flush()
	c.write(http.StatusOK, c.route.media, text.Bytes())
	return nil
}

// plainCell changes a text so that no spreadsheet program takes it for a formula.
func plainCell(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])) {
		return "'" + text
	}
	return text
}

// instantText returns an instant for an exported file. It is empty for the zero time.
func instantText(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.UTC().Format(time.RFC3339)
}
