package notify_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/notify"
)

func TestEmailDigest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		sub := notify.Subscription{
			Name: "ops", Kind: notify.KindEmail, Events: []courier.EventType{courier.EventJobFailed},
			Email: &notify.EmailTarget{To: []string{"Operations <ops@example.com>"}, Subject: "Night"},
		}
		if _, err := w.Set(t.Context(), sub, courier.By{}); err != nil {
			t.Fatal(err)
		}
		w.define("odd <b>")
		fail := func() courier.ExecutionID { return w.endWith("odd <b>", "<script>\nBcc: x") }
		sent := func() []notify.Mail {
			w.mu.Lock()
			defer w.mu.Unlock()
			return slices.Clone(w.mails)
		}
		first := fail()
		time.Sleep(time.Minute)
		var last courier.ExecutionID
		for range 60 {
			last = fail()
		}
		time.Sleep(28 * time.Minute)
		if n := len(sent()); n != 1 {
			t.Fatalf("%d messages within the window, want 1", n)
		}
		time.Sleep(3 * time.Minute)
		mails := sent()
		if len(mails) != 2 {
			t.Fatalf("%d messages after the window, want 2", len(mails))
		}
		one, digest := mails[0], mails[1]
		if one.Subject != `Night: job "odd <b>" failed` || !strings.Contains(one.Text, string(first)) || !slices.Equal(one.To, sub.Email.To) || strings.Contains(one.Text, "more times") {
			t.Errorf("first message: %+v", one)
		}
		if strings.Contains(one.HTML, "<script>") || !strings.Contains(one.HTML, "&lt;script&gt;") || strings.Contains(one.HTML, "odd <b>") {
			t.Errorf("HTML: %s", one.HTML)
		}
		if digest.Subject != `Night: job "odd <b>" failed, and 59 more times` || strings.Count(digest.Text, "\n- ") != 50 || strings.Contains(digest.Text, string(last)) || !strings.Contains(digest.Text, "(59, the first 50 of them)") {
			t.Errorf("digest: %s\n%s", digest.Subject, digest.Text)
		}
		if one.ID == digest.ID || !strings.HasPrefix(one.ID, string(first)+"-") {
			t.Errorf("ids %q and %q", one.ID, digest.ID)
		}
	})
}

// A message about an execution with failed items names them.
func TestEmailOfFailedItems(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		sub := notify.Subscription{
			Name: "ops", Kind: notify.KindEmail, Events: []courier.EventType{courier.EventJobFailed}, Email: &notify.EmailTarget{To: []string{"ops@example.com"}},
		}
		if _, err := w.Set(t.Context(), sub, courier.By{}); err != nil {
			t.Fatal(err)
		}
		w.endWith("bad", "2 items failed")
		time.Sleep(time.Minute)
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(w.mails) != 1 || !strings.Contains(w.mails[0].Text, "\nFailed: item \"inv-7.csv\" (index 27), at step get: is bad\nFailed: and 1 more\n") {
			t.Errorf("the messages are %+v", w.mails)
		}
	})
}
