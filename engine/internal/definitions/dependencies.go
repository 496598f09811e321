package definitions

import (
	"context"
	"errors"
	"fmt"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/nearest"
	"github.com/courierhq/courier/store"
)

// maxDependencies is how many dependencies a job may have.
const maxDependencies = 100

// checkDependencies finds all that is wrong with what a job depends on. Its error
// is one of the store.
func (v *Service) checkDependencies(ctx context.Context, job *courier.Job) (problems []courier.Problem, err error) {
	if len(job.DependsOn) == 0 {
		return nil, nil
	}
	problem := func(field, format string, args ...any) {
		problems = append(problems, courier.Problem{Step: -1, Field: field, Message: fmt.Sprintf(format, args...)})
	}
	if n := len(job.DependsOn); n > maxDependencies {
		problem("depends_on", "there are %d; %d is the most", n, maxDependencies)
		return problems, nil
	}
	g := &dependencyGraph{catalog: v.roles.Catalog(), ctx: ctx, known: make(map[string][]string), there: make(map[string]bool)}
	seen := make(map[string]bool)
	var names []string // what is left to be looked at for cycles
	for i, d := range job.DependsOn {
		field := fmt.Sprintf("depends_on[%d]", i)
		switch {
		case d.Job == "":
			problem(field+".job", "is required")
		case d.Job == job.Name:
			problem(field+".job", "a job can't depend on itself")
		case seen[d.Job]:
			problem(field+".job", "%q is given twice", d.Job)
		default:
			g.upstreams(d.Job)
			if g.err == nil && !g.there[d.Job] {
				problem(field+".job", "%s", g.unknown(d.Job))
			}
			names = append(names, d.Job)
		}
		seen[d.Job] = true
		for _, p := range d.Check() {
			problem(field+"."+p.Field, "%s", p.Message)
		}
	}
	g.known[job.Name], g.there[job.Name] = names, true
	if path := store.Cycle(job.Name, g.upstreams); path != nil {
		problem("depends_on", "%s", (&courier.CycleError{Path: path}).Error())
	}
	return problems, g.err
}

// A dependencyGraph has what the latest versions of jobs depend on. It is read from the
// catalog when it is needed.
type dependencyGraph struct {
	catalog store.Catalog
	ctx     context.Context
	known   map[string][]string
	there   map[string]bool
	names   []string // of all jobs; nil until they are needed
	err     error    // of the store
}

// upstreams returns what a job depends on, nothing for one that is not there.
func (g *dependencyGraph) upstreams(name string) []string {
	if on, ok := g.known[name]; ok || g.err != nil {
		return on
	}
	d, err := g.catalog.Load(g.ctx, store.Job, name, 0)
	if err != nil && !errors.Is(err, courier.ErrNotFound) {
		g.err = fmt.Errorf("load job %q: %w", name, err)
		return nil
	}
	g.there[name], g.known[name] = err == nil && !d.Removed(), store.Upstreams(&d)
	return g.known[name]
}

// unknown says that a job is not there, and which may be meant.
func (g *dependencyGraph) unknown(name string) string {
	if g.names == nil {
		g.names = []string{}
		list, _ := g.catalog.List(g.ctx, store.DefinitionFilter{Kind: store.Job})
		for _, d := range list {
			g.names = append(g.names, d.Name)
		}
	}
	return fmt.Sprintf("there is no job %q; %s", name, nearest.DidYouMean(name, g.names))
}
