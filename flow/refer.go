package flow

import (
	"fmt"
	"slices"
	"strings"

	"github.com/courierhq/courier/internal/nearest"
	"github.com/courierhq/courier/internal/reference"

	"github.com/courierhq/courier"
)

// The heads of references to what belongs to no job alone.
const (
	headChain   = "chain"
	headMonitor = "monitor"
)

// jobValues are the values job.*, and startedValues those of them that an
// execution has only once it runs.
var (
	jobValues     = []string{"execution_id", "name", "workspace", "started_at", "attempt"}
	startedValues = []string{"workspace", "started_at", "attempt"}
)

// loopValues are the variables of a loop.
var loopValues = []string{loopItem, loopIndex, loopLabel, loopError}

// typeNames is how messages name the types of a [courier.Schema].
var typeNames = map[string]string{
	"string": "a string", "boolean": "true or false", "integer": "a whole number", "number": "a number",
	"array": "a list", "object": "an object",
}

// maxHops bounds the blocks that are looked at for one reference, so that the
// time for a list stays in proportion to its length, however deep its blocks.
const maxHops = 1000

// maxCandidates bounds the names that a suggestion is chosen from, since it
// takes time to measure how near they are.
const maxCandidates = 100

// A use is a reference where it stands.
type use struct {
	*checker
	FieldReference
	step    int  // -1 for a field of the job; the length of the list for its result
	mayMiss bool // it is no mistake if there is no value
}

func (u *use) problem(format string, args ...any) { u.note(&u.checker.problems, format, args) }

func (u *use) warn(format string, args ...any) {
	if !u.mayMiss {
		u.note(&u.checker.warnings, format, args)
	}
}

func (u *use) note(to *problems, format string, args []any) {
	if to.full() {
		return
	}
	message := fmt.Sprintf("%q %s", shorten(u.Ref.String()), fmt.Sprintf(format, args...))
	if u.ofJob() {
		to.add(courier.Problem{Step: -1, Field: u.Field, Message: message})
		return
	}
	to.add(at(u.tree.Spec(u.step), u.step, u.Field, message))
}

// ofJob reports whether the reference is in a field of the job.
func (u *use) ofJob() bool { return u.step < 0 || u.step >= u.tree.Len() }

// label names a step in a message.
func (c *checker) label(i int) string {
	s := c.tree.Spec(i)
	return courier.StepLabel(i, s.ID, shorten(s.Type))
}

// schema checks the reference and returns what is known of its value, or nil.
func (u *use) schema() *courier.Schema {
	switch u.Ref.Head {
	case headLoop:
		return u.loop()
	case headParams:
		return u.param()
	case headJob:
		if slices.Contains(finallyValues, u.Ref.Name) {
			return u.ofFinally()
		}
		if !slices.Contains(jobValues, u.Ref.Name) {
			u.problem("has no value: job has no %q; %s", shorten(u.Ref.Name), nearest.DidYouMean(u.Ref.Name, append(slices.Clip(jobValues), finallyValues...)))
			return nil
		}
		typ := "string"
		if u.Ref.Name == "attempt" {
			typ = "integer"
		}
		return u.path(&courier.Schema{Type: typ}, u.Ref.Name, u.Ref.Path)
	case headChain: // what chains there are is not known here
		return nil
	case headMonitor:
		u.problem("has no value: what a monitor has found is in params.files, and its name in params.monitor")
		return nil
	}
	return u.output()
}

// param checks a reference to a parameter and returns what its declaration says.
func (u *use) param() *courier.Schema {
	if u.params == nil {
		u.warn("can't be checked, since the job declares no params; declare them to have misspelled ones found")
		return nil
	}
	d := u.params.all[u.Ref.Name]
	switch {
	case d == nil:
		names := u.params.names[:min(len(u.params.names), maxCandidates)]
		u.problem("has no value: the job declares no param %q; %s", shorten(u.Ref.Name), nearest.DidYouMean(u.Ref.Name, names))
		return nil
	case d.Secret && (!u.Whole || u.ofJob() || u.tree.entries[u.step].kind != work):
		u.problem("is a secret, which can only be the whole value of a field of a step, as \"context:%s\"", shorten(u.Ref.String()))
		return nil
	case d.schema() == nil:
		return nil
	}
	quiet := *u
	quiet.mayMiss = true // what lists and objects contain is not declared
	return quiet.path(d.schema(), "params."+u.Ref.Name, u.Ref.Path)
}

// loop checks a reference to a loop variable.
func (u *use) loop() *courier.Schema {
	if u.broken {
		return nil
	}
	if u.ofJob() {
		u.problem("has a value only inside a flow.foreach; to show what a loop has made, refer to an output of one of its steps")
		return nil
	}
	in := u.tree.loopOf(u.step)
	if u.ofLabel() {
		in = u.tree.entries[u.step].block
	}
	if in < 0 {
		u.problem("has a value only inside a flow.foreach, and %s is not in one", u.label(u.step))
		return nil
	}
	name, path := u.Ref.Name, u.Ref.Path
	if depth, ok := parseIndex(name); ok {
		outer := u.tree.blocks[in].depth - 1
		switch {
		case outer == 0:
			u.problem("has no value: loop.<depth> is for the loops around an inner loop, and there is only one loop here; write loop.current_item or loop.index")
			return nil
		case depth >= outer:
			u.problem("has no value: loop.<depth> goes from loop.0, the outermost, to loop.%d here; the innermost loop's are loop.current_item and loop.index", outer-1)
			return nil
		case len(path) == 0:
			return nil
		}
		if in = u.around(in, outer-depth); in < 0 {
			return nil
		}
		name, path = path[0].Name, path[1:]
	}
	switch name {
	case loopItem:
		if s := u.items[in]; s != nil {
			return u.path(s, name, path)
		}
		return nil
	case loopIndex:
		return u.path(&courier.Schema{Type: "integer"}, name, path)
	case loopError:
		if b := u.tree.blocks[in]; !b.inRescue(u.step) {
			u.problem("has a value only in the rescue of the loop, behind its flow.rescue")
			return nil
		}
		return u.path(errorSchema, name, path)
	case loopLabel:
		if u.ofLabel() && in == u.tree.entries[u.step].block {
			u.problem("is made of the label itself; use loop.current_item or loop.index")
			return nil
		}
		return u.path(&courier.Schema{Type: "string"}, name, path)
	}
	u.problem("has no value: a loop has no %q; %s", shorten(name), nearest.DidYouMean(name, loopValues))
	return nil
}

// around returns the loop that is n loops around another, or -1 if that is too
// far away to look for.
func (c *checker) around(in int32, n int) int32 {
	if n > maxHops {
		return -1
	}
	for ; n > 0; n-- {
		in = c.tree.loopAround(c.tree.blocks[in])
	}
	return in
}

// output checks a reference to an output of a step.
func (u *use) output() *courier.Schema {
	j, ok := u.tree.Head(u.Ref.Head)
	switch {
	case !ok && u.isIndex():
		u.problem("has no value: there is no step %s; the last one is %d", u.Ref.Head, u.tree.Len()-1)
	case !ok:
		u.problem("has no value: no step has the id %q; %s", shorten(u.Ref.Head), nearest.DidYouMean(u.Ref.Head, u.heads()))
	case j == u.step:
		u.problem("refers to the step itself, which has no outputs before it is done")
	case j > u.step:
		u.problem("refers to a later step, %s; references can only look back", u.label(j))
	case !u.broken && u.tree.InFinally(j) && (u.ofJob() || !u.tree.InFinally(u.step)):
		u.problem("refers to %s in the finally part, which runs when the result and the outputs of the job are known already", u.label(j))
	case u.tree.loopAt(j) != nil && u.tree.loopAt(j).policy != nil:
		return u.loopResult(j)
	case u.tree.entries[j].kind == openTry:
		return u.tryResult(j)
	case u.tree.entries[j].kind != work:
		u.problem("refers to %s, a marker, which has no outputs; a loop's variables are loop.current_item and loop.index", u.label(j))
	case !u.reaches(j, u.tree.entries[j].block):
	default:
		if typ, ok := u.registry.Lookup(u.tree.Spec(j).Type); ok {
			return u.outputOf(j, typ.Output())
		}
	}
	return nil
}

func (u *use) isIndex() bool {
	_, ok := parseIndex(u.Ref.Head)
	return ok
}

// heads are what the head of a reference may have been meant to be.
func (u *use) heads() []string {
	ids := u.ids[max(0, len(u.ids)-maxCandidates):]
	return append(slices.Clone(ids), headParams, headJob, headLoop)
}

// reaches reports whether entry j, which is earlier and lies in a block, can have
// outputs in scope.
func (u *use) reaches(j int, in int32) bool {
	if u.broken || u.tree.InFinally(u.step) && !u.tree.InFinally(j) { // there it reads null
		return true
	}
	doubt := "" // why there may be none
	for hops := 0; in >= 0 && hops < maxHops; hops++ {
		b := u.tree.blocks[in]
		switch {
		case b.kind == openIf && b.open < u.step && u.step < b.end && b.els >= 0 && j < b.els && b.els < u.step:
			u.problem("refers to %s, in the other branch of %s; only one of them runs", u.label(j), u.label(b.open))
			return false
		case b.open < u.step && u.step < b.end:
			if doubt == "" && b.rescue != nil && j < b.els && b.els < u.step {
				doubt = "depends on where the body of " + u.label(b.open) + " has failed"
			}
			hops = maxHops // all blocks further out are around both
		case doubt != "":
		case b.kind == openIf:
			doubt = "depends on the condition of " + u.label(b.open)
		case b.rescue != nil && j > b.els:
			doubt = "depends on whether the body of " + u.label(b.open) + " has failed"
		case b.rescue != nil:
			doubt = "depends on where the body of " + u.label(b.open) + " has failed, if it has"
		case mayBeEmpty(&b.source):
			doubt = "depends on whether the list of " + u.label(b.open) + " is empty"
		}
		in = b.parent
	}
	if doubt != "" {
		u.warn("has a value only if %s has run, which %s", u.label(j), doubt)
	}
	return true
}

// mayBeEmpty reports whether a loop may have no iterations.
func mayBeEmpty(source *operand) bool {
	v, ok := source.constant()
	list, _ := v.([]any)
	return !ok || len(list) == 0
}

// outputOf checks the name and the path of a reference to an output of step j.
func (u *use) outputOf(j int, out *courier.Schema) *courier.Schema {
	name := u.Ref.Name
	if p, ok := property(out, name); ok {
		return u.path(p.Schema, name, u.Ref.Path)
	}
	switch {
	case out.Type != "object" || out.Open:
		u.warn("can't be checked, since %s does not say which outputs it has", u.label(j))
	case len(out.Properties) == 0:
		u.warn("has a value only if %s sets it, since its type declares no outputs", u.label(j))
	default:
		u.problem("has no value: %s has no output %q; %s", u.label(j), shorten(name), nearest.DidYouMean(name, out.Names()))
	}
	return nil
}

// property finds a property by its exact name: unlike configurations, values
// are not matched without regard to letter case.
func property(s *courier.Schema, name string) (*courier.Property, bool) {
	at := slices.IndexFunc(s.Properties, func(p courier.Property) bool { return p.Name == name })
	if at < 0 {
		return nil, false
	}
	return &s.Properties[at], true
}

// path checks the path into a value, which is called name in messages, and
// returns what is known of the value that it leads to.
func (u *use) path(s *courier.Schema, name string, path []reference.Segment) *courier.Schema {
	for _, seg := range path {
		if s == nil {
			return nil
		}
		switch s.Type {
		case "":
			u.warn("can't be checked: it is not known what %s contains", shorten(name))
			return nil
		case "array":
			if seg.Index < 0 {
				u.problem("has no value: %s is a list; select an item by its index, as in %s[0]", shorten(name), shorten(name))
				return nil
			}
			s = s.Items
		case "object":
			p, ok := property(s, seg.Name)
			switch {
			case ok:
				s = p.Schema
			case s.Open:
				u.warn("can't be checked: it is not known which fields %s has", shorten(name))
				return nil
			default:
				u.problem("has no value: %s has no %s; %s", shorten(name), seg, nearest.DidYouMean(seg.Name, s.Names()))
				return nil
			}
		default:
			u.problem("has no value: %s is %s, and has no %s", shorten(name), typeNames[s.Type], seg)
			return nil
		}
		name += seg.String()
	}
	return s
}

// fits compares what is known of the value that takes the place of a whole string with
// what must stand there in the configuration.
func (u *use) fits(got, config *courier.Schema) {
	at := form{config: config}.at(u.within)
	if at == nil {
		return
	}
	name, want := strings.TrimPrefix(u.Field, "config."), at.Type
	switch {
	case got.Type == want || got.Type == "" || want == "":
	case isNumber(got.Type) && isNumber(want):
	case got.Type == "string" && want == "number" && u.Ref.Head != headParams: // json.Number takes both
	default:
		hint := ""
		if _, has := property(got, "path"); has && want == "string" {
			hint = fmt.Sprintf("; the path of a file is %q", shorten(u.Ref.String())+".path")
		}
		u.problem("is %s, but %s must be %s%s", typeNames[got.Type], name, typeNames[want], hint)
	}
}

func isNumber(typ string) bool { return typ == "integer" || typ == "number" }
