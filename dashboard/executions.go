package dashboard

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/dashboard/internal/format"
	"github.com/courierhq/courier/internal/desk"
	"github.com/courierhq/courier/internal/filter"
)

var executionPages = []page{
	{
		path: "executions", about: "execution", op: "listExecutions", on: onVisible, title: "Executions", nav: "Executions", group: "Work", key: "e", file: "executions",
		query: []string{"where", "cursor", "fold"}, data: (*call).executions,
		scripts: []string{"select"}, live: []string{"list"}, watch: watchList,
	},
	{
		path: "executions/{id}", op: "getExecution", on: onExecution, title: "Execution", file: "execution",
		query: []string{"tab", "step", "state", "after", "seq", "axis", "loop", "item"}, data: (*call).executionPage,
		live: []string{"summary", "part"}, watch: watchExecution, actions: executionActions,
	},
	{
		path: "executions/{id}/resume", op: "resumeExecution", on: onExecution, title: "Resume with changes", file: "resume", query: []string{"version", "elsewhere", "item", "accept", "skip-item", "rescue"}, data: (*call).resumePage,
		actions: []action{
			{verb: "try", op: "resumeExecution", dry: true, do: tryResume},
			{verb: "resume with changes", op: "resumeExecution", do: resumeWith},
		},
	},
	{
		path: "executions/{id}/rerun", op: "rerunExecution", on: onExecution, title: "Start again", file: "rerun", data: (*call).rerunPage,
		actions: []action{{verb: "rerun", op: "rerunExecution", do: rerun}},
	},
}

// An executionList is the page of executions.
type executionList struct {
	Where    string   // as it was written
	Problems []string // with the filter
	Grammar  string
	Views    []navItem // frequently used filters
	Fold     navItem   // the link that folds or unfolds
	Folded   bool
	Rows     []executionRow
	Bulk     bool // the visitor is an operator for at least one of them
	Caption  string
	Empty    map[string]any
	Stopped  string // why the page has fewer rows than the limit
	First    string // reference of the first page, on others
	Next     string
}

func (l *executionList) status() int {
	if l.Problems != nil {
		return http.StatusBadRequest
	}
	return http.StatusOK
}

// An executionRow is an execution in a list, in the form for the visitor.
type executionRow struct {
	ID           courier.ExecutionID
	Href         string
	Status       string
	Job          string
	Version      int
	Origin       []origin
	Begun        time.Time // or when it is due
	Due          bool
	Running      bool
	RunningSince string
	Ended        bool
	Took         time.Duration
	Bytes        int64 // of the running step, or of the workspace at the end
	Failure      string
	More         int    // older completed executions of the job, which are folded into this row
	MoreHref     string // reference of them
}

// An origin says who or what started an execution. Kind is empty for a name.
type origin struct{ Kind, Text string }

const listPage = 50

// views are the filters above the list.
var views = []struct{ label, where string }{
	{"All", ""},
	{"Running", "state:running"},
	{"Queued", "state:queued"},
	{"Paused", "state:paused"},
	{"Failed", "state:failed"},
	{"Failed in 24 h", "state:failed ended:24h"},
	{"Lost", "state:lost"},
}

func (c *call) executions() (any, error) {
	text := strings.TrimSpace(c.query.Get("where"))
	if filter.IsID(text) {
		return nil, c.redirect(c.link("executions", text))
	} else if _, _, short := filter.Within(text); short {
		return nil, c.redirect(c.link("search") + "?" + query("q", text))
	}
	l := &executionList{Where: text, Grammar: filter.Grammar}
	for _, v := range views {
		l.Views = append(l.Views, navItem{Label: v.label, Href: c.with("where", v.where, "cursor", ""), Current: v.where == text})
	}
	l.Folded = c.query.Get("fold") != ""
	if l.Fold = (navItem{Label: "Fold repeats", Href: c.with("fold", "1")}); l.Folded {
		l.Fold = navItem{Label: "Fold repeats", Href: c.with("fold", ""), Current: true}
	}
	w, err := filter.Parse(asWhere(text), now())
	if err == nil {
		err = c.list(l, w)
	}
	if l.Folded {
		c.fold(l)
	}
	if e, ok := errors.AsType[*filter.Error](err); ok {
		l.Problems, err = e.Problems, nil
	} else if errors.Is(err, courier.ErrNotFound) || errors.Is(err, courier.ErrInvalid) {
		l.Problems, err = []string{format.Sentence(strings.TrimPrefix(err.Error(), "filter: "))}, nil
	}
	return l, err
}

// asWhere returns the filter for a single word: the name of a job, or the beginning of names of
// jobs.
func asWhere(text string) string {
	if text == "" || strings.ContainsAny(text, ": \t\"") {
		return text
	}
	return "job:" + text
}

// list reads a page of executions.
func (c *call) list(l *executionList, w filter.Filter) error {
	cursor := c.query.Get("cursor")
	p, err := c.Executions(c.ctx(), w, cursor, listPage)
	if err != nil {
		return err
	}
	at := now()
	for i := range p.Items {
		l.Rows = append(l.Rows, c.row(&p.Items[i], at))
		l.Bulk = l.Bulk || c.Can(c.ctx(), p.Items[i].Job, access.RightOperate)
	}
	if l.Caption = "The newest first"; cursor != "" {
		l.Caption, l.First = "Older executions, the newest first", c.with("cursor", "")
	}
	if p.Next != "" {
		l.Next = c.with("cursor", p.Next)
	}
	switch {
	case p.Next != "" && len(l.Rows) == 0:
		l.Stopped = "Ten thousand executions were searched, and none of them matches. The next page continues from there."
	case p.Next != "" && len(l.Rows) < listPage:
		l.Stopped = "Ten thousand executions were searched, and not all match. The next page continues from there."
	case len(l.Rows) > 0:
	case l.Where != "":
		l.Empty = map[string]any{"Title": "No execution matches.", "Text": "The filter selects no execution that you may see.", "Href": c.with("where", "", "cursor", ""), "Link": "Show all executions"}
	default:
		l.Empty = map[string]any{"Title": "Nothing has run yet.", "Text": "Executions appear here after a person, a program, a schedule or a monitor has started a job.", "Href": "", "Link": ""}
	}
	return nil
}

// fold keeps only the newest completed execution of each job on the page, with the number of the
// others. So a job that runs every minute, such as a heartbeat, does not hide other executions.
func (c *call) fold(l *executionList) {
	first := make(map[string]int) // the index of the newest one of a job
	kept := l.Rows[:0]
	for _, r := range l.Rows {
		if r.Status != string(courier.Completed) {
			kept = append(kept, r)
			continue
		}
		i, ok := first[r.Job]
		if !ok {
			first[r.Job] = len(kept)
			kept = append(kept, r)
			continue
		}
		kept[i].More++
		kept[i].MoreHref = c.link("executions") + "?" + query("where", filter.Filter{States: []string{r.Status}, Jobs: []string{r.Job}}.String())
	}
	l.Rows = kept
}

// row returns an execution in the form for the visitor. A client sees only the status of its own
// execution.
func (c *call) row(x *courier.Execution, at time.Time) executionRow {
	r := executionRow{ID: x.ID, Href: c.link("executions", string(x.ID)), Status: x.Status(at), Job: x.Job, Version: x.Version, Begun: x.StartedAt}
	if x.State.Ended() && !x.EndedAt.IsZero() && !x.StartedAt.IsZero() {
		r.Ended, r.Took = true, x.EndedAt.Sub(x.StartedAt)
	}
	if x.StartedAt.IsZero() && !x.State.Ended() {
		r.Due, r.Begun = true, x.DueAt
	}
	if x.State == courier.Running {
		r.Running, r.RunningSince = true, x.StartedAt.UTC().Format(time.RFC3339)
	}
	if !c.Can(c.ctx(), x.Job, access.RightSee) {
		if x.Failure != nil {
			r.Failure = x.Failure.Reason.Words()
		}
		if r.Status == "lost" {
			r.Status = string(courier.Running) // a takeover by another worker is a matter of the service
		}
		return r
	}
	shown := *x
	if !c.SeesValues(c.ctx(), x.Job) {
		desk.HideValues(&shown)
	}
	r.Origin = originOf(&shown)
	if r.Bytes = shown.DiskBytes; shown.Current != nil && shown.Current.Progress != nil {
		r.Bytes = shown.Current.Progress.Bytes
	}
	if f := shown.Failure; f != nil {
		r.Failure = f.Message
		if f.Step >= 0 {
			r.Failure = courier.StepLabel(f.Step, f.ID, f.Type) + ": " + f.Message
		}
	}
	return r
}

// originOf returns who and what started an execution.
func originOf(x *courier.Execution) (list []origin) {
	if x.Chain != "" {
		list = append(list, origin{"member", x.Member})
	}
	if x.By != "" {
		list = append(list, origin{"", x.By})
	}
	if x.RerunOf != "" {
		list = append(list, origin{"again", string(x.RerunOf)})
	}
	return list
}
