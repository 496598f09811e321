package chain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/flow"
	"github.com/courierhq/courier/internal/jsontext"
	"github.com/courierhq/courier/internal/nearest"
	"github.com/courierhq/courier/internal/text"
	"github.com/courierhq/courier/store"
)

// Limits of a chain.
const (
	maxMembers   = 10_000
	maxChainName = 200 // characters
	maxFound     = 1000
)

// A Job has the properties of a version of a member's job that chains need.
type Job struct {
	Name    string
	Version int // 0 if it is not saved
	Steps   []courier.StepSpec
	Params  *flow.Params // that the job declares; nil if it takes any
	// Outputs returns the names of all outputs that the steps declare. All is false if there may
	// be other outputs.
	Outputs func() (names []string, all bool)
	// New returns a new execution of the job, with a new id. If the parameters are wrong, the
	// error is a *[courier.ParamsError]. Checks do not call it.
	New func(ctx context.Context, opt *courier.EnqueueOptions) (store.NewExecution, error)
}

// takes reports whether an execution of the job may have a parameter.
func (j *Job) takes(name string) bool {
	_, declared := j.Params.Get(name)
	return declared || j.Params == nil
}

// A Checked is the result of [Check]. The chain can be saved if there are no problems.
type Checked struct {
	// Chain is the chain as it will be saved, without a version: every member has a name.
	Chain              Chain
	Problems, Warnings []courier.Problem
	Jobs               []*Job  // of each member; nil if it does not exist
	DependsOn          [][]int // for each member, the indexes of the members that it depends on
}

// Check converts a chain to the form that it will have after a restart, and checks it. Load
// returns a version of a job, or the latest for version 0. If the job does not exist, its error
// matches [courier.ErrNotFound]. Check returns other errors of load.
func Check(ctx context.Context, c Chain, load func(ctx context.Context, job string, version int) (*Job, error)) (Checked, error) {
	d := new(checking)
	c.Version = 0
	body, err := jsontext.Append(nil, c)
	if err == nil {
		err = json.Unmarshal(body, &d.chain)
	}
	if err != nil {
		d.problem("", "%v", err)
		return d.checked(), nil
	}
	err = d.check(ctx, load)
	return d.checked(), err
}

// A checking is a check of a chain in progress.
type checking struct {
	chain    Chain        // every member has a name
	params   *flow.Params // of the chain
	problems []courier.Problem
	warnings []courier.Problem
	index    map[string]int // members by name
	edges    [][]int        // of each member, to those it depends on
	jobs     []*Job         // of each member; nil if it is not known
}

// checked returns the result of the check.
func (d *checking) checked() Checked {
	return Checked{Chain: d.chain, Problems: d.problems, Warnings: d.warnings, Jobs: d.jobs, DependsOn: d.edges}
}

func (d *checking) problem(field, format string, args ...any) {
	if len(d.problems) < maxFound {
		d.problems = append(d.problems, courier.Problem{Step: -1, Field: field, Message: fmt.Sprintf(format, args...)})
	}
}

// member reports a problem of a member.
func (d *checking) member(i int, field, format string, args ...any) {
	where := fmt.Sprintf("members[%d]", i)
	if name := d.chain.Members[i].Name; name != "" {
		where += fmt.Sprintf(" %q", name)
	}
	d.problem(where+": "+field, format, args...)
}

func (d *checking) names() []string {
	names := make([]string, 0, len(d.chain.Members))
	for _, m := range d.chain.Members {
		names = append(names, m.Name)
	}
	return names
}

// check finds all problems. The error is from the store, or about a job that can't be read.
func (d *checking) check(ctx context.Context, load func(context.Context, string, int) (*Job, error)) error {
	c := &d.chain
	switch n := utf8.RuneCountInString(c.Name); {
	case c.Name == "":
		d.problem("name", "is required")
	case c.Name == "." || c.Name == "..":
		d.problem("name", "%q can't be a part of a URL; choose another one", c.Name)
	case n > maxChainName:
		d.problem("name", "has %d characters; %d is the most", n, maxChainName)
	case strings.ContainsFunc(c.Name, unicode.IsControl):
		d.problem("name", "contains a control character")
	}
	d.params = flow.ReadParams(c.Params)
	problems, warnings := d.params.Problems()
	d.problems, d.warnings = append(d.problems, problems...), append(d.warnings, warnings...)
	switch {
	case len(c.Members) == 0:
		d.problem("members", "there are none; a chain needs at least one")
	case len(c.Members) > maxMembers:
		d.problem("members", "there are %d; %d is the most", len(c.Members), maxMembers)
		return nil
	}
	d.checkNames()
	if err := d.checkJobs(ctx, load); err != nil {
		return err
	}
	d.checkEdges()
	if cycle := d.cycle(); cycle != nil {
		message := "depend on each other in a cycle: " + strings.Join(cycle, " -> ") + "; each waits for the next"
		if !slices.ContainsFunc(d.edges, func(e []int) bool { return len(e) == 0 }) {
			message += ", and there is no member that depends on none and could begin"
		}
		d.problem("members", "%s", message)
	}
	for i := range c.Members {
		d.checkParams(i)
		d.checkUses(i)
	}
	return nil
}

var memberName = regexp.MustCompile(`^[a-z][a-z0-9_-]*$`)

// maxMemberName is the maximum length of a member's name, in bytes.
const maxMemberName = 50

func (d *checking) checkNames() {
	d.index = make(map[string]int, len(d.chain.Members))
	for i := range d.chain.Members {
		m := &d.chain.Members[i]
		given := m.Name != ""
		if !given {
			m.Name = m.Job
		}
		switch {
		case m.Name == "":
		case !memberName.MatchString(m.Name) || len(m.Name) > maxMemberName:
			hint := ""
			if !given {
				hint = "the name of the job can't be that of the member: give it one; "
			}
			d.member(i, "name", "%sit must be a small letter, then small letters, digits, \"_\" or \"-\", and have at most %d characters", hint, maxMemberName)
		default:
			if first, again := d.index[m.Name]; again {
				d.member(i, "name", "is that of members[%d] too; give one of them another name", first)
				continue
			}
			d.index[m.Name] = i
		}
	}
}

// checkJobs loads the jobs of the members.
func (d *checking) checkJobs(ctx context.Context, load func(context.Context, string, int) (*Job, error)) error {
	type version struct {
		job     string
		version int
	}
	type loaded struct {
		job *Job
		err error
	}
	known := make(map[version]loaded)
	d.jobs = make([]*Job, len(d.chain.Members))
	for i, m := range d.chain.Members {
		switch {
		case m.Job == "":
			d.member(i, "job", "is required")
			continue
		case m.Version < 0:
			d.member(i, "version", "%d is negative; 0 means the latest", m.Version)
			continue
		}
		got, ok := known[version{m.Job, m.Version}]
		if !ok {
			got.job, got.err = load(ctx, m.Job, m.Version)
			known[version{m.Job, m.Version}] = got
		}
		switch {
		case got.err == nil:
			d.jobs[i] = got.job
		case errors.Is(got.err, courier.ErrNotFound):
			d.member(i, "job", "%s", text.Plain(got.err))
		default: // from the store, or about a job that can't be read; it says nothing about the chain
			return got.err
		}
	}
	return nil
}

func (d *checking) checkEdges() {
	d.edges = make([][]int, len(d.chain.Members))
	for i, m := range d.chain.Members {
		seen := make(map[string]bool)
		for k, dep := range m.DependsOn {
			field := fmt.Sprintf("depends_on[%d]", k)
			j, ok := d.index[dep.Member]
			switch {
			case dep.Member == "":
				d.member(i, field+".member", "is required")
			case !ok:
				d.member(i, field+".member", "the chain has no member %q; %s", dep.Member, nearest.DidYouMean(dep.Member, d.names()))
			case dep.Member == m.Name:
				d.member(i, field+".member", "a member can't depend on itself")
			case seen[dep.Member]:
				d.member(i, field+".member", "%q is given twice", dep.Member)
			default:
				d.edges[i] = append(d.edges[i], j)
			}
			seen[dep.Member] = true
			switch dep.RequiredStatus {
			case "", courier.RequireCompleted, courier.RequireAny:
			default:
				d.member(i, field+".required_status", "unknown status %q; %s", string(dep.RequiredStatus),
					nearest.DidYouMean(string(dep.RequiredStatus), []string{string(courier.RequireCompleted), string(courier.RequireAny)}))
			}
		}
	}
}

// cycle returns the names along a cycle, with the first one repeated at the end, or nil.
func (d *checking) cycle() []string {
	const unseen, open, done = 0, 1, 2
	state := make([]int, len(d.edges))
	next := make([]int, len(d.edges)) // the edge to follow
	for root := range d.edges {
		if state[root] != unseen {
			continue
		}
		path := []int{root}
		state[root] = open
		for len(path) > 0 {
			i := path[len(path)-1]
			if next[i] == len(d.edges[i]) {
				state[i] = done
				path = path[:len(path)-1]
				continue
			}
			j := d.edges[i][next[i]]
			next[i]++
			switch state[j] {
			case unseen:
				state[j] = open
				path = append(path, j)
			case open:
				var names []string
				for _, k := range append(path[slices.Index(path, j):], j) {
					names = append(names, d.chain.Members[k].Name)
				}
				return names
			}
		}
	}
	return nil
}

// before returns the members that have ended when another begins.
func (d *checking) before(i int) []int {
	seen := make(map[int]bool)
	list := slices.Clone(d.edges[i])
	for n := 0; n < len(list); n++ {
		if j := list[n]; !seen[j] {
			seen[j] = true
			list = append(list, d.edges[j]...)
		}
	}
	return list
}

// checkParams checks the parameters that a member passes to its job.
func (d *checking) checkParams(i int) {
	m := &d.chain.Members[i]
	d.checkPassed(i)
	if len(m.Params) == 0 {
		return
	}
	template, problems := flow.Compile(m.Params)
	for _, p := range problems {
		d.member(i, inParams(p.Field), "%s", p.Message)
	}
	for _, p := range flow.MistypedReferences(m.Params, func(head string) bool { return head == "params" || head == "chain" }) {
		d.warnings = append(d.warnings, courier.Problem{Step: -1, Field: fmt.Sprintf("members[%d] %q: %s", i, m.Name, inParams(p.Field)), Message: p.Message})
	}
	if len(template.Secrets()) > 0 {
		d.member(i, "params", "secrets can't be params, since these are stored; refer to the secret in the job's step")
	}
	var takes *flow.Params // of the job
	if j := d.jobs[i]; j != nil {
		takes = j.Params
	}
	for _, f := range template.References() {
		own, declared := d.params.Get(f.Ref.Name)
		name, whole := strings.CutPrefix(f.Field, "config.")
		whole = whole && f.Whole
		switch {
		case f.Ref.Head != "params":
			d.member(i, inParams(f.Field), "%q has no value here: only the chain's params are known when it starts; outputs of members are read by steps, as in \"context:chain.<member>.<name>\"", f.Ref.String())
		case d.chain.Params != nil && !declared:
			d.member(i, inParams(f.Field), "%q has no value: the chain declares no param %q; %s", f.Ref.String(), f.Ref.Name, nearest.DidYouMean(f.Ref.Name, sorted(d.chain.Params)))
		case own.Secret && (!whole || m.Params[name] == nil || len(f.Ref.Path) > 0):
			d.member(i, inParams(f.Field), "%q is secret, so it can only be the whole value of a secret param of the job", f.Ref.String())
		case whole && m.Params[name] != nil && len(f.Ref.Path) == 0:
			if why := takes.Takes(name, own); why != "" {
				d.member(i, inParams(f.Field), "%q %s", f.Ref.String(), why)
			}
		}
	}
	if j := d.jobs[i]; j != nil && j.Params != nil {
		for _, name := range sorted(m.Params) {
			if !j.takes(name) {
				d.member(i, "params."+name, "job %q declares no such param; %s", j.Name, nearest.DidYouMean(name, j.Params.Names()))
			} else if why := constantProblem(j.Params, name, m.Params[name]); why != "" {
				d.member(i, "params."+name, "%s", why)
			}
		}
	}
}

// checkPassed checks the chain's parameters that the job of a member gets automatically, and the
// parameters that it requires.
func (d *checking) checkPassed(i int) {
	m, j := &d.chain.Members[i], d.jobs[i]
	if j == nil || d.params == nil {
		return
	}
	for _, name := range j.Params.Names() {
		if _, given := m.Params[name]; given {
			continue
		}
		own, declared := d.params.Get(name)
		if takes, _ := j.Params.Get(name); !declared && takes.Required {
			d.member(i, "params."+name, "job %q requires it: give it, or declare it in the chain", j.Name)
		} else if why := j.Params.Takes(name, own); declared && why != "" {
			d.member(i, "params."+name, "the chain's param of this name, which the job gets, %s", why)
		}
	}
}

// constantProblem says why a value in a member's params can't be a param of its job. It is empty
// if it can, or if only the value of a reference decides.
func constantProblem(takes *flow.Params, name string, v any) string {
	template, problems := flow.Compile(map[string]any{name: v})
	if len(problems) > 0 {
		return ""
	}
	_, text := v.(string)
	switch refs := template.References(); {
	case len(template.Secrets()) > 0:
		return ""
	case len(refs) == 0:
		raw, err := template.Render(nil, nil, nil)
		if err != nil {
			return ""
		}
		_, why := takes.Check(name, jsontext.Object(raw)[name])
		return why
	case text && !refs[0].Whole:
		return takes.TakesText(name)
	}
	return ""
}

// checkUses reports references in a member's job to members that do not end before it, or that
// have no such output.
func (d *checking) checkUses(i int) {
	job := d.jobs[i]
	if job == nil {
		return
	}
	before := d.before(i)
	for _, r := range References(job.Steps) {
		step := &job.Steps[r.Step]
		field := fmt.Sprintf("job %q, %s: %s", job.Name, courier.StepLabel(r.Step, step.ID, step.Type), r.Field)
		j, ok := d.index[r.Member]
		switch {
		case !ok:
			d.member(i, field, "%q has no value: the chain has no member %q; %s", r.String(), r.Member, nearest.DidYouMean(r.Member, d.names()))
		case !slices.Contains(before, j):
			d.member(i, field, "%q has no value: %q does not end before %q; add it to depends_on", r.String(), r.Member, d.chain.Members[i].Name)
		case r.part && d.jobs[j] != nil:
			if names, all := d.jobs[j].Outputs(); all && !slices.Contains(names, r.Output) {
				d.member(i, field, "%q has no value: no step of job %q has an output %q; %s", r.String(), d.jobs[j].Name, r.Output, nearest.DidYouMean(r.Output, names))
			}
		}
	}
}

// Before returns the names of the members that have ended when a member with a job begins. The
// steps of the job can refer to their outputs. The chain may have problems.
func (c *Chain) Before(job string) map[string]bool {
	d := &checking{chain: *c}
	d.chain.Members = slices.Clone(c.Members) // which get names below
	d.checkNames()
	d.checkEdges()
	names := make(map[string]bool)
	for i := range d.chain.Members {
		if d.chain.Members[i].Job != job {
			continue
		}
		for _, j := range d.before(i) {
			names[d.chain.Members[j].Name] = true
		}
	}
	return names
}

// inParams returns the name of a field of params that was checked as a configuration.
func inParams(field string) string { return "params" + strings.TrimPrefix(field, "config") }

func sorted(m map[string]any) []string { return slices.Sorted(maps.Keys(m)) }
