package program

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/flow"
	"github.com/courierhq/courier/internal/reference"
)

// A MemberReference is a reference of a step to the outputs of a member of a chain.
type MemberReference struct {
	reference.Reference        // Name is that of the member
	Step                int    // index of the step
	Field               string // of its configuration
}

// MemberReferences returns the references of steps to the outputs of a chain's members.
func MemberReferences(steps []courier.StepSpec) []MemberReference {
	var refs []MemberReference
	for i, s := range steps {
		raw, err := json.Marshal(s.Config)
		if err != nil || !strings.Contains(string(raw), "context:chain.") {
			continue // most jobs have none
		}
		template, _ := flow.Compile(s.Config)
		for _, f := range template.References() {
			if f.Ref.Head == "chain" {
				refs = append(refs, MemberReference{f.Ref, i, f.Field})
			}
		}
	}
	return refs
}

// OutputNames returns the names of all outputs that the steps of a program declare. All
// is false if there may be others, as where a step's type is not registered.
func (p *Program) OutputNames() (names []string, all bool) {
	all = true
	for i, t := range p.Types {
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
