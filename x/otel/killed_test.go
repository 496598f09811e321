package courierotel_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/internal/test/pgstoretest"
	"github.com/courierhq/courier/internal/test/pgtest"
	"github.com/courierhq/courier/store/pgstore"
	courierotel "github.com/courierhq/courier/x/otel"
)

// workerEnv makes the test binary a worker: its value is the URL of the database and the
// workspace, as JSON.
const workerEnv = "COURIER_TEST_OTEL_WORKER"

type workerOptions struct{ URL, Workspace string }

// lease is how long an execution stays with the worker that was killed.
const lease = time.Second

func testMain(m *testing.M) { pgtest.Main(m) }

// steps registers the steps of both workers: the second one never ends in the process that is
// killed.
func steps(reg *courier.Registry, killed bool) {
	courier.RegisterFunc(reg, "test.first", nothing, nil)
	courier.RegisterFunc(reg, "test.second", func(ctx context.Context, _ *courier.Context, _ struct{}) (struct{}, error) {
		if killed {
			fmt.Println("in the second step")
			<-ctx.Done()
			return struct{}{}, context.Cause(ctx)
		}
		return struct{}{}, nil
	}, nil)
}

// worker is the process that is killed.
func worker() {
	var o workerOptions
	if err := json.Unmarshal([]byte(os.Getenv(workerEnv)), &o); err != nil {
		panic(err)
	}
	pool, err := pgxpool.New(context.Background(), o.URL)
	if err != nil {
		panic(err)
	}
	s, err := pgstore.New(context.Background(), pool, nil)
	if err != nil {
		panic(err)
	}
	i, err := courierotel.New(&courierotel.Options{Tracers: sdktrace.NewTracerProvider(), Meters: sdkmetric.NewMeterProvider()})
	if err != nil {
		panic(err)
	}
	var reg courier.Registry
	steps(&reg, true)
	e := engine.New(s, &reg, i.Engine(&engine.Options{Worker: "first", Workspace: o.Workspace, WorkspaceID: "shared", Lease: lease}))
	if err := e.Start(context.Background()); err != nil {
		panic(err)
	}
	_, _ = os.Stdin.Read(make([]byte, 1)) // until it is killed, or the test ends
}

// TestKilled: a worker is killed in the second step of an execution, and another one goes on: its
// trace is linked to who has enqueued, says that it is a takeover, and has the attempt that
// follows. Metrics count one takeover and one lost attempt.
func TestKilled(t *testing.T) {
	o := workerOptions{pgtest.URL(t), t.TempDir()}
	s, _ := pgstoretest.Open(t, o.URL)
	w := newWorld(t, s, &engine.Options{Worker: "second", Workspace: o.Workspace, WorkspaceID: "shared", Lease: lease, Poll: 100 * time.Millisecond}, nil)
	steps(&w.reg, false)
	job := courier.Job{Name: "killed", Steps: []courier.StepSpec{{Type: "test.first"}, {Type: "test.second"}}}
	if _, err := w.Jobs().Define(t.Context(), job, nil); err != nil {
		t.Fatal(err)
	}
	ctx, enqueuer := w.tracers.Tracer("host").Start(t.Context(), "POST /start")
	x, err := w.Enqueue(ctx, job.Name, nil)
	if err != nil {
		t.Fatal(err)
	}
	enqueuer.End()

	text, _ := json.Marshal(o)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), workerEnv+"="+string(text))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Errorf("the first worker did not come to the second step: %v", err)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()

	if err := w.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if x, err = w.Wait(t.Context(), x.ID); err != nil || x.State != courier.Completed {
		t.Fatal(x.State, err)
	}
	w.eventually(func() bool { return strings.Contains(show(w.spans.GetSpans()), "slice.end") })
	spans := w.spans.GetSpans()
	host, spans := spans[0], spans[1:]
	w.same("spans", show(spans), strings.Join([]string{
		"test.second internal links=0 cicd.pipeline.task.name=test.second courier.step.type=test.second courier.step.index=1 courier.step.attempt=2 cicd.pipeline.task.run.result=success",
		"RUN killed server links=1 cicd.pipeline.name=killed courier.queue=default courier.execution.attempt=1 courier.takeover=true courier.slice.end=completed cicd.pipeline.result=success",
		"",
	}, "\n"))
	w.same("link", spans[1].Links[0].SpanContext.SpanID(), host.SpanContext.SpanID())
	w.same("parent", spans[0].Parent.SpanID(), spans[1].SpanContext.SpanID())
	for name, want := range map[string]map[string]float64{
		"courier.takeovers":          {"": 1},
		"courier.slices":             {"cicd.pipeline.name=killed,courier.slice.end=completed": 1, "cicd.pipeline.name=killed,courier.slice.end=failed": 0},
		"courier.step.errors":        {"courier.step.type=test.second,error.type=worker_lost": 1},
		"courier.retries":            {"courier.step.type=test.second": 1},
		"courier.queue.wait":         {},
		"courier.step.duration":      {"cicd.pipeline.task.run.result=error,courier.step.type=test.second": 1, "cicd.pipeline.task.run.result=success,courier.step.type=test.second": 1},
		"cicd.pipeline.run.duration": {"cicd.pipeline.name=killed,cicd.pipeline.result=success,cicd.pipeline.run.state=executing": 1},
	} {
		w.same(name, w.collect(name), want)
	}
	if got := w.collect("courier.database.rows"); len(got) == 0 {
		t.Error("there are no figures of the database")
	}
}
