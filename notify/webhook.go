package notify

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/jsontext"
	"github.com/courierhq/courier/internal/safehttp"
	"github.com/courierhq/courier/internal/secret"
	"github.com/courierhq/courier/internal/storecall"
	"github.com/courierhq/courier/internal/text"
	"github.com/courierhq/courier/webhook"
)

// WebhookOptions are the settings of subscriptions of kind webhook. The zero value allows https
// to public addresses. The address of a receiver is checked when a subscription is saved, and
// again for each connection, because the name may resolve to another address by then. Redirects
// are not followed.
type WebhookOptions struct {
	// Networks are networks that may be reached although they are not public.
	Networks []netip.Prefix
	// TrustedHosts are hosts that may be reached at any address: names, addresses, or
	// "*.example.com" for all its subdomains.
	TrustedHosts []string
	// AllowPlain allows http without TLS.
	AllowPlain bool
	// RootCAs are the authorities that may sign the certificates of receivers; nil means the
	// authorities of the system.
	RootCAs *x509.CertPool
	// Timeout is the maximum duration of one attempt; 0 means 20 seconds, and the maximum is a
	// minute.
	Timeout time.Duration
	// Lookup finds the addresses of a name. Nil means the system's resolver.
	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)
}

func (o *WebhookOptions) guard() safehttp.Options {
	return safehttp.Options{
		Networks: o.Networks, TrustedHosts: o.TrustedHosts, AllowPlain: o.AllowPlain, RootCAs: o.RootCAs, Lookup: o.Lookup,
		Setting: "engine.Options.Webhooks",
	}
}

const (
	hookTimeout = 20 * time.Second
	maxPayload  = 20_000   // bytes
	maxAnswer   = 64 << 10 // bytes to read, so that the connection can be used again
)

// A payload is the body of a webhook.
type payload struct {
	Type      courier.EventType `json:"type"`
	Timestamp time.Time         `json:"timestamp"`
	Data      Notification      `json:"data"`
}

// payloadOf returns the body for a notification, with at most 20,000 bytes. Long texts are cut.
// Events after the first are left out, but still counted.
func payloadOf(n Notification) ([]byte, error) {
	n.Coalesced = slices.Clone(n.Coalesced)
	for most := 4000; ; most /= 2 {
		n.Error, n.By = text.Shorten(n.Error, most), text.Shorten(n.By, most)
		for {
			body, err := jsontext.Append(nil, payload{n.Type, n.At, n})
			if err != nil || len(body) <= maxPayload || most == 0 {
				return body, err
			}
			if len(n.Coalesced) == 0 {
				break
			}
			n.Coalesced = n.Coalesced[:len(n.Coalesced)/2]
		}
	}
}

// post sends a notification to the receiver of a webhook.
func (p *dispatcher) post(ctx context.Context, to *WebhookTarget, n Notification) error {
	timeout := p.v.opt.Webhooks.Timeout
	if timeout <= 0 {
		timeout = hookTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var known secret.Redactor
	if err := p.postOnce(ctx, to, n, &known); err != nil {
		return known.CleanError(err)
	}
	return nil
}

func (p *dispatcher) postOnce(ctx context.Context, to *WebhookTarget, n Notification, known *secret.Redactor) error {
	r, err := p.v.hookRequest(ctx, to, n, known)
	if err != nil {
		return err
	}
	resp, err := p.http.Do(ctx, r)
	if _, refused := errors.AsType[*safehttp.RefusedError](err); refused {
		return courier.Permanent(err)
	}
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, _ = io.CopyN(io.Discard, resp.Body, maxAnswer) // the content doesn't matter
	if resp.StatusCode >= 200 && resp.StatusCode < 300 {
		return nil
	}
	a := &answerError{after: retryAfter(resp.Header.Get("Retry-After"), time.Now())}
	say := func(more string) {
		a.err = fmt.Errorf("%s answered %d%s", safehttp.Origin(r.URL), resp.StatusCode, more)
	}
	switch {
	case resp.StatusCode == http.StatusGone:
		a.gone = true
		say(", so it wants no more")
	case resp.StatusCode >= 300 && resp.StatusCode < 400:
		say(", a redirect, which is not followed; give the URL that it leads to")
	default:
		say("")
	}
	return a
}

// hookRequest returns a signed request, and adds its secrets to known.
func (v *Service) hookRequest(ctx context.Context, to *WebhookTarget, n Notification, known *secret.Redactor) (safehttp.Request, error) {
	var r safehttp.Request
	target, err := v.secretOr(ctx, n.Subscription, to.URL, known)
	if err != nil {
		return r, err
	}
	if r.URL, err = safehttp.ParseURL(target); err != nil {
		return r, courier.Permanent(err)
	}
	r.Header = make(http.Header)
	for name, value := range to.Headers {
		if value, err = v.secretOr(ctx, n.Subscription, value, known); err != nil {
			return r, err
		}
		r.Header.Set(name, value)
	}
	secrets := make([]string, len(to.Secrets))
	for i, s := range to.Secrets {
		if secrets[i], err = v.secretOr(ctx, n.Subscription, s, known); err != nil {
			return r, err
		}
	}
	body, err := payloadOf(n)
	if err != nil {
		return r, courier.Permanent(err)
	}
	now := time.Now()
	signature, err := webhook.Sign(n.ID, now, body, secrets...)
	if err != nil {
		return r, err
	}
	trace, err := v.opt.Jobs.TraceOf(ctx, &n)
	if err != nil {
		return r, err
	}
	if trace != "" && r.Header.Get("Traceparent") == "" {
		r.Header.Set("Traceparent", trace)
	}
	r.Header.Set(webhook.HeaderID, n.ID)
	r.Header.Set(webhook.HeaderTimestamp, strconv.FormatInt(now.Unix(), 10))
	r.Header.Set(webhook.HeaderSignature, signature)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "Courier")
	r.Method, r.Size = http.MethodPost, int64(len(body))
	r.Body = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	return r, nil
}

const secretPrefix = "secret:"

// secretOr returns the secret that a text of a subscription refers to, or the
// text itself.
func (v *Service) secretOr(ctx context.Context, subscription, text string, known *secret.Redactor) (string, error) {
	name, ok := strings.CutPrefix(text, secretPrefix)
	if !ok {
		return text, nil
	}
	return secret.Resolve(ctx, courier.SecretRequest{Name: name, Subscription: subscription}, v.opt.Secrets, known)
}

// retryAfter parses the Retry-After header: seconds, or a date. It returns 0 if the text is
// neither.
func retryAfter(text string, now time.Time) time.Duration {
	const most = 10 * 24 * time.Hour
	if n, err := strconv.ParseUint(strings.TrimSpace(text), 10, 32); err == nil {
		return min(time.Duration(n)*time.Second, most)
	}
	if at, err := http.ParseTime(text); err == nil {
		return min(max(0, at.Sub(now)), most)
	}
	return 0
}

// webhook checks the receiver of a webhook.
func (c *check) webhook(to *WebhookTarget) {
	var known secret.Redactor
	say := func(field string, err error) { c.problem(field, "%s", known.Message(err)) }
	if text, err := c.secret(to.URL, &known); err != nil {
		say("webhook.url", err)
	} else if err := c.receiver(text); err != nil {
		say("webhook.url", err)
	}
	if len(to.Secrets) == 0 {
		c.problem("webhook.secrets", `there are none: name one that signs the requests, as "secret:NAME"`)
	}
	for i, s := range to.Secrets {
		field := fmt.Sprintf("webhook.secrets[%d]", i)
		if name, ok := strings.CutPrefix(s, secretPrefix); !ok || name == "" {
			c.problem(field, `must be a reference "secret:NAME", so that the secret itself is not stored`)
			continue
		}
		text, err := c.secret(s, &known)
		if err == nil && text != "" {
			_, err = webhook.ParseSecret(text)
		}
		if err != nil {
			say(field, err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(to.Headers)) {
		if err := checkHeader(name, to.Headers[name]); err != nil {
			c.problem("webhook.headers", "%v", err)
		}
	}
}

// secret is like secretOr if the engine has secrets. Otherwise it returns "" for a reference,
// because only the delivering engine needs secrets.
func (c *check) secret(text string, known *secret.Redactor) (string, error) {
	if strings.HasPrefix(text, secretPrefix) && c.v.opt.Secrets == nil {
		return "", nil
	}
	return c.v.secretOr(c.ctx, c.s.Name, text, known)
}

// receiver checks whether requests to a URL are allowed. A name that can't be resolved now may be
// resolved later.
func (c *check) receiver(text string) error {
	if text == "" && c.s.Webhook.URL != "" {
		return nil // a secret that this engine does not have
	}
	u, err := safehttp.ParseURL(text)
	if err != nil {
		return err
	}
	if isNumeric(u) {
		return errors.New("the host is a number, which programs take for different addresses; write an IPv4 address as four decimal numbers")
	}
	ctx, cancel := context.WithTimeout(c.ctx, storecall.Timeout)
	defer cancel()
	guard := c.v.opt.Webhooks.guard()
	err = guard.Check(ctx, u)
	if _, refused := errors.AsType[*safehttp.RefusedError](err); err != nil && !refused {
		c.v.opt.Log.Warn("the receiver of a webhook can't be looked up", "subscription", c.s.Name, "error", err)
		return nil
	}
	return err
}

// isNumeric reports whether the host of a URL ends in a number but is not an address in the usual
// form: 127.1, 2130706433, 0x7f000001, 0177.0.0.1.
func isNumeric(u *url.URL) bool {
	host := strings.TrimSuffix(u.Hostname(), ".")
	if ip, err := netip.ParseAddr(host); err == nil {
		return host != u.Hostname() && ip.IsValid()
	}
	last := strings.ToLower(host[strings.LastIndexByte(host, '.')+1:])
	if hex, ok := strings.CutPrefix(last, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return last != "" && strings.Trim(last, "0123456789") == ""
}

// reserved are the headers that a webhook sets itself.
var reserved = []string{"Content-Length", "Content-Type", "Host", "Transfer-Encoding", "Connection", "Te", "Trailer", "Upgrade", "User-Agent"}

// checkHeader reports a header that can't be added.
func checkHeader(name, value string) error {
	canonical := http.CanonicalHeaderKey(name)
	switch {
	case name == "" || strings.Trim(name, "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") != "":
		return fmt.Errorf("%q is not the name of a header", name)
	case slices.Contains(reserved, canonical) || strings.HasPrefix(canonical, "Webhook-"):
		return fmt.Errorf("%q is set by the webhook itself", name)
	case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
		return fmt.Errorf("the value of %q contains control characters", name)
	}
	return nil
}
