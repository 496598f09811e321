package safehttp

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/courierhq/courier/internal/safename"
)

// A Request is what [Client.Do] sends.
type Request struct {
	Method string
	URL    *url.URL
	Header http.Header
	// Body returns the body from its beginning; nil means none. It is called
	// again if the body has to be sent again.
	Body func() (io.ReadCloser, error)
	Size int64 // of the body in bytes
	// MaxRedirects is how many redirects are followed; at 0 a redirect is a
	// response like any other.
	MaxRedirects int
	// Wait is the longest time from the last byte of the request to the last
	// of the response's headers, and between two blocks of the request. 0
	// means 60 s.
	Wait time.Duration
	// Once keeps the request from being sent again where a connection was lost,
	// which otherwise happens if the server can't have seen it, or if it has an
	// Idempotency-Key.
	Once bool
	// Beat, unless nil, is called every few seconds while a response is
	// awaited, in a goroutine of its own that ends before Do returns.
	Beat func()

	route route
}

const (
	defaultWait = 60 * time.Second
	beatEvery   = 15 * time.Second
)

// Do sends a request and follows redirects. The caller closes the body of the
// response. When ctx ends, the error is its cause.
//
// A redirect to another origin takes along only what says which form of the
// content is wanted: no body, no client certificate, and no method but those
// that change nothing. One from https to http is refused, and so is one from a
// public address to another kind of address.
func (c *Client) Do(ctx context.Context, r Request) (*http.Response, error) {
	if err := c.opt.CheckURL(r.URL); err != nil {
		return nil, err
	}
	if r.Header = r.Header.Clone(); r.Header == nil {
		r.Header = http.Header{}
	}
	for n := 0; ; n++ {
		resp, public, err := c.send(ctx, r)
		if err != nil {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			return nil, fmt.Errorf("%s %s: %w", r.Method, Origin(r.URL), plain(err))
		}
		if r.MaxRedirects <= 0 || !isRedirect(resp) {
			return resp, nil
		}
		resp.Body.Close()
		if n >= r.MaxRedirects {
			return nil, &RefusedError{fmt.Sprintf("%s %s: the server redirects more than %d times", r.Method, Origin(r.URL), r.MaxRedirects)}
		}
		r.route.public = r.route.public || public
		if r, err = c.redirect(r, resp); err != nil {
			return nil, err
		}
	}
}

func isRedirect(resp *http.Response) bool {
	switch resp.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return resp.Header.Get("Location") != ""
	}
	return false
}

// harmless are the headers that may follow a redirect to another origin.
var harmless = []string{"Accept", "Accept-Encoding", "Accept-Language", "If-Range", "Range", "User-Agent"}

// safe are the methods that change nothing at a server.
var safe = []string{http.MethodGet, http.MethodHead, http.MethodOptions}

// redirect returns the request that a response asks for.
func (c *Client) redirect(r Request, resp *http.Response) (Request, error) {
	from := r.URL
	refuse := func(text string) (Request, error) {
		return r, &RefusedError{fmt.Sprintf("%s %s: the server redirects, but %s", r.Method, Origin(from), text)}
	}
	to, err := from.Parse(resp.Header.Get("Location"))
	if err != nil {
		return refuse("where to can't be understood")
	}
	opt := c.opt.along(r.route)
	if err := opt.CheckURL(to); err != nil {
		return refuse(err.Error())
	}
	if from.Scheme == "https" && to.Scheme == "http" {
		return refuse("from https to http, which would give away what is sent")
	}
	r.URL = to
	switch status := resp.StatusCode; {
	case status == http.StatusSeeOther && r.Method != http.MethodHead,
		status <= http.StatusFound && r.Method == http.MethodPost:
		r.Method, r.Body, r.Size = http.MethodGet, nil, 0
		r.Header.Del("Content-Type")
	}
	if sameOrigin(from, to) {
		return r, nil
	}
	if r.Body != nil {
		return refuse(fmt.Sprintf("to %s, which is not meant to get the body of the request", Origin(to)))
	}
	if !slices.Contains(safe, r.Method) {
		return refuse(fmt.Sprintf("to %s, to which no %s is sent unless the URL says so; give the URL that the redirect leads to", Origin(to), r.Method))
	}
	r.route.away = true
	kept := http.Header{}
	for _, name := range harmless {
		if v := r.Header.Values(name); len(v) > 0 {
			kept[name] = v
		}
	}
	r.Header = kept
	return r, nil
}

var errNoAnswer = errors.New("the server does not answer in time")

// send sends one request and waits for the headers of the response. It reports
// whether that comes from a public address.
func (c *Client) send(ctx context.Context, r Request) (resp *http.Response, public bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	stopClient := context.AfterFunc(c.base, func() { cancel(errClosed) })
	over := func() {
		stopClient()
		cancel(nil)
	}
	if r.Wait <= 0 {
		r.Wait = defaultWait
	}
	patience := time.AfterFunc(r.Wait, func() { cancel(fmt.Errorf("%w, which is %v", errNoAnswer, r.Wait)) })
	defer patience.Stop()
	var used net.Conn
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) { used = info.Conn }})
	req, err := r.build(traced, func() { patience.Reset(r.Wait) })
	if err != nil {
		over()
		return nil, false, err
	}
	stopBeat := beat(r.Beat)
	resp, err = c.routes[r.route.index()].RoundTrip(req)
	stopBeat()
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		over()
		return nil, false, err
	}
	resp.Body = newBody(resp.Body, ctx, cancel, over)
	return resp, isPublic(used), nil
}

// build makes the request for the standard library. progress is called for
// each block of the body that is sent.
func (r *Request) build(ctx context.Context, progress func()) (*http.Request, error) {
	req := (&http.Request{Method: r.Method, URL: r.URL, Host: r.URL.Host, Header: r.Header, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}).WithContext(ctx)
	if r.Once && (r.Body == nil || r.Size == 0) {
		req.Body = io.NopCloser(strings.NewReader("")) // other than no body it is not sent again
		return req, nil
	}
	if r.Body == nil {
		return req, nil
	}
	if r.Size == 0 {
		req.Body = http.NoBody
		return req, nil
	}
	open := func() (io.ReadCloser, error) {
		b, err := r.Body()
		if err != nil {
			return nil, err
		}
		return &sending{ReadCloser: b, progress: progress}, nil
	}
	body, err := open()
	if err != nil {
		return nil, err
	}
	req.Body, req.ContentLength = body, r.Size
	if !r.Once {
		req.GetBody = open
	}
	return req, nil
}

// Reach connects to the server of a URL and lets it prove who it is, without
// requesting anything. It returns what there is to tell about the server, as
// pairs for a log: its address, how long connecting took, and with TLS the
// version, the cipher and the certificate.
func (c *Client) Reach(ctx context.Context, u *url.URL) ([]any, error) {
	facts, err := c.reach(ctx, u)
	if err != nil && ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", Origin(u), plain(err))
	}
	return facts, nil
}

func (c *Client) reach(ctx context.Context, u *url.URL) ([]any, error) {
	if err := c.opt.CheckURL(u); err != nil {
		return nil, err
	}
	began := time.Now()
	k, err := c.dial(ctx, &c.opt, "tcp", net.JoinHostPort(u.Hostname(), port(u)))
	if err != nil {
		return nil, err
	}
	defer k.Close()
	facts := []any{"server", Origin(u), "address", k.RemoteAddr().String(), "round_trip", time.Since(began)}
	if u.Scheme != "https" {
		return append(facts, "tls", "none"), nil
	}
	cfg := c.routes[route{}.index()].TLSClientConfig.Clone()
	cfg.ServerName = u.Hostname()
	ctx, cancel := context.WithTimeout(ctx, c.opt.ConnectTimeout)
	defer cancel()
	secure := tls.Client(k, cfg)
	if err := secure.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	state := secure.ConnectionState()
	return append(append(facts, "tls", tls.VersionName(state.Version), "cipher", tls.CipherSuiteName(state.CipherSuite)), Certificate(state.PeerCertificates[0])...), nil
}

// Certificate returns what there is to tell about a server's certificate, as
// pairs for a log.
func Certificate(c *x509.Certificate) []any {
	sum := sha256.Sum256(c.Raw)
	return []any{
		"certificate", hex.EncodeToString(sum[:]), "subject", safename.Quote(c.Subject.String()), "issuer", safename.Quote(c.Issuer.String()),
		"valid_until", c.NotAfter.UTC().Format(time.RFC3339),
	}
}

// sending is the body of a request.
type sending struct {
	io.ReadCloser
	progress func()
}

// Read tells of each block.
func (s *sending) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	if n > 0 {
		s.progress()
	}
	return n, err
}

// beat calls f every few seconds until the function that it returns is called.
func beat(f func()) (stop func()) {
	if f == nil {
		return func() {}
	}
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(beatEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				f()
			case <-end:
				return
			}
		}
	}()
	return func() {
		close(end)
		<-ended
	}
}

// plain returns err without the URL that the standard library puts into some
// messages, and in quotes if a server's text in it could act on a terminal.
func plain(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	if refused, ok := errors.AsType[*RefusedError](err); ok {
		return refused
	}
	return presentable(err)
}

// IsTimeout reports whether err says that a server was too slow.
func IsTimeout(err error) bool { return errors.Is(err, errNoAnswer) || errors.Is(err, errTooSlow) }

// ParseURL parses a URL and takes care that no message shows it.
func ParseURL(text string) (*url.URL, error) {
	u, err := url.Parse(strings.TrimSpace(text))
	if err != nil {
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err
		}
		if strings.ContainsAny(err.Error(), `"`) {
			err = errors.New("it has a part that can't be understood")
		}
		return nil, &RefusedError{"the URL is malformed: " + err.Error()}
	}
	u.Fragment, u.RawFragment = "", ""
	return u, nil
}
