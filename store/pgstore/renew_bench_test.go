package pgstore_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/test/pgtest"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/pgstore"
)

// BenchmarkRenew renews 1,000 leases: of steps that report nothing, of transfers that all
// move, and of transfers that save a cursor too. It counts the processor time of this
// process and of the server. An engine renews every 5 s, so 5 ms more for an operation are a
// thousandth of a core.
func BenchmarkRenew(b *testing.B) {
	for _, kind := range []string{"nothing", "progress", "cursor"} {
		b.Run(kind, func(b *testing.B) {
			u := pgtest.URL(b)
			s, pool := unlimited(b, u), dial(b, u)
			r := runningThousand(b, s)
			if _, err := s.Renew(b.Context(), r); err != nil { // which opens its connection
				b.Fatal(err)
			}
			report := metered(b, pool)
			for n := 0; b.Loop(); n++ {
				for i := range r.Leases {
					r.Leases[i].Progress = moving(kind, n, i)
				}
				if got, err := s.Renew(b.Context(), r); err != nil || len(got) != len(r.Leases) {
					b.Fatal(len(got), err)
				}
			}
			report(time.Millisecond, "ms/op")
		})
	}
}

// moving is the progress of transfer i at renewal n.
func moving(kind string, n, i int) *store.Progress {
	if kind == "nothing" {
		return nil
	}
	done := int64(n) * 5 << 20
	p := &store.Progress{Attempt: 1, Report: &courier.Progress{
		Item: fmt.Sprintf("/outgoing/partner-%d/invoices-2026-11-24.xml.gz", i), Done: done, Total: 10 << 30, Bytes: done, Stage: "transfer",
	}}
	if kind == "cursor" {
		p.Cursor = json.RawMessage(fmt.Sprintf(`{"parts":[{"server":"files.example.com:22","remote":%q,"part":"QJ5T3ZKD","size":%d,"modified":1764000000000000000,"done":%d}]}`,
			p.Report.Item, p.Report.Total, done))
	}
	return p
}

// runningThousand has a thousand executions that execute their first step.
func runningThousand(b *testing.B, s *pgstore.Store) store.RenewRequest {
	b.Helper()
	ctx, r := b.Context(), store.RenewRequest{Worker: "w", For: time.Hour}
	list := make([]store.NewExecution, 1000)
	for i := range list {
		list[i] = store.NewExecution{ID: courier.ExecutionID(fmt.Sprintf("01920000-0000-7000-8000-%012x", i)), Job: "j", Version: 1, Queue: "default",
			StepTypes: []string{"sftp.download"}, First: &courier.StepExecution{Type: "sftp.download"}}
	}
	if _, err := s.Enqueue(ctx, list); err != nil {
		b.Fatal(err)
	}
	for len(r.Leases) < len(list) {
		c, err := s.Claim(ctx, store.ClaimRequest{Worker: "w", StepTypes: []string{"sftp.download"}, Queues: []string{"default"}, Max: 500, Lease: time.Hour})
		if err != nil || len(c.List) == 0 {
			b.Fatal(len(r.Leases), err)
		}
		for _, x := range c.List {
			r.Leases = append(r.Leases, store.Lease{Execution: x.Execution.ID, Token: x.Token})
		}
	}
	return r
}

// metered begins to measure processor time. The function that it returns reports it for
// this process and for the server, per operation, in units.
func metered(b *testing.B, pool *pgxpool.Pool) (report func(unit time.Duration, name string)) {
	b.Helper()
	self, server := []string{"self"}, backends(b, pool)
	client, before := cpu(b, self), cpu(b, server)
	return func(unit time.Duration, name string) {
		each := func(d time.Duration) float64 { return float64(d) / float64(unit) / float64(b.N) }
		b.ReportMetric(each(cpu(b, self)-client), "client-"+name)
		b.ReportMetric(each(cpu(b, server)-before), "server-"+name)
	}
}

// backends are the processes of the server.
func backends(b *testing.B, pool *pgxpool.Pool) (pids []string) {
	b.Helper()
	rows, err := pool.Query(b.Context(), "select pid::text from pg_stat_activity")
	if err != nil {
		b.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var pid string
		if err := rows.Scan(&pid); err != nil {
			b.Fatal(err)
		}
		pids = append(pids, pid)
	}
	return pids
}

// cpu is the processor time that processes have used, to a hundredth of a second; 0 where
// the system doesn't tell.
func cpu(b *testing.B, pids []string) (sum time.Duration) {
	b.Helper()
	for _, pid := range pids {
		text, err := os.ReadFile("/proc/" + pid + "/stat")
		if err != nil {
			continue
		}
		f := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		for _, field := range f[11:13] {
			var ticks int64
			if _, err := fmt.Sscan(field, &ticks); err != nil {
				b.Fatal(err)
			}
			sum += time.Duration(ticks) * 10 * time.Millisecond
		}
	}
	return sum
}
