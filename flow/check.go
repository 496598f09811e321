package flow

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/courierhq/courier/internal/nearest"
	"github.com/courierhq/courier/internal/reference"

	"github.com/courierhq/courier"
)

// Bounds of names.
const (
	maxName = 200 // characters of the name of a job, a step or a queue
	maxID   = 50
)

// Bounds of the limit keys of an execution: those of its job and those given at its start
// together. Each claim reads the keys of all running executions, and of many waiting
// ones.
const (
	MaxLimitKeys     = 16
	MaxLimitKeyBytes = 2 << 10 // of all together
)

// LimitKeysProblem returns what is wrong with the number and the size of limit keys, or
// the empty string.
func LimitKeysProblem(keys []string) string {
	size := 0
	for _, key := range keys {
		size += len(key)
	}
	switch {
	case len(keys) > MaxLimitKeys:
		return fmt.Sprintf("there are %d; %d is the most that an execution can have, those of its job and those of its start together", len(keys), MaxLimitKeys)
	case size > MaxLimitKeyBytes:
		return fmt.Sprintf("they have %d bytes together; %d is the most; use shorter keys", size, MaxLimitKeyBytes)
	}
	return ""
}

// reserved are the ids that mean something else in references.
var reserved = []string{headJob, headLoop, headParams, headChain, headMonitor}

// Check finds the mistakes in a job before anything runs: wrong names and numbers, step
// types that r does not have, configurations that do not fit their types, and references
// that can't have a value at their place, given the declared outputs of the earlier
// steps. Each problem names the step and the field, and says what to do. Warnings are
// about facts that are not known beforehand, such as the outputs of a branch that may not
// be taken.
//
// The tree is that of job.Steps. It may be nil if [Parse] has failed. Then the
// problems that Parse found are among those of Check; where the blocks are broken,
// problems that depend on them are left out. A nil r has no step types.
//
// Both lists are in the order of the steps, after the problems of the job itself.
// Each has at most 1,000 entries, and one more that says so if there are more.
func Check(t *Tree, job *courier.Job, r *courier.Registry) (problems, warnings []courier.Problem) {
	if r == nil {
		r = new(courier.Registry)
	}
	c := &checker{tree: t, job: job, registry: r}
	if t == nil {
		p := parse(job.Steps, nil)
		c.tree, c.broken, c.problems = p.tree, p.broken, p.problems
	}
	c.seen, c.params = make(map[string]int), ReadParams(job.Params)
	c.items = make([]*courier.Schema, len(c.tree.blocks))
	c.checkJob()
	for i := range c.tree.steps {
		if c.problems.full() {
			break
		}
		c.checkEntry(i)
	}
	if !c.problems.full() {
		c.checkResult()
		c.checkOutputs()
	}
	return c.problems.sorted(), c.warnings.sorted()
}

// sorted returns the problems in order.
func (p *problems) sorted() []courier.Problem {
	n := len(p.list)
	if p.full() {
		n-- // the last one says that there are more
	}
	slices.SortStableFunc(p.list[:n], func(a, b courier.Problem) int { return a.Step - b.Step })
	return p.list
}

// A checker collects what is wrong with a job.
type checker struct {
	tree     *Tree
	job      *courier.Job
	registry *courier.Registry
	params   *Params
	broken   bool // the tree is not to be relied on
	problems problems
	warnings problems

	keys  []string       // of the registry and the markers, for suggestions
	seen  map[string]int // the first step with an id
	ids   []string       // in the order of the steps
	used  uses
	items []*courier.Schema // for each block, of an item of the loop; nil if not known
}

func (c *checker) jobProblem(field, format string, args ...any) {
	c.problems.add(courier.Problem{Step: -1, Field: field, Message: fmt.Sprintf(format, args...)})
}

func (c *checker) jobWarning(field, format string, args ...any) {
	c.warnings.add(courier.Problem{Step: -1, Field: field, Message: fmt.Sprintf(format, args...)})
}

func (c *checker) stepProblem(i int, field, format string, args ...any) {
	c.problems.add(at(c.tree.Spec(i), i, field, fmt.Sprintf(format, args...)))
}

// checkJob checks what is not about single steps.
func (c *checker) checkJob() {
	j := c.job
	if j.Name == "" {
		c.jobProblem("name", "is required")
	} else if j.Name == "." || j.Name == ".." {
		c.jobProblem("name", "%q can't be a part of a URL; choose another one", j.Name)
	} else if why := badName(j.Name); why != "" {
		c.jobProblem("name", "%s", why)
	}
	if why := badName(j.Queue); why != "" {
		c.jobProblem("queue", "%s", why)
	}
	if j.Limit < 0 {
		c.jobProblem("limit", "%d is negative; 0 means no limit", j.Limit)
	}
	if j.Timeout < 0 {
		c.jobProblem("timeout_seconds", "%v is negative; 0 means none", j.Timeout.Seconds())
	}
	if j.MaxDuration < 0 {
		c.jobProblem("max_duration_seconds", "%v is negative; 0 means none", j.MaxDuration.Seconds())
	}
	if len(j.Steps) == 0 {
		c.jobWarning("steps", "there are none, so an execution does nothing")
	}
	c.checkJobPolicy()
	c.checkParams()
	if why := LimitKeysProblem(j.LimitKeys); why != "" {
		c.jobProblem("limit_keys", "%s", why)
	}
	for i, key := range j.LimitKeys[:min(len(j.LimitKeys), MaxLimitKeys)] {
		field := fmt.Sprintf("limit_keys[%d]", i)
		c.checkLimitKey(field, key)
		if a := almost(key, c.isHead); a != "" {
			c.jobWarning(field, "%s", a)
		}
	}
}

// checkResult checks the references of the job's result, which can see all steps.
func (c *checker) checkResult() {
	if c.job.Result == "" {
		return
	}
	t, err := parseText(c.job.Result)
	if err == nil && t.secret != "" {
		err = errNoSecret
	}
	switch {
	case err != nil:
		c.jobProblem("result", "%v", err)
		return
	case hasControl(c.job.Result):
		c.jobProblem("result", "contains a control character or text that is not valid UTF-8")
	case !slices.ContainsFunc(t.parts, func(p part) bool { return p.ref != nil }):
		c.jobWarning("result", "is a constant text; to show the output of a step, write a reference such as context:0.name")
	}
	for _, p := range t.parts {
		if p.ref != nil {
			u := use{checker: c, step: c.tree.Len(), FieldReference: FieldReference{Field: "result", Ref: *p.ref, Whole: len(t.parts) == 1}}
			u.schema()
		}
	}
	if a := almost(c.job.Result, c.isHead); a != "" {
		c.jobWarning("result", "%s", a)
	}
}

// checkParams checks the declarations of parameters.
func (c *checker) checkParams() {
	for _, name := range c.params.Names() {
		if ref, err := reference.Parse(headParams + "." + name); err != nil || len(ref.Path) > 0 {
			c.jobWarning("params."+shorten(name), "no reference can name %q; use letters, digits, _ and - only", shorten(name))
		}
	}
	problems, warnings := c.params.Problems()
	for _, p := range problems {
		c.problems.add(p)
	}
	for _, p := range warnings {
		c.warnings.add(p)
	}
}

// isStorable reports whether v is plainly something that can be stored.
func isStorable(v any) bool {
	s, ok := v.(string)
	return v == nil || ok && isPlain(s)
}

// badName says what is wrong with a name, or nothing.
func badName(s string) string {
	switch {
	case utf8.RuneCountInString(s) > maxName:
		return fmt.Sprintf("has %d characters; %d is the most", utf8.RuneCountInString(s), maxName)
	case hasControl(s):
		return "contains a control character or text that is not valid UTF-8"
	}
	return ""
}

// checkLimitKey checks a text that is expanded before anything runs.
func (c *checker) checkLimitKey(field, key string) {
	t, err := parseText(key)
	if err == nil && t.secret != "" {
		err = errNoSecret
	}
	switch {
	case key == "":
		c.jobProblem(field, "is empty")
	case err != nil:
		c.jobProblem(field, "%v", err)
	case hasControl(key):
		c.jobProblem(field, "contains a control character or text that is not valid UTF-8")
	}
	for _, p := range t.parts {
		if p.ref == nil {
			continue
		}
		u := use{checker: c, step: -1, FieldReference: FieldReference{Field: field, Ref: *p.ref}}
		if p.ref.Head != headParams && p.ref.Head != headJob {
			u.problem("can't be used here, since limit keys are known before the first step; use params.* or job.name")
			continue
		}
		if p.ref.Head == headJob && slices.Contains(startedValues, p.ref.Name) {
			u.problem("is known only when the execution runs, and limit keys are needed before; use params.* or job.name")
			continue
		}
		u.schema()
	}
}

// checkEntry checks one entry of the list.
func (c *checker) checkEntry(i int) {
	s := c.tree.Spec(i)
	c.checkID(i, s)
	if why := badName(s.Name); why != "" {
		c.stepProblem(i, "name", "%s", why)
	}
	if s.Timeout != nil && *s.Timeout < 0 {
		c.stepProblem(i, "timeout_seconds", "%v is negative; 0 means none", s.Timeout.Seconds())
	}
	if s.StallTimeout != nil && *s.StallTimeout < 0 {
		c.stepProblem(i, "stall_timeout_seconds", "%v is negative; 0 means none", s.StallTimeout.Seconds())
	}
	c.checkStepPolicy(i, s)
	c.checkItemPolicy(i, s)
	c.checkAlmost(i)
	c.used.note(c.tree, c.tree.Template(i).refs)
	if c.tree.entries[i].kind != work {
		if s.Isolate {
			c.stepProblem(i, "isolate", "is for steps; a marker runs nothing, so remove it here, and set it for the steps in between")
		}
		c.checkMarker(i)
		return
	}
	t := c.tree.Template(i)
	for _, p := range t.problems {
		c.stepProblem(i, p.Field, "%s", p.Message)
	}
	typ := c.typeOf(i, s)
	if typ != nil && len(t.problems) == 0 {
		for _, p := range typ.Check(t.config, t.Static()) {
			c.stepProblem(i, p.Field, "%s", p.Message)
		}
	}
	for _, ref := range t.refs {
		u := use{checker: c, step: i, FieldReference: ref}
		if got := u.schema(); got != nil && typ != nil && ref.Whole {
			u.fits(got, typ.Config())
		}
	}
}

// typeOf finds a step's type; nil if there is none, which is a problem.
func (c *checker) typeOf(i int, s *courier.StepSpec) *courier.StepType {
	typ, ok := c.registry.Lookup(s.Type)
	if ok {
		return typ
	}
	if c.keys == nil {
		c.keys = append(c.registry.Keys(), markers...)
	}
	if s.Type == "" {
		c.stepProblem(i, "type", "is required: the key of a step type, or a marker such as %q", TypeIf)
	} else if _, ok := kindOf(s.Type); ok { // Parse has reported unknown markers
		c.stepProblem(i, "type", "unknown step type %q; %s", shorten(s.Type), nearest.DidYouMean(s.Type, c.keys))
	}
	return nil
}

func (c *checker) checkID(i int, s *courier.StepSpec) {
	if s.ID == "" {
		return
	}
	first, taken := c.seen[s.ID]
	switch {
	case slices.Contains(reserved, s.ID):
		c.stepProblem(i, "id", "%q is reserved, as it begins other references; choose another", s.ID)
	case !isID(s.ID):
		c.stepProblem(i, "id", `%q is malformed: a small letter, then small letters, digits, "_" and "-", at most %d in all`, shorten(s.ID), maxID)
	case taken:
		c.stepProblem(i, "id", "%q is the id of step %d already; choose another", s.ID, first)
	}
	if !taken {
		c.seen[s.ID] = i
		c.ids = append(c.ids, s.ID)
	}
}

func isID(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z':
		case i > 0 && ('0' <= c && c <= '9' || c == '_' || c == '-'):
		default:
			return false
		}
	}
	return len(s) <= maxID
}

// checkMarker checks the references of a marker; Parse has done the rest.
func (c *checker) checkMarker(i int) {
	e := c.tree.entries[i]
	if e.kind != openIf && e.kind != openForEach {
		return
	}
	b := c.tree.blocks[e.block]
	if b.label != nil {
		defer c.checkLabel(i) // when it is known what the items are
	}
	for _, ref := range c.tree.Template(i).refs {
		u := use{checker: c, step: i, FieldReference: ref}
		if u.ofLabel() {
			continue
		}
		u.mayMiss = b.cond.op == opExists && strings.HasPrefix(ref.Field, "config.left")
		got := u.schema()
		if got == nil || ref.Field != "config.source" || !ref.Whole {
			continue
		}
		switch {
		case got.Type == "array":
			c.items[e.block] = got.Items
		case got.Type == "", got.Type == "string" && ref.Ref.Head != headParams: // text may be the JSON of a list
		default:
			u.problem("is %s, not a list", typeNames[got.Type])
		}
	}
	if e.kind == openIf {
		c.checkComparison(i, &b.cond)
	}
}
