package safehttp_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/courierhq/courier/internal/safehttp"
	"github.com/courierhq/courier/internal/test/memnet"
)

type netConn = net.Conn

// FuzzURL: a URL that passes leads to a public address by https, and no message
// shows more of it than its origin.
func FuzzURL(f *testing.F) {
	for _, text := range append(append([]string{}, reserved...), public...) {
		f.Add("https://" + text + "/hush")
		f.Add("https://[" + text + "]:443/hush")
	}
	for _, text := range []string{
		"https://2130706433/", "https://0x7f.1/", "https://0177.0.0.1/", "https://127.1/", "https://1.1.1.1.:443/", "https://example.com/hush?hush#hush", "https://a:hush@b/", "https://[::ffff:7f00:1]/",
		"https://ｅxample.com/", "https://127。0。0。1/", "https://%31%32%37.0.0.1/", "https://localhost/", "HTTPS://EXAMPLE.COM", "https:\\\\a\\b", "https://a\x00b/hush", "https://a b/hush", "http://\x1b[2J/hush", "//x", "https://[::1%25hush]/",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		u, err := safehttp.ParseURL(text)
		if err == nil {
			err = new(safehttp.Options).CheckURL(u)
		}
		if err != nil {
			var refused *safehttp.RefusedError
			if !errors.As(err, &refused) {
				t.Errorf("%q: %v is no refusal", text, err)
			}
			_, after, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(text), "https://"), "/")
			if strings.Contains(after, "hush") && strings.Contains(err.Error(), "hush") && !strings.Contains(strings.TrimSuffix(text, after), "hush") {
				t.Errorf("%q: the error shows the path: %v", text, err)
			}
			if strings.ContainsAny(err.Error(), "\x00\x1b\r\n") {
				t.Errorf("%q: control characters are in %q", text, err)
			}
			return
		}
		if u.Scheme != "https" || u.User != nil || u.Hostname() == "" {
			t.Errorf("%q passes as %v", text, u)
		}
		if ip, err := netip.ParseAddr(u.Hostname()); err == nil && !safehttp.Public(ip) {
			t.Errorf("%q passes, and leads to %v", text, ip)
		}
		if again, err := url.Parse(u.String()); err != nil || again.Host != u.Host {
			t.Errorf("%q is %q, and then %v, %v", text, u.Host, again, err)
		}
	})
}

// FuzzResponse: whatever a server sends, the client ends, reads no more than it
// is asked to, and connects to no other address than one that is public.
func FuzzResponse(f *testing.F) {
	for _, text := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\nffffffffffffffff\r\nx",
		"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1/\r\n\r\n",
		"HTTP/1.1 302 Found\r\nLocation: http://[::ffff:10.0.0.1]/\r\n\r\n",
		"HTTP/1.1 301 Moved\r\nLocation: //private.example.com/\r\n\r\n",
		"HTTP/1.1 307 Moved\r\nLocation: /again\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 303 Moved\r\nLocation: \x1b]0;x\x07\r\n\r\n",
		"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\n\r\nHTTP/1.1 200 OK\r\n\r\nx",
		"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nx",
		"HTTP/1.1 206 Partial\r\nContent-Range: bytes 18446744073709551615-0/-1\r\n\r\nx",
		"HTTP/1.1 429 Slow\r\nRetry-After: 99999999999999999999\r\n\r\n",
		"HTTP/1.1 503 Slow\r\nRetry-After: -1\r\nContent-Length: -1\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Disposition: attachment; filename=\"../../etc/passwd\"\r\n\r\nx",
		"HTTP/1.1 200 OK\r\nContent-Length: 9223372036854775808\r\n\r\nx",
		"HTTP/1.0 200\r\n\r\n", "HTTP/2.0 200 OK\r\n\r\n", "\r\n\r\n\r\n", "SSH-2.0-x\r\n", "HTTP/1.1 200 OK\r\n" + strings.Repeat("X: y\r\n", 20_000) + "\r\n", "",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, answer []byte) {
		synctest.Test(t, func(t *testing.T) {
			l := memnet.Listen()
			done := make(chan struct{})
			go func() {
				defer close(done)
				for {
					conn, err := l.Accept()
					if err != nil {
						return
					}
					conn.Read(make([]byte, 4096))
					conn.Write(answer)
					conn.Close()
				}
			}()
			c := safehttp.New(safehttp.Options{
				AllowPlain: true,
				Lookup: func(_ context.Context, host string) ([]netip.Addr, error) {
					if strings.HasPrefix(host, "private") {
						return []netip.Addr{netip.MustParseAddr("192.168.1.1")}, nil
					}
					return []netip.Addr{netip.MustParseAddr("93.184.215.14")}, nil
				},
				Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
					if at, err := netip.ParseAddrPort(addr); err != nil || !safehttp.Public(at.Addr()) {
						t.Errorf("%q makes it connect to %s", answer, addr)
					}
					return l.DialContext(ctx, network, addr)
				},
			})
			u := &url.URL{Scheme: "http", Host: "example.com", Path: "/hush"}
			resp, err := c.Do(t.Context(), safehttp.Request{Method: "GET", URL: u, MaxRedirects: 3})
			if err == nil {
				_, err = io.CopyN(io.Discard, resp.Body, 1<<20)
				resp.Body.Close()
			}
			if err != nil && (strings.ContainsAny(err.Error(), "\x00\x1b\r\n") || strings.Contains(err.Error(), "hush")) {
				t.Errorf("%q: the error is %q", answer, err)
			}
			c.Close()
			l.Close()
			<-done
		})
	})
}
