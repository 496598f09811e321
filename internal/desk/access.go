package desk

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"unicode/utf8"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/depot"
	"github.com/courierhq/courier/engine"
)

// A Role is what a visitor may do. Each includes those before it.
type Role int

// The roles.
const (
	None     Role = iota // not even that the job is there
	Client               // start the job, and see how its own executions stand
	Viewer               // see everything of the job
	Operator             // act on executions
	Editor               // change definitions
	Admin                // limits, the journal, everything
)

var roleNames = []string{"none", "client", "viewer", "operator", "editor", "admin"}

// String returns the name of the role.
func (r Role) String() string { return roleNames[min(max(r, None), Admin)] }

// A Principal is who makes a request.
type Principal struct{ ID, Name string }

// Access says who may do what.
type Access struct {
	// Who returns who makes a request. Nil means that only programs on this host may make
	// any, and they are "local".
	Who func(*http.Request) (Principal, error)
	// Role returns what a principal may do with a job, or with all jobs and what belongs to
	// none if job is empty. Nil means Admin.
	Role func(ctx context.Context, p Principal, job string) Role
	// Values is the least role that sees parameters, outputs and logs. 0 means Viewer.
	Values Role
}

// Options are the settings of a Desk.
type Options struct {
	Access Access
	Via    string // of entries in the journal, such as "api"
	// Streams is how many views of changes there are at most, and StreamsOf of one visitor. 0
	// means 200 and 10.
	Streams, StreamsOf int
	// Examined is how many executions the lists, searches, streams and bulk actions of one
	// visitor may examine in a minute. 0 means 1,000,000.
	Examined int
	Depot    depot.Depot  // has the files of executions; nil if there is none
	Log      *slog.Logger // nil means none
}

// An AccessError says that a visitor may not do something.
type AccessError struct {
	Unknown bool // nobody knows who it is
	Text    string
}

// Error returns the text.
func (e *AccessError) Error() string { return e.Text }

// A Visit is what one visitor may see and do. Its methods may be called by several
// goroutines.
type Visit struct {
	Principal
	d *Desk

	mu    sync.Mutex
	roles map[string]Role
}

// Enter returns the visit of who makes a request. The error is a *[AccessError].
func (d *Desk) Enter(r *http.Request) (*Visit, error) {
	v := &Visit{d: d, Principal: Principal{ID: "local", Name: "local"}, roles: make(map[string]Role)}
	if d.opt.Access.Who == nil {
		return v, local(r)
	}
	p, err := d.opt.Access.Who(r)
	switch n := utf8.RuneCountInString(p.ID); {
	case err != nil:
		d.log.Warn("a request was not let in", "error", err)
		return nil, &AccessError{Unknown: true, Text: "nobody knows who you are: sign in, or send the credentials that this service asks for"}
	case n == 0 || n > 200:
		d.log.Error("Access.Who has returned a principal whose ID does not have 1 to 200 characters", "characters", n)
		return nil, &AccessError{Unknown: true, Text: "the service has found no usable name for you; its operators find the reason in its log"}
	}
	v.Principal = p
	return v, nil
}

// Visitor returns the visit of a principal that was found in another way.
func (d *Desk) Visitor(p Principal) *Visit {
	return &Visit{d: d, Principal: p, roles: make(map[string]Role)}
}

// local returns the refusal of a request that may come from another host. A proxy on this
// host shows by its headers that it has passed on what others have sent.
func local(r *http.Request) error {
	for _, h := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-Ip", "Via"} {
		if len(r.Header[h]) > 0 {
			return &AccessError{Text: "without Access only programs on this host are served, and this request has come through a proxy: set Access.Who"}
		}
	}
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !from.Addr().Unmap().IsLoopback() {
		return &AccessError{Text: "without Access only programs on this host are served: set Access.Who"}
	}
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	addr, err := netip.ParseAddr(trimBrackets(host))
	if host != "localhost" && (err != nil || !addr.Unmap().IsLoopback()) {
		return &AccessError{Text: "without Access only requests to localhost are served: set Access.Who"}
	}
	return nil
}

func trimBrackets(host string) string {
	if n := len(host); n > 1 && host[0] == '[' && host[n-1] == ']' {
		return host[1 : n-1]
	}
	return host
}

// Role returns what the visitor may do with a job, or with all jobs and what belongs to
// none if job is empty.
func (v *Visit) Role(ctx context.Context, job string) Role {
	f := v.d.opt.Access.Role
	if f == nil {
		return Admin
	}
	v.mu.Lock()
	role, ok := v.roles[job]
	v.mu.Unlock()
	if ok {
		return role
	}
	role = f(ctx, v.Principal, job)
	if job != "" {
		role = max(role, v.Role(ctx, ""))
	}
	v.mu.Lock()
	v.roles[job] = role
	v.mu.Unlock()
	return role
}

// SeesValues reports whether the visitor may see the parameters, outputs and logs of a job.
func (v *Visit) SeesValues(ctx context.Context, job string) bool {
	return v.Role(ctx, job) >= v.ValuesRole()
}

// ValuesRole is the least role that sees values.
func (v *Visit) ValuesRole() Role { return max(v.d.opt.Access.Values, Viewer) }

// errUnknown is the error of what is not there, and of what a visitor must not know.
var errUnknown = courier.Errorf(courier.ErrNotFound, "there is no such thing here, or you may not see it")

// Unknown returns the error of what is not there, and of what the visitor must not know:
// it is the same, so that nobody learns what exists.
func Unknown() error { return errUnknown }

// Need returns the error if the visitor has less than a role for a job: that of something
// unknown if it may not know the job, and otherwise a *[AccessError].
func (v *Visit) Need(ctx context.Context, job string, need Role) error {
	role := v.Role(ctx, job)
	switch {
	case role >= need:
		return nil
	case role == None && job != "":
		return errUnknown
	}
	return &AccessError{Text: "this needs the role " + need.String() + ", and you have " + role.String()}
}

// Own reports whether an execution is the visitor's own: whether it was started under its
// name through a desk.
func (v *Visit) Own(x *courier.Execution) bool { return x.Labels[LabelBy] == v.ID }

// LabelBy is the label of executions that has the ID of the principal who has started them.
const LabelBy = engine.LabelBy

// Labels are those that make an execution the visitor's own.
func (v *Visit) Labels() map[string]string { return map[string]string{LabelBy: v.ID} }

// sees reports whether the visitor may see an execution, as far as its role goes.
func (v *Visit) sees(ctx context.Context, x *courier.Execution) bool {
	role := v.Role(ctx, x.Job)
	return role >= Viewer || role == Client && v.Own(x)
}

// Execution returns an execution, if the visitor may see it and has the role for its job.
// Ids that are none, that do not exist, and executions of others have the same error.
func (v *Visit) Execution(ctx context.Context, id string, need Role) (courier.Execution, error) {
	if !IsID(id) {
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
	return x, v.Need(ctx, x.Job, need)
}
