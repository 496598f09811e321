package httpapi

import (
	"errors"
	"net/http"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/internal/attention"
	"github.com/courierhq/courier/internal/desk"
	"github.com/courierhq/courier/store"
)

// Queues are the counts of executions by queue, and the groups of executions that no worker can
// claim.
type Queues struct {
	store.Census
	// Stranded are the groups that no worker can claim, the oldest first. It is missing if
	// the store does not keep workers.
	Stranded []store.Stranded `json:"stranded,omitempty"`
}

// A HealthView is the state of the engine that serves the request, and of its store.
type HealthView struct {
	Engine engine.Health `json:"engine"`
	Store  any           `json:"store,omitempty"` // what Options.Health returns
}

// A Found is the result of a search: at most 20 of each kind.
type Found struct {
	Executions []any `json:"executions"` // with that id or label; an ExecutionView or a ClientExecution
	desk.FoundNames
	Files   []FoundFile `json:"files"`
	Missing []string    `json:"missing,omitempty"` // roles that the store lacks, such as "store.Trail"
}

// A FoundFile is the record of a step that reports a file, or that has failed in an item with that
// name.
type FoundFile struct {
	Name      string              `json:"name"` // as it was searched, in small letters
	Execution courier.ExecutionID `json:"execution_id"`
	Job       string              `json:"job"`
	Seq       int64               `json:"seq"` // of the record
	Step      int                 `json:"step"`
	StepID    string              `json:"step_id,omitempty"`
	StepType  string              `json:"step_type"`
	State     courier.StepState   `json:"state"`
	EndedAt   time.Time           `json:"ended_at"`
	Files     []courier.File      `json:"files"`
	Item      string              `json:"item,omitempty"` // the label of the item in which the step has failed
}

var overviewRoutes = []route{
	{
		method: "GET", path: "v1/attention", id: "getAttention", group: "overview", on: onVisible,
		does:    "Lists what needs attention, the most urgent first.",
		answers: map[int]any{http.StatusOK: attention.List{}}, do: (*call).attention,
	},
	{
		method: "GET", path: "v1/queues", id: "getQueues", group: "overview", on: onAll,
		does:    "Counts open and failed executions by queue, job, limit key and state.",
		query:   []param{{name: "count_limit", kind: "integer", does: "Where each count stops: 1 to 10000, 1000 if it is not given."}},
		answers: map[int]any{http.StatusOK: Queues{}}, problems: []*code{codeUnsupported}, do: (*call).queues,
	},
	{
		method: "GET", path: "v1/workers", id: "listWorkers", group: "overview", on: onAll,
		does:    "Lists the engines that are present on the store.",
		answers: map[int]any{http.StatusOK: page[store.Worker]{}}, problems: []*code{codeUnsupported}, do: (*call).workers,
	},
	{
		method: "GET", path: "v1/figures", id: "getFigures", group: "overview", on: onAll,
		does:    "Returns the figures of executions for each of the last hours, the oldest first. Engines count once in a minute. Hours that were not counted are left out.",
		query:   []param{{name: "hours", kind: "integer", does: "How many hours, with the present one: 1 to 360, 24 if it is not given."}},
		answers: map[int]any{http.StatusOK: page[store.HourFigures]{}}, problems: []*code{codeUnsupported}, do: (*call).figures,
	},
	{
		method: "GET", path: "v1/health", id: "getHealth", group: "overview", on: onAll,
		does:    "Returns the state of the engine and its store.",
		answers: map[int]any{http.StatusOK: HealthView{}}, do: (*call).health,
	},
	{
		method: "GET", path: "v1/search", id: "search", group: "overview", on: onVisible,
		does:    "Finds executions, jobs, chains, schedules, monitors and files. An execution is found by its id, 8 first characters of it or more, or a label NAME=VALUE; a file by its name; all others by the beginnings of their names.",
		query:   []param{{name: "q", kind: "string", does: "What is looked for: 1 to 200 characters. A file is found by the beginning of its name, and by a part of it with * on both sides; in quotes a name stands for itself."}},
		answers: map[int]any{http.StatusOK: Found{}}, do: (*call).search,
	},
	{
		method: "GET", path: "v1/journal", id: "listJournal", group: "overview", on: onAll,
		does: "Lists changes and refusals, the newest first.",
		query: []param{
			{name: "kind", kind: "string", does: "Of what it was done with, such as schedule or execution."},
			{name: "name", kind: "string", does: "The name of that."},
			{name: "by", kind: "string", does: "Who did it."},
			{name: "asked", kind: "string", enum: []string{"yes", "no"}, does: "With yes also lists that something was asked for where another entry says what came of it, which has its number as of."},
			limitParam, cursorParam,
		},
		answers: map[int]any{http.StatusOK: page[store.Action]{}}, problems: []*code{codeUnsupported}, do: (*call).journal,
	},
}

func (c *call) attention() error {
	a, err := c.Attention(c.ctx())
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, a)
}

func (c *call) queues() error {
	most, err := c.int("count_limit", store.DefaultCountLimit, 1, 10_000)
	if err != nil {
		return err
	}
	var q Queues
	if q.Census, err = c.h.e.Executions().Census(c.ctx(), most); err != nil {
		return err
	}
	if !c.SeesValues(c.ctx(), "") {
		q.Keys = []store.NamedCount{}
	}
	if q.Stranded, err = c.h.e.Executions().Stranded(c.ctx()); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	return c.answer(http.StatusOK, q)
}

func (c *call) workers() error {
	list, err := c.h.e.Workers(c.ctx())
	if err != nil {
		return err
	}
	return answerPage(c, list, "")
}

func (c *call) figures() error {
	hours, err := c.int("hours", store.DefaultHours, 1, store.KeptHours)
	if err != nil {
		return err
	}
	list, err := c.h.e.Executions().Figures(c.ctx(), hours)
	if err != nil {
		return err
	}
	return answerPage(c, list, "")
}

func (c *call) health() error {
	h := HealthView{Engine: c.h.e.Health()}
	for i := range h.Engine.Refused {
		if r := &h.Engine.Refused[i]; !c.SeesValues(c.ctx(), r.Job) {
			desk.HideRefused(r)
		}
	}
	for i := range h.Engine.Maintenance {
		if m := &h.Engine.Maintenance[i]; !c.SeesValues(c.ctx(), "") {
			desk.HideMaintenance(m)
		}
	}
	if f := c.h.opt.Health; f != nil {
		var err error
		if h.Store, err = f(c.ctx()); err != nil {
			return err
		}
	}
	return c.answer(http.StatusOK, h)
}

func (c *call) search() error {
	q := c.query.Get("q")
	if q == "" || utf8.RuneCountInString(q) > 200 || strings.ContainsFunc(q, unicode.IsControl) {
		return oneProblem(item{Parameter: "q", Message: "it must have 1 to 200 characters, none of them control characters"})
	}
	s, err := c.Search(c.ctx(), q)
	if err != nil {
		return err
	}
	f := Found{
		Executions: []any{}, FoundNames: desk.FoundNames{Jobs: listOf(s.Jobs), Chains: listOf(s.Chains), Schedules: listOf(s.Schedules), Monitors: listOf(s.Monitors)},
		Files: []FoundFile{}, Missing: s.Missing,
	}
	for i := range s.Executions {
		f.Executions = append(f.Executions, c.view(&s.Executions[i]))
	}
	for i := range s.Files {
		x := &s.Files[i]
		f.Files = append(f.Files, FoundFile{
			Name: x.Entry.Value, Execution: x.Entry.Execution, Job: x.Job, Seq: x.Entry.Seq, Step: x.Step.Step, StepID: x.Step.ID, StepType: x.Step.Type,
			State: x.Step.State, EndedAt: x.Step.EndedAt, Files: listOf(x.Files), Item: x.Item,
		})
	}
	return c.answer(http.StatusOK, f)
}

// listOf is a list that is never null in JSON.
func listOf[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

func (c *call) journal() error {
	before, limit, err := c.after()
	if err != nil {
		return err
	}
	f := store.ActionFilter{Kind: c.query.Get("kind"), Name: c.query.Get("name"), By: c.query.Get("by"), Acts: c.query.Get("asked") != "yes"}
	id := func(a *store.Action) int64 { return a.ID }
	items, next, err := inParts(limit, partSize, before, func(before int64, limit int) ([]store.Action, int64, error) {
		f.Before, f.Limit = before, limit
		list, err := c.h.e.Journal(c.ctx(), f)
		list, next := fullPage(list, limit, id)
		return list, next, err
	}, id, asIs)
	if err != nil {
		return err
	}
	return answerPage(c, items, numberCursor(next))
}
