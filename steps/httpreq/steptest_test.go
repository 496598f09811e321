package httpreq_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/test/memnet"
	"github.com/courierhq/courier/steps/httpreq"
	"github.com/courierhq/courier/steps/steptest"
)

type object = map[string]any

// A ledger is a service that books what it is sent, once for each key.
type ledger struct {
	mu      sync.Mutex
	entries map[string]string
}

func (l *ledger) state() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var list []string
	for _, v := range l.entries {
		list = append(list, v)
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

func (l *ledger) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	key := r.Header.Get("Idempotency-Key")
	if key == "" {
		http.Error(w, "no key", http.StatusBadRequest)
		return
	}
	l.mu.Lock()
	l.entries[key] = fmt.Sprintf("%s %d bytes %.20q", r.Method, len(body), body)
	l.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Booked", "yes")
	fmt.Fprintf(w, `{"booked": %d, "big": 12345678901234567890}`, len(body))
}

var pageTime = time.Date(2024, 5, 6, 7, 8, 9, 0, time.UTC)

// TestContract holds the step against the contract for retries. Requests that
// reach the server are places at which it is disturbed.
func TestContract(t *testing.T) {
	big := strings.Repeat("0123456789abcdef", 40_000)
	for _, c := range []struct {
		name   string
		cfg    object
		old    bool
		except []string
	}{
		{name: "get", cfg: object{"url": "http://api.example.com/page"}},
		// A new attempt of the job sends a request of its own, which may differ, with
		// a key of its own: TestRetryJob.
		{name: "post", cfg: object{"url": "http://api.example.com/book", "method": "POST", "json": object{"a": 1}, "response_headers": []string{"X-Booked"}},
			except: []string{"again"}},
		{name: "upload", cfg: object{"url": "http://api.example.com/book", "method": "PUT", "body_path": "big.txt"}, except: []string{"again"}},
		{name: "download", cfg: object{"url": "http://api.example.com/big", "output_path": "out/big"}, old: true},
		{name: "resume", cfg: object{"url": "http://api.example.com/big", "output_path": "out/big", "resume": true}, old: true},
		{name: "wait", cfg: object{"url": "http://api.example.com/busy"}},
		// What is done at most once can only be repeated when it is complete.
		{name: "once", cfg: object{"url": "http://api.example.com/book", "method": "POST", "body": "x", "once": true},
			except: []string{"interrupt", "fail", "panic", "cut off", "cancel", "twice"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ledgers := new(sync.Map)
			steptest.Run(t, steptest.Case{
				Packages: []string{steptest.All},
				Setup: func(w *steptest.World) {
					l := &ledger{entries: map[string]string{}}
					ledgers.Store(w.Dir, l)
					httpreq.Register(w.Registry, serve(w, service(w, l, big)))
					w.Write("big.txt", big)
					if c.old {
						w.Write("out/big", "old")
					}
				},
				Config: c.cfg,
				State: func(w *steptest.World) string {
					l, _ := ledgers.Load(w.Dir)
					return l.(*ledger).state()
				},
				Except:  c.except,
				Virtual: true, Tidy: true, Places: 10,
			})
		})
	}
	var r courier.Registry
	httpreq.Register(&r, nil)
	steptest.Cover(t, &r, "http.request")
}

// service is what the worlds' servers answer.
func service(w *steptest.World, l *ledger, big string) http.Handler {
	var mux http.ServeMux
	mux.Handle("/book", l)
	mux.HandleFunc("/page", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "hello") })
	mux.HandleFunc("/big", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"v1"`)
		http.ServeContent(w, r, "", pageTime, strings.NewReader(big))
	})
	var asked atomic.Bool // a request that was cut off may be served beside the next
	mux.HandleFunc("/busy", func(w http.ResponseWriter, r *http.Request) {
		if !asked.Swap(true) {
			w.Header().Set("Retry-After", "20")
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		fmt.Fprint(w, "now")
	})
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if err := w.Reach(r.Method + " " + r.URL.Path); err != nil {
			rw.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		mux.ServeHTTP(rw, r)
	})
}

// serve starts a server of the world's own, and returns the options with which
// it can be reached under any name.
func serve(w *steptest.World, h http.Handler) *httpreq.Options {
	net := memnet.Listen()
	s := &http.Server{Handler: h}
	done := make(chan error, 1)
	go func() { done <- s.Serve(net) }()
	w.Cleanup(func() {
		if err := s.Close(); err != nil {
			w.Errorf("server: %v", err)
		}
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			w.Errorf("server: %v", err)
		}
		time.Sleep(time.Second) // in which its connections linger
	})
	return &httpreq.Options{AllowPlain: true, Lookup: lookup("93.184.215.14"), Dial: net.DialContext}
}

// lookup finds the same addresses for every name.
func lookup(ips ...string) func(context.Context, string) ([]netip.Addr, error) {
	var list []netip.Addr
	for _, ip := range ips {
		list = append(list, netip.MustParseAddr(ip))
	}
	return func(context.Context, string) ([]netip.Addr, error) { return list, nil }
}
