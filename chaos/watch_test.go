package chaos

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// A watch looks at how many executions run, again and again, on a connection of
// its own.
type watch struct {
	cancel context.CancelFunc
	gone   sync.WaitGroup
	looks  int            // how often it has looked
	most   map[string]int // that ran, by scope
	faults []error
}

// look is what a watch asks. It sees what is committed at one instant.
const look = `
with r as (select j.name, e.limit_keys from courier.job_executions e join courier.job_definitions j on j.id = e.definition_id where e.state = 'running')
select '', count(*) from r
union all select 'job:' || name, count(*) from r group by name
union all select 'key:' || k, count(*) from r, unnest(limit_keys) k group by k`

func newWatch(url string, limits map[string]int) *watch {
	ctx, cancel := context.WithCancel(context.Background())
	w := &watch{cancel: cancel, most: make(map[string]int)}
	w.gone.Go(func() {
		for ctx.Err() == nil {
			w.connected(ctx, url, limits)
			pause(ctx, 20*time.Millisecond)
		}
	})
	return w
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// connected looks until its connection fails.
func (w *watch) connected(ctx context.Context, url string, limits map[string]int) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for ctx.Err() == nil {
		rows, err := conn.Query(ctx, look)
		if err != nil {
			return
		}
		var scope string
		var n int
		_, err = pgx.ForEachRow(rows, []any{&scope, &n}, func() error {
			w.most[scope] = max(w.most[scope], n)
			if limit := limits[scope]; limit > 0 && n > limit {
				w.faults = append(w.faults, fmt.Errorf("%d executions ran at once under the limit %q of %d", n, scope, limit))
			}
			return nil
		})
		if err != nil {
			return
		}
		w.looks++
		pause(ctx, 5*time.Millisecond)
	}
}

// end ends the watch; what it found can be read then.
func (w *watch) end() {
	w.cancel()
	w.gone.Wait()
}
