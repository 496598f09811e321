package definitions

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/store"
)

// checkMember warns of references of a job to members of a chain for which there is
// no chain in which they have a value. Its error is one of the store.
func (v *Service) checkMember(ctx context.Context, job *courier.Job) (warnings []courier.Problem, err error) {
	uses := chain.References(job.Steps)
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
			var c chain.Chain
			if json.Unmarshal(list[i].Body, &c) == nil {
				before := c.Before(job.Name)
				uses = slices.DeleteFunc(uses, func(r chain.Reference) bool { return before[r.Member] })
			}
		}
	}
	for _, u := range uses {
		s := &job.Steps[u.Step]
		warnings = append(warnings, courier.Problem{
			Step: u.Step, ID: s.ID, Type: s.Type, Field: u.Field,
			Message: fmt.Sprintf("%q has a value only if the execution was started by a chain in which %q ends before this job, and there is no such chain so far", u.String(), u.Member),
		})
	}
	return warnings, nil
}
