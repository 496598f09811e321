package flow

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/courierhq/courier/internal/jsontext"
	"github.com/courierhq/courier/internal/nearest"

	"github.com/courierhq/courier"
)

// maxProblems bounds what Parse and Check report, so that a list of 100,000
// bad steps does not fill the memory.
const maxProblems = 1000

// A ParseError lists everything that is wrong with the blocks of a list of
// steps, in the order of the steps. It matches [courier.ErrInvalid].
type ParseError struct {
	// Problems are at most 1,000, and one more that says so if there are more.
	Problems []courier.Problem
}

// Error lists the problems, one per line. After the first 20 it counts the rest.
func (e *ParseError) Error() string {
	var b strings.Builder
	if len(e.Problems) != 1 {
		fmt.Fprintf(&b, "%d problems in the list of steps:\n  ", len(e.Problems))
	}
	for i, p := range e.Problems {
		if i > 0 {
			b.WriteString("\n  ")
		}
		if i == maxListed {
			fmt.Fprintf(&b, "and %d more", len(e.Problems)-i)
			break
		}
		b.WriteString(p.String())
	}
	return b.String()
}

// Is reports whether target is [courier.ErrInvalid].
func (e *ParseError) Is(target error) bool { return target == courier.ErrInvalid }

// Parse checks the block structure of steps and the configurations of their
// markers, and returns their tree. The error is a *[ParseError] with all mistakes, and the
// tree is then nil. [Check] with a nil tree reports the same mistakes together with all
// others.
//
// Outputs are steps that run after the last step and before the finally part. In the flat
// list they come at the end.
//
// The tree keeps a copy of the list, but shares the configurations in it,
// which must not be changed afterwards.
func Parse(steps []courier.StepSpec, outputs ...courier.StepSpec) (*Tree, error) {
	p := parse(steps, outputs)
	if len(p.problems.list) > 0 {
		return nil, &ParseError{p.problems.list}
	}
	return p.tree, nil
}

// problems collects problems up to a bound.
type problems struct{ list []courier.Problem }

// full reports whether nothing more will be collected.
func (p *problems) full() bool { return len(p.list) > maxProblems }

func (p *problems) add(q courier.Problem) {
	switch {
	case len(p.list) < maxProblems:
		p.list = append(p.list, q)
	case len(p.list) == maxProblems:
		p.list = append(p.list, courier.Problem{Step: -1, Message: fmt.Sprintf("there are more; these are the first %d", maxProblems)})
	}
}

// A parser makes a tree. It goes on after mistakes, as if a marker that has no
// place were not there, and a flow.end that is missing stood at the end.
type parser struct {
	tree     *Tree
	nodes    []Step // room for the nodes of steps
	open     []scope
	problems problems
	broken   bool // the block structure itself is wrong
}

// A scope is an open block, and the list that what follows belongs to.
type scope struct {
	block int32 // -1 for the root
	list  *List
	node  Node
}

func parse(declared, outputs []courier.StepSpec) *parser {
	steps := slices.Concat(declared, outputs)
	t := &Tree{
		steps:     steps,
		entries:   make([]entry, len(steps)),
		templates: make([]atomic.Pointer[Template], len(steps)),
		finally:   -1,
		declared:  len(declared),
	}
	t.none, _ = Compile(nil)
	p := &parser{tree: t, nodes: make([]Step, len(steps)), open: []scope{{block: -1, list: &t.root}}}
	for i := range t.steps {
		if i == t.declared && len(p.open) == 1 {
			p.open[0].list = &t.root // outputs are no part of a finally
		}
		k, ok := kindOf(t.steps[i].Type)
		if !ok {
			p.problem(i, "type", "unknown marker %q; %s", t.steps[i].Type, nearest.DidYouMean(t.steps[i].Type, markers))
		}
		p.entry(i, k)
	}
	for _, s := range p.open[1:] {
		b := t.blocks[s.block]
		p.broken = true
		p.problem(b.open, "", "no flow.end closes it; add one after the last step that belongs to it")
	}
	for len(p.open) > 1 {
		p.close(len(steps))
	}
	p.checkFinally()
	slices.SortStableFunc(p.problems.list, bySteps)
	return p
}

// bySteps orders problems by their steps, with those of no step at the end.
func bySteps(a, b courier.Problem) int { return cmp.Compare(uint(a.Step), uint(b.Step)) }

func (p *parser) problem(i int, field, format string, args ...any) {
	p.problems.add(at(&p.tree.steps[i], i, field, fmt.Sprintf(format, args...)))
}

// at makes a problem of entry i.
func at(s *courier.StepSpec, i int, field, message string) courier.Problem {
	return courier.Problem{Step: i, ID: s.ID, Type: s.Type, Field: field, Message: message}
}

// entry takes entry i into the tree.
func (p *parser) entry(i int, k kind) {
	t, top := p.tree, &p.open[len(p.open)-1]
	t.entries[i] = entry{k, top.block}
	switch k {
	case work:
		n := &p.nodes[i]
		n.index, n.Spec = i, &t.steps[i]
		top.list.Nodes = append(top.list.Nodes, n)
		if top.block >= 0 {
			t.blocks[top.block].works = true
		}
	case openIf, openForEach, openTry:
		p.openBlock(i, k)
	case toRescue:
		p.toRescue(i)
	case toFinally:
		p.toFinally(i)
	case otherwise:
		p.marker(i, nil)
		p.otherwise(i)
	case end:
		p.marker(i, nil)
		if top.block < 0 {
			p.broken = true
			p.problem(i, "", "closes nothing: there is no open flow.if, flow.foreach or flow.try before it; remove it")
			return
		}
		p.close(i)
	}
}

func (p *parser) openBlock(i int, k kind) {
	t, top := p.tree, &p.open[len(p.open)-1]
	b := &block{kind: k, open: i, els: -1, parent: top.block, loop: -1}
	if top.block >= 0 {
		around := t.blocks[top.block]
		b.loop, b.depth = around.loop, around.depth
	}
	at := int32(len(t.blocks))
	s := scope{block: at, list: new(List)}
	switch k {
	case openForEach:
		b.loop, b.depth = at, b.depth+1
		s.node = &ForEach{index: i, Spec: &t.steps[i], Body: s.list}
		p.forEach(i, b)
	case openTry:
		s.node = &Try{index: i, Spec: &t.steps[i], Body: s.list}
		p.marker(i, nil)
	default:
		s.node = &If{index: i, Spec: &t.steps[i], Then: s.list}
		p.condition(i, b)
	}
	t.entries[i].block = at
	t.blocks = append(t.blocks, b)
	top.list.Nodes = append(top.list.Nodes, s.node)
	p.open = append(p.open, s)
}

func (p *parser) otherwise(i int) {
	top := &p.open[len(p.open)-1]
	n, ok := top.node.(*If)
	switch {
	case top.block < 0:
		p.broken = true
		p.problem(i, "", "stands outside a flow.if; remove it, or put it between a flow.if and its flow.end")
	case !ok:
		p.broken = true
		p.problem(i, "", "stands directly inside the %s of step %d, but belongs between a flow.if and its flow.end; is a flow.end missing before it?", p.typeOf(top.node), top.node.Index())
	case n.Else != nil:
		p.broken = true
		p.problem(i, "", "is the second flow.else of the flow.if of step %d, which has one at step %d; remove one of them", n.index, p.tree.blocks[top.block].els)
	default:
		n.Else = new(List)
		top.list = n.Else
		p.tree.blocks[top.block].els = i
	}
}

// typeOf is the type of a node that is a block, in small letters.
func (p *parser) typeOf(n Node) string { return strings.ToLower(n.spec().Type) }

// close ends the innermost block at entry i.
func (p *parser) close(i int) {
	top := p.open[len(p.open)-1]
	b := p.tree.blocks[top.block]
	b.end = i
	switch n := top.node.(type) {
	case *ForEach:
		n.End = i
	case *If:
		n.End = i
	case *Try:
		n.End = i
	}
	p.checkRescue(b, i)
	if b.works && b.parent >= 0 {
		p.tree.blocks[b.parent].works = true
	}
	p.open = p.open[:len(p.open)-1]
}

// marker checks the configuration of a marker, which may have the given
// fields, and returns its template.
func (p *parser) marker(i int, fields []string) *Template {
	s := &p.tree.steps[i]
	for _, name := range sortedNames(s.Config) {
		switch {
		case len(fields) == 0:
			p.problem(i, "config", "unknown field %q; a %s has no configuration", shorten(name), strings.ToLower(s.Type))
		case !slices.Contains(fields, name):
			p.problem(i, "config", "unknown field %q; %s", shorten(name), nearest.DidYouMean(name, fields))
		}
	}
	t := p.tree.Template(i)
	for _, q := range t.problems {
		p.problem(i, q.Field, "%s", q.Message)
	}
	for _, name := range t.secrets {
		p.problem(i, "config", "secret %q: %v", name, errNoSecret)
	}
	return t
}

// operand returns the value of a field of a marker's configuration.
func (p *parser) operand(i int, t *Template, name string) (o operand, given bool) {
	at := slices.IndexFunc(t.fields, func(f field) bool { return f.name == name })
	if at < 0 {
		return o, false
	}
	if len(t.problems) > 0 || len(t.secrets) > 0 {
		return o, true // reported already
	}
	f := &t.fields[at]
	switch v := t.config[name].(type) {
	case string:
		parsed, err := parseText(v)
		if literal, ok := parsed.constant(); ok && err == nil {
			o.value = literal
		} else {
			o.text = &parsed
		}
	case []any, map[string]any:
		if o.field = f; f.holes > 0 {
			break
		}
		o.field = nil
		o.value, _ = jsontext.Parse(f.pieces[0].text)
	default:
		o.value = v
	}
	return o, true
}

// forEach reads the configuration of a flow.foreach.
func (p *parser) forEach(i int, b *block) {
	t := p.marker(i, append([]string{fieldSource, fieldLabel, fieldOnResume, fieldMaxIter, fieldOnItem}, itemFields...))
	source, given := p.operand(i, t, fieldSource)
	b.source = source
	if !given {
		p.problem(i, "config.source", `is required: a list, or a reference to one such as "context:0.file_list"`)
	} else if v, ok := source.constant(); ok && len(t.problems) == 0 && len(t.secrets) == 0 {
		list, err := items(v)
		if v == nil {
			err = errors.New("is null, not a list")
		}
		if err != nil {
			p.problem(i, "config.source", `%v; give a list, or a reference to one such as "context:0.file_list"`, err)
		}
		b.source.value = list
	}
	if most, given := t.config[fieldMaxIter]; given && most != nil {
		n, _ := most.(json.Number)
		if b.iterations, _ = strconv.Atoi(n.String()); b.iterations < 1 {
			p.problem(i, "config.max_iterations", "must be a whole number above 0, and no reference")
		}
	}
	onResume, given := t.config[fieldOnResume]
	text, isText := onResume.(string)
	switch {
	case !given || isText && text == onResumeContinue:
	case isText && text == onResumeRestart:
		b.restart = true
	default:
		p.problem(i, "config.on_resume", `must be "continue", which is the default, or "restart"`)
	}
	p.label(i, t, b)
	p.itemPolicy(i, t, b)
}

// What a flow.foreach says of an interrupted loop.
const (
	onResumeContinue = "continue" // in the iteration that was interrupted
	onResumeRestart  = "restart"  // with the first iteration
)

// condition reads the configuration of a flow.if.
func (p *parser) condition(i int, b *block) {
	t := p.marker(i, []string{fieldLeft, fieldOperator, fieldRight})
	var leftGiven, rightGiven bool
	b.cond.left, leftGiven = p.operand(i, t, fieldLeft)
	b.cond.right, rightGiven = p.operand(i, t, fieldRight)
	if !leftGiven {
		p.problem(i, "config.left", `is required: a value, or a reference such as "context:0.size"`)
	}
	op, given := t.config[fieldOperator]
	text, isText := op.(string)
	b.cond.op = operator(strings.ToLower(text))
	switch {
	case !given || op == nil || text == "" && isText:
		p.problem(i, "config.operator", "is required: one of %s", listOf(operators))
		return
	case !isText:
		p.problem(i, "config.operator", "must be one of %s", listOf(operators))
		return
	case strings.Contains(text, contextPrefix):
		p.problem(i, "config.operator", "can't be a reference; it is one of %s", listOf(operators))
		return
	case !slices.Contains(operators, b.cond.op):
		p.problem(i, "config.operator", "unknown operator %q; %s", shorten(text), nearest.DidYouMean(text, operators))
		return
	}
	if b.cond.op == opExists {
		return // right is ignored
	}
	if !rightGiven {
		p.problem(i, "config.right", "is required: what left is compared with; only the operator exists needs none")
	}
	if v, ok := b.cond.right.constant(); ok && v != nil && b.cond.op == opRegex {
		compiled, err := compilePattern(jsontext.Text(v))
		if err != nil {
			p.problem(i, "config.right", "%v", err)
			return
		}
		b.cond.pattern = &compiled
		if left, ok := b.cond.left.constant(); ok && leftGiven {
			if err := compiled.check(len(jsontext.Text(left))); err != nil {
				p.problem(i, "config.left", "%v", err)
			}
		}
	}
}

func listOf(names []operator) string {
	list := make([]string, len(names))
	for i, n := range names {
		list[i] = string(n)
	}
	return strings.Join(list, ", ")
}

// shorten cuts what a message quotes.
func shorten(s string) string {
	const most = 60
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "..."
}
