package dashboard_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/schedule"
	"github.com/courierhq/courier/store/memstore"
)

// A streamed is the answer of a stream, which can be read while it is written.
type streamed struct {
	mu   sync.Mutex
	head http.Header
	code int
	text strings.Builder
	done chan struct{} // closed at the end
}

func (s *streamed) Header() http.Header { return s.head }
func (s *streamed) Flush()              {}

func (s *streamed) WriteHeader(code int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.code = code
}

func (s *streamed) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

// take returns the events that have come since the last call: those of patches as the ids of
// fragments and their texts.
func (s *streamed) take(t *testing.T) (names []string, patches map[string]string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	patches = make(map[string]string)
	name := ""
	for line := range strings.Lines(s.text.String()) {
		line = strings.TrimSuffix(line, "\n")
		if n, ok := strings.CutPrefix(line, "event: "); ok {
			names, name = append(names, n), n
		}
		if data, ok := strings.CutPrefix(line, "data: "); ok && name == "patch" {
			var p struct{ ID, HTML string }
			if err := json.Unmarshal([]byte(data), &p); err != nil {
				t.Fatal(err)
			}
			patches[p.ID] = p.HTML
		}
	}
	s.text.Reset()
	return names, patches
}

// liveURL is the address of the changes of a page, as its script makes it.
func (a answer) liveURL(path string) string {
	a.world.Helper()
	var have []string
	for _, f := range a.tree.all("[data-hash]") {
		have = append(have, f.attrs["id"]+":"+f.attrs["data-hash"])
	}
	u, err := url.Parse("/courier/" + path)
	if err != nil {
		a.Fatal(err)
	}
	q := u.Query()
	q.Set("live", a.tree.one(a.world, "#main").attrs["data-live"])
	q.Set("have", strings.Join(have, ","))
	u.RawQuery = q.Encode()
	return u.String()
}

// stream opens the stream of a page.
func (w *world) stream(at string) (s *streamed, stop func()) {
	s = &streamed{head: make(http.Header), code: 200, done: make(chan struct{})}
	ctx, cancel := context.WithCancel(w.Context())
	r := httptest.NewRequestWithContext(ctx, "GET", at, nil)
	r.Header.Set("X-User", w.user)
	r.Header.Set("Accept", "text/event-stream")
	go func() {
		defer close(s.done)
		w.mux.ServeHTTP(s, r)
	}()
	return s, func() { cancel(); <-s.done }
}

// A page that is open gets the fragments that have changed, and nothing while nothing does.
func TestLiveExecution(t *testing.T) {
	virtual(t, nil, func(w *world) {
		x := w.enqueue("report", "ann", map[string]any{"seconds": 40})
		time.Sleep(20 * time.Second) // the store has what the step has logged
		at := "executions/" + string(x.ID)
		page := w.get(at)
		s, stop := w.stream(page.liveURL(at))
		defer stop()
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if names, patches := s.take(t); len(patches["summary"]) != 0 {
			t.Errorf("without a change the stream has sent %q", names)
		}
		w.act(at, map[string]string{"do": "pause", "key": "k", "reason": "maintenance"})
		time.Sleep(2 * time.Second)
		synctest.Wait()
		_, patches := s.take(t)
		if p := patches["summary"]; !strings.Contains(p, "pausing") || !strings.Contains(p, "maintenance") || !strings.Contains(p, page.tree.all("input[name=key]")[0].attrs["value"]) {
			t.Errorf("the summary is %q", p)
		}
		w.act(at, map[string]string{"do": "resume", "key": "k2"})
		time.Sleep(time.Minute)
		synctest.Wait()
		names, patches := s.take(t)
		if !strings.Contains(patches["summary"], "took 40.0 s.") || !strings.Contains(patches["part"], "completed") || names[len(names)-1] != "end" {
			t.Errorf("at the end the stream has %q, and the summary %q", names, patches["summary"])
		}
	})
}

// A list that is open shows executions that come.
func TestLiveList(t *testing.T) {
	virtual(t, nil, func(w *world) {
		w.ended("report", "ann", nil)
		for _, at := range []string{"executions", "executions?where=job%3Areport"} {
			page := w.get(at)
			s, stop := w.stream(page.liveURL(at))
			time.Sleep(3 * time.Second)
			synctest.Wait()
			if names, _ := s.take(t); len(names) != 0 {
				t.Errorf("without a change the stream has sent %q", names)
			}
			x := w.enqueue("report", "ben", nil)
			time.Sleep(5 * time.Second)
			synctest.Wait()
			if _, patches := s.take(t); !strings.Contains(patches["list"], string(x.ID)) {
				t.Errorf("the list is %q", patches["list"])
			}
			stop()
		}
	})
}

// A list that is open with a filter of its rows shows those that it selects, of what comes.
func TestLiveListWithFilter(t *testing.T) {
	virtual(t, nil, func(w *world) {
		at := "executions?text=-report"
		s, stop := w.stream(w.get(at).liveURL(at))
		defer stop()
		other, report := w.enqueue("other", "ann", nil), w.enqueue("report", "ann", nil)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if _, patches := s.take(t); !strings.Contains(patches["list"], string(other.ID)) || strings.Contains(patches["list"], string(report.ID)) {
			t.Errorf("the stream has sent %q", patches["list"])
		}
	})
}

// The page of a schedule is kept up to date; its forms stand still.
func TestLiveSchedule(t *testing.T) {
	virtual(t, nil, func(w *world) {
		w.schedule(schedule.Schedule{Name: "nightly", Job: "report", Cron: "0 0 3 * * ?"})
		at := "schedules/nightly"
		s, stop := w.stream(w.get(at).liveURL(at))
		defer stop()
		time.Sleep(20 * time.Second)
		if _, err := w.engine.Schedules().Disable(w.Context(), "nightly", courier.By{Actor: "otto"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if _, patches := s.take(t); !strings.Contains(patches["overview"], "it was disabled by otto") {
			t.Errorf("the overview is %q", patches["overview"])
		}
		if n := len(w.get(at + "?tab=edit").tree.all("main[data-live]")); n != 0 {
			t.Error("the form is kept up to date")
		}
	})
}

// Who can't have a stream asks for what has changed, and gets it once.
func TestLivePoll(t *testing.T) {
	virtual(t, nil, func(w *world) {
		x := w.enqueue("report", "ann", map[string]any{"seconds": 20})
		time.Sleep(time.Second)
		at := "executions/" + string(x.ID)
		live := w.get(at).liveURL(at)
		poll := func() string {
			r := httptest.NewRequest("GET", live, nil)
			a := w.send(r)
			if a.Code != http.StatusOK {
				t.Fatalf("%d %s", a.Code, a.Body)
			}
			return a.Body.String()
		}
		if got := poll(); got != `{"patches":[]}` {
			t.Errorf("without a change: %s", got)
		}
		time.Sleep(time.Minute)
		if got := poll(); !strings.Contains(got, "took 20.0 s.") {
			t.Errorf("after the end: %s", got)
		}
		w.fails(at+"?live=%3Cb%3E", http.StatusBadRequest)
		w.user = "nobody"
		w.fails(strings.TrimPrefix(live, "/courier/"), http.StatusNotFound)
	})
}

// A visitor has ten streams at most; Close ends them all.
func TestLiveLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memstore.New(), nil)
		live := w.get("executions").liveURL("executions")
		var streams []*streamed
		for range 10 {
			s, stop := w.stream(live)
			defer stop()
			streams = append(streams, s)
		}
		synctest.Wait()
		r := httptest.NewRequest("GET", live, nil)
		r.Header.Set("Accept", "text/event-stream")
		if a := w.send(r); a.Code != http.StatusServiceUnavailable || a.Header().Get("Retry-After") == "" {
			t.Errorf("the eleventh stream: %d", a.Code)
		}
		w.pages.Close()
		for _, s := range streams {
			<-s.done
		}
	})
}
