package chain

import (
	"encoding/json"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/flow"
)

// A Reference is a reference of a step to the outputs of a member of a chain, such as
// "context:chain.fetch.file_list".
type Reference struct {
	Member string
	Output string // the name of the output; empty for all outputs of the member
	Step   int    // the index of the step
	Field  string // of its configuration
	text   string
	part   bool // of the outputs
}

// String returns the text of the reference, without "context:".
func (r Reference) String() string { return r.text }

// References returns the references of steps to the outputs of members.
func References(steps []courier.StepSpec) []Reference {
	var refs []Reference
	for i, s := range steps {
		raw, err := json.Marshal(s.Config)
		if err != nil || !strings.Contains(string(raw), "context:chain.") {
			continue // most jobs have none
		}
		template, _ := flow.Compile(s.Config)
		for _, f := range template.References() {
			if f.Ref.Head != "chain" {
				continue
			}
			r := Reference{Member: f.Ref.Name, Step: i, Field: f.Field, text: f.Ref.String()}
			if r.part = len(f.Ref.Path) > 0; r.part {
				r.Output = f.Ref.Path[0].Name
			}
			refs = append(refs, r)
		}
	}
	return refs
}
