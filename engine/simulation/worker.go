package simulation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/store/storewrap"
)

// A worker is a machine on which one process runs after the other.
type worker struct {
	w       *world
	name    string
	dice    *rand.Rand
	started int
	all     []*process
	process atomic.Pointer[process] // the last one
}

// A process is an engine with its own network.
type process struct {
	w      *world
	name   string
	engine *engine.Engine
	net    *network
	gone   chan struct{} // closed when it has died or ended
	mortal bool
	once   sync.Once
	mu     sync.Mutex
	still  time.Time // until when it stands still
	open   atomic.Int64
}

// canary is a secret that must not be seen anywhere.
const canary = "canary-5b1e0f"

type processKey struct{}

// context returns a context that tells steps which process they run in.
func (p *process) context() context.Context {
	return context.WithValue(context.Background(), processKey{}, p)
}

// start begins a new process.
func (k *worker) start() *process {
	k.started++
	p := &process{w: k.w, name: fmt.Sprintf("%s.%d", k.name, k.started), gone: make(chan struct{}), mortal: k != k.w.client}
	p.net = &network{w: k.w, who: p, calls: make(map[string]int)}
	opt := &engine.Options{
		Worker: p.name, Workspace: k.w.dir, WorkspaceID: "shared", Slots: k.w.mix.slots, Lease: lease,
		Secrets:     func(context.Context, courier.SecretRequest) (string, error) { return canary, nil },
		OnStuckStep: func(s engine.StuckStep) { k.w.note(p.name, "stuck", k.w.numberOf(s.Execution), int64(s.Step)) },
	}
	if k.w.expected != nil {
		opt.Listers = map[string]courier.Lister{"file": k.w.expected}
	}
	p.engine = engine.New(storewrap.Intercept(k.w.store, p.net.intercept), registry(), opt)
	k.all = append(k.all, p)
	k.process.Store(p)
	return p
}

// live is the worker's life: its processes crash, stop, stand still, and start
// again, until calm comes.
func (k *worker) live() {
	m, calm := &k.w.mix, k.w.calmed
	for {
		p := k.start()
		k.w.note(p.name, "start")
		if err := p.engine.Start(p.context()); err != nil {
			k.w.wrong("%s: %v", p.name, err)
		}
		for alive := true; alive; {
			what, after := soonest(k.dice, m.crashes, m.stops, m.pauses)
			timer := time.NewTimer(after)
			select {
			case <-calm:
				timer.Stop()
				select {
				case <-p.gone:
					k.start().revive()
				default:
				}
				return
			case <-p.gone: // it died in a call
				alive = false
			case <-timer.C:
				alive = k.suffer(p, what)
			}
			timer.Stop()
		}
		k.w.wait(spread(k.dice, 10*time.Second))
	}
}

// revive starts a process when calm has come.
func (p *process) revive() {
	p.w.note(p.name, "start")
	if err := p.engine.Start(p.context()); err != nil {
		p.w.wrong("%s: %v", p.name, err)
	}
}

// suffer does something to a process. It reports whether it still runs.
func (k *worker) suffer(p *process, what int) bool {
	switch what {
	case 0:
		p.die()
	case 1:
		ctx, cancel := context.WithTimeout(context.Background(), spread(k.dice, 20*time.Second))
		p.stop(ctx)
		cancel()
	case 2:
		d := spread(k.dice, 2*lease)
		k.w.note(p.name, "pause", int64(d))
		p.mu.Lock()
		p.still = time.Now().Add(d)
		p.mu.Unlock()
		return true
	}
	return false
}

// soonest draws which of several things that happen so often a minute comes
// first, and when; one that never happens leaves a day.
func soonest(r *rand.Rand, rates ...float64) (which int, after time.Duration) {
	after = 24 * time.Hour
	for i, rate := range rates {
		d := r.ExpFloat64()
		if rate <= 0 {
			continue
		}
		if t := time.Duration(d / rate * float64(time.Minute)); t < after {
			which, after = i, t+1
		}
	}
	return which, after
}

// die ends the process as kill -9 would.
func (p *process) die() {
	p.once.Do(func() {
		p.w.note(p.name, "crash")
		p.w.witness.Gone(p.name)
		close(p.gone)
	})
}

// stop ends the process gracefully.
func (p *process) stop(ctx context.Context) {
	p.w.note(p.name, "stop")
	ended := make(chan error, 1)
	p.w.spawn(func() { ended <- p.engine.Stop(ctx) })
	var err error
	select {
	case err = <-ended:
	case <-p.gone:
		return // it died meanwhile
	}
	if n := p.open.Load(); err == nil && n != 0 {
		p.w.wrong("%s has stopped and left %d resources open", p.name, n)
	}
	p.once.Do(func() {
		p.w.note(p.name, "stopped")
		p.w.witness.Gone(p.name)
		close(p.gone)
	})
}

// sleep lets time pass in the process. It reports false if the process is gone
// by then.
func (p *process) sleep(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-p.gone:
		return false
	case <-p.w.over:
		return false
	}
	return p.standStill(d)
}

// standStill waits while the process is paused, and a moment longer that is the
// caller's own: it follows from d, which nobody else has. It reports false if
// the process is gone.
func (p *process) standStill(d time.Duration) bool {
	p.mu.Lock()
	left := time.Until(p.still)
	p.mu.Unlock()
	if left > 0 {
		return p.sleep(left + d%(10*time.Millisecond))
	}
	select {
	case <-p.gone:
		return false
	default:
		return true
	}
}
