// Package desk connects requests with principals, for HTTP, pages and commands. It decides what a
// [Visit] may see and do on an engine, hides values that the visitor must not see, writes the
// journal, and limits the cost of requests. Other packages have the entries for an operator
// (internal/attention), bulk actions (internal/bulk), shared views of changes (internal/watch)
// and the ticks of schedules (internal/ticks); package desk limits them to what the visitor may
// see.
//
// One table (rights.go) has the rights that each operation needs, by its operationId; routes,
// pages and forms name the operation. An execution belongs to the principal in its label "by".
// hide.go names, field by field, what a visitor who may not see values still sees. Every change
// except the start of an execution has an entry in the journal before it is made, and one
// afterwards; if the first can't be written, nothing is done. Refusals have at most 60 entries a
// minute. Executions that have not begun are counted in the store once a minute for each
// principal, and by the process in between.
package desk

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/internal/filter"
	"github.com/courierhq/courier/internal/watch"
)

// A Desk is the desk of an engine. Its methods may be called by several goroutines. They check no
// permissions; the methods of a [Visit] do.
type Desk struct {
	e        *engine.Engine
	opt      Options
	log      *slog.Logger
	refusals refusals
	same     recent
	viewers  viewers
	watched  *watch.Executions
	lists    *watch.Lists
	work     work
	quotas   quotas
	unbegun  unbegun
}

// New returns the desk of an engine, which need not be started. Nil options are the
// defaults.
func New(e *engine.Engine, opt *Options) *Desk {
	d := &Desk{e: e, log: slog.New(slog.DiscardHandler)}
	if opt != nil {
		d.opt = *opt
	}
	if d.opt.Log != nil {
		d.log = d.opt.Log
	}
	d.viewers.most, d.viewers.mostOf = cmp.Or(max(d.opt.Streams, 0), 200), cmp.Or(max(d.opt.StreamsOf, 0), 10)
	d.work.most = cmp.Or(max(d.opt.Examined, 0), 1_000_000)
	d.watched, d.lists = watch.NewExecutions(watch.Of(e), d.log), watch.NewLists(watch.Of(e), d.log)
	return d
}

// A permit reports whether a principal may see, or act on, an execution; nil permits all.
type permit func(x *courier.Execution) bool

// Limits of reads.
const (
	pageSize = 500    // executions that one call of the store reads
	maxWalk  = 10_000 // executions that one call examines
)

// A Page is a page of executions, the newest first.
type Page struct {
	Items []courier.Execution `json:"items"`
	// Next is the cursor of the next page; empty if there is none. A page can have fewer
	// executions than the limit, even none, and still have a next page: the call stops when it
	// has examined enough executions.
	Next string `json:"next,omitempty"`
}

// Executions returns a page of the executions that a filter selects. The cursor is empty for the
// first page; a cursor of another filter is refused. A limit of 0 means 100; the maximum is 1000.
func (d *Desk) Executions(ctx context.Context, w filter.Filter, cursor string, limit int) (Page, error) {
	return d.executions(ctx, w, cursor, limit, nil)
}

// Executions is like [Desk.Executions], for the executions that the visitor may see. The
// conditions of the filter must be about data that the visitor may see.
func (v *Visit) Executions(ctx context.Context, w filter.Filter, cursor string, limit int) (Page, error) {
	may, err := v.mayAsk(ctx, &w)
	if err != nil {
		return Page{}, err
	}
	if !v.Can(ctx, "", access.RightSee) {
		may = may.and(func(x *courier.Execution) bool { return v.sees(ctx, x) })
	}
	r, err := v.reach(ctx, &w, NeedOf("listExecutions"), may)
	if err != nil {
		return Page{}, err
	}
	return v.d.executions(ctx, w, cursor, limit, r)
}

func (d *Desk) executions(ctx context.Context, w filter.Filter, cursor string, limit int, r *reach) (Page, error) {
	cursors := filter.CursorsOf("list", w)
	before, err := cursors.Read(cursor)
	if err != nil {
		return Page{}, err
	}
	if limit <= 0 {
		limit = 100
	}
	list, next, err := d.find(ctx, &w, before, min(limit, 1000), r)
	if err != nil {
		return Page{}, err
	}
	return Page{Items: list, Next: cursors.Write(next)}, nil
}

// find is like walk, but for the first page it returns an error if the filter names a job or
// chain that does not exist.
func (d *Desk) find(ctx context.Context, w *filter.Filter, before courier.ExecutionID, limit int, r *reach) (list []courier.Execution, next courier.ExecutionID, err error) {
	if before == "" {
		if err := d.known(ctx, w); err != nil {
			return nil, "", err
		}
	}
	return d.walk(ctx, w, before, limit, r)
}

// known returns an error if the filter names a job or chain that does not exist. The error
// suggests the nearest name.
func (d *Desk) known(ctx context.Context, w *filter.Filter) error {
	for _, name := range w.Jobs {
		if _, err := d.e.Jobs().Get(ctx, name, 0); err != nil {
			return fmt.Errorf("filter: job:%s: %w", filter.Quote(name), err)
		}
	}
	if w.Chain != "" {
		if _, err := d.e.Chains().Get(ctx, w.Chain, 0); err != nil {
			return fmt.Errorf("filter: chain:%s: %w", filter.Quote(w.Chain), err)
		}
	}
	return nil
}

// walk returns up to limit executions that w selects with ids lower than before, and the id
// before which the next page begins; it is empty if there is none.
func (d *Desk) walk(ctx context.Context, w *filter.Filter, before courier.ExecutionID, limit int, r *reach) (list []courier.Execution, next courier.ExecutionID, err error) {
	now := time.Now()
	chains := chainSet{d: d, name: w.Chain, of: make(map[courier.ChainExecutionID]bool)}
	list = []courier.Execution{}
	for examined := 0; examined < maxWalk; {
		// Read as many as are wanted, then more if few of them are selected.
		size := min(pageSize, max(limit-len(list), 2*examined), maxWalk-examined)
		page, more, err := r.page(ctx, d, w, before, size)
		if err != nil {
			return nil, "", err
		}
		for i := range page {
			x := &page[i]
			if x.ID < w.First() {
				return list, "", nil
			}
			before = x.ID
			ok := w.Selects(x, now) && r.selects(x)
			if ok && w.Chain != "" {
				ok, err = chains.has(ctx, x.Chain)
			}
			if err != nil {
				return nil, "", err
			}
			if ok {
				list = append(list, *x)
			}
			if len(list) == limit {
				return list, x.ID, nil
			}
		}
		if !more {
			return list, "", nil
		}
		examined += len(page)
	}
	return list, before, nil
}

// A chainSet has the executions of a chain. It reads them on demand, from the newest on.
type chainSet struct {
	d      *Desk
	name   string
	of     map[courier.ChainExecutionID]bool
	before courier.ChainExecutionID
	all    bool
}

// has reports whether a chain execution is one of the chain.
func (c *chainSet) has(ctx context.Context, id courier.ChainExecutionID) (bool, error) {
	for id != "" && !c.all && (c.before == "" || id < c.before) {
		page, err := c.d.e.Chains().Executions(ctx, chain.Filter{Chain: c.name, Before: c.before, Limit: 1000})
		if err != nil {
			return false, err
		}
		for i := range page {
			c.of[page[i].ID], c.before = true, page[i].ID
		}
		c.all = len(page) == 0
	}
	return c.of[id], nil
}
