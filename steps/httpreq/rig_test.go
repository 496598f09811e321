package httpreq_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/steps/httpreq"
)

// A bench runs attempts of one step in one workspace.
type bench struct {
	t       testing.TB
	opt     httpreq.Options
	dir     string
	attempt int
	bytes   int64 // that the last attempt has moved
	log     bytes.Buffer
}

// newBench returns a bench whose step may reach this machine.
func newBench(t testing.TB) *bench {
	return &bench{t: t, dir: t.TempDir(), opt: httpreq.Options{
		AllowPlain: true, Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
	}}
}

// job returns the context of the next attempt.
func (b *bench) job() *courier.Context {
	b.attempt++
	return courier.NewContext(courier.ContextConfig{
		Execution: "0198c2f0-0000-7000-8000-000000000001", Step: 2, Attempt: b.attempt, Workspace: b.dir,
		Log: slog.New(slog.NewTextHandler(&b.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
}

// call runs the next attempt as an engine would.
func (b *bench) call(ctx context.Context, cfg object) (out httpreq.RequestOutput, err error) {
	b.t.Helper()
	var r courier.Registry
	httpreq.Register(&r, &b.opt)
	typ, _ := r.Lookup("http.request")
	config, err := json.Marshal(cfg)
	if err != nil {
		b.t.Fatal(err)
	}
	job := b.job()
	defer job.Close()
	if b.attempt > 1 {
		if err := typ.Cleanup(ctx, job, config); err != nil {
			return out, err
		}
	}
	raw, err := typ.Execute(ctx, job, config)
	b.bytes = job.Reports().Bytes
	if err == nil {
		if err := json.Unmarshal(raw, &out); err != nil {
			b.t.Fatal(err)
		}
	}
	return out, err
}

func (b *bench) run(cfg object) (httpreq.RequestOutput, error) {
	b.t.Helper()
	return b.call(context.Background(), cfg)
}

// fails runs an attempt that must fail with a text, and checks whether that is
// permanent.
func (b *bench) fails(cfg object, permanent bool, want string) {
	b.t.Helper()
	_, err := b.run(cfg)
	if err == nil || !strings.Contains(err.Error(), want) {
		b.t.Errorf("the error is %v, want %q in it", err, want)
	} else if courier.IsPermanent(err) != permanent {
		b.t.Errorf("permanent is %v for %v", !permanent, err)
	}
}

// files lists the files of the workspace but notes.
func (b *bench) files() (names []string) {
	err := filepath.WalkDir(b.dir, func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, strings.TrimPrefix(p, b.dir+"/"))
		}
		return err
	})
	if err != nil {
		b.t.Error(err)
	}
	return names
}

func (b *bench) write(name, content string) {
	if err := os.WriteFile(filepath.Join(b.dir, name), []byte(content), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) read(name string) string {
	b.t.Helper()
	text, err := os.ReadFile(filepath.Join(b.dir, name))
	if err != nil {
		b.t.Error(err)
	}
	return string(text)
}

// server starts a server for the test.
func server(t testing.TB, h http.HandlerFunc) *httptest.Server {
	s := httptest.NewServer(h)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// raw starts a server that speaks for itself: f gets each connection when the
// head of a request has been read.
func raw(t testing.TB, f func(c net.Conn)) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	open := map[net.Conn]bool{}
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open[c] = true
			mu.Unlock()
			wg.Go(func() {
				defer c.Close()
				readHead(c)
				f(c)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for c := range open {
			c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return "http://" + l.Addr().String()
}

func readHead(c net.Conn) {
	var head []byte
	one := make([]byte, 1)
	for !bytes.HasSuffix(head, []byte("\r\n\r\n")) {
		if _, err := c.Read(one); err != nil {
			return
		}
		head = append(head, one...)
	}
}

// soon fails the test if f takes longer than a second after being told to end.
func soon(t testing.TB, f func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(context.Background())
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	time.Sleep(100 * time.Millisecond)
	cancel(courier.ErrCancelled)
	select {
	case err := <-done:
		if err != courier.ErrCancelled {
			t.Errorf("the error is %v, want the cause", err)
		}
	case <-time.After(time.Second):
		t.Error("the step goes on after its context has ended")
	}
}
