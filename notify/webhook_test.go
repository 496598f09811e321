package notify_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/jsontext"
	"github.com/courierhq/courier/notify"
	"github.com/courierhq/courier/webhook"
)

// A receiver is a server that is told by webhooks.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	got    []received
	answer func(w http.ResponseWriter, r *http.Request)
}

// A received is a request as it came.
type received struct {
	header http.Header
	body   []byte
	path   string
}

func newReceiver(t *testing.T, answer func(w http.ResponseWriter, r *http.Request)) *receiver {
	t.Helper()
	rc := &receiver{answer: answer}
	rc.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		rc.mu.Lock()
		rc.got = append(rc.got, received{r.Header.Clone(), body, r.URL.Path})
		rc.mu.Unlock()
		if rc.answer != nil {
			rc.answer(w, r)
		}
	}))
	t.Cleanup(rc.Close)
	return rc
}

func (rc *receiver) requests() []received {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	return append([]received(nil), rc.got...)
}

func whsec(b byte) string {
	return "whsec_" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{b}, 32))
}

// secrets are those of the services in these tests.
var secrets = map[string]string{"one": whsec(1), "two": whsec(2), "token": "Bearer s3cr3t-t0ken", "short": "whsec_AAAA"}

func secretOf(_ context.Context, q courier.SecretRequest) (string, error) {
	if s, ok := secrets[q.Name]; ok {
		return s, nil
	}
	return "", fmt.Errorf("there is no secret %q", q.Name)
}

// loopback lets a service reach servers of the tests.
func loopback(o *notify.Options) {
	o.Secrets = secretOf
	o.Webhooks = notify.WebhookOptions{Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, AllowPlain: true}
}

// hook is a subscription of kind webhook.
func hook(url string) notify.Subscription {
	return notify.Subscription{
		Name: "hook", Kind: notify.KindWebhook, Events: []courier.EventType{courier.EventJobFailed},
		Webhook: &notify.WebhookTarget{URL: url, Secrets: []string{"secret:one"}},
	}
}

// eventually waits for something to hold.
func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within 20 s: %s", what)
		}
	}
}

func TestWebhook(t *testing.T) {
	rc := newReceiver(t, nil)
	w := newWorld(t, loopback)
	s := hook(rc.URL + "/in")
	s.Webhook.Secrets = []string{"secret:one", "secret:two"}
	s.Webhook.Headers = map[string]string{"Authorization": "secret:token", "X-From": "courier"}
	if _, err := w.Set(t.Context(), s, courier.By{}); err != nil {
		t.Fatal(err)
	}
	x := w.end("bad")
	eventually(t, "it was delivered", func() bool { return len(rc.requests()) == 1 && len(w.left()) == 0 })
	r := rc.requests()[0]
	for _, known := range [][]string{{secrets["one"]}, {secrets["two"]}} {
		if err := webhook.Verify(r.header, r.body, known...); err != nil {
			t.Errorf("verify: %v", err)
		}
	}
	if err := webhook.Verify(r.header, append(r.body, ' '), secrets["one"]); err == nil {
		t.Error("an altered body was accepted")
	}
	var p struct {
		Type      string
		Timestamp time.Time
		Data      notify.Notification
	}
	if err := json.Unmarshal(r.body, &p); err != nil {
		t.Fatal(err)
	}
	id := r.header.Get("webhook-id")
	if p.Type != "JobFailed" || p.Data.Execution != x || p.Data.Job != "bad" || p.Data.Error != "it broke" || p.Data.ID != id || !p.Timestamp.Equal(p.Data.At) {
		t.Errorf("payload: %s", r.body)
	}
	if !strings.HasPrefix(id, string(x)+"-") || strings.Contains(id, ".") {
		t.Errorf("webhook-id %q", id)
	}
	if r.header.Get("Authorization") != secrets["token"] || r.header.Get("X-From") != "courier" || r.header.Get("Traceparent") != theTrace || r.header.Get("Content-Type") != "application/json" || r.path != "/in" {
		t.Errorf("request to %s: %v", r.path, r.header)
	}
	w.stop()
	for name, secret := range secrets {
		if strings.Contains(w.log.String(), secret) {
			t.Errorf("the log shows secret %q", name)
		}
	}
}

// TestWebhookAnswers shows what becomes of a delivery after each answer.
func TestWebhookAnswers(t *testing.T) {
	later := func(d time.Duration) string { return time.Now().Add(d).UTC().Format(http.TimeFormat) }
	for _, tt := range []struct {
		name     string
		status   int
		header   map[string]string
		min, max time.Duration // until the next attempt
		gone     bool
		says     string
	}{
		{name: "server error", status: 500, min: 4 * time.Second, max: 7 * time.Second, says: "answered 500"},
		{name: "refused", status: 401, min: 4 * time.Second, max: 7 * time.Second, says: "answered 401"},
		{name: "busy", status: 429, header: map[string]string{"Retry-After": "600"}, min: 9 * time.Minute, max: 11 * time.Minute, says: "429"},
		{name: "busy until", status: 503, header: map[string]string{"Retry-After": later(time.Hour)}, min: 58 * time.Minute, max: time.Hour, says: "503"},
		{name: "busy for years", status: 503, header: map[string]string{"Retry-After": "4000000000"}, min: 23 * time.Hour, max: 24*time.Hour + time.Minute, says: "503"},
		{name: "not understood", status: 503, header: map[string]string{"Retry-After": "soon"}, min: 4 * time.Second, max: 7 * time.Second, says: "503"},
		{name: "less than the wait", status: 503, header: map[string]string{"Retry-After": "1"}, min: 4 * time.Second, max: 7 * time.Second, says: "503"},
		{name: "redirect", status: 307, header: map[string]string{"Location": "/other"}, min: 4 * time.Second, max: 7 * time.Second, says: "redirect, which is not followed"},
		{name: "moved", status: 301, header: map[string]string{"Location": "http://127.0.0.1:1/"}, min: 4 * time.Second, max: 7 * time.Second, says: "redirect"},
		{name: "gone", status: 410, gone: true, says: "wants no more"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			rc := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) {
				for k, v := range tt.header {
					w.Header().Set(k, v)
				}
				w.WriteHeader(tt.status)
			})
			w := newWorld(t, loopback)
			if _, err := w.Set(t.Context(), hook(rc.URL), courier.By{}); err != nil {
				t.Fatal(err)
			}
			begun := time.Now()
			w.end("bad")
			eventually(t, "one attempt was settled", func() bool { l := w.left(); return len(l) == 1 && l[0].LastErr != "" })
			d := w.left()[0]
			if !strings.Contains(d.LastErr, tt.says) || !strings.Contains(d.LastErr, rc.URL) {
				t.Errorf("error %q, want one with %q and %s", d.LastErr, tt.says, rc.URL)
			}
			if wait := d.DueAt.Sub(begun); !tt.gone && (d.State != notify.Pending || wait < tt.min || wait > tt.max) {
				t.Errorf("%s, due in %v; want pending and %v to %v", d.State, wait, tt.min, tt.max)
			}
			if n := len(rc.requests()); n != 1 {
				t.Errorf("%d requests, want 1", n)
			}
			subs, err := w.List(t.Context(), notify.Filter{})
			if err != nil || subs[0].Disabled != tt.gone || tt.gone && (d.State != notify.Failed || !strings.Contains(subs[0].Reason, "410")) {
				t.Errorf("delivery %s, subscription %+v, %v", d.State, subs[0], err)
			}
		})
	}
}

// privateURLs are ways to write addresses that nobody from outside should reach.
var privateURLs = []string{
	"https://127.0.0.1/", "https://127.0.0.1.:8080/", "https://127.1/", "https://2130706433/", "https://0x7f000001/", "https://0x7f.0.0.1/",
	"https://0177.0.0.1/", "https://017700000001/", "https://[::1]/", "https://[::ffff:127.0.0.1]/", "https://[::ffff:7f00:1]/",
	"https://[0:0:0:0:0:0:0:1]/", "https://localhost/", "https://LOCALHOST./", "https://0.0.0.0/", "https://[::]/", "https://10.0.0.8/",
	"https://192.168.1.1/", "https://172.31.255.255/", "https://169.254.169.254/latest", "https://[fe80::1%25eth0]/", "https://[fd00:ec2::254]/",
	"https://100.100.100.200/", "https://[64:ff9b::7f00:1]/", "https://[2002:7f00:1::]/", "https://224.0.0.1/", "https://inside.example/",
	"https://user:pass@93.184.216.34/",
}

// flipping is a resolver whose names have public addresses until they are asked
// for the second time.
func flipping(seen *sync.Map) func(context.Context, string) ([]netip.Addr, error) {
	return func(_ context.Context, host string) ([]netip.Addr, error) {
		if strings.HasPrefix(strings.ToLower(host), "localhost") || host == "inside.example" || strings.HasPrefix(host, "127.") {
			return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
		}
		if _, again := seen.LoadOrStore(host, true); again {
			return []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("::1")}, nil
		}
		return []netip.Addr{netip.MustParseAddr("93.184.216.34")}, nil
	}
}

func TestPrivateReceiverIsRefused(t *testing.T) {
	w := newWorld(t, func(o *notify.Options) {
		o.Secrets = secretOf
		o.Webhooks.Lookup = flipping(new(sync.Map))
	})
	for _, u := range append(privateURLs, "http://example.org/", "ftp://example.net/", "https://", "example.com", "https://exa mple.com/") {
		_, err := w.Set(t.Context(), hook(u), courier.By{})
		d, ok := errors.AsType[*notify.Error](err)
		if !ok || len(d.Problems) != 1 || d.Problems[0].Field != "webhook.url" || !errors.Is(err, courier.ErrInvalid) {
			t.Errorf("%s: error %v", u, err)
		}
		if strings.Contains(fmt.Sprint(err), "pass") && !strings.Contains(fmt.Sprint(err), "password") {
			t.Errorf("%s: the error shows credentials: %v", u, err)
		}
	}
	if list, err := w.List(t.Context(), notify.Filter{}); err != nil || len(list) != 0 {
		t.Errorf("saved: %v, %v", list, err)
	}
	for _, u := range []string{"https://93.184.216.34/", "https://example.com/hook", "https://xn--bcher-kva.example:8443/a?b=c", "https://[2606:4700::1111]/"} {
		if _, err := w.Set(t.Context(), hook(u), courier.By{}); err != nil {
			t.Errorf("%s: %v", u, err)
		}
	}
}

// TestPrivateReceiverIsNotReached saves what a service that allows more would
// have saved, and names that stand for another address by the time of the
// delivery.
func TestPrivateReceiverIsNotReached(t *testing.T) {
	rc := newReceiver(t, nil)
	at, err := url.Parse(rc.URL)
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, func(o *notify.Options) {
		o.Secrets = secretOf
		o.Webhooks = notify.WebhookOptions{AllowPlain: true, Lookup: flipping(new(sync.Map))}
	})
	if _, err := w.Set(t.Context(), hook("http://rebound.example:"+at.Port()+"/"), courier.By{}); err != nil {
		t.Fatal(err)
	}
	for i, host := range []string{"127.0.0.1", "[::ffff:127.0.0.1]", "localhost", "inside.example", "127.0.0.1."} {
		sub := hook("http://" + host + ":" + at.Port() + "/")
		sub.Name = fmt.Sprint("hook", i)
		body, err := jsontext.Append(nil, sub)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.store.PutSubscription(t.Context(), notify.Record{Name: sub.Name, Channel: "webhook", Events: sub.Events, Body: body}); err != nil {
			t.Fatal(err)
		}
	}
	w.end("bad")
	failed := func() (list []notify.Delivery) {
		for _, d := range w.left() {
			if d.State == notify.Failed {
				list = append(list, d)
			}
		}
		return list
	}
	eventually(t, "all were refused", func() bool { return len(failed()) == 6 })
	for _, d := range failed() {
		if !strings.Contains(d.LastErr, "is not public, so it is refused") || d.Attempts != 1 {
			t.Errorf("%s: %d attempts, %s", d.Subscription, d.Attempts, d.LastErr)
		}
	}
	if n := len(rc.requests()); n != 0 {
		t.Errorf("%d requests came through", n)
	}
}

// TestWebhookSecretURL keeps a URL that is a secret out of all that is shown.
func TestWebhookSecretURL(t *testing.T) {
	rc := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) })
	secrets["url"] = rc.URL + "/T0KEN-IN-PATH"
	defer delete(secrets, "url")
	w := newWorld(t, loopback)
	if _, err := w.Set(t.Context(), hook("secret:url"), courier.By{}); err != nil {
		t.Fatal(err)
	}
	w.end("bad")
	eventually(t, "it was tried", func() bool { l := w.left(); return len(l) == 1 && l[0].LastErr != "" })
	if d := w.left()[0]; strings.Contains(d.LastErr, "T0KEN") || rc.requests()[0].path != "/T0KEN-IN-PATH" {
		t.Errorf("path %s, error %s", rc.requests()[0].path, d.LastErr)
	}
}

// TestWebhookWithoutItsSecret has a secret go after the subscription was made: nothing
// is sent without it, and the delivery says why it waits.
func TestWebhookWithoutItsSecret(t *testing.T) {
	rc := newReceiver(t, nil)
	var gone atomic.Bool
	w := newWorld(t, func(o *notify.Options) {
		loopback(o)
		o.Secrets = func(ctx context.Context, q courier.SecretRequest) (string, error) {
			if gone.Load() {
				return "", fmt.Errorf("the vault has no %q", q.Name)
			}
			return secretOf(ctx, q)
		}
	})
	if _, err := w.Set(t.Context(), hook(rc.URL), courier.By{}); err != nil {
		t.Fatal(err)
	}
	gone.Store(true)
	w.end("bad")
	eventually(t, "it was tried", func() bool { l := w.left(); return len(l) == 1 && l[0].LastErr != "" })
	if d := w.left()[0]; !strings.Contains(d.LastErr, `the vault has no "one"`) || len(rc.requests()) > 0 {
		t.Errorf("error %q after %d requests", d.LastErr, len(rc.requests()))
	}
}

// TestSlowReceiver shows that a receiver that hangs holds nobody up.
func TestSlowReceiver(t *testing.T) {
	slow := newReceiver(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	quick := newReceiver(t, nil)
	w := newWorld(t, func(o *notify.Options) {
		loopback(o)
		o.Webhooks.Timeout = 2 * time.Second
	})
	a, b := hook(slow.URL), hook(quick.URL)
	a.Name = "a slow one"
	for _, s := range []notify.Subscription{a, b} {
		if _, err := w.Set(t.Context(), s, courier.By{}); err != nil {
			t.Fatal(err)
		}
	}
	const count = 20
	begun := time.Now()
	for range count {
		w.end("bad")
	}
	eventually(t, "the quick one has all", func() bool { return len(quick.requests()) == count })
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("that took %v", took)
	}
	eventually(t, "the slow one was given up", func() bool {
		for _, d := range w.left() {
			if d.Subscription == a.Name && d.LastErr != "" {
				return true
			}
		}
		return false
	})
}

// All that is wrong with the URL of a webhook is said in one round, with the options that allow
// it: also with a name, whose address is looked up.
func TestWebhookURLInOneRound(t *testing.T) {
	const (
		plain   = "http is refused, for it neither encrypts nor proves who answers; use https, or have the host application allow plain http (engine.Options.Webhooks)"
		private = "is not public, so it is refused; if jobs may reach it, the host application has to allow its network or host (engine.Options.Webhooks)"
		user    = "the URL contains a user name or a password"
	)
	w := newWorld(t, func(o *notify.Options) {
		o.Webhooks.Lookup = func(_ context.Context, host string) ([]netip.Addr, error) {
			if host != "inside.example" {
				return nil, errors.New("no such host")
			}
			return []netip.Addr{netip.MustParseAddr("10.0.0.7")}, nil
		}
	})
	for url, want := range map[string][]string{
		"http://ann:pw@10.0.0.1/hook": {plain, user, "10.0.0.1 " + private}, "http://inside.example/": {plain, "10.0.0.7 " + private},
		"http://nowhere.example/": {plain}, "ftp://10.0.0.1/": {"the scheme", "10.0.0.1 " + private}, "https://inside.example/": {"10.0.0.7 " + private},
	} {
		s := notify.Subscription{Name: "x", Kind: notify.KindWebhook, Events: []courier.EventType{"JobFailed"}, Webhook: &notify.WebhookTarget{URL: url, Secrets: []string{"secret:one"}}}
		_, err := w.Set(t.Context(), s, courier.By{})
		if err == nil || strings.Contains(err.Error(), "pw") || strings.Count(err.Error(), "webhook.") != 1 {
			t.Errorf("%s: %v", url, err)
			continue
		}
		for _, text := range want {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("%s: no %q in %v", url, text, err)
			}
		}
	}
}
