package dashboard

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/dashboard/internal/filehash"
	"github.com/courierhq/courier/dashboard/internal/problem"
	"github.com/courierhq/courier/internal/desk"
	"github.com/courierhq/courier/internal/filter"
	"github.com/courierhq/courier/internal/jsontext"
	"github.com/courierhq/courier/store"
)

var searchPages = []page{{
	path: "search", op: "search", on: onVisible, title: "Where is my file?", nav: "Search", group: "Work", key: "f", file: "search",
	query: []string{"q", "after"}, data: (*call).search,
}}

// A searchPage is the page with the results of a search.
type searchPage struct {
	Text      string
	Problem   string // with the search text
	Part      bool   // only the newest names were searched
	Found     bool
	Groups    []foundGroup
	Runs      []executionRow // executions with that label, or with an id that begins with the text
	ChainRuns []chainRunRow
	Files     []foundRow
	After     bool // it is a further page of files
	Next      string
	First     string
	Missing   []string // the kinds of results that the store can't search for
	Values    bool     // the visitor may see values of all jobs
}

func (p *searchPage) status() int {
	if p.Problem != "" {
		return http.StatusBadRequest
	}
	return http.StatusOK
}

// A foundGroup has the definitions of a kind whose names begin with the text.
type foundGroup struct {
	Label string
	Items []navItem
	Full  bool // there may be more
}

// A foundRow is a file that a step has transferred or changed.
type foundRow struct {
	Name      string
	Path      string
	Server    target // its connection; without a name for this machine
	Verb      string // "wrote", "sent", "fetched" or "removed"; "failed" of an item
	Size      int64
	Sized     bool
	Hash      string
	Whole     string // a badge: whether it is complete
	Why       string
	At        time.Time
	Job, Step string
	Execution courier.ExecutionID
	Href      string // of the execution
	StepHref  string // of the attempts of the step in the execution
	Attempt   int
}

// maxSearch is the largest number of characters in a search text.
const maxSearch = 200

func (c *call) search() (any, error) {
	p := &searchPage{Text: strings.TrimSpace(c.query.Get("q")), Values: c.SeesValues(c.ctx(), "")}
	switch {
	case p.Text == "":
		return p, nil
	case utf8.RuneCountInString(p.Text) > maxSearch:
		p.Problem = "Give at most 200 characters: the beginning of a name is enough."
	case strings.ContainsFunc(p.Text, unicode.IsControl):
		p.Problem = "The text had control characters, which no name has. They were removed: search again, or correct the text."
		p.Text = strings.Map(func(r rune) rune {
			if unicode.IsControl(r) {
				return -1
			}
			return r
		}, p.Text)
	case strings.Trim(p.Text, "*") == "":
		p.Problem = "Give a part of the name between the asterisks."
	}
	if p.Problem != "" {
		return p, nil
	}
	if filter.IsID(p.Text) {
		return p, c.openID(p)
	}
	text := p.Text
	if p.Part = strings.HasPrefix(text, "*"); p.Part && !strings.HasSuffix(text, "*") {
		text += "*" // *.csv matches a part of a name too
	}
	if c.query.Get("after") != "" {
		return p, c.moreFiles(p)
	}
	s, err := c.Search(c.ctx(), text)
	if err != nil {
		return nil, err
	}
	p.Missing = s.Missing
	for _, g := range []struct {
		label, path string
		names       []string
	}{{"Jobs", "jobs", s.Jobs}, {"Chains", "chains", s.Chains}, {"Schedules", "schedules", s.Schedules}, {"Monitors", "monitors", s.Monitors}} {
		if len(g.names) == 0 {
			continue
		}
		group := foundGroup{Label: g.label, Full: len(g.names) == desk.MaxFound}
		for _, name := range g.names {
			group.Items = append(group.Items, navItem{Label: name, Href: c.link(g.path, name)})
		}
		p.Groups = append(p.Groups, group)
	}
	if len(s.Executions)+len(s.ChainRuns) == 1 && len(p.Groups) == 0 && len(s.Files) == 0 {
		if len(s.Executions) == 1 && strings.HasPrefix(string(s.Executions[0].ID), text) {
			return nil, c.redirect(c.link("executions", string(s.Executions[0].ID)))
		} else if len(s.ChainRuns) == 1 {
			return nil, c.redirect(c.link("chain-executions", string(s.ChainRuns[0].ID)))
		}
	}
	for i := range s.ChainRuns {
		p.ChainRuns = append(p.ChainRuns, c.chainRun(&s.ChainRuns[i]))
	}
	at := now()
	for i := range s.Executions {
		p.Runs = append(p.Runs, c.row(&s.Executions[i], at))
	}
	c.addFiles(p, s.Files, s.MoreFiles)
	p.Found = len(p.Groups) > 0 || len(p.Runs) > 0 || len(p.ChainRuns) > 0 || len(p.Files) > 0
	return p, nil
}

// openID opens the page of the subject with an id, if the visitor may see it.
func (c *call) openID(p *searchPage) error {
	if _, err := c.Execution(c.ctx(), p.Text, desk.NeedOf("search")); err == nil {
		return c.redirect(c.link("executions", p.Text))
	}
	if _, err := c.ChainExecution(c.ctx(), p.Text); err == nil {
		return c.redirect(c.link("chain-executions", p.Text))
	}
	return nil
}

// moreFiles adds a further page of files.
func (c *call) moreFiles(p *searchPage) error {
	var last store.TrailEntry
	raw, err := base64.RawURLEncoding.DecodeString(c.query.Get("after"))
	if err != nil || jsontext.DecodeStrict(raw, &last) != nil || !jsontext.Storable(last.Value) || !filter.IsID(string(last.Execution)) || last.Seq < 0 {
		return problem.Invalid("The cursor in the address is not valid: start without it.")
	}
	list, more, err := c.Files(c.ctx(), p.Text, &last, desk.MaxFound)
	if err != nil {
		return err
	}
	p.After, p.First = true, c.with("after", "")
	c.addFiles(p, list, more)
	p.Found = true
	return nil
}

// addFiles adds files to the page.
func (c *call) addFiles(p *searchPage, list []desk.SearchedFile, more bool) {
	for i := range list {
		for _, f := range list[i].Files {
			p.Files = append(p.Files, c.foundFile(&list[i], f))
		}
		if list[i].Item != "" {
			p.Files = append(p.Files, c.foundItem(&list[i]))
		}
	}
	if more && len(list) > 0 {
		raw, err := json.Marshal(list[len(list)-1].Entry)
		if err == nil {
			p.Next = c.with("after", base64.RawURLEncoding.EncodeToString(raw))
		}
	}
}

// foundItem returns the row of an item of a loop that has failed.
func (c *call) foundItem(s *desk.SearchedFile) foundRow {
	r := c.foundFile(s, courier.File{Path: s.Item, Removed: true})
	r.Path, r.Verb = courier.FormatItems(s.Step.ItemLabels, s.Step.Iteration), "failed"
	r.Name, r.Whole, r.Why = s.Item, "failed", s.Step.Error
	return r
}

// foundFile returns the row of a file.
func (c *call) foundFile(s *desk.SearchedFile, f courier.File) foundRow {
	x := &s.Step
	r := foundRow{
		Name: f.Path[strings.LastIndexAny(f.Path, `/\`)+1:], Path: f.Path, Server: c.connectionTarget(f.Connection), Size: f.Size, Sized: !f.Removed, Job: s.Job, Step: courier.StepLabel(x.Step, x.ID, x.Type),
		At: x.EndedAt, Execution: s.Entry.Execution, Href: c.link("executions", string(s.Entry.Execution)), Attempt: x.Attempt,
	}
	r.StepHref = r.Href + "?" + url.Values{"tab": {"attempts"}, "step": {strconv.Itoa(x.Step)}}.Encode()
	if r.At.IsZero() {
		r.At = x.StartedAt
	}
	switch {
	case f.Removed:
		r.Verb = "removed"
	case f.Received:
		r.Verb = "fetched"
	case f.Connection != "":
		r.Verb = "sent"
	default:
		r.Verb = "wrote"
	}
	switch {
	case x.State == courier.StepRunning:
		r.Whole, r.Why = "unknown", "The step is still running."
	case x.State != courier.StepCompleted:
		r.Whole, r.Why = "unknown", "The attempt did not succeed: check the file before you use it."
	case f.Removed:
		r.Whole = "gone"
	default:
		r.Whole = "complete"
	}
	if !f.Removed && x.State == courier.StepCompleted {
		r.Hash = filehash.Of(x.Outputs, f.Path, len(x.Files) == 1)
	}
	return r
}
