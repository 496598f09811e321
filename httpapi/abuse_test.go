package httpapi_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier/internal/test/raced"
	"github.com/courierhq/courier/store/memstore"
)

// A body of a megabyte that is wrong everywhere costs no more than reading it.
func TestBodiesOfMistakes(t *testing.T) {
	if raced.On {
		return // one request after the other, which the run without the race detector has
	}
	w := newWorld(t, memstore.New(), nil)
	var names, labels, steps, ids strings.Builder
	for i := range 60_000 {
		fmt.Fprintf(&names, `,"n%d":%d`, i, i)
		fmt.Fprintf(&labels, `,"N%d":""`, i)
	}
	for i := range 15_000 {
		fmt.Fprintf(&steps, `,{"id":"s%d","type":"tset.work","confg":{}}`, i)
		fmt.Fprintf(&ids, `,"x%d"`, i)
	}
	for what, c := range map[string]struct{ method, path, body string }{
		"params":  {"POST", "v1/jobs/report/executions", `{"params":{` + names.String()[1:] + `}}`},
		"labels":  {"POST", "v1/jobs/report/executions", `{"labels":{` + labels.String()[1:] + `}}`},
		"fields":  {"POST", "v1/jobs/report/executions", `{` + names.String()[1:] + `}`},
		"steps":   {"PUT", "v1/jobs/new", `{"steps":[` + steps.String()[1:] + `]}`},
		"members": {"PUT", "v1/chains/x", `{"members":[` + steps.String()[1:] + `]}`},
		"ids":     {"POST", "v1/bulk", `{"action":"cancel","ids":[` + ids.String()[1:] + `]}`},
		"set":     {"POST", "v1/executions/x/resume", `{"set":{` + names.String()[1:] + `}}`},
		"sched":   {"PUT", "v1/schedules/x", `{"job":"report","cron":"0 0 0 * * ?","params":{` + names.String()[1:] + `}}`},
		"bulk":    {"POST", "v1/bulk", `{"action":"rerun","dry_run":true,"where":"` + strings.Repeat("job:a* ", 70_000) + `"}`},
		"commas":  {"POST", "v1/jobs/report/executions", strings.Repeat(",", 1<<20)},
		"deep":    {"POST", "v1/jobs/report/executions", strings.Repeat(`{"a":`, 100_000) + "1" + strings.Repeat("}", 100_000)},
	} {
		var a answer
		took := time.Hour
		for range 3 { // the fastest counts: other tests take the processors too
			began := time.Now()
			a = w.send(c.method, c.path, c.body, "If-None-Match", "*")
			if took = min(took, time.Since(began)); took < time.Second {
				break
			}
		}
		t.Logf("%s: %v, %d, %d bytes %.100s", what, took, a.Code, a.Body.Len(), a.Body)
		most := 64 << 10
		if what == "steps" {
			most = 256 << 10 // each of a thousand mistakes is named, with its place
		}
		if took > 5*time.Second || a.Body.Len() > most || a.Code < 400 {
			t.Errorf("%s: %v, %d, %d bytes", what, took, a.Code, a.Body.Len())
		}
	}
}
