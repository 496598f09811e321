package access

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"html"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// Local returns the policy of a service that is used only on its own host, for example during
// development. It makes a random token, and logs it in one line by [slog.Default]. Anyone who can
// read the log of the process can sign in, as "local" and as an admin. Pages are opened with the
// token in the address, as "?token=TOKEN". They exchange it for a cookie that scripts can't read
// and that no other site can send. The API takes the token as "Authorization: Bearer TOKEN". The
// token ends with the process. One value serves the API and the pages. There is only one
// principal, so MaxUnbegun is -1.
//
// In addition, a request must come from a loopback address, for a host name that is a loopback
// address or "localhost", and must not have a header that proxies add when they forward requests.
// That alone would not be enough: a proxy on this host need not add such a header, and then every
// remote client looks like a program on this host.
func Local() Policy {
	l := &local{token: strings.ToLower(rand.Text())}
	sum := sha256.Sum256([]byte("name " + l.token))
	l.name = "courier_" + hex.EncodeToString(sum[:4]) // cookies of a host apply to all its ports
	l.cookie = l.sign("cookie")
	slog.Default().Info("this service is for this host alone (access.Local): open its pages with ?"+tokenParam+"=TOKEN at the end of the address, or send the header Authorization: Bearer TOKEN", "token", l.token)
	return Policy{Who: l.who, local: l, MaxUnbegun: -1, Challenge: `Bearer realm="the token in the log of the service"`}
}

const tokenParam = "token"

// local is the state of the policy of [Local].
type local struct {
	token, name, cookie string
}

// sign returns a text that proves knowledge of the token.
func (l *local) sign(text string) string {
	m := hmac.New(sha256.New, []byte(l.token))
	m.Write([]byte(text))
	return hex.EncodeToString(m.Sum(nil))
}

// same compares secrets in a time that depends neither on their content nor on their lengths.
func same(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return hmac.Equal(x[:], y[:])
}

func (l *local) who(r *http.Request) (Principal, error) {
	if err := loopback(r); err != nil {
		return Principal{}, err
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	known := strings.EqualFold(scheme, "Bearer") && same(token, l.token)
	for _, c := range r.CookiesNamed(l.name) {
		known = known || same(c.Value, l.cookie)
	}
	if !known {
		return Principal{}, &Error{Unknown: true, Text: "this service is for who can read its log: open its pages with the token that stands there, as ?" + tokenParam + "=TOKEN, or send it in the header Authorization: Bearer TOKEN"}
	}
	return Principal{ID: "local", Name: "local"}, nil
}

// SignIn answers a request for a page that has the token of [Local] in its address, and reports
// whether it did. The response sets the cookie, and leads to the same address without the token.
// Package dashboard calls it; so does a service for its own pages.
func (p *Policy) SignIn(w http.ResponseWriter, r *http.Request) bool {
	l, q := p.local, r.URL.Query()
	if l == nil || r.Method != http.MethodGet || loopback(r) != nil || !same(q.Get(tokenParam), l.token) {
		return false
	}
	q.Del(tokenParam)
	path := r.URL.EscapedPath()
	to := "./" + path[strings.LastIndexByte(path, '/')+1:]
	if rest := q.Encode(); rest != "" {
		to += "?" + rest
	}
	// This is no redirect: after one, a browser that came from a foreign link would not send the
	// cookie.
	http.SetCookie(w, &http.Cookie{Name: l.name, Value: l.cookie, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil})
	head := w.Header()
	head.Set("Content-Type", "text/html; charset=utf-8")
	head.Set("Referrer-Policy", "no-referrer")
	to = html.EscapeString(to)
	_, _ = w.Write([]byte(`<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Signed in</title><meta http-equiv="refresh" content="0;url=` + to +
		`"></head><body><main><h1>Signed in</h1><p><a href="` + to + `">Go on</a></p></main></body></html>` + "\n"))
	return true
}

// Token returns the token of [Local], for the address of pages, as "?token=TOKEN", and for
// clients within the process. It is empty for other policies. Anyone who has it is an admin.
func (p *Policy) Token() string {
	if p.local == nil {
		return ""
	}
	return p.local.token
}

// loopback returns an error if a request may come from another host. A proxy on this host that
// adds such a header shows that it has forwarded the request.
func loopback(r *http.Request) error {
	const only = "this service is for programs on its own host (access.Local), "
	for _, h := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-Ip", "Via"} {
		if len(r.Header[h]) > 0 {
			return &Error{Text: only + "and this request has come through a proxy: set Who of the policy"}
		}
	}
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !from.Addr().Unmap().IsLoopback() {
		return &Error{Text: only + "and this request comes from elsewhere: set Who of the policy"}
	}
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	addr, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"))
	if host != "localhost" && (err != nil || !addr.Unmap().IsLoopback()) {
		return &Error{Text: only + "and this request is for another host name than localhost: set Who of the policy"}
	}
	return nil
}
