package notify_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/notify"
)

// TestLink: with BaseURL, functions and mails get the address of the page of the execution. What a
// job gets does not depend on the engine that delivers.
func TestLink(t *testing.T) {
	for base, before := range map[string]string{
		"": "", "https://ops.example.com": "https://ops.example.com/", "https://ops.example.com/a%2Fb/courier/": "https://ops.example.com/a%2Fb/courier/",
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, func(o *notify.Options) { o.BaseURL = base })
			w.subscribe(nil)
			for _, s := range []notify.Subscription{
				{Name: "mail", Kind: notify.KindEmail, Email: &notify.EmailTarget{To: []string{"ops@example.com"}}},
				{Name: "job", Kind: notify.KindJob, Job: &notify.JobTarget{Name: "good"}},
			} {
				s.Events, s.Jobs = []courier.EventType{courier.EventJobFailed}, []string{"bad"}
				if _, err := w.Set(t.Context(), s, courier.By{}); err != nil {
					t.Fatal(err)
				}
			}
			want := ""
			if id := w.end("bad"); base != "" {
				want = before + "executions/" + string(id)
			}
			time.Sleep(time.Minute)
			w.mu.Lock()
			defer w.mu.Unlock()
			if len(w.got) != 1 || len(w.mails) != 1 || len(w.started) != 1 {
				t.Fatalf("%d, %d, %d", len(w.got), len(w.mails), len(w.started))
			}
			if w.got[0].URL != want {
				t.Errorf("%q: the function gets %q, want %q", base, w.got[0].URL, want)
			}
			m := w.mails[0]
			if want != "" && (!strings.Contains(m.Text, "\n"+want+"\n") || !strings.Contains(m.HTML, `<a href="`+want+`">`)) || want == "" && strings.Contains(m.HTML, "<a") {
				t.Errorf("%q: the mail is %s %s", base, m.Text, m.HTML)
			}
			if n, ok := w.started[0].Params["event"].(notify.Notification); ok && n.URL != "" {
				t.Errorf("the job gets %q", n.URL)
			}
		})
	}
}
