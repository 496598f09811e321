package engine

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/courierhq/courier/engine/internal/core"
)

// A callTimeout bounds calls to the store, one at a time, to core.StoreTimeout each. It
// has one context and one timer for all of them until a call takes too long:
// those of each call would cost as much as the calls to some stores do. The
// zero value with a parent is ready to use, by one goroutine; end ends it.
type callTimeout struct {
	parent context.Context
	// awaited says that somebody waits for the answer. A worker's progress is tried
	// as long as the lease lasts, since what seems final may be mended meanwhile.
	awaited bool
	*bound
}

// A bound is a context that ends when a call under it takes too long.
type bound struct {
	ctx    context.Context
	cancel context.CancelFunc
	start  time.Time
	began  atomic.Int64 // of the call under way, in nanoseconds after start; 0 if there is none
	timer  *time.Timer
}

// call calls f with a context that ends after core.StoreTimeout.
func (p *callTimeout) call(f func(context.Context) error) error {
	if p.bound == nil || p.ctx.Err() != nil {
		p.end()
		p.bound = &bound{start: time.Now()}
		p.ctx, p.cancel = context.WithCancel(p.parent)
		p.timer = time.AfterFunc(1<<62, p.look)
		p.timer.Reset(core.StoreTimeout)
	}
	p.began.Store(int64(max(1, time.Since(p.start))))
	defer p.began.Store(0)
	return f(p.ctx)
}

// look ends the context if the call under way has taken too long, and looks
// again when it, or one that begins now, may have.
func (b *bound) look() {
	wait := core.StoreTimeout
	if began := b.began.Load(); began != 0 {
		wait -= time.Since(b.start) - time.Duration(began)
	}
	if wait <= 0 {
		b.cancel()
	} else if b.ctx.Err() == nil {
		b.timer.Reset(wait)
	}
}

func (p *callTimeout) end() {
	if p.bound != nil {
		p.cancel()
		p.timer.Stop()
		p.bound = nil
	}
}
