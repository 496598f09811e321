package azure

import (
	"cmp"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/safehttp"
	"github.com/courierhq/courier/internal/safename"
)

// traceID returns an id that is the same for all attempts of a run, and different for every other
// run.
func traceID(job *courier.Context, run int) string {
	dir := job.Files().StepDir()
	if dir == "" {
		dir = fmt.Sprint(job.StepName(), job.Iteration())
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%d", job.Execution(), dir, run))
	return hex.EncodeToString(sum[:16])
}

// join makes the call part of the step's trace, if there is one. All attempts of a run use the
// trace of the first attempt, so that each attempt finds the calls of the others.
func (c *call) join(ctx context.Context) {
	parts := strings.Split(c.job.Trace(ctx), "-")
	if c.record.Called.IsZero() && c.record.Trace == "" && len(parts) >= 4 && len(parts[1]) == 32 {
		c.record.Trace = parts[1]
	}
}

// operation returns the trace id of the call, which is the operation id in telemetry.
func (c *call) operation() string { return cmp.Or(c.record.Trace, c.trace) }

// parent returns the id of the span of the call. In a trace of the host it distinguishes the call
// from others.
func (c *call) parent() string { return c.trace[:16] }

// trigger calls the function. The output is nil if the function has not ended yet.
func (c *call) trigger(ctx context.Context) (*ExecuteOutput, error) {
	if _, err := c.session.client.Reach(ctx, c.app.base); err != nil {
		return nil, c.session.fault(ctx, err) // nothing was called
	}
	c.join(ctx)
	u, h, body, err := c.request()
	if err != nil {
		return nil, err
	}
	c.record.Called = time.Now().UTC()
	if err := c.save(); err != nil {
		return nil, err
	}
	r, err := c.session.do(ctx, http.MethodPost, u, h, body)
	if err != nil {
		return nil, err // it may have been called
	}
	if at, err := http.ParseTime(r.header.Get("Date")); err == nil {
		c.record.Called = at // by the clock of telemetry
	}
	switch {
	case r.status == http.StatusBadGateway || r.status == http.StatusGatewayTimeout || r.status == http.StatusRequestTimeout:
		return nil, r.failure("the function was called, but its answer did not come") // it may still run
	case r.status == http.StatusAccepted:
		return nil, c.accepted(r)
	case r.status >= 200 && r.status <= 299 && c.cfg.Trigger == "http":
		return &ExecuteOutput{FunctionSuccess: true, CallbackResult: value([]byte(c.session.redact(string(r.body)))), HTTPStatus: r.status, TraceID: c.operation()}, nil
	case r.status == http.StatusInternalServerError && c.cfg.Trigger == "http":
		return &ExecuteOutput{CallbackResult: value([]byte(c.session.redact(string(r.body)))), HTTPStatus: r.status, TraceID: c.operation()}, nil
	}
	c.record.Called = time.Time{}
	return nil, errors.Join(r.failure("the function was not run"), c.save())
}

// request builds the request of the call.
func (c *call) request() (u *url.URL, h http.Header, body []byte, err error) {
	h = http.Header{
		"Content-Type":           {"application/json"},
		"Traceparent":            {"00-" + c.operation() + "-" + c.parent() + "-01"},
		"X-Ms-Client-Request-Id": {c.trace[:8] + "-" + c.trace[8:12] + "-" + c.trace[12:16] + "-" + c.trace[16:20] + "-" + c.trace[20:]},
		"Idempotency-Key":        {"courier-" + c.trace},
	}
	payload := c.cfg.InputPayload
	if len(payload) == 0 {
		payload = json.RawMessage("null")
	}
	if c.cfg.Trigger == "http" {
		if c.app.functionKey != "" {
			h.Set("X-Functions-Key", c.app.functionKey)
		}
		return c.app.base.JoinPath("api", c.cfg.FunctionName), h, payload, nil
	}
	h.Set("X-Functions-Key", c.app.masterKey)
	switch payload[0] {
	case '{', '[':
		payload, err = json.Marshal(string(payload))
	case 'n':
		payload = json.RawMessage(`""`)
	}
	if err == nil {
		body, err = json.Marshal(map[string]json.RawMessage{"input": payload})
	}
	return c.app.base.JoinPath("admin", "functions", c.cfg.FunctionName), h, body, err
}

// accepted records a call whose end is not known yet.
func (c *call) accepted(r *response) error {
	c.record.Accepted = true
	if c.cfg.Trigger == "admin" {
		return c.save()
	}
	var uris struct {
		ID     string `json:"id"`
		Status string `json:"statusQueryGetUri"`
		Stop   string `json:"terminatePostUri"`
	}
	// Another answer than that of a durable function may have no JSON at all.
	_ = json.Unmarshal(r.body, &uris)
	if uris.Status == "" {
		uris.Status = r.header.Get("Location")
	}
	if uris.Status == "" {
		if c.cfg.WaitForCallback && !c.app.telemetry() {
			return errors.Join(c.save(), errf("function %q: it was accepted, but the answer has no statusQueryGetUri, and the connection has no telemetry; set wait_for_callback to false", c.cfg.FunctionName))
		}
		return c.save()
	}
	var err error
	if c.record.Status, err = c.own(uris.Status); err != nil {
		return errors.Join(c.save(), err)
	}
	if uris.Stop != "" {
		if c.record.Stop, err = c.own(uris.Stop); err != nil {
			return errors.Join(c.save(), err)
		}
	}
	if len(uris.ID) <= 200 {
		c.record.Instance = strings.ToValidUTF8(uris.ID, "")
	}
	return c.save()
}

// own encrypts a URI of the app. It refuses a URI with another host.
func (c *call) own(text string) (string, error) {
	u, err := c.app.base.Parse(text)
	if err != nil || u.Host != c.app.base.Host || u.Scheme != c.app.base.Scheme || u.User != nil {
		return "", errf("function %q: it was started, but the URI for its state does not lead to the app itself, so it is not followed; the answer comes from %s", c.cfg.FunctionName, safehttp.Origin(c.app.base))
	}
	return c.sealer.seal(u.String())
}

// value returns JSON unchanged, and text as a JSON string.
func value(text []byte) json.RawMessage {
	if len(text) == 0 {
		return nil
	}
	if json.Valid(text) && utf8.Valid(text) {
		return text
	}
	raw, err := json.Marshal(strings.ReplaceAll(strings.ToValidUTF8(string(text), "\uFFFD"), "\x00", "\uFFFD"))
	if err != nil {
		return nil
	}
	return raw
}

// result returns the output of a failed function, for a message.
func (c *call) result(out *ExecuteOutput) string {
	if len(out.CallbackResult) == 0 {
		return fmt.Sprintf(" with status %d", out.HTTPStatus)
	}
	return ": " + safename.Quote(c.session.redact(string(out.CallbackResult)))
}

// A sealer encrypts URIs in notes, since they contain a key. Whoever has the key of the
// connection can decrypt them.
type sealer struct{ key [32]byte }

func newSealer(key string) sealer { return sealer{sha256.Sum256([]byte("courier azure note\n" + key))} }

func (s sealer) aead() (cipher.AEAD, error) {
	block, err := aes.NewCipher(s.key[:])
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

func (s sealer) seal(text string) (string, error) {
	a, err := s.aead()
	if err != nil {
		return "", err
	}
	return base64.StdEncoding.EncodeToString(a.Seal(nil, nil, []byte(text), nil)), nil
}

func (s sealer) open(text string) (*url.URL, error) {
	a, err := s.aead()
	if err != nil {
		return nil, err
	}
	raw, err := base64.StdEncoding.DecodeString(text)
	if err == nil {
		raw, err = a.Open(nil, nil, raw, nil)
	}
	if err != nil {
		return nil, errf("the note of the status URI can't be read: the key of the connection has changed since")
	}
	return url.Parse(string(raw))
}
