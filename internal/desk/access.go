package desk

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"unicode/utf8"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/depot"
	"github.com/courierhq/courier/internal/filter"
)

// Options are the settings of a Desk.
type Options struct {
	Access access.Policy
	Via    string // of entries in the journal, such as "api"
	// Streams is the maximum number of concurrent views of changes, and StreamsOf the maximum of
	// one visitor. 0 means 200 and 10.
	Streams, StreamsOf int
	// Examined is the maximum number of executions that the lists, searches, streams and bulk
	// actions of one visitor may examine per minute. 0 means 1,000,000.
	Examined  int
	MaxQuotas int          // quotas that are remembered; 0 means 10,000
	Depot     depot.Depot  // has the files of executions; nil if there is none
	Log       *slog.Logger // nil means none
}

// A Visit is what one visitor may see and do. Its methods may be called by several
// goroutines.
type Visit struct {
	access.Principal
	d *Desk

	mu    sync.Mutex
	roles map[string]access.Role
}

// Enter returns the visit of the principal that makes a request. The error is a *[access.Error].
func (d *Desk) Enter(r *http.Request) (*Visit, error) {
	if d.opt.Access.Who == nil {
		return nil, &access.Error{Text: "this service grants access to nobody, so everything is refused: its operators must set Options.Access, such as to access.Local()"}
	}
	p, err := d.opt.Access.Who(r)
	if told, ok := errors.AsType[*access.Error](err); ok {
		return nil, told
	}
	switch n := utf8.RuneCountInString(p.ID); {
	case err != nil:
		d.log.Warn("a request was not let in", "error", err)
		return nil, &access.Error{Unknown: true, Text: "you are not identified: sign in, or send the credentials that this service asks for"}
	case n == 0 || n > 200:
		d.log.Error("Access.Who has returned a principal whose ID does not have 1 to 200 characters", "characters", n)
		return nil, &access.Error{Unknown: true, Text: "the service has found no usable name for you; its operators find the reason in its log"}
	}
	return d.Visitor(p), nil
}

// Visitor returns the visit of a principal that was identified in another way.
func (d *Desk) Visitor(p access.Principal) *Visit {
	return &Visit{d: d, Principal: p, roles: make(map[string]access.Role)}
}

// Role returns what the visitor may do with a job. If job is empty, it returns what the visitor
// may do with all jobs, and with everything that belongs to no job.
func (v *Visit) Role(ctx context.Context, job string) access.Role {
	f := v.d.opt.Access.Role
	if f == nil {
		return access.Admin
	}
	v.mu.Lock()
	role, ok := v.roles[job]
	v.mu.Unlock()
	if ok {
		return role
	}
	role = f(ctx, v.Principal, job)
	if job != "" {
		role |= v.Role(ctx, "")
	}
	v.mu.Lock()
	v.roles[job] = role
	v.mu.Unlock()
	return role
}

// Renew makes the visit ask for roles again, so that a long-lived view does not outlast them.
func (v *Visit) Renew() {
	v.mu.Lock()
	defer v.mu.Unlock()
	clear(v.roles)
}

// Can reports whether the visitor has all given rights for a job.
func (v *Visit) Can(ctx context.Context, job string, rights access.Role) bool {
	return v.Role(ctx, job).Has(rights)
}

// SeesValues reports whether the visitor may see the parameters, outputs and logs of a job.
func (v *Visit) SeesValues(ctx context.Context, job string) bool {
	return v.Can(ctx, job, access.RightSee|access.RightValues)
}

// errUnknown is the error for things that do not exist, and for things whose existence the
// visitor must not learn.
var errUnknown = courier.Errorf(courier.ErrNotFound, "it does not exist here, or you may not see it")

// Unknown returns the error for things that do not exist, and for things whose existence the
// visitor must not learn. It is the same error, so that it does not reveal what exists.
func Unknown() error { return errUnknown }

// Need returns an error if the visitor lacks some rights for a job: [Unknown] if the visitor must
// not know the job, otherwise a *[access.Error].
func (v *Visit) Need(ctx context.Context, job string, rights access.Role) error {
	return v.NeedTo(ctx, job, Need{Rights: rights}, false)
}

// NeedTo is like [Visit.Need] for an operation. Own says whether the visitor has started the
// object of the operation.
func (v *Visit) NeedTo(ctx context.Context, job string, n Need, own bool) error {
	role := v.Role(ctx, job)
	switch {
	case n.Granted(role, own):
		return nil
	case role == access.None && job != "":
		return errUnknown
	}
	return &access.Error{Text: "this needs the right " + n.Rights.Rights() + ", as the role " + n.Rights.Least().String() + " has it, and you have " + role.String()}
}

// Own reports whether the visitor has started an execution through a desk.
func (v *Visit) Own(x *courier.Execution) bool { return x.Labels[courier.LabelBy] == v.ID }

// Labels returns the labels that make an execution the visitor's own.
func (v *Visit) Labels() map[string]string { return map[string]string{courier.LabelBy: v.ID} }

// sees reports whether the visitor's role lets it see an execution.
func (v *Visit) sees(ctx context.Context, x *courier.Execution) bool {
	return NeedOf("getExecution").Granted(v.Role(ctx, x.Job), v.Own(x))
}

// Execution returns an execution if the visitor has the rights of n for it. The error is the same
// for malformed ids, ids that do not exist, and executions of others.
func (v *Visit) Execution(ctx context.Context, id string, n Need) (courier.Execution, error) {
	if !filter.IsID(id) {
		return courier.Execution{}, errUnknown
	}
	x, err := v.d.e.Executions().Get(ctx, courier.ExecutionID(id))
	if errors.Is(err, courier.ErrNotFound) {
		return x, errUnknown
	} else if err != nil {
		return x, err
	}
	if !v.sees(ctx, &x) {
		return courier.Execution{}, errUnknown
	}
	return x, v.NeedTo(ctx, x.Job, n, v.Own(&x))
}
