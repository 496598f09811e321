package safehttp_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/courierhq/courier/internal/safehttp"
)

// A world is hosts with addresses, of which the internal ones are allowed.
type world struct {
	seen  []string // the requests, as "METHOD host"
	turns int      // how often the name that changes was looked up
}

func (w *world) options() safehttp.Options {
	return safehttp.Options{
		AllowPlain: true, Networks: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, TrustedHosts: []string{"trusted.corp.example"},
		Lookup: func(_ context.Context, host string) ([]netip.Addr, error) {
			switch host {
			case "inner.corp.example", "other.corp.example":
				return []netip.Addr{netip.MustParseAddr("10.1.2.3")}, nil
			case "trusted.corp.example":
				return []netip.Addr{netip.MustParseAddr("192.168.1.2")}, nil
			case "changes.example":
				if w.turns++; w.turns > 1 {
					return []netip.Addr{netip.MustParseAddr("10.1.2.3")}, nil
				}
			case "mapped.example":
				return []netip.Addr{netip.MustParseAddr("::ffff:10.1.2.3")}, nil
			}
			return []netip.Addr{netip.MustParseAddr("93.184.215.14")}, nil
		},
	}
}

// answer redirects to what the query lists, one after the other.
func (w *world) answer(rw http.ResponseWriter, r *http.Request) {
	w.seen = append(w.seen, r.Method+" "+r.Host)
	if next := r.URL.Query()["to"]; len(next) > 0 {
		target := next[0]
		if len(next) > 1 {
			target += "?to=" + strings.Join(next[1:], "&to=")
		}
		rw.Header().Set("Location", target)
		var status int
		if _, err := fmt.Sscanf(r.URL.Path, "/%d", &status); err != nil {
			status = http.StatusTemporaryRedirect
		}
		rw.WriteHeader(status)
	}
}

// No public server can direct a request to an address that only the host
// application's own jobs may reach.
func TestRedirectFromPublic(t *testing.T) {
	for name, test := range map[string]struct {
		url     string
		seen    string
		refused bool
	}{
		"to an internal name":         {"http://public.example/?to=http://inner.corp.example/", "public.example", true},
		"to an internal address":      {"http://public.example/?to=http://10.1.2.3/", "public.example", true},
		"to a mapped address":         {"http://public.example/?to=http://[::ffff:10.1.2.3]/", "public.example", true},
		"to a name with one":          {"http://public.example/?to=http://mapped.example/", "public.example", true},
		"to a trusted host":           {"http://public.example/?to=http://trusted.corp.example/", "public.example", true},
		"over another public host":    {"http://public.example/?to=http://second.example/&to=http://inner.corp.example/", "public.example second.example", true},
		"to its own changed address":  {"http://changes.example/?to=/", "changes.example", true},
		"over its own second request": {"http://public.example/?to=/&to=http://inner.corp.example/", "public.example public.example", true},
		"there and back":              {"http://inner.corp.example/?to=http://public.example/&to=http://inner.corp.example/", "inner.corp.example public.example", true},
		"to a public one":             {"http://public.example/?to=http://second.example/", "public.example second.example", false},
		"an internal one itself":      {"http://inner.corp.example/", "inner.corp.example", false},
		"from an internal one":        {"http://inner.corp.example/?to=http://other.corp.example/", "inner.corp.example other.corp.example", false},
		"from a trusted one":          {"http://trusted.corp.example/?to=http://10.1.2.3/", "trusted.corp.example 10.1.2.3", false},
		"from an internal to itself":  {"http://inner.corp.example/?to=/", "inner.corp.example inner.corp.example", false},
		"from an internal to public":  {"http://inner.corp.example/?to=http://public.example/", "inner.corp.example public.example", false},
	} {
		for _, method := range []string{"GET", "HEAD"} {
			for _, warm := range []bool{false, true} {
				w := &world{}
				serving(t, w.options(), w.answer, func(c *safehttp.Client) {
					do := func(url string) error {
						resp, err := c.Do(t.Context(), safehttp.Request{Method: method, URL: mustParse(t, url), MaxRedirects: 5})
						if err != nil {
							return err
						}
						defer resp.Body.Close()
						_, err = io.Copy(io.Discard, resp.Body)
						return err
					}
					if warm { // connections to the internal hosts are there already
						for _, host := range []string{"inner.corp.example", "trusted.corp.example", "10.1.2.3", "mapped.example"} {
							if err := do("http://" + host + "/"); err != nil {
								t.Fatal(err)
							}
						}
						w.seen = nil
					}
					err := do(test.url)
					if test.refused {
						wantRefused(t, err, name)
						if err != nil && !strings.Contains(err.Error(), "no redirect of a public server") {
							t.Errorf("%s: the error is %v", name, err)
						}
					} else if err != nil {
						t.Errorf("%s: %v", name, err)
					}
				})
				want := method + " " + strings.ReplaceAll(test.seen, " ", " "+method+" ")
				if got := strings.Join(w.seen, " "); got != want {
					t.Errorf("%s, connections kept %v: the requests were %q, want %q", name, warm, got, want)
				}
			}
		}
	}
}

// What changes something is only sent to where the job says.
func TestRedirectOfUnsafeMethods(t *testing.T) {
	for name, test := range map[string]struct {
		method, url, seen string
	}{
		"another host":                {"DELETE", "http://public.example/307?to=http://second.example/", ""},
		"another host, for good":      {"DELETE", "http://public.example/308?to=http://second.example/", ""},
		"another host, found":         {"DELETE", "http://public.example/302?to=http://second.example/", ""},
		"another port":                {"DELETE", "http://public.example/307?to=http://public.example:81/", ""},
		"a method of its own":         {"PURGE", "http://public.example/307?to=http://second.example/", ""},
		"between internal ones":       {"DELETE", "http://inner.corp.example/307?to=http://other.corp.example/", ""},
		"the second hop":              {"DELETE", "http://public.example/307?to=/&to=http://second.example/", ""},
		"the same origin":             {"DELETE", "http://public.example/307?to=/x", "DELETE public.example DELETE public.example"},
		"see other":                   {"DELETE", "http://public.example/303?to=http://second.example/", "DELETE public.example GET second.example"},
		"see other, of an empty POST": {"POST", "http://public.example/303?to=http://second.example/", "POST public.example GET second.example"},
	} {
		w := &world{}
		serving(t, w.options(), w.answer, func(c *safehttp.Client) {
			resp, err := c.Do(t.Context(), safehttp.Request{Method: test.method, URL: mustParse(t, test.url), MaxRedirects: 5})
			if test.seen == "" {
				wantRefused(t, err, name)
				for _, s := range w.seen {
					if strings.Contains(s, "second") || strings.Contains(s, "other") || strings.Contains(s, ":81") {
						t.Errorf("%s: the requests were %q", name, w.seen)
					}
				}
				return
			}
			if err != nil {
				t.Errorf("%s: %v", name, err)
				return
			}
			resp.Body.Close()
			if got := strings.Join(w.seen, " "); got != test.seen {
				t.Errorf("%s: the requests were %q, want %q", name, got, test.seen)
			}
		})
	}
}

// A client certificate is shown to the origin that was asked, and to no other
// that a redirect leads to, and what was dropped on the way does not come back.
func TestRedirectTakesNoCertificate(t *testing.T) {
	var a, b *httptest.Server
	seen := ""
	serve := func(name string) *httptest.Server {
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			seen += fmt.Sprintf("%s%s %d %q; ", name, r.URL.Path, len(r.TLS.PeerCertificates), r.Header.Get("X-Api-Key"))
			switch name + r.URL.Path {
			case "a/":
				http.Redirect(w, r, "/same", http.StatusFound)
			case "a/same":
				http.Redirect(w, r, b.URL+"/", http.StatusFound)
			case "b/":
				http.Redirect(w, r, a.URL+"/back", http.StatusFound)
			}
		}))
		s.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
		s.StartTLS()
		t.Cleanup(s.Close)
		return s
	}
	a, b = serve("a"), serve("b")
	c := safehttp.New(safehttp.Options{
		RootCAs:  a.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs,
		Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Certificates: a.TLS.Certificates,
	})
	defer c.Close()
	resp, err := c.Do(t.Context(), safehttp.Request{Method: "GET", URL: mustParse(t, a.URL+"/"), Header: http.Header{"X-Api-Key": {"k"}}, MaxRedirects: 5})
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if want := `a/ 1 "k"; a/same 1 "k"; b/ 0 ""; a/back 0 ""; `; seen != want {
		t.Errorf("the servers saw %s\nwant %s", seen, want)
	}
}
