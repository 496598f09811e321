package ftp_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/test/ftpserver"
	"github.com/courierhq/courier/internal/test/steprig"
	"github.com/courierhq/courier/steps/ftp"
)

// newActive is a rig on the loopback interface, whose server connects for
// content.
func newActive(t *testing.T, address string, opt ftpserver.Options) *rig {
	t.Helper()
	r := &rig{Rig: steprig.Rig{T: t, Remote: t.TempDir(), Work: t.TempDir(), Attempt: 1, Resources: &courier.Resources{}}}
	opt.Users = map[string]string{steprig.User: steprig.Password}
	opt.Listen = func() (net.Listener, int, error) { return nil, 0, errors.New("only active connections") }
	s, err := ftpserver.New(r.Remote, &opt)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		t.Fatal(err)
	}
	r.Server = s
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		r.Resources.Close()
		if err := errors.Join(s.Close(), <-done); err != nil {
			t.Errorf("server: %v", err)
		}
	})
	r.conn = ftp.Connection{Host: address, Port: l.Addr().(*net.TCPAddr).Port, Username: steprig.User, Password: steprig.Password, Security: "none", Active: true}
	if opt.TLS != nil {
		r.conn.Security, r.conn.Authorities = "explicit", ftpserver.ServerCertificate
	}
	ftp.Register(&r.Registry, connections(func() ftp.Connection { return r.conn }))
	return r
}

// TestActive has the server connect for content, over IPv4 and IPv6, with and
// without TLS.
func TestActive(t *testing.T) {
	for _, address := range []string{"127.0.0.1", "::1"} {
		for _, encrypted := range []bool{false, true} {
			opt := ftpserver.Options{}
			if encrypted {
				opt.TLS, opt.RequireReuse = tlsConfig, true
			}
			t.Run(address+" "+strconv.FormatBool(encrypted), func(t *testing.T) {
				r := newActive(t, address, opt)
				r.PutLocal("f", steprig.Content(300_000))
				r.Put("dir/keep", nil)
				r.Must(r.Run(t.Context(), "ftp.upload", object{"local_path": "f", "remote_path": "dir/", "resume": true}))
				r.Must(r.Run(t.Context(), "ftp.download", object{"remote_path": "dir/f", "local_path": "g"}))
				out := r.Must(r.Run(t.Context(), "ftp.list", object{"remote_path": "dir"}))
				if r.GetLocal("g") != string(steprig.Content(300_000)) || out["file_count"] != 2. {
					t.Errorf("%v; the content differs: %v", out, r.GetLocal("g") != string(steprig.Content(300_000)))
				}
				for _, c := range r.Commands() {
					if !strings.HasPrefix(c, "PORT ") && !strings.HasPrefix(c, "EPRT ") {
						continue
					}
					if at, err := activeAddress(c); err != nil || at.Addr().String() != address || at.Port() < 1024 {
						t.Errorf("%s: %v, %v", c, at, err)
					}
					if strings.HasPrefix(c, "EPRT ") != strings.Contains(address, ":") {
						t.Errorf("%s with %s", c, address)
					}
				}
			})
		}
	}
}

// activeAddress reads the address in PORT 127,0,0,1,4,5 or EPRT |2|::1|1029|.
func activeAddress(command string) (netip.AddrPort, error) {
	verb, argument, _ := strings.Cut(command, " ")
	if verb == "EPRT" {
		parts := strings.Split(argument, "|")
		if len(parts) != 5 || parts[0] != "" || parts[1] != "2" || parts[4] != "" {
			return netip.AddrPort{}, errors.New("malformed")
		}
		return netip.ParseAddrPort(net.JoinHostPort(parts[2], parts[3]))
	}
	parts := strings.Split(argument, ",")
	if len(parts) != 6 {
		return netip.AddrPort{}, errors.New("malformed")
	}
	high, err := strconv.Atoi(parts[4])
	low, err2 := strconv.Atoi(parts[5])
	if err := errors.Join(err, err2); err != nil {
		return netip.AddrPort{}, err
	}
	return netip.ParseAddrPort(strings.Join(parts[:4], ".") + ":" + strconv.Itoa(high<<8|low))
}

// TestActiveRefused has a server that doesn't know EPRT, and one that never
// connects.
func TestActiveRefused(t *testing.T) {
	r := newActive(t, "::1", ftpserver.Options{Answer: says2("EPRT", "500 unknown")})
	r.Put("f", []byte("x"))
	_, err := r.Run(t.Context(), "ftp.download", object{"remote_path": "f"})
	steprig.WantError(t, err, true, `500 "unknown"`)

	var asked string
	r = newActive(t, "::1", ftpserver.Options{Answer: on("EPRT", func(c *ftpserver.Conn, argument string) {
		asked = argument
		c.Reply("200 fine") // and goes nowhere
	})})
	r.Put("f", []byte("x"))
	r.conn.ConnectTimeout = 300 * time.Millisecond
	r.conn.OperationTimeout = 2 * time.Second
	_, err = r.Run(t.Context(), "ftp.download", object{"remote_path": "f"})
	if err == nil || asked == "" {
		t.Errorf("asked to connect to %q: %v", asked, err)
	}
	if at, e := activeAddress("EPRT " + asked); e != nil || dials(at.String()) {
		t.Errorf("%v is still waited at, %v", at, e)
	}
}

// TestActiveStranger has somebody else connect for content first. What it sends
// is not taken for the server's.
func TestActiveStranger(t *testing.T) {
	var wrong []error
	r := newActive(t, "127.0.0.1", ftpserver.Options{Answer: func(_ *ftpserver.Conn, verb, argument string) bool {
		if verb != "PORT" {
			return false
		}
		at, err := activeAddress("PORT " + argument)
		stranger := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}, Timeout: time.Second}
		conn, e := stranger.Dial("tcp", at.String())
		if e == nil {
			_, e = conn.Write([]byte("stolen"))
			conn.Close()
		}
		wrong = append(wrong, err, e)
		return false
	}})
	r.Put("f", []byte("genuine"))
	r.Must(r.Run(t.Context(), "ftp.download", object{"remote_path": "f", "local_path": "f"}))
	if got := r.GetLocal("f"); got != "genuine" {
		t.Errorf("content is %q", got)
	}
	if len(wrong) == 0 || slices.ContainsFunc(wrong, func(err error) bool { return err != nil }) {
		t.Errorf("the stranger did not come: %v", wrong)
	}
}

// dials reports whether somebody listens at an address.
func dials(address string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err == nil {
		conn.Close()
	}
	return err == nil
}
