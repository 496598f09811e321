package definitions

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/program"
	"github.com/courierhq/courier/internal/nearest"
	"github.com/courierhq/courier/store"
)

// checkUses reports references of a member's job to members that do not end
// before it, or that have no such output. Jobs are those of the members.
func (d *chainDefinition) checkUses(i int) {
	p := d.programs[i]
	if p == nil {
		return
	}
	before := d.before(i)
	for _, u := range program.MemberReferences(p.Job.Steps) {
		field := fmt.Sprintf("job %q, %s: %s", p.Job.Name, courier.StepLabel(u.Step, p.Job.Steps[u.Step].ID, p.Job.Steps[u.Step].Type), u.Field)
		j, ok := d.index[u.Name]
		switch {
		case !ok:
			d.member(i, field, "%q has no value: the chain has no member %q; %s", u.String(), u.Name, nearest.DidYouMean(u.Name, d.names()))
		case !slices.Contains(before, j):
			d.member(i, field, "%q has no value: %q does not end before %q; add it to depends_on", u.String(), u.Name, d.chain.Members[i].Name)
		case len(u.Path) > 0 && d.programs[j] != nil:
			if names, closed := d.programs[j].OutputNames(); closed && !slices.Contains(names, u.Path[0].Name) {
				d.member(i, field, "%q has no value: no step of job %q has an output %q; %s", u.String(), d.programs[j].Job.Name, u.Path[0].Name, nearest.DidYouMean(u.Path[0].Name, names))
			}
		}
	}
}

// checkMember warns of references of a job to members of a chain for which there is
// no chain in which they have a value. Its error is one of the store.
func (v *Service) checkMember(ctx context.Context, job *courier.Job) (warnings []courier.Problem, err error) {
	uses := program.MemberReferences(job.Steps)
	for after := ""; len(uses) > 0; {
		list, err := v.roles.Catalog().List(ctx, store.DefinitionFilter{Kind: store.Chain, After: after})
		if err != nil {
			return nil, fmt.Errorf("list chains: %w", err)
		}
		if len(list) == 0 {
			break
		}
		after = list[len(list)-1].Name
		for i := range list {
			if d := (&chainDefinition{}); json.Unmarshal(list[i].Body, &d.chain) == nil {
				d.checkNames()
				d.checkEdges()
				uses = slices.DeleteFunc(uses, func(u program.MemberReference) bool { return d.gives(job.Name, u.Name) })
			}
		}
	}
	for _, u := range uses {
		s := &job.Steps[u.Step]
		warnings = append(warnings, courier.Problem{
			Step: u.Step, ID: s.ID, Type: s.Type, Field: u.Field,
			Message: fmt.Sprintf("%q has a value only if the execution was started by a chain in which %q ends before this job, and there is no such chain so far", u.String(), u.Name),
		})
	}
	return warnings, nil
}

// gives reports whether a member with that job begins after the named member has
// ended.
func (d *chainDefinition) gives(job, member string) bool {
	j, ok := d.index[member]
	for i := range d.chain.Members {
		if ok && d.chain.Members[i].Job == job && slices.Contains(d.before(i), j) {
			return true
		}
	}
	return false
}
