// Package outline lists the entries of an execution's job as they were executed: states, attempts,
// conditions with the values that decided them, one item of each loop, and a timeline in the same
// rows. It computes them from the tree of the job and from records of steps.
package outline

import (
	"fmt"
	"html/template"
	"slices"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/flow"
	"github.com/courierhq/courier/store"
)

// A View is the outline of an execution, with the timeline in the same rows.
type View struct {
	Rows []*Row
	From time.Time // where the timeline begins; zero if there is none
	To   time.Time
	Span time.Duration // length of the timeline
	Note string        // the parts that are not shown
}

// A Row is an entry of the job's list.
type Row struct {
	Step     int
	Rails    []bool // a line for each block around it; the last one is that of the nearest
	ID, Name string
	Type     string
	Text     string // of a marker, such as "if list.count greater than 3"
	Decided  string // the values that decided a condition, and its result
	State    string
	Word     string // the state in other words, if its name is not enough
	Dim      bool   // it is not executed
	Attempt  int
	Began    time.Time
	Took     time.Duration
	Ended    bool
	Bytes    int64
	Error    string
	Href     string // of the attempts of the step
	Loop     *Loop
	Bar      template.HTML

	record *courier.StepExecution
	parent int
}

// A Loop has the additional data of the row of a loop.
type Loop struct {
	Total, Failed  int
	Summary        string
	Ticks          template.HTML
	Item           string // the iteration that the rows below show, such as "3.0"
	Label          string // of that item; empty if it has only an index, or the label is unknown
	Previous, Next string // references
	FirstFailed    string
	Present        string // reference of the present iteration; empty if it is shown, or the execution has ended
}

// An Input is the data from which an outline is made.
type Input struct {
	Execution *courier.Execution
	Tree      *flow.Tree      // of the version of the execution
	Steps     []flow.Outlined // in the form for the visitor
	Loop      int             // the loop of the chosen item; -1 for none
	Item      string          // the item, such as "7", or "7.2" in a loop within a loop
	ByWork    bool            // the timeline leaves out the time in which no step was executed
	Now       time.Time
	Links     Links
}

// Links are the references in an outline.
type Links struct {
	// Attempts leads to the attempts of a step: to all, or only to those in an item of a loop, such
	// as "7.2".
	Attempts func(step, loop int, item string) string
	// Item leads to the outline with an item of a loop, such as "7.2". The reference ends with the
	// item, so the reference for "7." is the beginning of the references of all items in item 7.
	Item    func(loop int, item string) string
	Present string // leads to the outline without a chosen item
}

// A Reader reads the data that rows need in addition to the latest records.
type Reader interface {
	// Records returns records of the execution in the form for the visitor.
	Records(f store.StepFilter) ([]courier.StepExecution, error)
	// FailedItems returns the items that failed and were not repaired.
	FailedItems() ([]courier.FailedItem, error)
	// Values returns the values in scope. It returns nil if they are gone, or if the visitor may
	// not see them.
	Values() (courier.Values, error)
}

// New makes the outline of an execution.
func New(in *Input, read Reader) (*View, error) {
	b := &builder{in: in, read: read, x: in.Execution, tree: in.Tree, steps: in.Steps, out: &View{}}
	if err := b.readAll(); err != nil {
		return nil, err
	}
	b.build()
	b.timeline()
	return b.out, nil
}

// A builder makes the rows of an outline.
type builder struct {
	in     *Input
	read   Reader
	x      *courier.Execution
	tree   *flow.Tree
	steps  []flow.Outlined
	out    *View
	values courier.Values                  // in scope; nil if the visitor may not see them
	items  map[int][][]int                 // failed items by loop: their iterations
	labels map[int]map[string]string       // their labels by loop and iteration
	failed []courier.StepExecution         // failed attempts
	chosen map[int]*chosenItem             // the iterations that the address or a failure names, by the outermost loop
	shown  map[int][]courier.StepExecution // their records, by step
	rows   map[int]*Row

	sources map[int][]any // the lists of loops, if they were needed
}

// build makes the rows: all entries except the ends of blocks.
func (b *builder) build() {
	b.rows = make(map[int]*Row)
	for i := range b.steps {
		s := &b.steps[i]
		kind := strings.ToLower(s.Type)
		if kind == flow.TypeEnd {
			continue
		}
		spec := b.tree.Spec(i)
		r := &Row{Step: i, ID: s.ID, Name: spec.Name, Type: spec.Type, State: string(s.State), record: s.Record, parent: s.Parent, Rails: make([]bool, s.Depth)}
		b.inChosen(r)
		r.Dim = r.State == string(flow.OutlineNotTaken)
		switch kind {
		case flow.TypeIf:
			r.Text = "if " + conditionText(spec.Config)
		case flow.TypeElse:
			r.Text = "else"
		case flow.TypeTry:
			r.Text = "try"
		case flow.TypeRescue:
			r.Text = "rescue"
		case flow.TypeFinally:
			r.Text = "finally"
			if f := b.x.FinallyError; f != nil && r.State == string(flow.OutlineFailed) {
				r.Error = f.Message
			}
		case flow.TypeForEach:
			r.Text = "for each item of " + operandText(spec.Config["source"])
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
	for _, r := range b.out.Rows {
		b.word(r)
	}
}

// word sets the word of a state if its name is not enough: for a step that waits for an attempt, a
// step that the execution did not reach before it ended, and a loop with failed items.
func (b *builder) word(r *Row) {
	switch l := r.Loop; {
	case r.State == string(flow.OutlinePending) && b.waits(r):
		r.State, r.Word = "retrying", fmt.Sprintf("waits for attempt %d", r.record.Attempt+1)
	case r.State == string(flow.OutlinePending) && (b.x.State.Ended() || b.over(r)):
		r.State = "not_run"
	case strings.EqualFold(r.Type, flow.TypeFinally) && r.State == string(flow.OutlineNotTaken):
		r.State = "not_run"
	case strings.EqualFold(r.Type, flow.TypeRescue) && r.State == string(flow.OutlineNotTaken):
		r.Word = "not needed"
	case l != nil && l.Failed > 0 && r.State == string(flow.OutlineCompleted):
		r.State, r.Word = "items_failed", l.failed()
	}
}

// inFailed reports whether the rows show a failed item of one of the loops.
func (b *builder) inFailed(loops []int) bool {
	path := b.shownPath(loops)
	for level, loop := range loops {
		if slices.ContainsFunc(b.items[loop], func(item []int) bool { return slices.Equal(item, path[:level+1]) }) {
			return true
		}
	}
	return false
}

// waits reports whether the next attempt of a step is due later.
func (b *builder) waits(r *Row) bool {
	rec := r.record
	return rec != nil && rec.State == courier.StepFailed && b.x.State == courier.Queued && b.x.Failure != nil && b.x.Failure.Step == r.Step &&
		slices.Equal(b.x.Failure.Iteration, rec.Iteration)
}

// over reports whether a row shows an item that the execution has already left.
func (b *builder) over(r *Row) bool {
	loops := b.tree.Loops(r.Step)
	path := b.shownPath(loops)
	return len(path) > 0 && b.lastIn(path) != nil && !b.isPresent(path)
}

// step fills the row of a step from its record.
func (b *builder) step(r *Row) {
	r.Href = b.in.Links.Attempts(r.Step, -1, "")
	if loops := b.tree.Loops(r.Step); len(loops) > 0 && b.inFailed(loops) {
		r.Href = b.in.Links.Attempts(r.Step, loops[len(loops)-1], courier.FormatIteration(b.shownPath(loops)))
	}
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
