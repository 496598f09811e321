package desk

import (
	"context"
	"errors"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/internal/filter"
	"github.com/courierhq/courier/store"
)

// shortRead is the maximum number of executions whose ids begin with a text that are examined for
// those that the visitor may see. Eight characters are a range of 65 seconds, which can have any
// number of executions.
const shortRead = 100

// ByShortID returns the executions and chain executions that the visitor may see and whose ids
// begin with a text of at least 8 characters: the newest first, at most [MaxFound] of each. A
// text that no id can begin with finds none.
func (v *Visit) ByShortID(ctx context.Context, text string) (list []courier.Execution, chains []chain.Execution, err error) {
	first, next, ok := filter.Within(text)
	if !ok {
		return nil, nil, nil
	}
	if err := v.d.work.take(v.ID, 2*shortRead, time.Now()); err != nil {
		return nil, nil, err
	}
	found, err := v.d.e.Executions().List(ctx, store.Filter{Before: next, Limit: shortRead})
	if err != nil {
		return nil, nil, err
	}
	for i := range found {
		if x := &found[i]; x.ID >= first && len(list) < MaxFound && v.sees(ctx, x) && v.NeedTo(ctx, x.Job, NeedOf("search"), v.Own(x)) == nil {
			list = append(list, *x)
		}
	}
	runs, err := v.d.e.Chains().Executions(ctx, chain.Filter{Before: courier.ChainExecutionID(next), Limit: shortRead})
	if errors.Is(err, errors.ErrUnsupported) {
		return list, nil, nil
	}
	for i := range runs {
		if x := &runs[i]; courier.ExecutionID(x.ID) >= first && len(chains) < MaxFound && v.seesChain(ctx, x) {
			chains = append(chains, *x)
		}
	}
	return list, chains, err
}
