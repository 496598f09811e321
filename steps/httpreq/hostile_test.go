package httpreq_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier/internal/test/memnet"
)

// pour writes until the other side has had enough.
func pour(c net.Conn, text string) {
	for {
		if _, err := io.WriteString(c, text); err != nil {
			return
		}
	}
}

// Whatever a server does, the step ends with an error that says what, memory
// stays bounded, and no file is left.
func TestHostileServers(t *testing.T) {
	var bomb bytes.Buffer
	z, _ := gzip.NewWriterLevel(&bomb, gzip.BestSpeed)
	for range 8 {
		z.Write(make([]byte, 1<<20))
	}
	z.Close()
	ok := "HTTP/1.1 200 OK\r\n"
	for _, c := range []struct {
		name      string
		serve     func(c net.Conn)
		permanent bool
		want      string
	}{
		{"endless body", func(c net.Conn) { io.WriteString(c, ok+"\r\n"); pour(c, strings.Repeat("x", 8192)) }, true, "has more than 100000 bytes"},
		{"endless chunks", func(c net.Conn) { io.WriteString(c, ok+"Transfer-Encoding: chunked\r\n\r\n"); pour(c, "1\r\nx\r\n") }, true, "has more than 100000 bytes"},
		{"declared too large", func(c net.Conn) { io.WriteString(c, ok+"Content-Length: 9223372036854775807\r\n\r\n") }, true, "has more than 100000 bytes"},
		{"gzip bomb", func(c net.Conn) {
			fmt.Fprintf(c, "%sContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n", ok, bomb.Len())
			c.Write(bomb.Bytes())
		}, true, "has more than 100000 bytes"},
		{"no gzip", func(c net.Conn) {
			io.WriteString(c, ok+"Content-Encoding: gzip\r\nContent-Length: 17\r\n\r\nhello hello hello")
		}, false, "gzip"},
		{"strange encoding", func(c net.Conn) { io.WriteString(c, ok+"Content-Encoding: br\r\nContent-Length: 5\r\n\r\nhello") }, true, `encoded as "br"`},
		{"shorter than declared", func(c net.Conn) { io.WriteString(c, ok+"Content-Length: 100\r\n\r\nhello") }, false, "ends in the middle"},
		{"chunks cut", func(c net.Conn) { io.WriteString(c, ok+"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n") }, false, "ends in the middle"},
		{"chunk of nonsense", func(c net.Conn) { io.WriteString(c, ok+"Transfer-Encoding: chunked\r\n\r\nzz\r\nhello\r\n") }, false, "chunk"},
		{"negative length", func(c net.Conn) { io.WriteString(c, ok+"Content-Length: -5\r\n\r\nhello") }, false, "Content-Length"},
		{"two lengths", func(c net.Conn) { io.WriteString(c, ok+"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello") }, false, "Content-Length"},
		{"large header", func(c net.Conn) { io.WriteString(c, ok+"X: "+strings.Repeat("x", 1<<20)+"\r\n\r\n") }, false, "header"},
		{"endless headers", func(c net.Conn) { io.WriteString(c, ok); pour(c, "X-A: b\r\n") }, false, "header"},
		{"endless interim responses", func(c net.Conn) { pour(c, "HTTP/1.1 103 Early Hints\r\nX: y\r\n\r\n") }, false, ""},
		{"no HTTP", func(c net.Conn) { io.WriteString(c, "SSH-2.0-x\x1b[2J\r\n") }, false, `malformed`},
		{"strange status", func(c net.Conn) { io.WriteString(c, "HTTP/1.1 999999 \x1b[2J\r\n\r\n") }, false, "malformed"},
		{"header with controls", func(c net.Conn) { io.WriteString(c, ok+"bad\x1b[2J header\r\n\r\n") }, false, "malformed"},
		{"closes at once", func(c net.Conn) {}, false, "EOF"},
		{"switches protocols", func(c net.Conn) { io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n") }, true, "status 101"},
		{"a part unasked", func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-4/10\r\nContent-Length: 5\r\n\r\nhello")
		}, false, "only a part"},
	} {
		t.Run(c.name, func(t *testing.T) {
			url := raw(t, c.serve)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for _, target := range []string{"", "out"} {
				b := newBench(t)
				b.fails(object{"url": url, "output_path": target, "max_bytes": 100_000}, c.permanent, c.want)
				if left := b.files(); len(left) > 0 {
					t.Errorf("left are %v", left)
				}
				if _, err := b.run(object{"url": url, "max_bytes": 100_000}); err != nil && strings.ContainsAny(err.Error(), "\x1b\r\n") {
					t.Errorf("the error can act on a terminal: %q", err)
				}
			}
			runtime.ReadMemStats(&after)
			if used := after.TotalAlloc - before.TotalAlloc; used > 64<<20 {
				t.Errorf("%d MiB were allocated", used>>20)
			}
		})
	}
}

// Servers that are slow are given up, in virtual time.
func TestSlowServers(t *testing.T) {
	drip := func(head string, every time.Duration) func(c net.Conn) {
		return func(c net.Conn) {
			io.WriteString(c, head)
			for {
				time.Sleep(every)
				if _, err := io.WriteString(c, "x"); err != nil {
					return
				}
			}
		}
	}
	for _, c := range []struct {
		name  string
		serve func(c net.Conn)
		want  string
		most  time.Duration
	}{
		{"silent", func(c net.Conn) { io.Copy(io.Discard, c) }, "does not answer in time", 61 * time.Second},
		{"slow headers", drip("HTTP/1.1 200 OK\r\nX: ", time.Second), "does not answer in time", 61 * time.Second},
		{"silent body", func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\nhello")
			io.Copy(io.Discard, c)
		}, "too slowly", 61 * time.Second},
		{"slow body", drip("HTTP/1.1 200 OK\r\n\r\n", time.Second), "too slowly", 61 * time.Second},
		{"512 bytes every 50 seconds", func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 1048576\r\n\r\n")
			for {
				if _, err := io.WriteString(c, strings.Repeat("x", 512)); err != nil {
					return
				}
				time.Sleep(50 * time.Second)
			}
		}, "too slowly", 2 * time.Minute},
		{"fast enough but endless", func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n")
			for {
				time.Sleep(time.Second)
				if _, err := io.WriteString(c, strings.Repeat("x", 200)); err != nil {
					return
				}
			}
		}, "takes longer than 5m0s", 6 * time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := memnet.Listen()
				go func() {
					for {
						k, err := l.Accept()
						if err != nil {
							return
						}
						go func() {
							defer k.Close()
							readHead(k)
							c.serve(k)
						}()
					}
				}()
				b := newBench(t)
				b.opt.Dial, b.opt.Lookup = l.DialContext, lookup("93.184.215.14")
				start := time.Now()
				b.fails(object{"url": "http://slow.example.com"}, false, c.want)
				if took := time.Since(start); took > c.most {
					t.Errorf("it took %v", took)
				}
				l.Close()
				time.Sleep(time.Minute)
			})
		})
	}
}

// No spelling of an address that is not public is connected to.
func TestGuard(t *testing.T) {
	var arrived atomic.Int32
	s := server(t, func(w http.ResponseWriter, r *http.Request) { arrived.Add(1) })
	port := s.Listener.Addr().(*net.TCPAddr).Port
	hosts := []string{
		"127.0.0.1", "localhost", "LOCALHOST", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::127.0.0.1]",
		"127.255.255.254", "0.0.0.0", "[::]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "[2001:0:1::]",
		"10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "100.64.0.1", "100.100.100.200",
		"169.254.169.254", "[fe80::1]", "[fe80::a9fe:a9fe]", "[fd00:ec2::254]", "[fc00::1]", "168.63.129.16", "192.0.0.192",
		"224.0.0.1", "239.255.255.250", "[ff02::1]", "255.255.255.255", "240.0.0.1", "198.18.0.1", "[2001:db8::1]",
	}
	b := newBench(t)
	b.opt.Networks = nil
	for _, host := range hosts {
		b.fails(object{"url": fmt.Sprintf("http://%s:%d/", host, port)}, true, "is not public")
	}
	// Spellings that some resolvers understand, and names that lead inside.
	for _, ip := range hosts {
		ip = strings.TrimSuffix(strings.Trim(ip, "[]"), ".")
		addr, err := netip.ParseAddr(ip)
		if err != nil {
			continue
		}
		for _, host := range []string{"127.1", "0x7f.0.0.1", "2130706433", "0177.0.0.1", "innocent.example.com"} {
			b := newBench(t)
			b.opt.Networks = nil
			b.opt.Lookup = func(context.Context, string) ([]netip.Addr, error) { return []netip.Addr{addr}, nil }
			b.fails(object{"url": fmt.Sprintf("http://%s:%d/", host, port)}, true, "is not public")
		}
	}
	if arrived.Load() != 0 {
		t.Errorf("%d requests arrived", arrived.Load())
	}
	for _, open := range []func(b *bench){
		func(b *bench) { b.opt.Networks = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")} },
		func(b *bench) { b.opt.TrustedHosts = []string{"LocalHost."} },
	} {
		b := newBench(t)
		b.opt.Networks = nil
		open(b)
		if _, err := b.run(object{"url": fmt.Sprintf("http://localhost:%d/", port)}); err != nil {
			t.Errorf("what is allowed is refused: %v", err)
		}
	}
	b = newBench(t)
	b.opt.Hosts = []string{"*.example.com"}
	for _, host := range []string{"127.0.0.1", "example.com", "badexample.com", "x.example.com.evil.com"} {
		b.fails(object{"url": "http://" + host}, true, "is not among those that the host application allows")
	}
}

// A name that changes its address between two looks gains nothing: the address
// that is checked is the one that is connected to.
func TestRebinding(t *testing.T) {
	s := server(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "inside") })
	port := s.Listener.Addr().(*net.TCPAddr).Port
	b := newBench(t)
	b.opt.Networks = nil
	var lookups int
	b.opt.Lookup = func(context.Context, string) ([]netip.Addr, error) {
		if lookups++; lookups%2 == 1 {
			return []netip.Addr{netip.MustParseAddr("93.184.215.14")}, nil
		}
		return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
	}
	var dialed []string
	b.opt.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		dialed = append(dialed, addr)
		return nil, fmt.Errorf("nobody is there")
	}
	url := fmt.Sprintf("http://rebind.example.com:%d/", port)
	b.fails(object{"url": url}, false, "nobody is there")
	b.fails(object{"url": url}, true, "127.0.0.1 is not public")
	b.opt.Dial = nil // now the socket itself is asked
	lookups = 1
	b.fails(object{"url": url}, true, "127.0.0.1 is not public")
	b.opt.Lookup = lookup("93.184.215.14", "127.0.0.1")
	b.opt.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		dialed = append(dialed, addr)
		return nil, fmt.Errorf("nobody is there")
	}
	b.fails(object{"url": url}, false, "nobody is there")
	for _, addr := range dialed {
		if !strings.HasPrefix(addr, "93.184.215.14:") {
			t.Errorf("connected to %s", addr)
		}
	}
}

// Redirects lead nowhere else than requests, and take no secrets along.
func TestRedirects(t *testing.T) {
	seen := func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %q", r.Method, body)
		for _, name := range []string{"Authorization", "X-Api-Key", "Cookie", "Idempotency-Key", "Accept"} {
			if v := r.Header.Get(name); v != "" {
				fmt.Fprintf(w, " %s=%s", name, v)
			}
		}
	}
	other := server(t, seen)
	plain := server(t, func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if to := q.Get("to"); to != "" {
			var code int
			fmt.Sscan(q.Get("code"), &code)
			w.Header().Set("Location", to)
			w.WriteHeader(code)
			return
		}
		if r.URL.Path == "/loop" {
			http.Redirect(w, r, "/loop", http.StatusFound)
			return
		}
		seen(w, r)
	})
	b := newBench(t)
	call := func(method, code, to string) object {
		cfg := object{"url": plain.URL, "method": method, "query": object{"code": code, "to": to}, "headers": object{"X-Api-Key": "kkkk", "Cookie": "cccc", "Accept": "text/x"}, "bearer_token": "tttt", "idempotency_key": "none"}
		if method == "POST" {
			cfg["body"] = "bbbb"
		}
		return cfg
	}
	for _, c := range []struct{ method, code, to, want string }{
		{"GET", "302", "/end", `GET "" Authorization=Bearer tttt X-Api-Key=kkkk Cookie=cccc Accept=text/x`},
		{"POST", "307", "/end", `POST "bbbb" Authorization=Bearer tttt X-Api-Key=kkkk Cookie=cccc Accept=text/x`},
		{"POST", "303", "/end", `GET "" Authorization=Bearer tttt X-Api-Key=kkkk Cookie=cccc Accept=text/x`},
		{"POST", "302", other.URL, `GET "" Accept=text/x`},
		{"GET", "308", other.URL + "/x", `GET "" Accept=text/x`},
	} {
		if out, err := b.run(call(c.method, c.code, c.to)); err != nil || out.Body != c.want {
			t.Errorf("%s %s to %s: %q, %v; want %q", c.method, c.code, c.to, out.Body, err, c.want)
		}
	}
	for to, want := range map[string]string{
		"http://169.254.169.254/latest/meta-data": "169.254.169.254 is not public",
		"http://[fd00:ec2::254]/":                 "is not public",
		"http://10.0.0.1/":                        "is not public",
		"file:///etc/passwd":                      `the scheme "file" is refused`,
		"gopher://127.0.0.1/x":                    `the scheme "gopher" is refused`,
		"http://user:pw@127.0.0.1/":               "a user name or a password",
		"http://%zz/":                             "can't be understood",
	} {
		b.fails(call("GET", "302", to), true, want)
	}
	b.fails(call("POST", "307", other.URL), true, "not meant to get the body")
	b.fails(object{"url": plain.URL + "/loop"}, true, "redirects more than 5 times")
	b.fails(object{"url": plain.URL + "/loop", "max_redirects": 0}, true, "status 302")
}

// TLS is verified, and not below 1.2; nothing falls back to less.
func TestTLS(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/down" {
			http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusFound)
		}
	}))
	s.Config.ErrorLog = nil
	s.StartTLS()
	defer s.Close()
	b := newBench(t)
	b.fails(object{"url": s.URL}, true, "certificate")
	b.opt.RootCAs = s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	if _, err := b.run(object{"url": s.URL}); err != nil {
		t.Error(err)
	}
	b.fails(object{"url": s.URL + "/down"}, true, "from https to http")
	old := httptest.NewUnstartedServer(nil)
	old.TLS = &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}
	old.StartTLS()
	defer old.Close()
	b.fails(object{"url": old.URL}, false, "protocol version")
}
