package pgstore_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/internal/test/pgtest"
	"github.com/courierhq/courier/notify"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/pgstore"
)

// BenchmarkThroughput runs pipelines of no-op steps. An operation is one step.
// What the server does is a matter of package bench; this is for profiles.
func BenchmarkThroughput(b *testing.B) {
	for _, shape := range []struct {
		steps, slots int
		told         string // where somebody has subscribed to these events
	}{{10, 1, ""}, {10, 16, ""}, {10, 64, ""}, {10, 256, ""}, {1, 100, ""}, {10, 1, "JobFailed"}, {10, 64, "JobFailed"}, {10, 64, "JobCompleted"}} {
		b.Run(fmt.Sprintf("%dx%d%s", shape.steps, shape.slots, shape.told), func(b *testing.B) {
			url := pgtest.URL(b)
			pool, err := pgxpool.New(b.Context(), url)
			if err != nil {
				b.Fatal(err)
			}
			defer pool.Close()
			if _, err := pgstore.Migrate(b.Context(), pool, nil); err != nil {
				b.Fatal(err)
			}
			s, err := pgstore.New(b.Context(), pool, nil)
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			reg := new(courier.Registry)
			courier.RegisterFunc(reg, "bench.nop", func(context.Context, *courier.Context, struct{}) (struct {
				Path string `json:"path"`
			}, error) {
				return struct {
					Path string `json:"path"`
				}{"in/a.txt"}, nil
			}, nil)
			e := engine.New(s, reg, &engine.Options{Workspace: b.TempDir(), Slots: shape.slots})
			if err := e.Limits().Set(b.Context(), "global", 0, courier.By{}); err != nil {
				b.Fatal(err)
			}
			steps := make([]courier.StepSpec, shape.steps)
			for i := range steps {
				steps[i] = courier.StepSpec{Type: "bench.nop"}
			}
			if _, err := e.Jobs().Define(b.Context(), courier.Job{Name: "bench", Steps: steps}, nil); err != nil {
				b.Fatal(err)
			}
			if shape.told != "" {
				sub := notify.Record{Name: "sub", Channel: "func:none", Events: []courier.EventType{courier.EventType(shape.told)}, Body: []byte("{}")}
				if err := s.PutSubscription(b.Context(), sub); err != nil {
					b.Fatal(err)
				}
			}
			n := max(1, b.N/shape.steps)
			list := make([]store.NewExecution, n)
			for i := range list {
				if list[i], err = e.Prepare(b.Context(), "bench", nil); err != nil {
					b.Fatal(err)
				}
			}
			if _, err := e.EnqueueAll(b.Context(), list); err != nil {
				b.Fatal(err)
			}
			b.ResetTimer()
			start := time.Now()
			cpu := serverCPU(b, pool)
			if err := e.Start(b.Context()); err != nil {
				b.Fatal(err)
			}
			for i := range list {
				if x, err := e.Wait(b.Context(), list[i].ID); err != nil || x.State != courier.Completed {
					b.Fatal(x.State, err)
				}
			}
			b.ReportMetric(float64(n*shape.steps)/time.Since(start).Seconds(), "steps/s")
			b.StopTimer()
			b.ReportMetric(float64(serverCPU(b, pool)-cpu)*10000/float64(n*shape.steps), "server-us/step")
			if err := e.Stop(b.Context()); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// serverCPU is the time of all processes of the server, in hundredths of a second.
func serverCPU(b *testing.B, pool *pgxpool.Pool) int {
	var pid int
	if err := pool.QueryRow(b.Context(), "select pg_backend_pid()").Scan(&pid); err != nil {
		b.Fatal(err)
	}
	fields := func(pid string) []string {
		text, _ := os.ReadFile("/proc/" + pid + "/stat")
		_, rest, _ := strings.Cut(string(text), ") ")
		return strings.Fields(rest)
	}
	server := fields(strconv.Itoa(pid))[1]
	all, _ := filepath.Glob("/proc/[0-9]*")
	sum := 0
	for _, p := range all {
		if f := fields(filepath.Base(p)); len(f) > 14 && f[1] == server {
			u, _ := strconv.Atoi(f[11])
			s, _ := strconv.Atoi(f[12])
			sum += u + s
		}
	}
	return sum
}
