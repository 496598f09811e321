package program

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/flow"
	"github.com/courierhq/courier/internal/inputs"
	"github.com/courierhq/courier/internal/text"
	"github.com/courierhq/courier/store"
)

// Making is what an engine adds to the options of a new execution.
type Making struct {
	ID        courier.ExecutionID
	MaxParams int       // how many bytes the parameters may have
	Now       time.Time // at about which it is created
	// Secret asks whether a secret may be used. An error that is not permanent says that
	// this is not known.
	Secret func(courier.SecretRequest) error
}

// Rerun returns the options of a new execution that repeats a former one: what is listed
// here is that of the former one, all else is that of opt or the job's.
func Rerun(former *courier.Execution, opt courier.EnqueueOptions) courier.EnqueueOptions {
	opt.Params, opt.Labels = inputs.RerunParams(former.Params, opt.Params), inputs.RerunLabels(former.Labels, opt.Labels)
	opt.Priority, opt.Timeout, opt.MaxRetries = former.Priority, &former.Timeout, former.MaxRetries
	return opt
}

// NewExecution returns a new execution of a program. Errors that concern the options
// match [courier.ErrInvalid]; one of parameters is a *[courier.ParamsError].
func (p *Program) NewExecution(opt *courier.EnqueueOptions, m *Making) (store.NewExecution, error) {
	if opt.Delay < 0 {
		return store.NewExecution{}, courier.Errorf(courier.ErrInvalid, "delay: %v is negative", opt.Delay)
	}
	if opt.Timeout != nil && *opt.Timeout < 0 {
		return store.NewExecution{}, courier.Errorf(courier.ErrInvalid, "timeout: %v is negative; 0 means none", *opt.Timeout)
	}
	if err := text.Check(text.By(opt.By, "IdempotencyKey", opt.IdempotencyKey, "KeyScope", opt.KeyScope)); err != nil {
		return store.NewExecution{}, err
	}
	if opt.Expires < 0 {
		return store.NewExecution{}, courier.Errorf(courier.ErrInvalid, "expires: %v is negative; 0 means no limit", opt.Expires)
	}
	if opt.Expires > 0 && opt.Expires <= opt.Delay {
		return store.NewExecution{}, courier.Errorf(courier.ErrInvalid, "expires: the execution would expire after %v, and is due after %v; give it a longer time", opt.Expires, opt.Delay)
	}
	if opt.MaxRetries != nil && *opt.MaxRetries < 0 {
		return store.NewExecution{}, courier.Errorf(courier.ErrInvalid, "max_retries: %d is negative; 0 means none", *opt.MaxRetries)
	}
	if err := inputs.CheckLabels(opt.Labels, opt.Trace); err != nil {
		return store.NewExecution{}, err
	}
	values, problems := p.Params.Values(opt.Params, false)
	more, err := p.askSecrets(values, problems, opt.By.Actor, m)
	if problems = append(problems, more...); len(problems) > 0 {
		return store.NewExecution{}, &courier.ParamsError{Problems: problems}
	}
	if err != nil {
		return store.NewExecution{}, err
	}
	params, err := inputs.Encode(values, m.MaxParams)
	if err != nil {
		return store.NewExecution{}, err
	}
	n := store.NewExecution{
		ID: m.ID, Job: p.Job.Name, Version: p.Version, StepTypes: p.Keys,
		Queue: p.Job.Queue, Priority: opt.Priority, Delay: opt.Delay, Hold: opt.Hold,
		IdempotencyKey: opt.IdempotencyKey, KeyAlone: opt.KeyAlone, Params: params, JobLimit: p.Job.Limit, By: opt.By.Actor, DependsOn: p.Job.DependsOn,
		Timeout: p.Job.Timeout, MaxDuration: p.Job.MaxDuration, MaxRetries: opt.MaxRetries, Trace: opt.Trace,
		Expires: opt.Expires,
	}
	if n.IdempotencyKey != "" {
		n.KeyScope = opt.KeyScope
	}
	if len(opt.Labels) > 0 {
		n.Labels = maps.Clone(opt.Labels)
	}
	if typ := p.firstType(); typ != "" {
		n.First = &courier.StepExecution{ID: p.Job.Steps[0].ID, Type: typ}
	}
	if n.Queue == "" {
		n.Queue = courier.DefaultQueue
	}
	if opt.Timeout != nil {
		n.Timeout = *opt.Timeout
	}
	in, err := p.ExpectedIn(m.Now.Add(opt.Delay))
	if err != nil {
		return store.NewExecution{}, err
	}
	if in > 0 {
		n.ExpectedBy = opt.Delay + in
	}
	if n.LimitKeys, err = p.limitKeys(m.ID, params, opt.LimitKeys); err != nil {
		return store.NewExecution{}, err
	}
	for _, key := range n.LimitKeys {
		if err := text.Check(map[string]string{"limit key": key}); err != nil {
			return store.NewExecution{}, err
		}
	}
	return n, nil
}

// ExpectedIn returns in which time from an instant an execution that is first due then is
// expected to end; 0 if the job does not say.
func (p *Program) ExpectedIn(due time.Time) (time.Duration, error) {
	switch {
	case p.expectedErr != nil:
		return 0, fmt.Errorf("expected_by: %w", p.expectedErr)
	case p.expected == nil:
		return 0, nil
	}
	return p.expected.Next(due).Sub(due), nil
}

// askSecrets asks whether the secrets may be used that parameters name, but for those
// with a problem. The error says that it can't be told now.
func (p *Program) askSecrets(values map[string]any, known []courier.Problem, by string, m *Making) (problems []courier.Problem, err error) {
	for _, name := range p.Params.Secrets() {
		secret, given := values[name].(string)
		field := "params." + name
		if !given || slices.ContainsFunc(known, func(p courier.Problem) bool { return p.Field == field }) {
			continue
		}
		q := courier.SecretRequest{Name: secret, Execution: m.ID, Job: p.Job.Name, Version: p.Version, Step: -1, Param: name, By: by}
		refused := m.Secret(q)
		switch {
		case refused == nil:
		case courier.IsPermanent(refused):
			problems = append(problems, courier.Problem{Step: -1, Field: field, Message: fmt.Sprintf("the secret of that name may not be used: %v", refused)})
		case err == nil:
			err = fmt.Errorf("%s: whether the secret of that name may be used could not be checked: %w", field, refused)
		}
	}
	return problems, err
}

func (p *Program) limitKeys(id courier.ExecutionID, params json.RawMessage, more []string) ([]string, error) {
	if len(p.Job.LimitKeys)+len(more) == 0 {
		return nil, nil
	}
	values := NewValues(p, &courier.Execution{ID: id, Job: p.Job.Name, Params: params, Attempt: 1}, "")
	values.Unset("started_at", "workspace", "attempt") // known only when it runs
	keys := slices.Clone(more)
	for i, template := range p.Job.LimitKeys {
		key, err := flow.Expand(template, values)
		if err != nil {
			return nil, fmt.Errorf("limit_keys[%d]: %w", i, err)
		}
		if strings.HasPrefix(key, store.UserLimitKey) { // it may come from a parameter
			return nil, courier.Errorf(courier.ErrInvalid, "limit_keys[%d]: the key begins with %q, which names a user: such keys come from the service that starts the execution, and not from its job or parameters", i, store.UserLimitKey)
		}
		keys = append(keys, key)
	}
	slices.Sort(keys)
	keys = slices.DeleteFunc(slices.Compact(keys), func(k string) bool { return k == "" })
	if why := flow.LimitKeysProblem(keys); why != "" {
		return nil, courier.Errorf(courier.ErrInvalid, "limit_keys: %s", why)
	}
	return keys, nil
}
