package ftp_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/test/ftpserver"
	"github.com/courierhq/courier/internal/test/memnet"
	"github.com/courierhq/courier/internal/test/steprig"
)

// TestReusedSession has the session end within five seconds of its last reply,
// in every way, before a step of each type takes it again. It connects once more
// and succeeds in the same attempt.
func TestReusedSession(t *testing.T) {
	verbs := map[string]object{
		"ftp.list":     {"remote_path": "dir"},
		"ftp.stat":     {"remote_path": "dir/a"},
		"ftp.download": {"remote_path": "dir/a", "local_path": "got"},
		"ftp.upload":   {"local_path": "a", "remote_path": "dir/b"},
		"ftp.mkdir":    {"remote_path": "new/sub"},
		"ftp.rmdir":    {"remote_path": "empty"},
		"ftp.delete":   {"remote_path": "dir/a"},
		"ftp.rename":   {"source_path": "dir/a", "destination_path": "dir/z"},
	}
	ends := map[string]func(server *ftpserver.Conn, client *memnet.Conn){
		"closed": func(server *ftpserver.Conn, _ *memnet.Conn) { server.Close() },
		"reset":  func(_ *ftpserver.Conn, client *memnet.Conn) { client.Cut() },
		"421":    func(server *ftpserver.Conn, _ *memnet.Conn) { server.Reply("421 Timeout."); server.Close() },
	}
	for how, end := range ends {
		for key, cfg := range verbs {
			t.Run(how+" "+key, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var server atomic.Pointer[ftpserver.Conn]
					var client atomic.Pointer[memnet.Conn]
					r := newRig(t, ftpserver.Options{Answer: func(c *ftpserver.Conn, _, _ string) bool { server.Store(c); return false }})
					dial := r.conn.Dial
					r.conn.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
						c, err := dial(ctx, network, addr)
						if m, ok := c.(*memnet.Conn); ok && strings.HasSuffix(addr, ":21") {
							client.Store(m)
						}
						return c, err
					}
					r.Put("dir/a", steprig.Content(1000))
					r.Put("empty/x", nil)
					remove(r.Remote, "empty/x")
					r.PutLocal("a", steprig.Content(2000))
					r.Must(r.Run(t.Context(), "ftp.list", nil))
					time.Sleep(time.Second)
					end(server.Load(), client.Load())
					time.Sleep(time.Second)
					r.Must(r.Run(t.Context(), key, cfg))
					if n := r.Logins(); n != 2 {
						t.Errorf("%d logins, want one more", n)
					}
				})
			})
		}
	}
}

// TestReusedSessionOnce has every session end: the step connects once more, and
// then it fails.
func TestReusedSessionOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended atomic.Bool
		r := newRig(t, ftpserver.Options{Answer: func(c *ftpserver.Conn, verb, _ string) bool {
			if ended.Load() && verb == "MLST" {
				c.Close()
				return true
			}
			return false
		}})
		r.Put("a", steprig.Content(10))
		r.Must(r.Run(t.Context(), "ftp.stat", object{"remote_path": "a"}))
		ended.Store(true)
		_, err := r.Run(t.Context(), "ftp.stat", object{"remote_path": "a"})
		steprig.WantError(t, err, false, "connection is lost")
		if n := r.Logins(); n != 2 {
			t.Errorf("%d logins, want one more", n)
		}
	})
}

// TestRefusals is a table of answers to a password.
func TestRefusals(t *testing.T) {
	for said, permanent := range map[string]bool{
		"530 Login incorrect.":                                   true,
		"530 Login incorrect, try again.":                        true,
		"530 Login authentication failed":                        true,
		"530 Account locked, try again in 15 minutes":            true,
		"530 Too many failed attempts, try later":                true,
		"530 Account temporarily disabled":                       true,
		"530 User cannot log in, home directory inaccessible.":   true,
		"430 Invalid username or password":                       true,
		"421 Maximum login attempts exceeded, closing":           true,
		"421 Login incorrect; closing control connection":        true,
		"532 Need account":                                       true,
		"500 What?":                                              true,
		"530 Sorry, the maximum number of clients are connected": false,
		"530 Too many users, try again later":                    false,
		"421 Too many connections from this address":             false,
		"421 Timeout": false,
		"450 Busy":    false,
		"":            true, // no answer, twice
	} {
		t.Run(said, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var tried atomic.Int32
				r := newRig(t, ftpserver.Options{Answer: on2("PASS", func(c *ftpserver.Conn) bool {
					tried.Add(1)
					if said != "" {
						c.Reply(said)
					}
					if said == "" || strings.HasPrefix(said, "421") {
						c.Close()
					}
					return true
				})})
				_, err := r.Run(t.Context(), "ftp.list", nil)
				want := int32(1)
				if said == "" {
					want = 2
				}
				steprig.WantError(t, err, permanent)
				if errors.Is(err, courier.ErrLogin) != permanent || tried.Load() != want {
					t.Errorf("%d logins, %v", tried.Load(), err)
				}
			})
		})
	}
}
