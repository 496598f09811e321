package storewrap

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

// A FaultKind is a way in which a call of a store fails.
type FaultKind int

// The ways in which a call can fail. A call hangs until its context ends, or until
// [Faulty.Release]. After a death, that call and all later calls hang, as for a worker that is cut
// off from its store or whose process has died.
const (
	FailBefore FaultKind = iota + 1 // an error, and no effect
	FailAfter                       // the effect, and an error
	HangBefore                      // hangs, and no effect
	HangAfter                       // the effect, and then it hangs
	DieBefore                       // no effect, and everything hangs
	DieAfter                        // the effect, and then everything hangs
)

// FaultKinds lists all kinds.
var FaultKinds = []FaultKind{FailBefore, FailAfter, HangBefore, HangAfter, DieBefore, DieAfter}

// String returns the name as in "fail_before".
func (k FaultKind) String() string {
	names := []string{"none", "fail_before", "fail_after", "hang_before", "hang_after", "die_before", "die_after"}
	if k < 0 || int(k) >= len(names) {
		return fmt.Sprintf("FaultKind(%d)", int(k))
	}
	return names[k]
}

// Dies reports whether all later calls hang after a fault of the kind.
func (k FaultKind) Dies() bool { return k == DieBefore || k == DieAfter }

// takesEffect reports whether the call that fails changes the store.
func (k FaultKind) takesEffect() bool { return k == FailAfter || k == HangAfter || k == DieAfter }

// A Fault says how one call of a store fails. The zero Fault means that none fails.
type Fault struct {
	Kind FaultKind
	// N is the number of the call that fails, counting from 1 in the order in which calls
	// begin; 0 means none.
	N int
	// Method restricts the count to calls of one method, so that the third
	// Apply is {Kind, 3, "Apply"}. Empty means all methods except Await,
	// AwaitSchedules, DueSchedules, DueExpectations, DueDeliveries, RecordDeliveries and those of the roles Workers and
	// Deadlines, whose number varies.
	Method string
}

// String returns the fault as in "die_after call 3" or "fail_before Apply 2".
func (f Fault) String() string {
	what := f.Method
	if what == "" {
		what = "call"
	}
	return fmt.Sprintf("%v %s %d", f.Kind, what, f.N)
}

// ErrFault is the error of a call that was made to fail. It matches none of the
// errors that the contract names, so to the caller it is a failure of the store
// itself.
var ErrFault = errors.New("the store failed as configured")

// A Faulty is a store that fails at one call. It passes all others on to the
// store behind, and counts them.
//
// Every call counts, reads and renewals included, whether or not it succeeds. Only
// Await, AwaitSchedules, DueSchedules, DueExpectations, DueDeliveries, RecordDeliveries, Overdue, Workers, Stranded and Drain
// do not, because the number of their calls varies. They fail only if the fault names
// them, and Await and AwaitSchedules never do; but all of them hang after a death.
//
// The number of a call is the same in every run as long as the caller makes its
// calls in the same order; a caller that polls makes more of them the longer it
// waits.
//
// Its methods may be called by several goroutines. In virtual time it must be
// made in the bubble where it is used.
type Faulty struct {
	store.Store
	roles
	fault    Fault
	fired    chan struct{} // closed when the fault happens
	released chan struct{}

	mu    sync.Mutex
	calls map[string]int // by method, "" for all that count
	hit   string
	dead  bool
	free  bool // released is closed
}

var _ store.Store = (*Faulty)(nil)

// NewFaulty returns a store that works like s, except for the fault.
func NewFaulty(s store.Store, f Fault) *Faulty {
	faulty := &Faulty{fault: f, fired: make(chan struct{}), released: make(chan struct{}), calls: make(map[string]int)}
	faulty.Store = Intercept(s, faulty.call)
	faulty.roles = rolesOf(faulty.Store)
	return faulty
}

// Calls returns how many calls of a method have begun, or, for "", of all that
// count. Calls after the release are not counted.
func (f *Faulty) Calls(method string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[method]
}

// Fired returns a channel that is closed when the call with the fault begins.
func (f *Faulty) Fired() <-chan struct{} { return f.fired }

// Hit returns the method of the call with the fault. It is empty until that call.
func (f *Faulty) Hit() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.hit
}

// Release ends the calls that hang, with [courier.ErrLeaseLost], so that an engine that waits for
// them can be stopped. After a death, every later call returns this error at once and has no
// effect. Otherwise later calls are passed on, and no fault happens any more.
func (f *Faulty) Release() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.free {
		f.free = true
		close(f.released)
	}
}

// call is the interceptor.
func (f *Faulty) call(ctx context.Context, c *Call, do func(context.Context) error) error {
	dead, strikes := f.begin(c.Method)
	switch {
	case dead:
		return f.hang(ctx)
	case !strikes:
		err := do(ctx)
		if f.died() {
			return f.hang(ctx) // nobody waits for the reply
		}
		return err
	}
	if f.fault.Kind.takesEffect() {
		_ = do(ctx) // the reply is lost, whatever it is
	}
	if f.fault.Kind == FailBefore || f.fault.Kind == FailAfter {
		return fmt.Errorf("%s: %w", c.Method, ErrFault)
	}
	return f.hang(ctx)
}

// begin counts a call. It reports whether the caller is dead, and whether the
// fault happens to this call.
func (f *Faulty) begin(method string) (dead, strikes bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.free || f.dead {
		return f.dead, false
	}
	f.calls[method]++
	named := []string{"", method}
	switch method {
	case "Await", "AwaitSchedules":
		return false, false
	case "DueSchedules", "DueExpectations", "DueDeliveries", "RecordDeliveries", "Overdue", "Workers", "Stranded", "Drain":
		named = named[1:]
	default:
		f.calls[""]++
	}
	strikes = f.fault.N > 0 && slices.Contains(named, f.fault.Method) && f.calls[f.fault.Method] == f.fault.N
	if strikes {
		f.dead, f.hit = f.fault.Kind.Dies(), method
		close(f.fired)
	}
	return false, strikes
}

func (f *Faulty) died() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dead
}

// hang waits until the call is given up.
func (f *Faulty) hang(ctx context.Context) error {
	select {
	case <-f.released: // once released, it hangs no more, whatever ctx says
		return courier.ErrLeaseLost
	default:
	}
	select {
	case <-f.released:
		return courier.ErrLeaseLost
	case <-ctx.Done():
		return ctx.Err()
	}
}
