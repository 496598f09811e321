package main

import (
	"context"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"sync"
	"time"

	"github.com/courierhq/courier/access"
)

// rounds is the work of one check of a new password (OWASP, 2023). failures is the number of wrong
// passwords of a user after which further attempts are refused for some time. checks is how many
// passwords are checked at the same time: each check costs processor time, and an attacker must not
// be able to use up all of it.
const (
	rounds   = 600_000
	failures = 5
	lockout  = time.Minute
	checks   = 2
)

// A user is a person who may log in.
type user struct {
	id, name string
	role     access.Role
	rounds   int
	salt     []byte
	hash     []byte // of the password
}

func newUser(id, name string, role access.Role, rounds int, password string) (*user, error) {
	u := &user{id: id, name: name, role: role, rounds: rounds, salt: make([]byte, 16)}
	rand.Read(u.salt)
	var err error
	u.hash, err = u.digest(password)
	return u, err
}

func (u *user) digest(password string) ([]byte, error) {
	return pbkdf2.Key(sha256.New, password, u.salt, u.rounds, sha256.Size)
}

// users are all persons who may log in. Its methods may be called by several goroutines.
type users struct {
	byID   map[string]*user
	nobody *user // its password is checked for names that do not exist, so that this takes the same time
	slots  chan struct{}

	mu     sync.Mutex
	failed map[string][]time.Time // by name, of users who exist
}

func newUsers(list ...*user) (*users, error) {
	nobody, err := newUser("", "", access.None, rounds, rand.Text())
	us := &users{byID: make(map[string]*user), nobody: nobody, slots: make(chan struct{}, checks), failed: make(map[string][]time.Time)}
	for _, u := range list {
		us.byID[u.id] = u
	}
	return us, err
}

// check returns the user with a name and a password. It returns nil if there is none, or if too
// many wrong passwords were tried lately.
func (us *users) check(ctx context.Context, id, password string) *user {
	u := us.byID[id]
	if u == nil {
		u = us.nobody
	}
	select {
	case us.slots <- struct{}{}:
		defer func() { <-us.slots }()
	case <-ctx.Done():
		return nil
	}
	if us.locked(u.id) {
		return nil
	}
	hash, err := u.digest(password)
	if err != nil || subtle.ConstantTimeCompare(hash, u.hash) == 0 || u == us.nobody {
		us.mu.Lock()
		defer us.mu.Unlock()
		if u != us.nobody {
			us.failed[u.id] = append(us.failed[u.id], time.Now())
		}
		return nil
	}
	return u
}

// locked reports whether too many wrong passwords of a user were tried lately.
func (us *users) locked(id string) bool {
	us.mu.Lock()
	defer us.mu.Unlock()
	list := us.failed[id]
	for len(list) > 0 && time.Since(list[0]) > lockout {
		list = list[1:]
	}
	us.failed[id] = list
	return len(list) >= failures
}
