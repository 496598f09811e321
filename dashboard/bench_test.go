package dashboard_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/calendar"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/dashboard"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/expectation"
	"github.com/courierhq/courier/internal/test/pgstoretest"
	"github.com/courierhq/courier/internal/test/pgtest"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/memstore"
)

type listOutput struct {
	Items []any `json:"items"`
}

// BenchmarkExecution measures the page of an execution of 26 loops of 10,000 items each, with
// failed ones: the time on the server, and the size as a proxy would send it.
func BenchmarkExecution(b *testing.B) {
	var reg courier.Registry
	courier.RegisterFunc(&reg, "test.work", work, nil)
	items := make([]any, 10_000)
	for i := range items {
		if items[i] = ""; i%400 == 7 {
			items[i] = "poison"
		}
	}
	courier.RegisterFunc(&reg, "test.list", func(context.Context, *courier.Context, struct{}) (listOutput, error) { return listOutput{items}, nil }, nil)
	job := courier.Job{Name: "large", Steps: []courier.StepSpec{{ID: "list", Type: "test.list"}}}
	for n := range 26 {
		job.Steps = append(job.Steps,
			courier.StepSpec{Type: "flow.foreach", Config: map[string]any{"source": "context:list.items", "on_item_failure": "continue", "then": "complete"}},
			courier.StepSpec{ID: fmt.Sprintf("s%d", n), Type: "test.work", Config: map[string]any{"fail": "context:loop.current_item"}},
			courier.StepSpec{Type: "flow.end"})
	}
	e := engine.New(memstore.New(), &reg, &engine.Options{Workspace: b.TempDir()})
	if _, err := e.Jobs().Define(b.Context(), job, nil); err != nil {
		b.Fatal(err)
	}
	x, err := e.Run(b.Context(), job, nil)
	if x.ID == "" {
		b.Fatal(err)
	}
	h := dashboard.New(e, nil)
	page := func() []byte {
		r := httptest.NewRequest("GET", "/executions/"+string(x.ID), nil)
		r.RemoteAddr, r.Host = "127.0.0.1:1", "localhost"
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, r)
		if rec.Code != http.StatusOK {
			b.Fatalf("%d %s", rec.Code, rec.Body)
		}
		return rec.Body.Bytes()
	}
	var zip bytes.Buffer
	w := gzip.NewWriter(&zip)
	_, _ = w.Write(page())
	_ = w.Close()
	for b.Loop() {
		page()
	}
	b.ReportMetric(float64(zip.Len()), "zipped_bytes/page")
}

// BenchmarkChain measures the pages of a chain of 10,000 members, of which there are five
// versions and three executions: the time on the server.
func BenchmarkChain(b *testing.B) {
	var reg courier.Registry
	courier.RegisterFunc(&reg, "test.work", work, nil)
	e := engine.New(memstore.New(), &reg, &engine.Options{Workspace: b.TempDir()})
	if _, err := e.Jobs().Define(b.Context(), courier.Job{Name: "j", Steps: []courier.StepSpec{{Type: "test.work"}}}, nil); err != nil {
		b.Fatal(err)
	}
	var run chain.Execution
	for version := range 5 {
		c := chain.Chain{Name: "wide", Description: fmt.Sprint("version ", version)}
		for i := range 10_000 {
			m := chain.Member{Name: fmt.Sprintf("m%05d", i), Job: "j"}
			if i > 0 {
				m.DependsOn = []chain.Dependency{{Member: fmt.Sprintf("m%05d", i/2)}}
			}
			c.Members = append(c.Members, m)
		}
		if _, err := e.Chains().Define(b.Context(), c, nil); err != nil {
			b.Fatal(err)
		}
		if version < 3 {
			var err error
			if run, err = e.Chains().Start(b.Context(), "wide", nil); err != nil {
				b.Fatal(err)
			}
		}
	}
	h := dashboard.New(e, nil)
	for _, at := range []string{"/chains", "/chains/wide", "/chain-executions", "/chain-executions/" + string(run.ID), "/chain-executions/" + string(run.ID) + "?from=9500"} {
		b.Run(at[:min(len(at), 18)]+at[max(len(at)-10, 0):], func(b *testing.B) {
			for b.Loop() {
				r := httptest.NewRequest("GET", at, nil)
				r.RemoteAddr, r.Host = "127.0.0.1:1", "localhost"
				rec := httptest.NewRecorder()
				h.ServeHTTP(rec, r)
				if rec.Code != http.StatusOK {
					b.Fatalf("%d %s", rec.Code, rec.Body)
				}
			}
		})
	}
}

// BenchmarkToday measures the page of today of 10,000 expectations, each with 30 days: the time on
// the server.
func BenchmarkToday(b *testing.B) {
	b.Run("memstore", func(b *testing.B) { today(b, memstore.New()) })
	b.Run("pgstore", func(b *testing.B) {
		s, _ := pgstoretest.Open(b, pgtest.URL(b))
		today(b, s)
	})
}

func today(b *testing.B, s interface {
	store.Store
	expectation.Store
},
) {
	const count, days = 10_000, 30
	begin := calendar.DateOf(time.Now().UTC())
	for first := 0; first < count; first += 500 {
		var looks []expectation.Look
		for n := first; n < first+500; n++ {
			name := fmt.Sprintf("expectation-%05d", n)
			r, err := s.PutExpectation(b.Context(), expectation.Put{After: -1, Record: expectation.Record{
				Name: name, Monitor: "m", Body: fmt.Appendf(nil, `{"name": %q, "from": {"monitor": "m"}, "pattern": "*", "window": {"from": "06:00", "until": "08:00"}}`, name),
				Progress: expectation.Progress{SeenFrom: time.Now(), ArrivalsFrom: "2000-01-01", Memory: []byte("{}")},
			}})
			if err != nil {
				b.Fatal(err)
			}
			look := expectation.Look{Expectation: name, Revision: r.Revision, Progress: r.Progress, After: -1}
			for i := range days {
				day := begin - calendar.Date(i)
				at := day.At(7, 0, time.UTC)
				a := expectation.Arrival{
					ID: fmt.Sprintf("0193a000-0000-7000-8000-%012d", n*days+i), Expectation: name, Date: day.String(), State: expectation.States[(n+i)%len(expectation.States)],
					Opens: at.Add(-time.Hour), Until: at.Add(time.Hour), Ends: at.Add(time.Hour), ArrivedAt: at, Zone: "UTC", Files: []expectation.File{{Name: "a", At: at, SeenAt: at}},
				}
				look.Arrivals = append(look.Arrivals, a.Kept())
			}
			looks = append(looks, look)
		}
		if _, err := s.RecordLooks(b.Context(), looks); err != nil {
			b.Fatal(err)
		}
	}
	h := dashboard.New(engine.New(s, nil, nil), &dashboard.Options{Access: access.Policy{Who: func(*http.Request) (access.Principal, error) { return access.Principal{ID: "ann"}, nil }}})
	for b.Loop() {
		r := httptest.NewRequest("GET", "/expectations", nil)
		r.RemoteAddr, r.Host = "127.0.0.1:1", "localhost"
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, r)
		if rec.Code != http.StatusOK || rec.Body.Len() < 10_000 {
			b.Fatalf("%d %s", rec.Code, rec.Body)
		}
	}
}
