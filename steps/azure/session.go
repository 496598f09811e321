package azure

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/jsontext"
	"github.com/courierhq/courier/internal/safehttp"
	"github.com/courierhq/courier/internal/safename"
)

// HTTP says which addresses may be requested. The zero value allows public
// addresses over https, and suits apps in Azure's public cloud.
type HTTP struct {
	Networks   []netip.Prefix // networks that may be reached although they are not public
	AllowPlain bool           // allow http without TLS, which gives away the keys
	RootCAs    *x509.CertPool // who may vouch for servers; nil means the system's
	// Lookup resolves a host name, and Dial connects to an address; nil means
	// the system's function.
	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)
	Dial   func(ctx context.Context, network, addr string) (net.Conn, error)
}

// options allow only the hosts of the given URLs.
func (h *HTTP) options(only ...*url.URL) safehttp.Options {
	opt := safehttp.Options{Networks: h.Networks, AllowPlain: h.AllowPlain, RootCAs: h.RootCAs, Lookup: h.Lookup, Dial: h.Dial, Setting: "azure.Options.HTTP"}
	for _, u := range only {
		opt.Only = append(opt.Only, u.Hostname())
	}
	return opt
}

// A session makes requests and keeps keys out of error messages.
type session struct {
	client *safehttp.Client
	redact func(string) string // the job's
	beat   func()
}

// A response is a response whose body has been read.
type response struct {
	session *session
	where   string
	status  int
	header  http.Header
	body    []byte
}

const (
	maxAnswer = 1 << 20
	// answerWait is longer than the time for which Azure's front end waits.
	answerWait = 4 * time.Minute
)

// errAnswerWait ends a response that arrives too slowly.
var errAnswerWait = fmt.Errorf("its content takes longer than %v", answerWait)

// do sends a request and reads the response. It does not follow redirects,
// since the request contains keys.
func (s *session) do(ctx context.Context, method string, u *url.URL, h http.Header, body []byte) (*response, error) {
	r := safehttp.Request{Method: method, URL: u, Header: h, Wait: answerWait, Beat: s.beat}
	if body != nil {
		r.Body = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
		r.Size = int64(len(body))
	}
	resp, err := s.client.Do(ctx, r)
	if err != nil {
		return nil, s.fault(ctx, err)
	}
	defer resp.Body.Close()
	ctx, cancel := context.WithTimeoutCause(ctx, answerWait, errAnswerWait)
	defer cancel()
	defer context.AfterFunc(ctx, func() { resp.Body.Close() })()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	where := method + " " + safehttp.Origin(u)
	if err != nil {
		return nil, s.fault(ctx, fmt.Errorf("%s: the answer: %w", where, err))
	}
	if len(text) > maxAnswer {
		return nil, errf("%s: the answer has more than %d bytes", where, maxAnswer)
	}
	if json.Valid(text) && jsontext.Depth(text) > safehttp.MaxDepth {
		return nil, errf("%s: the JSON of the answer is nested more than %d times, so it can't become a value; have the function answer with text that holds it", where, safehttp.MaxDepth)
	}
	return &response{s, where, resp.StatusCode, resp.Header, text}, nil
}

// fault returns the error of a request without keys.
func (s *session) fault(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	permanent := safehttp.IsPermanent(err)
	if clean := s.redact(err.Error()); clean != err.Error() {
		err = errors.New(clean)
	}
	if permanent {
		return courier.Permanent(err)
	}
	return err
}

// failure returns the error of an unexpected response.
func (r *response) failure(what string) error {
	const excerpt = 500
	text := fmt.Sprintf("%s: %s: status %d", r.where, what, r.status)
	words := string(r.body)
	if len(words) > excerpt {
		words = words[:excerpt] + "..."
	}
	words = r.session.redact(strings.ToValidUTF8(words, "\uFFFD"))
	if words = strings.TrimSpace(words); words != "" {
		text += ": " + safename.Quote(words)
	}
	switch {
	case r.status == http.StatusUnauthorized || r.status == http.StatusForbidden:
		text += "; check the key or the permissions of the connection"
	case r.status == http.StatusNotFound:
		text += "; check the url of the connection and the function's name"
	}
	if r.passing() {
		return errors.New(text)
	}
	return errf("%s", text)
}

// passing reports whether the failure is temporary.
func (r *response) passing() bool {
	return r.status >= 500 || r.status == http.StatusRequestTimeout || r.status == http.StatusTooManyRequests
}

// after returns how long to wait before the next poll: the time that the server
// requests, if that is between a second and a minute, or else otherwise.
func (r *response) after(otherwise time.Duration) time.Duration {
	n, err := strconv.Atoi(strings.TrimSpace(r.header.Get("Retry-After")))
	if err != nil || n < 1 {
		return otherwise
	}
	return min(time.Duration(min(n, 60))*time.Second, time.Minute)
}
