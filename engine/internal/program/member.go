package program

import (
	"slices"

	"github.com/courierhq/courier/chain"
)

// Member returns what chains need of a program, without New.
func (p *Program) Member() *chain.Job {
	return &chain.Job{Name: p.Job.Name, Version: p.Version, Steps: p.Job.Steps, Params: p.Params, Outputs: p.outputNames}
}

// outputNames returns the names of all outputs that the steps of a program declare. All
// is false if there may be others, as where a step's type is not registered.
func (p *Program) outputNames() (names []string, all bool) {
	all = true
	for i, t := range p.Types {
		if p.Tree != nil && p.Tree.InFinally(i) {
			continue // the outputs of a member are those of its outcome
		}
		if t == nil {
			all = all && IsMarker(p.Job.Steps[i].Type)
			continue
		}
		out := t.Output()
		all = all && out.Type == "object" && !out.Open && len(out.Properties) > 0
		names = append(names, out.Names()...)
	}
	slices.Sort(names)
	return slices.Compact(names), all
}
