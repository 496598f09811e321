//go:build unix

package browser

import (
	"bufio"
	"context"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/dashboard"
	"github.com/courierhq/courier/dashboard/internal/demo"
)

const (
	openPages = 200
	maxShare  = 0.05 // of a core
)

var (
	lives  = regexp.MustCompile(`<main[^>]* data-live="([^"]*)"`)
	hashes = regexp.MustCompile(`<section id="([^"]*)"[^>]* data-hash="([^"]*)"`)
)

// TestOpenPages measures what two hundred open pages cost while nothing changes.
func TestOpenPages(t *testing.T) {
	w, err := demo.Open(t.Context(), t.TempDir(), demo.Options{Small: true})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	pages := dashboard.New(w.Engine, &dashboard.Options{Access: access.Policy{Who: func(r *http.Request) (access.Principal, error) {
		return access.Principal{ID: r.Header.Get("X-User")}, nil
	}}})
	defer pages.Close()
	server := httptest.NewServer(pages)
	defer server.Close()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: openPages}}
	defer client.CloseIdleConnections()
	ctx, cancel := context.WithCancel(t.Context())
	var wait sync.WaitGroup
	defer wait.Wait()
	defer cancel()

	idle := share(3 * time.Second)
	var streams, patches counter
	for i := range openPages {
		at := "executions/" + string(w.By[[]string{"running", "limit", "queued", "waiting"}[i%4]])
		if i%5 == 0 {
			at = "executions?where=job%3A" + []string{"invoices", "archive", "nested"}[i/5%3]
		}
		r, err := stream(ctx, pages, server.URL+"/", at, fmt.Sprintf("user-%d", i/10))
		if err != nil {
			t.Fatal(err)
		}
		wait.Go(func() { follow(client, r, &streams, &patches) })
	}
	for range 100 {
		if streams.value() == openPages {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	time.Sleep(2 * time.Second) // what has changed meanwhile arrives
	before := patches.value()
	open := share(5 * time.Second)
	t.Logf("%d streams cost %.1f %% of a core, %.1f %% without them; %d events meanwhile", streams.value(), 100*(open-idle), 100*idle, patches.value()-before)
	if n := streams.value(); n != openPages {
		t.Errorf("%d streams are open, and not %d", n, openPages)
	}
	if n := patches.value() - before; n > 20 {
		t.Errorf("%d events although nothing changes", n)
	}
	most := maxShare
	if !*strict {
		most *= 4 // beside other tests the same work takes longer
	}
	if open-idle > most {
		t.Errorf("%d open pages cost %.1f %% of a core, %.0f %% at most", openPages, 100*(open-idle), 100*most)
	}
}

// stream returns the request of an open page for its changes.
func stream(ctx context.Context, pages http.Handler, base, at, user string) (*http.Request, error) {
	r := httptest.NewRequest("GET", "/"+at, nil)
	r.Header.Set("X-User", user)
	rec := httptest.NewRecorder()
	pages.ServeHTTP(rec, r)
	key := lives.FindStringSubmatch(rec.Body.String())
	if rec.Code != http.StatusOK || key == nil {
		return nil, fmt.Errorf("%s: %d, and no live page", at, rec.Code)
	}
	var have []string
	for _, m := range hashes.FindAllStringSubmatch(rec.Body.String(), -1) {
		have = append(have, m[1]+":"+m[2])
	}
	u, err := url.Parse(base + at)
	if err != nil {
		return nil, err
	}
	q := u.Query()
	q.Set("live", html.UnescapeString(key[1]))
	q.Set("have", strings.Join(have, ","))
	u.RawQuery = q.Encode()
	live, err := http.NewRequestWithContext(ctx, "GET", u.String(), nil)
	if err == nil {
		live.Header.Set("X-User", user)
		live.Header.Set("Accept", "text/event-stream")
	}
	return live, err
}

// follow reads a stream to its end, and counts it and its events.
func follow(client *http.Client, r *http.Request, streams, events *counter) {
	answer, err := client.Do(r)
	if err != nil {
		return
	}
	defer answer.Body.Close()
	if answer.StatusCode == http.StatusOK {
		streams.add()
	}
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "event:") {
			events.add()
		}
	}
}

type counter struct {
	mu sync.Mutex
	n  int
}

func (c *counter) add() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
}

func (c *counter) value() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

// share returns the share of a core that this process takes.
func share(d time.Duration) float64 {
	before := spent()
	time.Sleep(d)
	return float64(spent()-before) / float64(d)
}

// spent is the time that the cores have given to this process.
func spent() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
