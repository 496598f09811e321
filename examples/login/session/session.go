// Package session keeps the sessions of the users of a service in memory. A browser has a random
// token for its session in a cookie. A service that runs in several processes keeps the same data
// in its database: a digest of the token, the user and two instants.
package session

import (
	"crypto/rand"
	"crypto/sha256"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// Idle is the time after which a session without requests ends. Most is the time after which every
// session ends. MaxSessions is the largest number of sessions in a store.
const (
	Idle        = time.Hour
	Most        = 12 * time.Hour
	MaxSessions = 10_000
)

// A Store keeps sessions, each with a user of type U. Its methods may be called by several
// goroutines. Use [New].
type Store[U any] struct {
	login  string // the path of the login page
	secure bool

	mu       sync.Mutex
	sessions map[[sha256.Size]byte]*entry[U] // by the digest of the token
}

type entry[U any] struct {
	user        U
	began, seen time.Time
}

func (e *entry[U]) ended(now time.Time) bool {
	return now.Sub(e.began) > Most || now.Sub(e.seen) > Idle
}

// New returns a store without sessions. Login is the path of the login page. Secure must be true if
// browsers reach the service by https, as they do unless they run on the same host.
func New[U any](login string, secure bool) *Store[U] {
	return &Store[U]{login: login, secure: secure, sessions: make(map[[sha256.Size]byte]*entry[U])}
}

// cookie returns the cookie for a token; an empty token removes it. With SameSite=Lax a link in a
// mail can open a page, but the form of another site sends no cookie. With the prefix __Host- a
// browser accepts the cookie only from this host by https, for all paths.
func (s *Store[U]) cookie(token string) *http.Cookie {
	c := &http.Cookie{Name: "session", Value: token, Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: s.secure}
	if s.secure {
		c.Name = "__Host-session"
	}
	if token == "" {
		c.MaxAge = -1
	}
	return c
}

// Begin logs a user in. The token is always new, so that a token which an attacker has put into the
// browser is useless.
func (s *Store[U]) Begin(w http.ResponseWriter, r *http.Request, user U) {
	s.end(r)
	token, now := rand.Text(), time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.sessions) >= MaxSessions {
		s.makeRoom(now)
	}
	s.sessions[sha256.Sum256([]byte(token))] = &entry[U]{user, now, now}
	http.SetCookie(w, s.cookie(token))
}

// makeRoom removes the sessions that have ended, and the one that was idle for the longest time.
func (s *Store[U]) makeRoom(now time.Time) {
	var oldest [sha256.Size]byte
	for k, e := range s.sessions {
		if e.ended(now) {
			delete(s.sessions, k)
		} else if o := s.sessions[oldest]; o == nil || e.seen.Before(o.seen) {
			oldest = k
		}
	}
	if len(s.sessions) >= MaxSessions {
		delete(s.sessions, oldest)
	}
}

// User returns the user who makes a request. Ok is false if nobody has logged in.
func (s *Store[U]) User(r *http.Request) (user U, ok bool) {
	c, err := r.Cookie(s.cookie("").Name)
	if err != nil {
		return user, false
	}
	key, now := sha256.Sum256([]byte(c.Value)), time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.sessions[key]
	if e == nil || e.ended(now) {
		delete(s.sessions, key)
		return user, false
	}
	e.seen = now
	return e.user, true
}

// End logs out the user who makes a request.
func (s *Store[U]) End(w http.ResponseWriter, r *http.Request) {
	s.end(r)
	http.SetCookie(w, s.cookie(""))
}

func (s *Store[U]) end(r *http.Request) {
	if c, err := r.Cookie(s.cookie("").Name); err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.sessions, sha256.Sum256([]byte(c.Value)))
	}
}

// Pages returns a handler that redirects a browser without a session to the login page, if it asks
// for a page. Other requests, such as those of scripts to an API, are passed on and answered with
// 401.
func (s *Store[U]) Pages(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		page := r.Method == http.MethodGet && strings.Contains(r.Header.Get("Accept"), "text/html")
		if _, ok := s.User(r); page && !ok {
			w.Header().Set("Cache-Control", "no-store")
			http.Redirect(w, r, s.login+"?next="+url.QueryEscape(r.URL.RequestURI()), http.StatusSeeOther)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// Local returns the path and query of a page of this service to which a login may lead. If text
// leads to another site, it returns other: a login page that redirects to any site helps phishing.
func Local(text, other string) string {
	u, err := url.Parse(text)
	if err != nil || u.IsAbs() || u.Host != "" || !strings.HasPrefix(text, "/") || strings.HasPrefix(text, "//") || strings.ContainsAny(text, "\\\t\r\n") {
		return other
	}
	return u.RequestURI()
}
