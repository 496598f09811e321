package httpapi_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/httpapi"
	"github.com/courierhq/courier/store/memstore"
	"github.com/courierhq/courier/store/storewrap"
)

// pipes is a listener without a network, so that its connections live in virtual time.
type pipes struct {
	conns chan net.Conn
	done  context.Context
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done.Done():
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

// The timeouts of the host's server do not cut a stream; a client that does not read ends it,
// and keeps no goroutine.
func TestStreamOnAServer(t *testing.T) {
	virtual(t, nil, func(w *world) {
		ctx, cancel := context.WithCancel(w.Context())
		l := &pipes{conns: make(chan net.Conn), done: ctx}
		var returned atomic.Int32
		server := &http.Server{WriteTimeout: 5 * time.Second, ReadTimeout: 5 * time.Second, Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			w.api.ServeHTTP(rw, r)
			returned.Add(1)
		})}
		served := make(chan struct{})
		go func() { defer close(served); _ = server.Serve(l) }()
		id := w.start("report", `{"params": {"seconds": 60}}`)
		open := func() net.Conn {
			here, there := net.Pipe()
			l.conns <- there
			if _, err := io.WriteString(here, "GET /v1/executions/"+id+"/events HTTP/1.1\r\nHost: localhost\r\nX-User: admin\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			return here
		}
		reads, deaf := open(), open()
		text, err := io.ReadAll(read(t, reads))
		if err != nil || !strings.Contains(string(text), "event: end") {
			t.Errorf("%v after %q", err, text)
		}
		time.Sleep(time.Minute)
		if n := returned.Load(); n != 2 {
			t.Errorf("%d of 2 streams have ended", n)
		}
		reads.Close()
		deaf.Close()
		cancel()
		_ = server.Close()
		<-served
	})
}

// While the store is out of reach, a stream waits, and the log says so once; after 10 s the
// stream ends. What has happened meanwhile comes later.
func TestStreamWithoutStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		inner := memstore.New()
		w := newWorld(t, storewrap.Intercept(inner, func(ctx context.Context, c *storewrap.Call, do func(context.Context) error) error {
			if down.Load() {
				return errors.New("connection refused: " + canarySecret)
			}
			return do(ctx)
		}), nil)
		worker := w.over(inner)
		if err := worker.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		id := w.start("report", `{"params": {"seconds": 4}}`)
		v, list := w.watch("v1/executions/"+id+"/events?after=0"), w.watch("v1/events")
		time.Sleep(2500 * time.Millisecond)
		down.Store(true)
		time.Sleep(5 * time.Second)
		down.Store(false)
		v.over()
		if got := moves(t, v.got()); len(got) != len(w.entries(id)) || len(v.got("end")) != 1 {
			t.Errorf("%q", got)
		}
		if n := strings.Count(w.log.String(), "watched executions could not be read"); n != 1 {
			t.Errorf("the log says it %d times: %s", n, w.log)
		}
		later := w.start("report", `{"delay_seconds": 600}`)
		v = w.watch("v1/executions/" + later + "/events")
		time.Sleep(3 * time.Second)
		down.Store(true)
		began := time.Now()
		v.over()
		list.over()
		if took := time.Since(began); took < 8*time.Second || took > 15*time.Second {
			t.Errorf("the streams end after %v", took)
		}
		w.get("v1/executions/"+later+"/events").problem(http.StatusServiceUnavailable, "unavailable")
		for _, v := range []*viewer{v, list} {
			if strings.Contains(v.body(), canarySecret) {
				t.Error("the stream has the error of the store")
			}
		}
		w.api.Close()
		if err := worker.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// However many watch, each execution is read once a second: 500 streams on 50 executions cost
// at most 60 statements a second, also while all of them take steps, in this process or in
// another.
func TestStreamsCostLittle(t *testing.T) {
	for name, steps := range map[string]float64{"quiet": 3600, "busy": 0.7} {
		for _, own := range []bool{true, false} {
			t.Run(name+" "+map[bool]string{true: "here", false: "elsewhere"}[own], func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { streamsCostLittle(t, steps, own) })
			})
		}
	}
}

func streamsCostLittle(t *testing.T, seconds float64, own bool) {
	var reads atomic.Int64
	inner := memstore.New()
	opt := &httpapi.Options{Access: access.Policy{
		Who: func(r *http.Request) (access.Principal, error) {
			return access.Principal{ID: r.Header.Get("X-User")}, nil
		},
	}, MaxStreams: 500}
	w := newWorld(t, storewrap.Intercept(inner, func(ctx context.Context, c *storewrap.Call, do func(context.Context) error) error {
		if c.Method == "Executions" || c.Method == "Execution" || c.Method == "Audit" {
			reads.Add(1)
		}
		return do(ctx)
	}), opt)
	var steps []courier.StepSpec
	for range 60 {
		steps = append(steps, courier.StepSpec{Type: "test.work", Config: map[string]any{"seconds": seconds}})
	}
	if _, err := w.engine.Jobs().Define(t.Context(), courier.Job{Name: "long", Steps: steps}, nil); err != nil {
		t.Fatal(err)
	}
	if err := w.engine.Limits().Set(t.Context(), "global", 100, courier.By{}); err != nil {
		t.Fatal(err)
	}
	worker := w.engine
	if !own {
		worker = w.over(inner)
	}
	if err := worker.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	var open []*viewer
	for n := range 50 {
		x, err := w.engine.Enqueue(t.Context(), "long", nil)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(7 * time.Millisecond)
		for range 10 {
			open = append(open, w.as("user "+string(rune('A'+n))).watch("v1/executions/"+string(x.ID)+"/events"))
		}
	}
	time.Sleep(3 * time.Second)
	before := reads.Load()
	time.Sleep(10 * time.Second)
	rate := float64(reads.Load()-before) / 10
	t.Logf("%.1f statements a second", rate)
	if rate > 60 {
		t.Errorf("%.1f statements a second", rate)
	}
	for _, v := range open {
		if v.close(); len(v.got("state")) == 0 {
			t.Fatalf("a stream has nothing: %d %s", v.status, v.body())
		}
	}
	w.api.Close()
	if err := worker.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

// read returns the lines of a stream from a connection.
func read(t *testing.T, conn io.Reader) *bufio.Reader {
	t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		t.Fatal(resp.Status)
	}
	return bufio.NewReader(resp.Body)
}
