package httpapi_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/httpapi"
	"github.com/courierhq/courier/internal/test/pgtest"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/memstore"
	"github.com/courierhq/courier/store/pgstore"
)

// BenchmarkGet reads an execution from memory, by the engine and over the API: the
// difference is what the API costs.
func BenchmarkGet(b *testing.B) {
	e, api := benchEngine(b, memstore.New())
	x, err := e.Enqueue(b.Context(), "report", nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("engine", func(b *testing.B) {
		for b.Loop() {
			if _, err := e.Executions().Get(b.Context(), x.ID); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("api", func(b *testing.B) {
		r := httptest.NewRequest("GET", "/v1/executions/"+string(x.ID), nil)
		r.Header.Set("X-User", "admin")
		for b.Loop() {
			w := &sink{header: make(http.Header)}
			api.ServeHTTP(w, r)
			if w.status != http.StatusOK {
				b.Fatal(w.status)
			}
		}
	})
}

// BenchmarkPost starts executions on PostgreSQL from 16 callers, by the engine and over the
// API in turn, and reports the ratio of the rates.
func BenchmarkPost(b *testing.B) {
	pool, err := pgxpool.New(b.Context(), pgtest.URL(b))
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
	e, api := benchEngine(b, s)
	server := httptest.NewServer(api)
	defer server.Close()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}}
	defer client.CloseIdleConnections()

	var n atomic.Int64
	direct := func() error {
		_, err := e.Enqueue(b.Context(), "report", &courier.EnqueueOptions{
			Params: map[string]any{"text": "hello"}, IdempotencyKey: fmt.Sprint("api/admin/", n.Add(1)), By: courier.By{Actor: "admin"}, Labels: map[string]string{"by": "admin"},
		})
		return err
	}
	plain := func() error {
		_, err := e.Enqueue(b.Context(), "report", &courier.EnqueueOptions{Params: map[string]any{"text": "hello"}})
		return err
	}
	handler := func() error {
		r := httptest.NewRequest("POST", "/v1/jobs/report/executions", bytes.NewReader([]byte(`{"params": {"text": "hello"}}`)))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("X-User", "admin")
		r.Header.Set("Idempotency-Key", fmt.Sprint(n.Add(1)))
		w := &sink{header: make(http.Header)}
		if api.ServeHTTP(w, r); w.status != http.StatusAccepted {
			return fmt.Errorf("status %d", w.status)
		}
		return nil
	}
	network := func() error {
		r, err := http.NewRequestWithContext(b.Context(), "POST", server.URL+"/v1/jobs/report/executions", bytes.NewReader([]byte(`{"params": {"text": "hello"}}`)))
		if err != nil {
			return err
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("X-User", "admin")
		r.Header.Set("Idempotency-Key", fmt.Sprint(n.Add(1)))
		resp, err := client.Do(r)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusAccepted {
			return fmt.Errorf("status %d, %v", resp.StatusCode, err)
		}
		return nil
	}
	ways := []struct {
		name string
		call func() error
	}{{"plain", plain}, {"labelled", direct}, {"handler", handler}, {"network", network}}
	took := make([]time.Duration, len(ways))
	for b.Loop() {
		for i, way := range ways {
			took[i] += rate(b, way.call)
		}
	}
	for i, way := range ways {
		b.ReportMetric(float64(benchCalls*b.N)/took[i].Seconds(), way.name+"/s")
	}
	b.ReportMetric(took[1].Seconds()/took[2].Seconds(), "handler/labelled")
	b.ReportMetric(took[0].Seconds()/took[2].Seconds(), "handler/plain")
	b.ReportMetric(took[0].Seconds()/took[3].Seconds(), "network/plain")
}

// benchCalls is how many calls one round makes.
const benchCalls = 4000

// rate makes the calls of a round from 16 callers, and returns how long they took.
func rate(b *testing.B, call func() error) time.Duration {
	b.Helper()
	start := time.Now()
	var callers sync.WaitGroup
	var failed atomic.Value
	for range 16 {
		callers.Go(func() {
			for range benchCalls / 16 {
				if err := call(); err != nil {
					failed.Store(err)
					return
				}
			}
		})
	}
	callers.Wait()
	if err := failed.Load(); err != nil {
		b.Fatal(err)
	}
	return time.Since(start)
}

// benchEngine returns an engine with the job report, not started, and its API.
func benchEngine(b *testing.B, s store.Store) (*engine.Engine, *httpapi.Handler) {
	b.Helper()
	var reg courier.Registry
	courier.RegisterFunc(&reg, "test.work", work, nil)
	e := engine.New(s, &reg, &engine.Options{Workspace: b.TempDir()})
	if _, err := e.Jobs().Define(b.Context(), jobs()[0], nil); err != nil {
		b.Fatal(err)
	}
	return e, httpapi.New(e, &httpapi.Options{Access: policy()})
}

// A sink is an answer of which the status alone is kept.
type sink struct {
	header http.Header
	status int
}

func (s *sink) Header() http.Header         { return s.header }
func (s *sink) WriteHeader(status int)      { s.status = status }
func (s *sink) Write(p []byte) (int, error) { return len(p), nil }
