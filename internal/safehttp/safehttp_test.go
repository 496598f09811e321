package safehttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier/internal/safehttp"
	"github.com/courierhq/courier/internal/test/memnet"
)

// reserved are addresses that nobody on the internet has, in all the forms in
// which one of them can be written.
var reserved = []string{
	"0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255", "100.64.0.1", "100.127.255.254", "100.100.100.200", "127.0.0.1", "127.255.0.1",
	"168.63.129.16", "169.254.169.254", "169.254.170.2", "172.16.0.1", "172.31.255.255", "192.0.0.1", "192.0.0.192", "192.0.2.1", "192.88.99.1",
	"192.168.0.1", "192.168.255.255", "198.18.0.1", "198.19.255.255", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.1.2.3", "240.0.0.1", "255.255.255.255",
	"::", "::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::127.0.0.1", "::ffff:0:127.0.0.1", "64:ff9b::7f00:1", "64:ff9b:1::a00:1", "100::1", "fc00::1", "fd00:ec2::254",
	"fe80::1", "fe80::1%eth0", "fec0::1", "ff02::1", "2001::1", "2001:0:7f00:1::", "2001:10::1", "2001:20::1", "2001:db8::1", "2002:7f00:1::", "2002:a00:1::1", "3fff::1", "5f00::1", "4000::1",
}

var public = []string{"1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.1", "93.184.215.14", "100.63.255.255", "100.128.0.1", "126.255.255.255", "128.0.0.1", "168.63.129.15", "172.15.0.1", "172.32.0.1", "192.0.1.1", "192.167.1.1", "192.169.0.1", "198.17.0.1", "198.20.0.1", "223.255.255.255", "2606:4700::1111", "2a00:1450:4001::1", "2001:4860:4860::8888", "::ffff:8.8.8.8"}

func TestPublic(t *testing.T) {
	for _, text := range reserved {
		if safehttp.Public(netip.MustParseAddr(text)) {
			t.Errorf("%s counts as public", text)
		}
	}
	for _, text := range public {
		if !safehttp.Public(netip.MustParseAddr(text)) {
			t.Errorf("%s does not count as public", text)
		}
	}
	if safehttp.Public(netip.Addr{}) {
		t.Error("no address counts as public")
	}
}

// Every reserved address is refused as the host of a URL, as the address of a
// name, and as the one that a name has the second time.
func TestRefused(t *testing.T) {
	for _, text := range reserved {
		ip := netip.MustParseAddr(text)
		if ip.Zone() == "" {
			host := ip.String()
			if ip.Is6() {
				host = "[" + host + "]"
			}
			wantRefused(t, new(safehttp.Options).CheckURL(&url.URL{Scheme: "https", Host: host}), text)
		}
		dialed := false
		c := safehttp.New(safehttp.Options{
			Lookup: func(context.Context, string) ([]netip.Addr, error) { return []netip.Addr{ip}, nil },
			Dial: func(context.Context, string, string) (conn netConn, err error) {
				dialed = true
				return nil, errors.New("dialed")
			},
		})
		_, err := c.Do(t.Context(), safehttp.Request{Method: "GET", URL: mustParse(t, "https://name.example.com/secret?path")})
		wantRefused(t, err, text)
		_, err = c.Reach(t.Context(), mustParse(t, "https://name.example.com/secret"))
		wantRefused(t, err, text)
		if dialed {
			t.Errorf("%s was dialed", text)
		}
		c.Close()
	}
}

func wantRefused(t *testing.T, err error, what string) {
	t.Helper()
	var refused *safehttp.RefusedError
	if !errors.As(err, &refused) || !safehttp.IsPermanent(err) {
		t.Errorf("%s: the error is %v, want a refusal", what, err)
	} else if strings.Contains(err.Error(), "secret") {
		t.Errorf("%s: the error shows the path: %v", what, err)
	}
}

func mustParse(t testing.TB, text string) *url.URL {
	t.Helper()
	u, err := safehttp.ParseURL(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// The real dialer is guarded where the socket is connected, so that it does not
// matter how a name came to its address.
func TestRefusedAtTheSocket(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the server was reached") }))
	defer s.Close()
	_, port, _ := strings.Cut(strings.TrimPrefix(s.URL, "http://"), ":")
	c := safehttp.New(safehttp.Options{AllowPlain: true})
	defer c.Close()
	_, err := c.Do(t.Context(), safehttp.Request{Method: "GET", URL: mustParse(t, "http://localhost:"+port+"/")})
	wantRefused(t, err, "localhost")
}

func TestCheckURL(t *testing.T) {
	for text, want := range map[string]string{
		"https://example.com/x?y#z":      "",
		"https://example.com:8443/":      "",
		"http://example.com/":            "http is refused",
		"ftp://example.com/":             `the scheme "ftp"`,
		"file:///etc/passwd":             `the scheme "file"`,
		"gopher://example.com:70/_x":     "the scheme",
		"example.com/x":                  "no scheme",
		"//example.com/x":                "no scheme",
		"https:example.com":              "no scheme",
		"https:///x":                     "no host",
		"https://:443/x":                 "no host",
		"https://user@example.com/":      "user name",
		"https://user:pw@example.com/":   "user name",
		"https://other.com/":             "not among those",
		"https://example.com.evil.com/":  "not among those",
		"https://xexample.com/":          "not among those",
		"https://a.example.org/":         "",
		"https://a.b.example.org./":      "",
		"https://example.org/":           "not among those",
		"https://EXAMPLE.com./":          "",
		"https://127.0.0.1/":             "not among those",
		"https://exam%20ple.com/":        "malformed",
		"https://[fe80::1%25eth0]/":      "host",
		"https://example.com\\@evil.com": "malformed",
	} {
		opt := safehttp.Options{Only: []string{"example.com", "*.example.org"}}
		u, err := safehttp.ParseURL(text)
		if err == nil {
			err = opt.CheckURL(u)
		}
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", text, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: the error is %v, want %q in it", text, err, want)
		case want != "":
			wantRefused(t, err, text)
		}
	}
}

// What a host application allows is reached, and nothing else by the way.
func TestAllowed(t *testing.T) {
	private := netip.MustParseAddr("10.1.2.3")
	for name, opt := range map[string]safehttp.Options{
		"network": {Networks: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}},
		"host":    {TrustedHosts: []string{"*.corp.example"}},
	} {
		opt.AllowPlain = true
		opt.Lookup = func(_ context.Context, host string) ([]netip.Addr, error) {
			if host == "a.corp.example" {
				return []netip.Addr{private}, nil
			}
			return []netip.Addr{netip.MustParseAddr("10.2.0.1")}, nil
		}
		serving(t, opt, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Host) }, func(c *safehttp.Client) {
			resp, err := c.Do(t.Context(), safehttp.Request{Method: "GET", URL: mustParse(t, "http://a.corp.example/")})
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if b, err := io.ReadAll(resp.Body); string(b) != "a.corp.example" || err != nil {
				t.Errorf("%s: %q, %v", name, b, err)
			}
			resp.Body.Close()
			_, err = c.Do(t.Context(), safehttp.Request{Method: "GET", URL: mustParse(t, "http://corp.example/")})
			wantRefused(t, err, name)
		})
	}
}

// serving calls f with a client that a handler answers, whatever it asks.
func serving(t testing.TB, opt safehttp.Options, h http.HandlerFunc, f func(c *safehttp.Client)) {
	t.Helper()
	net := memnet.Listen()
	s := &http.Server{Handler: h}
	done := make(chan error, 1)
	go func() { done <- s.Serve(net) }()
	if opt.Lookup == nil {
		opt.Lookup = func(context.Context, string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr("93.184.215.14")}, nil
		}
	}
	opt.Dial = net.DialContext
	c := safehttp.New(opt)
	f(c)
	c.Close()
	s.Close()
	<-done
}

// A client that is closed ends what is under way, and does nothing more.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		serving(t, safehttp.Options{AllowPlain: true}, func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}, func(c *safehttp.Client) {
			resp, err := c.Do(t.Context(), safehttp.Request{Method: "GET", URL: mustParse(t, "http://example.com/")})
			if err != nil {
				t.Fatal(err)
			}
			time.AfterFunc(5*time.Second, func() { c.Close() })
			start := time.Now()
			if _, err := io.ReadAll(resp.Body); err == nil || time.Since(start) != 5*time.Second {
				t.Errorf("the body ended after %v with %v", time.Since(start), err)
			}
			resp.Body.Close()
			if _, err := c.Do(t.Context(), safehttp.Request{Method: "GET", URL: mustParse(t, "http://example.com/")}); err == nil || !strings.Contains(err.Error(), "closed") {
				t.Errorf("a closed client: %v", err)
			}
		})
	})
}

// The end of the caller's context is the error, with its cause.
func TestCancel(t *testing.T) {
	why := errors.New("the reason")
	synctest.Test(t, func(t *testing.T) {
		serving(t, safehttp.Options{AllowPlain: true}, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/body" {
				w.WriteHeader(http.StatusOK)
				w.(http.Flusher).Flush()
			}
			<-r.Context().Done()
		}, func(c *safehttp.Client) {
			for _, path := range []string{"/headers", "/body"} {
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(time.Second, func() { cancel(why) })
				start := time.Now()
				resp, err := c.Do(ctx, safehttp.Request{Method: "GET", URL: mustParse(t, "http://example.com"+path)})
				if err == nil {
					_, err = io.ReadAll(resp.Body)
					resp.Body.Close()
				}
				if !errors.Is(err, why) || time.Since(start) != time.Second {
					t.Errorf("%s: after %v: %v", path, time.Since(start), err)
				}
			}
		})
	})
}

// A request waits as long as it says, tells that it waits, and is not sent
// again where it must not be.
func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		serving(t, safehttp.Options{AllowPlain: true}, func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, func(c *safehttp.Client) {
			beats := 0
			start := time.Now()
			_, err := c.Do(t.Context(), safehttp.Request{Method: "GET", URL: mustParse(t, "http://example.com/"), Wait: 50 * time.Second, Beat: func() { beats++ }})
			if !safehttp.IsTimeout(err) || time.Since(start) != 50*time.Second || beats != 3 {
				t.Errorf("after %v and %d beats: %v", time.Since(start), beats, err)
			}
		})
	})
}

func TestOnce(t *testing.T) {
	for _, once := range []bool{false, true} {
		requests := 0
		serving(t, safehttp.Options{AllowPlain: true}, func(w http.ResponseWriter, r *http.Request) {
			requests++
			io.Copy(io.Discard, r.Body)
			if requests == 2 { // on a connection that was used before, which the client takes for a stale one
				panic(http.ErrAbortHandler)
			}
		}, func(c *safehttp.Client) {
			for i := range 2 {
				resp, err := c.Do(t.Context(), safehttp.Request{Method: "PUT", URL: mustParse(t, "http://example.com/"), Once: once, Size: 4,
					Header: http.Header{"Idempotency-Key": {"k"}},
					Body:   func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("body")), nil }})
				if (err != nil) != (once && i == 1) {
					t.Errorf("once %v, request %d: %v", once, i, err)
				}
				if err == nil {
					resp.Body.Close()
				}
			}
		})
		if want := map[bool]int{false: 3, true: 2}[once]; requests != want {
			t.Errorf("once %v: %d requests, want %d", once, requests, want)
		}
	}
}

// What may follow a redirect is decided here and not by the server.
func TestRedirect(t *testing.T) {
	secret := http.Header{"Authorization": {"Bearer secret"}, "Cookie": {"secret"}, "X-Api-Key": {"secret"}, "Accept": {"text/csv"}}
	for name, test := range map[string]struct {
		to      string
		max     int
		method  string
		want    string // what the last server saw, or
		refused string
	}{
		"not followed":         {to: "http://example.com/2", method: "GET", want: "status 307"},
		"same origin":          {to: "/2", max: 5, method: "GET", want: "GET example.com /2 [Accept Authorization Cookie X-Api-Key]"},
		"same origin, port":    {to: "http://EXAMPLE.com:80/2", max: 5, method: "GET", want: "GET EXAMPLE.com:80 /2 [Accept Authorization Cookie X-Api-Key]"},
		"another host":         {to: "http://other.example.org/2", max: 5, method: "GET", want: "GET other.example.org /2 [Accept]"},
		"another port":         {to: "http://example.com:8080/2", max: 5, method: "GET", want: "GET example.com:8080 /2 [Accept]"},
		"with a body":          {to: "http://other.example.org/2", max: 5, method: "POST", refused: "not meant to get the body"},
		"endless":              {to: "/1", max: 5, method: "GET", refused: "more than 5 times"},
		"to a private address": {to: "http://127.0.0.1/", max: 5, method: "GET", refused: "not public"},
		"to metadata":          {to: "http://169.254.169.254/latest/", max: 5, method: "GET", refused: "not public"},
		"to a file":            {to: "file:///etc/passwd", max: 5, method: "GET", refused: `scheme "file"`},
		"with credentials":     {to: "http://a:b@example.com/", max: 5, method: "GET", refused: "user name"},
		"to nonsense":          {to: "http://[::1", max: 5, method: "GET", refused: "can't be understood"},
	} {
		serving(t, safehttp.Options{AllowPlain: true}, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/1" {
				w.Header()["Location"] = []string{test.to}
				w.WriteHeader(http.StatusTemporaryRedirect)
				return
			}
			var names []string
			for name := range r.Header {
				if secret.Get(name) != "" {
					names = append(names, name)
				}
			}
			slices.Sort(names)
			fmt.Fprintf(w, "%s %s %s %v", r.Method, r.Host, r.URL.Path, names)
		}, func(c *safehttp.Client) {
			req := safehttp.Request{Method: test.method, URL: mustParse(t, "http://example.com/1"), Header: secret, MaxRedirects: test.max}
			if test.method == "POST" {
				req.Size, req.Body = 1, func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("x")), nil }
			}
			resp, err := c.Do(t.Context(), req)
			if test.refused != "" {
				if err == nil || !strings.Contains(err.Error(), test.refused) {
					t.Errorf("%s: the error is %v, want %q", name, err, test.refused)
				}
				wantRefused(t, err, name)
				return
			}
			if err != nil {
				t.Errorf("%s: %v", name, err)
				return
			}
			defer resp.Body.Close()
			got, err := io.ReadAll(resp.Body)
			if resp.StatusCode != http.StatusOK {
				got = fmt.Appendf(nil, "status %d", resp.StatusCode)
			}
			if string(got) != test.want || err != nil {
				t.Errorf("%s: the last server saw %q, %v; want %q", name, got, err, test.want)
			}
		})
	}
}

// From https to http nothing is taken, however it is asked for.
func TestDowngrade(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://example.com/", http.StatusFound)
	}))
	defer s.Close()
	roots := s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	c := safehttp.New(safehttp.Options{AllowPlain: true, RootCAs: roots, Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	defer c.Close()
	facts, err := c.Reach(t.Context(), mustParse(t, s.URL+"/secret"))
	if text := fmt.Sprint(facts); err != nil || !strings.Contains(text, "TLS 1.3") || !strings.Contains(text, "valid_until") || strings.Contains(text, "secret") {
		t.Errorf("%v, %v", facts, err)
	}
	_, err = c.Do(t.Context(), safehttp.Request{Method: "GET", URL: mustParse(t, s.URL), MaxRedirects: 3})
	if err == nil || !strings.Contains(err.Error(), "from https to http") {
		t.Errorf("the error is %v", err)
	}
	wantRefused(t, err, "downgrade")

	stranger := safehttp.New(safehttp.Options{Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	defer stranger.Close()
	for _, err := range []error{second(stranger.Reach(t.Context(), mustParse(t, s.URL))), second(stranger.Do(t.Context(), safehttp.Request{Method: "GET", URL: mustParse(t, s.URL)}))} {
		if err == nil || !safehttp.IsPermanent(err) {
			t.Errorf("a certificate that nobody vouches for: %v", err)
		}
	}
}

func second[T any](_ T, err error) error { return err }
