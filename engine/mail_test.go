package engine_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/notify"
	"github.com/courierhq/courier/store/memstore"
)

// A mailer keeps what it is to send.
type mailer struct {
	mu   sync.Mutex
	sent []notify.Mail
}

func (m *mailer) Send(_ context.Context, mail notify.Mail) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sent = append(m.sent, mail)
	return nil
}

func (m *mailer) all() []notify.Mail {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.sent)
}

func TestEmailDigest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m mailbox
		var post mailer
		e := told(t, memstore.New(), &m, func(o *engine.Options) { o.Mailer = &post })
		sub := notify.Subscription{
			Name: "ops", Kind: notify.KindEmail, Events: []courier.EventType{courier.EventJobFailed},
			Email: &notify.EmailTarget{To: []string{"Operations <ops@example.com>"}, Subject: "Night"},
		}
		if _, err := e.Subscriptions().Set(t.Context(), sub, courier.By{}); err != nil {
			t.Fatal(err)
		}
		job := courier.Job{Name: "odd <b>", Steps: []courier.StepSpec{{Type: "test.step", Config: map[string]any{"fail": "<script>\nBcc: x"}}}}
		if _, err := e.Jobs().Define(t.Context(), job, nil); err != nil {
			t.Fatal(err)
		}
		first := enqueued(t, e, "odd <b>")
		time.Sleep(time.Minute)
		var last courier.Execution
		for range 60 {
			last = enqueued(t, e, "odd <b>")
		}
		time.Sleep(28 * time.Minute)
		if n := len(post.all()); n != 1 {
			t.Fatalf("%d messages within the window, want 1", n)
		}
		time.Sleep(3 * time.Minute)
		sent := post.all()
		if len(sent) != 2 {
			t.Fatalf("%d messages after the window, want 2", len(sent))
		}
		one, digest := sent[0], sent[1]
		if one.Subject != `Night: job "odd <b>" failed` || !strings.Contains(one.Text, string(first.ID)) || !slices.Equal(one.To, sub.Email.To) || strings.Contains(one.Text, "more times") {
			t.Errorf("first message: %+v", one)
		}
		if strings.Contains(one.HTML, "<script>") || !strings.Contains(one.HTML, "&lt;script&gt;") || strings.Contains(one.HTML, "odd <b>") {
			t.Errorf("HTML: %s", one.HTML)
		}
		if digest.Subject != `Night: job "odd <b>" failed, and 59 more times` || strings.Count(digest.Text, "\n- ") != 50 || strings.Contains(digest.Text, string(last.ID)) || !strings.Contains(digest.Text, "(59, the first 50 of them)") {
			t.Errorf("digest: %s\n%s", digest.Subject, digest.Text)
		}
		if one.ID == digest.ID || one.ID != string(first.ID)+"-"+strings.TrimPrefix(one.ID, string(first.ID)+"-") {
			t.Errorf("ids %q and %q", one.ID, digest.ID)
		}
	})
}
