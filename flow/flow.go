// Package flow decides what comes next in a job.
//
// A job is a flat list of steps in which the markers "flow.if", "flow.else",
// "flow.foreach", "flow.try", "flow.rescue" and "flow.end" delimit blocks, and "flow.finally"
// begins the steps that run however the others end. [Parse] turns the list into a
// [Tree], [Check] finds what is wrong with a job before anything runs, a
// [Walk] follows one execution from step to step, and a [Template] puts values
// into a step's configuration.
//
// The package is pure: it does no I/O, reads no clock and starts no
// goroutines. The state of an execution is a [courier.Position] and the outputs
// of its steps.
//
// # Position
//
// A position such as {"step": 3, "loops": [{"step": 1, "index": 4}]} is all that survives of the
// control flow; the length of the list means that the execution is done. The condition of an
// open branch is not evaluated again, because the position lies in the branch. The list of a
// loop is evaluated when the loop is entered, and again when a worker takes over, with the same
// result, because values do not change. Each record has the number of iterations of its loops
// (Total), since nothing else shows which iteration was the last.
//
// In a loop that continues after failed items, the position also has how many items have failed,
// whether the present item has, and how many were rescued. An inner loop can fail an item while
// steps after that loop still run, and the item must count once. If the last item has failed,
// the outputs of the body are null: missing values would fail the steps after the loop, and the
// values of the previous item would name the wrong file.
//
// # Values in scope
//
// [Tree.Scope] says which records give values, from the position, the records and the repairs of
// an execution. The records may be in any order, with several for a step; the one with the
// highest sequence number counts. When an iteration begins, the outputs of the previous one go
// out of scope. An item has failed if the newest record in it has the loop as its FailedLoop.
//
// # Long walks
//
// Every 1,024 markers without a step in between, and after every few expensive conditions, a
// walk checks whether it should stop. So a loop over millions of items whose branches are not
// taken does not block a cancel.
package flow

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/courierhq/courier"
)

// The types of the markers. Letter case does not count.
const (
	// TypeIf begins steps that run only if a condition holds. Its configuration
	// has the values left and right, and an operator, in any letter case:
	//
	//   - equals, not_equals compare by exact decimal value if one is a number and
	//     the other is a number or a text that is a number in decimal notation.
	//     Otherwise they compare as text without regard to letter case; so they do
	//     for two texts. If right is null, equals never holds.
	//   - greater_than, less_than, greater_or_equal, less_or_equal compare by exact
	//     decimal value if both are numbers or texts that are numbers, otherwise as
	//     text without regard to letter case. Null is below any text.
	//   - contains looks for the text right in left, without regard to letter
	//     case.
	//   - regex looks for the RE2 pattern right anywhere in left. The pattern has
	//     at most 1 KiB and 8,192 elements, where x{1,30} counts as thirty. The text
	//     has at most 64 KiB, and less if the pattern has more than 768 elements.
	//   - exists holds if left has a value that is not null and no empty text,
	//     list or object. It needs no right.
	TypeIf = "flow.if"
	// TypeElse begins the steps that run if the condition does not hold. It has
	// no configuration.
	TypeElse = "flow.else"
	// TypeForEach begins steps that run once for each item of a list. Its
	// configuration has the source: a list, a reference to one, or the JSON text of
	// one; null is the empty list. The list is fixed when the loop is entered. An execution
	// that was interrupted in the loop continues in the same iteration. If an operator
	// resumes it there and on_resume is "restart", it continues in the first iteration. The
	// field max_iterations limits the iterations of the loop, multiplied by those of the
	// loops around it; the default is that of [Walk.Limit].
	//
	// Inside, loop.current_item and loop.index are the item and its index from 0.
	// The field label, a text with references to loop and params, names an item for people,
	// and is the value loop.label. By default it is the item's name, the last part of its
	// path, or the item itself; see [Walk.Labels].
	//
	// When an iteration begins, the outputs of the loop's steps in the iteration
	// before go out of scope. After the loop, those of the last iteration are in
	// scope.
	//
	// If on_item_failure is "continue", a step that fails ends only the current item,
	// unless the class of the failure concerns the partner or the machine; see
	// [ItemPolicy] for the other fields. When the loop has ended, its marker has the
	// values failed, failed_count and count. If the last item has failed, the outputs
	// of the loop's steps are null.
	TypeForEach = "flow.foreach"
	// TypeTry begins steps whose first failure leads to the steps after the flow.rescue of
	// the block; then the steps after the block run. It has no configuration. After the
	// block, and in its rescue, the marker has the value error: an object, or null if
	// nothing has failed; see [ErrorValue].
	TypeTry = "flow.try"
	// TypeRescue begins the steps that run when a step, a marker or a loop in a flow.try, or in
	// an item of a flow.foreach, has failed for good. A loop with a rescue continues with its next
	// item. In the rescue of a loop, loop.error is the error. The fields rescue_on and no_rescue_on
	// name error classes. By default a flow.try rescues every class, and a loop the classes that
	// would fail only the item; see [ItemPolicy.Continues]. If rescued is "fail", the execution
	// fails at its end.
	TypeRescue = "flow.rescue"
	// TypeEnd ends what a flow.if, a flow.foreach or a flow.try began. It has no
	// configuration.
	TypeEnd = "flow.end"
	// TypeFinally comes after the last step, outside all blocks, and begins the finally part:
	// the steps that run before the execution ends as completed, failed or cancelled. It has no
	// configuration. Its timeout is that of the whole part, 300 seconds by default. Its failure
	// policy applies to the steps of the part; the default is retry_step with the settings of
	// the job's policy. In the part, job.outcome, job.error, job.failed and job.rescued say how
	// the other steps have ended, and outputs of steps that have not run are null.
	TypeFinally = "flow.finally"
)

// markers are the types of the markers, as messages list them.
var markers = []string{TypeIf, TypeElse, TypeForEach, TypeTry, TypeRescue, TypeEnd, TypeFinally}

// A Node is an element of a [List]: a *[Step], a *[ForEach], an *[If] or a *[Try]. Only
// types of this package are nodes.
type Node interface {
	// Index is the place of the node in the flat list; that of a block is the
	// place of its opening marker.
	Index() int
	// spec is the entry at that place.
	spec() *courier.StepSpec
}

// A List is a sequence of nodes that run one after the other.
type List struct{ Nodes []Node }

// A Step is a step that does work.
type Step struct {
	index int
	Spec  *courier.StepSpec // shared; not to be changed
}

// A ForEach runs its body once for each item of a list.
type ForEach struct {
	index int
	Spec  *courier.StepSpec // of the flow.foreach; shared, not to be changed
	Body  *List
	// Rescue is what runs for an item whose body failed; nil if there is no flow.rescue.
	Rescue *List
	End    int // index of its flow.end
}

// A Try runs its body, and its rescue if that fails.
type Try struct {
	index  int
	Spec   *courier.StepSpec // of the flow.try; shared, not to be changed
	Body   *List
	Rescue *List
	End    int // index of its flow.end
}

// An If runs one of two lists, or none.
type If struct {
	index int
	Spec  *courier.StepSpec // of the flow.if; shared, not to be changed
	Then  *List
	Else  *List // nil if there is no flow.else
	End   int   // index of its flow.end
}

// Index returns the step's place in the flat list.
func (s *Step) Index() int { return s.index }

// Index returns the place of the flow.foreach in the flat list.
func (f *ForEach) Index() int { return f.index }

// Index returns the place of the flow.if in the flat list.
func (f *If) Index() int { return f.index }

// Index returns the place of the flow.try in the flat list.
func (t *Try) Index() int { return t.index }

func (t *Try) spec() *courier.StepSpec     { return t.Spec }
func (s *Step) spec() *courier.StepSpec    { return s.Spec }
func (f *ForEach) spec() *courier.StepSpec { return f.Spec }
func (f *If) spec() *courier.StepSpec      { return f.Spec }

// A kind is what an entry of the flat list is to control flow.
type kind uint8

const (
	work kind = iota // a step that does something
	openIf
	openForEach
	openTry
	otherwise
	toRescue
	end
	toFinally
)

// opens reports whether the entry is the first one of a block.
func (k kind) opens() bool { return k == openIf || k == openForEach || k == openTry }

// kindOf returns the kind of an entry; ok is false for an unknown marker.
func kindOf(typ string) (k kind, ok bool) {
	const prefix = "flow."
	if len(typ) < len(prefix) || typ[4] != '.' || typ[0]|0x20 != 'f' || !strings.EqualFold(typ[:len(prefix)], prefix) {
		return work, true
	}
	switch strings.ToLower(typ) {
	case TypeIf:
		return openIf, true
	case TypeForEach:
		return openForEach, true
	case TypeTry:
		return openTry, true
	case TypeElse:
		return otherwise, true
	case TypeRescue:
		return toRescue, true
	case TypeEnd:
		return end, true
	case TypeFinally:
		return toFinally, true
	}
	return work, false
}

// An entry is what the tree knows of one place of the flat list.
type entry struct {
	kind kind
	// block is the innermost block around a step, and a marker's own block; -1
	// for none.
	block int32
}

// A block is a flow.if, a flow.foreach or a flow.try with all up to its flow.end.
type block struct {
	kind       kind // openIf, openForEach or openTry
	open, end  int  // indexes of the markers
	els        int  // index of the flow.else or the flow.rescue, or -1
	parent     int32
	loop       int32       // the innermost loop that its steps lie in; -1 for none
	depth      int         // how many loops its steps lie in
	works      bool        // whether there is a step in it; in the body if there is a rescue
	rescue     *rescue     // nil if it has no flow.rescue
	restart    bool        // on_resume: restart
	iterations int         // max_iterations; 0 means the walk's limit
	policy     *ItemPolicy // of a loop with on_item_failure: continue; nil for all others
	rescued    *ItemPolicy // the policy if the loop has a rescue
	label      *operand    // of its items; nil for the default
	source     operand
	cond       condition
	loops      atomic.Pointer[[]int] // see [Tree.Loops]; made when first asked for
}

// A Tree is the block structure of a list of steps. It never changes after
// [Parse] and may be used by several goroutines.
type Tree struct {
	steps     []courier.StepSpec
	entries   []entry
	blocks    []*block
	root      List
	finally   int       // the index of the flow.finally, or -1
	last      *List     // what is behind it; nil if there is none
	declared  int       // the length of the list without outputs
	none      *Template // of entries without a configuration
	templates []atomic.Pointer[Template]

	once sync.Once
	ids  map[string]place
}

// A place is the index of a step and its decimal form.
type place struct {
	index int
	text  string
}

// Root returns the list of the nodes that lie in no block, but for those of [Tree.Finally]. The
// caller must not change it.
func (t *Tree) Root() *List { return &t.root }

// Len returns the length of the flat list.
func (t *Tree) Len() int { return len(t.steps) }

// Spec returns entry i of the flat list. The caller must not change it.
func (t *Tree) Spec(i int) *courier.StepSpec { return &t.steps[i] }

// Works reports whether entry i is a step that does work, not a marker.
func (t *Tree) Works(i int) bool { return t.entries[i].kind == work }

// Loops returns the indexes of the flow.foreach markers around entry i,
// outermost first. A loop's own flow.foreach lies outside it, its flow.end
// inside. The slice is shared and must not be changed.
func (t *Tree) Loops(i int) []int {
	at := t.loopOf(i)
	if at < 0 {
		return nil
	}
	b := t.blocks[at]
	if p := b.loops.Load(); p != nil {
		return *p
	}
	path := make([]int, b.depth)
	for n, l := len(path)-1, b; n >= 0; n-- {
		path[n] = l.open
		if n > 0 {
			l = t.blocks[t.loopAround(l)]
		}
	}
	b.loops.Store(&path)
	return path
}

// loopOf is the innermost loop that entry i lies in, or -1.
func (t *Tree) loopOf(i int) int32 {
	if i < 0 || i >= len(t.entries) {
		return -1
	}
	e := t.entries[i]
	switch {
	case e.block < 0:
		return -1
	case e.kind == openForEach:
		return t.loopAround(t.blocks[e.block])
	}
	return t.blocks[e.block].loop
}

// loopAround is the innermost loop that a block lies in, or -1.
func (t *Tree) loopAround(b *block) int32 {
	if b.parent < 0 {
		return -1
	}
	return t.blocks[b.parent].loop
}

// Head returns the index of the entry that is named by the head of a reference: an
// id, or an index in decimal.
func (t *Tree) Head(id string) (int, bool) {
	if i, ok := parseIndex(id); ok {
		return i, i < len(t.steps)
	}
	p, ok := t.placeOf(id)
	return p.index, ok
}

// placeOf finds an entry by its id. Of several with the same id it is the
// first.
func (t *Tree) placeOf(id string) (place, bool) {
	t.once.Do(func() {
		for i := range t.steps {
			id := t.steps[i].ID
			if id == "" {
				continue
			}
			if t.ids == nil {
				t.ids = make(map[string]place)
			}
			if _, taken := t.ids[id]; !taken {
				t.ids[id] = place{i, strconv.Itoa(i)}
			}
		}
	})
	p, ok := t.ids[id]
	return p, ok
}

// parseIndex reads an index in plain digits.
func parseIndex(s string) (int, bool) {
	if s == "" || len(s) > 9 || s[0] == '0' && len(s) > 1 {
		return 0, false
	}
	n := 0
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		n = n*10 + int(s[i]-'0')
	}
	return n, true
}

// Template returns the configuration of entry i, parsed. A configuration with
// mistakes has a template too; its Render returns them as an error.
func (t *Tree) Template(i int) *Template {
	if len(t.steps[i].Config) == 0 {
		return t.none
	}
	if p := t.templates[i].Load(); p != nil {
		return p
	}
	p, _ := Compile(t.steps[i].Config)
	t.templates[i].Store(p)
	return p
}

// Resume returns where an execution that was interrupted at p goes on: at p,
// or at the flow.foreach of the outermost open loop whose configuration says
// "on_resume": "restart", which begins again with its first iteration.
func (t *Tree) Resume(p courier.Position) courier.Position {
	for i, l := range p.Loops {
		if l.Step >= 0 && l.Step < len(t.entries) && t.entries[l.Step].kind == openForEach &&
			t.blocks[t.entries[l.Step].block].restart {
			return courier.Position{Step: l.Step, Loops: slices.Clone(p.Loops[:i])}
		}
	}
	return p
}

// maxDrawn is how many blocks in blocks String draws.
const maxDrawn = 32

// String draws the tree, one node per line.
func (t *Tree) String() string {
	var b strings.Builder
	b.WriteString("Root (Sequence)\n")
	draw(&b, "", &t.root, 0)
	if t.last != nil {
		b.WriteString("Finally\n")
		draw(&b, "", t.last, 0)
	}
	return b.String()
}

func draw(b *strings.Builder, prefix string, list *List, depth int) {
	for i, n := range list.Nodes {
		branch, below := corner(i == len(list.Nodes)-1)
		b.WriteString(prefix + branch + label(n) + "\n")
		drawParts(b, prefix+below, n, depth+1)
	}
}

// drawParts draws what lies in a block.
func drawParts(b *strings.Builder, prefix string, n Node, depth int) {
	part := func(name string, list *List, last bool) {
		branch, below := corner(last)
		b.WriteString(prefix + branch + name)
		switch {
		case len(list.Nodes) == 0:
			b.WriteString(" (empty)\n")
		case depth > maxDrawn:
			b.WriteString(" (not drawn)\n")
		case len(list.Nodes) == 1:
			b.WriteString(" " + label(list.Nodes[0]) + "\n")
			drawParts(b, prefix+below, list.Nodes[0], depth+1)
		default:
			b.WriteString("\n")
			draw(b, prefix+below, list, depth+1)
		}
	}
	switch n := n.(type) {
	case *ForEach:
		part("Body:", n.Body, n.Rescue == nil)
		if n.Rescue != nil {
			part("Rescue:", n.Rescue, true)
		}
	case *Try:
		part("Body:", n.Body, n.Rescue == nil)
		if n.Rescue != nil {
			part("Rescue:", n.Rescue, true)
		}
	case *If:
		part("Then:", n.Then, n.Else == nil)
		if n.Else != nil {
			part("Else:", n.Else, true)
		}
	}
}

func corner(last bool) (branch, below string) {
	if last {
		return "└── ", "    "
	}
	return "├── ", "│   "
}

func label(n Node) string {
	name := "StepNode"
	switch n.(type) {
	case *ForEach:
		name = "ForEachNode"
	case *If:
		name = "IfElseNode"
	case *Try:
		name = "TryNode"
	}
	s := n.spec()
	text := name + "(" + plain(strings.ToLower(s.Type))
	if s.ID != "" {
		text += ", id " + strconv.Quote(s.ID)
	}
	if s.Name != "" {
		text += ", name " + strconv.Quote(s.Name)
	}
	return text + ")"
}

// plain quotes what would not look like a type's key.
func plain(typ string) string {
	if typ == "" || strings.ContainsFunc(typ, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '.' && r != '_'
	}) {
		return strconv.Quote(typ)
	}
	return typ
}
