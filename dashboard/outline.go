package dashboard

import (
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"slices"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/dashboard/internal/format"
	"github.com/courierhq/courier/flow"
	"github.com/courierhq/courier/store"
)

// An outlinePage is the outline of an execution, with the timeline in the same rows.
type outlinePage struct {
	Rows []*outlineRow
	Axis []navItem // by clock or by work
	From time.Time // where the timeline begins
	To   time.Time
	Span time.Duration // that it shows
	Note string        // what is not shown
}

// An outlineRow is an entry of the job's list.
type outlineRow struct {
	Step     int
	Rails    []bool // a line for each block around it; the last one is that of the nearest
	ID, Name string
	Type     string
	Text     string // of a marker, such as "if list.count greater_than 3"
	Decided  string // the values that decided a condition, and what came of it
	State    string
	Dim      bool // it is not executed
	Attempt  int
	Began    time.Time
	Took     time.Duration
	Ended    bool
	Bytes    int64
	Error    string
	Href     string // of the attempts of the step
	Loop     *loopRow
	Bar      template.HTML

	record *courier.StepExecution
	parent int
}

// A loopRow is what the row of a loop has besides.
type loopRow struct {
	Total, Failed  int
	Summary        string
	Ticks          template.HTML
	Item           string // the iteration that the rows below show, such as "3.0"
	Previous, Next string // references
	FirstFailed    string
	Present        string // reference of the iteration in which the execution is; empty if that is shown
}

// outline reads the outline, and lays out the timeline.
func (c *call) outline(p *executionPage) error {
	o, err := c.h.e.Executions().Outline(c.ctx(), p.X.ID)
	if err != nil {
		return err
	}
	g, err := c.parsed(&o.Execution)
	if err != nil {
		return err
	}
	b := &outlineBuilder{c: c, p: p, x: &o.Execution, tree: g.tree, steps: o.Steps, out: &outlinePage{}}
	p.Outline = b.out
	if err := b.read(); err != nil {
		return err
	}
	b.build()
	b.timeline()
	return nil
}

// An outlineBuilder makes the rows of an outline.
type outlineBuilder struct {
	c      *call
	p      *executionPage
	x      *courier.Execution
	tree   *flow.Tree
	steps  []flow.Outlined
	out    *outlinePage
	values courier.Values                  // in scope; nil if the visitor may not see them
	items  map[int][]engineItem            // failed items by loop
	failed []courier.StepExecution         // failed attempts
	chosen *chosenItem                     // the iteration that the address names
	shown  map[int][]courier.StepExecution // its records, by step
	rows   map[int]*outlineRow

	sources map[int][]any // the lists of loops, as far as they were asked for
}

// An engineItem is a failed item: its iteration.
type engineItem []int

// How much an outline reads.
const (
	maxItemsRead    = 1000 // failed items that are marked
	maxAttemptsRead = 200  // failed attempts that the timeline shows
)

// read reads what the rows need besides the latest records.
func (b *outlineBuilder) read() (err error) {
	c := b.c
	if sees := c.SeesValues(c.ctx(), b.x.Job); sees && b.decides() {
		if b.values, err = c.h.e.Executions().Values(c.ctx(), b.x.ID); err != nil && !errors.Is(err, courier.ErrInvalid) {
			return err
		}
	} else if !sees {
		for i := range b.steps {
			hideRecord(b.steps[i].Record)
		}
	}
	if err = b.readItems(); err != nil {
		return err
	}
	if err = b.readChosen(); err != nil || !b.retried() {
		return err
	}
	b.failed, err = c.records(store.StepFilter{Attempt: b.x.Attempt, States: []courier.StepState{courier.StepFailed}, Limit: maxAttemptsRead})
	return err
}

// retried reports whether a step has had more than one attempt in what the rows may show.
func (b *outlineBuilder) retried() bool {
	again := func(r *courier.StepExecution) bool { return r != nil && r.Attempt > 1 }
	if again(b.x.Current) || slices.ContainsFunc(b.steps, func(s flow.Outlined) bool { return again(s.Record) }) {
		return true
	}
	for _, list := range b.shown {
		if slices.ContainsFunc(list, func(r courier.StepExecution) bool { return r.Attempt > 1 }) {
			return true
		}
	}
	return false
}

// decides reports whether a condition was evaluated, so that values are needed.
func (b *outlineBuilder) decides() bool {
	return slices.ContainsFunc(b.steps, func(s flow.Outlined) bool {
		return strings.EqualFold(s.Type, flow.TypeIf) && s.State != flow.OutlinePending && s.State != flow.OutlineNotTaken
	})
}

// readItems reads which items of loops have failed and were not repaired.
func (b *outlineBuilder) readItems() error {
	b.items = make(map[int][]engineItem)
	repaired := b.x.Repairs != nil && len(b.x.Repairs.Passes) > 0
	if n := b.x.FailedItems; repaired && n > 0 && n <= maxItemsRead {
		list, err := b.c.h.e.Executions().FailedItems(b.c.ctx(), b.x.ID)
		if err != nil {
			return err
		}
		for i := range list {
			b.items[list[i].Loop] = append(b.items[list[i].Loop], list[i].Iteration)
		}
	} else if n > 0 {
		list, err := b.c.records(store.StepFilter{Attempt: b.x.Attempt, FailedItems: true, Limit: maxItemsRead})
		if err != nil {
			return err
		}
		for i := range list {
			if l := list[i].FailedLoop; l != nil {
				level := len(b.tree.Loops(*l)) + 1
				b.items[*l] = append(b.items[*l], list[i].Iteration[:min(level, len(list[i].Iteration))])
			}
		}
		if n > len(list) {
			b.out.Note = fmt.Sprintf("The first %s of %s failed items are marked.", format.Count(len(list)), format.Count(n))
		}
	}
	if f := b.x.Failure; b.x.State == courier.Failed && f != nil && len(f.Iteration) > 0 && f.Step >= 0 && f.Step < b.tree.Len() {
		for level, loop := range b.tree.Loops(f.Step) {
			if path := f.Iteration[:min(level+1, len(f.Iteration))]; !slices.ContainsFunc(b.items[loop], func(i engineItem) bool { return slices.Equal(i, path) }) {
				b.items[loop] = append(b.items[loop], path)
			}
		}
	}
	return nil
}

// build makes the rows: all entries but the ends of blocks.
func (b *outlineBuilder) build() {
	b.rows = make(map[int]*outlineRow)
	for i := range b.steps {
		s := &b.steps[i]
		kind := strings.ToLower(s.Type)
		if kind == flow.TypeEnd {
			continue
		}
		spec := b.tree.Spec(i)
		r := &outlineRow{Step: i, ID: s.ID, Name: spec.Name, Type: spec.Type, State: string(s.State), record: s.Record, parent: s.Parent, Rails: make([]bool, s.Depth)}
		b.inChosen(r)
		r.Dim = r.State == string(flow.OutlineNotTaken)
		switch kind {
		case flow.TypeIf:
			r.Text = "if " + conditionText(spec.Config)
		case flow.TypeElse:
			r.Text = "otherwise"
		case flow.TypeForEach:
			r.Text = "for each of " + operandText(spec.Config["source"])
			b.loop(r, s)
		default:
			b.step(r)
		}
		b.rows[i] = r
		b.out.Rows = append(b.out.Rows, r)
	}
	for _, r := range b.out.Rows {
		if strings.EqualFold(r.Type, flow.TypeIf) {
			b.decide(r)
		}
	}
}

// step fills the row of a step from its record.
func (b *outlineBuilder) step(r *outlineRow) {
	r.Href = b.c.with("tab", "attempts", "step", fmt.Sprint(r.Step), "loop", "", "item", "", "axis", "")
	if cur := b.x.Current; cur != nil && cur.Step == r.Step && r.State == string(flow.OutlineRunning) {
		r.Attempt, r.Began = cur.Attempt, cur.StartedAt
		if cur.Progress != nil {
			r.Bytes = cur.Progress.Bytes
		}
		return
	}
	if rec := r.record; rec != nil && !r.Dim {
		r.Attempt, r.Began, r.Bytes, r.Error = rec.Attempt, rec.StartedAt, rec.Bytes, rec.Error
		if !rec.EndedAt.IsZero() {
			r.Ended, r.Took = true, rec.EndedAt.Sub(rec.StartedAt)
		}
	}
}

// decide says what a condition came to, and by which values.
func (b *outlineBuilder) decide(r *outlineRow) {
	if r.State == string(flow.OutlinePending) || r.Dim {
		return
	}
	end, then, otherwise := b.tree.End(r.Step), "", ""
	for i := r.Step + 1; i < end; i++ {
		switch k := b.rows[i]; {
		case k == nil || k.parent != r.Step:
		case strings.EqualFold(k.Type, flow.TypeElse):
			otherwise = k.State
		case otherwise == "" && (then == "" || then == string(flow.OutlineNotTaken)):
			then = k.State
		}
	}
	holds := "true"
	if then == string(flow.OutlineNotTaken) || then == "" && otherwise != string(flow.OutlineNotTaken) {
		holds = "false"
	}
	r.Decided = "is " + holds
	if text, ok := b.evaluated(r); ok {
		r.Decided = text + " is " + holds
	}
}

// evaluated returns the condition with the values in the place of its references.
func (b *outlineBuilder) evaluated(r *outlineRow) (string, bool) {
	if b.values == nil {
		return "", false
	}
	t, problems := flow.Compile(r.config(b.tree))
	if len(problems) > 0 {
		return "", false
	}
	text, err := t.Render(nil, b.scope(r), nil)
	if err != nil {
		return "", false // the values are out of scope by now
	}
	var c map[string]json.RawMessage
	if json.Unmarshal(text, &c) != nil {
		return "", false
	}
	parts := []string{format.Clip(80, string(c["left"]))}
	var op string
	if json.Unmarshal(c["operator"], &op) == nil {
		parts = append(parts, op)
	}
	if right, ok := c["right"]; ok {
		parts = append(parts, format.Clip(80, string(right)))
	}
	return strings.Join(parts, " "), true
}

// config is the configuration of the row's entry.
func (r *outlineRow) config(t *flow.Tree) map[string]any { return t.Spec(r.Step).Config }

// conditionText is a condition as it is written.
func conditionText(config map[string]any) string {
	text := operandText(config["left"]) + " " + fmt.Sprint(config["operator"])
	if right, ok := config["right"]; ok {
		text += " " + operandText(right)
	}
	return text
}

// operandText is a value of a marker as it is written, without the mark of a reference.
func operandText(v any) string {
	if s, ok := v.(string); ok {
		if key, ok := strings.CutPrefix(s, "context:"); ok {
			return format.Clip(120, key)
		}
	}
	if list, ok := v.([]any); ok {
		return fmt.Sprintf("a list of %s", format.Count(len(list)))
	}
	text, err := json.Marshal(v)
	if err != nil {
		return "?"
	}
	return format.Clip(120, string(text))
}
