package dashboard

import (
	"bytes"
	"slices"
	"strconv"
	"time"

	"github.com/courierhq/courier/dashboard/internal/diff"
	"github.com/courierhq/courier/dashboard/internal/format"
	"github.com/courierhq/courier/dashboard/internal/problem"
	"github.com/courierhq/courier/internal/definitiondiff"
	"github.com/courierhq/courier/store"
)

var journalPages = []page{{
	path: "journal", op: "listJournal", on: onAll, title: "Journal", nav: "Journal", group: "Administration", key: "u", file: "journal",
	query: []string{"kind", "name", "by", "before"}, data: (*call).journal,
}}

// A journalPage is the page of who did what.
type journalPage struct {
	Kinds          []string
	Kind, Name, By string
	Rows           []journalRow
	Filtered       bool
	First, Next    string
}

// A journalRow is an entry of the journal.
type journalRow struct {
	At                             time.Time
	By, Via, Verb, Kind, Name, Job string
	Href                           string // of its subject; empty if that has no page
	Reason, Outcome                string
	Changes                        []diff.Change
	Whole, Word                    string // the definition before or after, as JSON; and which of them it is
	Cut                            int    // number of changes that are left out
}

// journalKinds are the kinds of subjects in the journal, each with the path of its page.
var journalKinds = []struct{ kind, path string }{
	{"execution", "executions"}, {"chain execution", "chain-executions"}, {"job", "jobs"}, {"chain", "chains"}, {"schedule", "schedules"},
	{"monitor", "monitors"}, {"calendar", "calendars"}, {"subscription", "notifications"}, {"delivery", ""}, {"limit", ""}, {"executions", ""}, {"attention", ""},
}

// maxChanges is the number of changed values that an entry shows.
const maxChanges = 50

func (c *call) journal() (any, error) {
	p := &journalPage{Kind: c.query.Get("kind"), Name: c.query.Get("name"), By: c.query.Get("by")}
	for _, k := range journalKinds {
		p.Kinds = append(p.Kinds, k.kind)
	}
	if p.Kind != "" && !slices.Contains(p.Kinds, p.Kind) {
		p.Kinds = append(p.Kinds, p.Kind)
	}
	p.Filtered = p.Kind+p.Name+p.By != ""
	f := store.ActionFilter{Kind: p.Kind, Name: p.Name, By: p.By, Limit: listPage, Acts: true}
	if text := c.query.Get("before"); text != "" {
		var err error
		if f.Before, err = strconv.ParseInt(text, 10, 64); err != nil || f.Before < 1 {
			return nil, problem.Invalid("The cursor in the address is not valid: start without it.")
		}
		p.First = c.with("before", "")
	}
	list, err := c.h.e.Journal(c.ctx(), f)
	if err != nil {
		return nil, err
	}
	for i := range list {
		p.Rows = append(p.Rows, c.journalRow(&list[i]))
	}
	if len(list) == listPage {
		p.Next = c.with("before", strconv.FormatInt(list[len(list)-1].ID, 10))
	}
	return p, nil
}

func (c *call) journalRow(a *store.Action) journalRow {
	r := journalRow{At: a.At, By: a.By, Via: a.Via, Verb: a.Verb, Kind: a.Kind, Name: a.Name, Job: a.Job, Reason: a.Reason, Outcome: a.Outcome}
	for _, k := range journalKinds {
		switch {
		case k.kind != a.Kind || k.path == "":
		case a.Execution != "":
			r.Href = c.link(k.path, string(a.Execution))
		case a.Name != "":
			r.Href = c.link(k.path, a.Name)
		}
	}
	object := func(raw []byte) bool { return bytes.HasPrefix(bytes.TrimSpace(raw), []byte("{")) }
	switch {
	case object(a.Was) && object(a.Now):
		r.Changes = diff.Changes(definitiondiff.Of(a.Was, a.Now))
		if n := len(r.Changes); n > maxChanges {
			r.Changes, r.Cut = r.Changes[:maxChanges], n-maxChanges
		}
	case object(a.Now):
		r.Whole, r.Word = format.IndentJSON(a.Now), "What it is now"
	case object(a.Was):
		r.Whole, r.Word = format.IndentJSON(a.Was), "What it was"
	case len(a.Was)+len(a.Now) > 0:
		r.Changes = []diff.Change{{Was: string(a.Was), Now: string(a.Now)}}
	}
	return r
}
