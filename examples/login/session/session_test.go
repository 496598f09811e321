package session_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier/examples/login/session"
)

// begin logs a user in and returns a request with the cookie.
func begin(t *testing.T, s *session.Store[string], user string, r *http.Request) (*http.Request, *http.Cookie) {
	t.Helper()
	rec := httptest.NewRecorder()
	s.Begin(rec, r, user)
	cookies := rec.Result().Cookies()
	if len(cookies) != 1 {
		t.Fatalf("cookies %v", cookies)
	}
	next := httptest.NewRequest("GET", "/", nil)
	next.AddCookie(cookies[0])
	return next, cookies[0]
}

func TestExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := session.New[string]("/login", true)
		r, c := begin(t, s, "ann", httptest.NewRequest("POST", "/login", nil))
		if c.Name != "__Host-session" || !c.Secure || !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Path != "/" || c.Domain != "" {
			t.Errorf("%+v", c)
		}
		known := func(want bool) {
			t.Helper()
			if user, ok := s.User(r); ok != want || ok && user != "ann" {
				t.Errorf("%q, %v, want %v", user, ok, want)
			}
		}
		for range 12 {
			known(true)
			time.Sleep(session.Idle)
		}
		known(true)
		time.Sleep(time.Second)
		known(false)
		r, _ = begin(t, s, "ann", r)
		time.Sleep(session.Idle + time.Second)
		known(false)
		old, _ := begin(t, s, "ann", r)
		r, _ = begin(t, s, "ann", old)
		known(true)
		if _, ok := s.User(old); ok {
			t.Error("the session before is still there")
		}
	})
}

func TestMaxSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := session.New[string]("/login", false)
		first, _ := begin(t, s, "first", httptest.NewRequest("POST", "/login", nil))
		time.Sleep(time.Second)
		var last *http.Request
		for range session.MaxSessions {
			last, _ = begin(t, s, "other", httptest.NewRequest("POST", "/login", nil))
		}
		if _, ok := s.User(first); ok {
			t.Error("the oldest is still there")
		}
		if _, ok := s.User(last); !ok {
			t.Error("the last is gone")
		}
	})
}

func TestLocal(t *testing.T) {
	for text, want := range map[string]string{
		"/a?b=c%2F#d": "/a?b=c%2F", "": "/x", "a": "/x", "//b/": "/x", "https://b/": "/x", "/\\b": "/x", "\\/b": "/x", "/\t/b": "/x", "javascript:x": "/x", "/a\r\nb": "/x", "/%zz": "/x",
	} {
		if got := session.Local(text, "/x"); got != want {
			t.Errorf("%q leads to %q, want %q", text, got, want)
		}
	}
}
