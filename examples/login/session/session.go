// Package session keeps who has logged in to a service, in memory, under a random token that
// the browser has in a cookie. A service that runs in several processes keeps the same in its
// database: what is stored is a digest of the token, the user and two instants.
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

// Idle is the time after which a session ends that sends no requests, and Most the time after
// which every session ends. MaxSessions is the number of sessions in a store.
const (
	Idle        = time.Hour
	Most        = 12 * time.Hour
	MaxSessions = 10_000
)

// A Store keeps sessions, each of a user of type U. Its methods may be called by several
// goroutines. Use [New].
type Store[U any] struct {
	login  string // the path of the page to log in
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

// New returns a store without sessions. Login is the path of the page to log in. If browsers
// reach the service by https, as they do except on its own host, secure must be true.
func New[U any](login string, secure bool) *Store[U] {
	return &Store[U]{login: login, secure: secure, sessions: make(map[[sha256.Size]byte]*entry[U])}
}

// cookie returns the cookie for a token; an empty token removes it. SameSite=Lax lets a
// link in a mail open a page, and sends the cookie with no form of another site. With the prefix
// __Host- a browser accepts the cookie only from this host by https, for all of its paths.
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

// Begin logs a user in. The token is always a new one, so that one which somebody else has
// put into the browser is worth nothing.
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

// makeRoom removes the sessions that have ended, and the one that was idle for longest.
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

// User returns who makes a request; ok is false if nobody has logged in.
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

// End logs the user of a request out.
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

// Pages returns a handler that sends a browser which asks for a page, and has no session, to the
// page to log in. Other requests, such as those of scripts to an API, are passed on: they are
// answered with 401.
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

// Local returns the path of a page of this service to which a login leads, with its query; or
// other, if text leads elsewhere: a login page that redirects anywhere helps those who fish for
// passwords.
func Local(text, other string) string {
	u, err := url.Parse(text)
	if err != nil || u.IsAbs() || u.Host != "" || !strings.HasPrefix(text, "/") || strings.HasPrefix(text, "//") || strings.ContainsAny(text, "\\\t\r\n") {
		return other
	}
	return u.RequestURI()
}
