package httpapi

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/internal/desk"
)

// A StartRequest is the body that starts an execution of a job. All fields may be left out.
type StartRequest struct {
	Params         map[string]any    `json:"params,omitempty"`
	Priority       int16             `json:"priority,omitempty"`      // higher is claimed first
	DelaySeconds   float64           `json:"delay_seconds,omitempty"` // until it is due
	Hold           bool              `json:"hold,omitempty"`          // it stays in the state created until it is released
	Version        int               `json:"version,omitempty"`       // of the job; 0 means the latest
	TimeoutSeconds *float64          `json:"timeout_seconds,omitempty"`
	ExpiresSeconds float64           `json:"expires_seconds,omitempty"` // time in which it must begin; 0 means no limit
	MaxAttempts    *int              `json:"max_attempts,omitempty"`    // 1 to 100, the first attempt included; null means the number of the job
	LimitKeys      []string          `json:"limit_keys,omitempty"`
	Labels         map[string]string `json:"labels,omitempty"`
	IdempotencyKey string            `json:"idempotency_key,omitempty"` // as the header
	KeyScope       string            `json:"key_scope,omitempty"`       // the key counts for all jobs with that scope; empty: for this job
}

// A Started is the answer to a request that starts an execution.
type Started struct {
	ID        courier.ExecutionID `json:"id"`
	Job       string              `json:"job"`
	Status    string              `json:"status"`
	CreatedAt time.Time           `json:"created_at"`
}

var (
	keyHeader    = param{name: "Idempotency-Key", kind: "string", does: "Names the request: a repetition starts nothing and is answered as the first one was. 1 to 200 characters."}
	preferHeader = param{name: "Prefer", kind: "string", does: "wait=N waits up to N seconds, 60 at most, for the end of the execution."}
)

func (c *call) start() error {
	if c.isForm() {
		return c.startUpload()
	}
	var b StartRequest
	if err := c.body(&b); err != nil {
		return err
	}
	key, err := c.key(b.IdempotencyKey)
	if err != nil {
		return err
	}
	wait, err := c.wait()
	if err != nil {
		return err
	}
	opt, err := b.options()
	if err != nil {
		return err
	}
	opt.IdempotencyKey, opt.KeyScope, opt.By = key, b.KeyScope, c.By("")
	if opt.Labels, err = c.labels(b.Labels); err != nil {
		return err
	}
	if err := c.MayStart(c.ctx(), c.r.PathValue("name"), opt); err != nil {
		return err
	}
	x, err := c.h.e.Enqueue(c.ctx(), c.r.PathValue("name"), opt)
	if err != nil {
		return startProblem(c.unknown(err), key)
	}
	return c.started(x, wait)
}

// unknown returns err. If err says that a job does not exist, it suggests the nearest names only to
// visitors who may see all jobs.
func (c *call) unknown(err error) error {
	if errors.Is(err, courier.ErrNotFound) && !c.Can(c.ctx(), "", access.RightSee) {
		return desk.Unknown()
	}
	return err
}

// started answers with an execution that was created, or that already has the key of the request.
func (c *call) started(x courier.Execution, wait time.Duration) error {
	c.w.Header().Set("Location", c.root+"v1/executions/"+string(x.ID))
	if wait > 0 {
		ended, err := c.await(x.ID, wait)
		if err != nil {
			return err
		}
		c.w.Header().Set("Preference-Applied", applied(wait))
		if ended.State.Ended() {
			return c.answer(http.StatusOK, c.view(&ended))
		}
		x = ended
	}
	return c.answer(http.StatusAccepted, Started{x.ID, x.Job, clientStatus(&x), x.CreatedAt})
}

// applied is the value of the header Preference-Applied.
func applied(wait time.Duration) string { return "wait=" + strconv.Itoa(int(wait/time.Second)) }

// await waits for the end of an execution, for a limited time, and returns the execution as it is
// afterwards.
func (c *call) await(id courier.ExecutionID, most time.Duration) (courier.Execution, error) {
	ctx, cancel := c.lasting(most)
	defer cancel()
	x, err := c.h.e.Executions().WaitFor(ctx, id, func(x *courier.Execution) bool {
		return x.State.Ended()
	})
	if err != nil && ctx.Err() != nil && c.ctx().Err() == nil {
		return c.h.e.Executions().Get(c.ctx(), id)
	}
	return x, err
}

// lasting returns a context for work that may take some time. It ends with the handler.
func (c *call) lasting(most time.Duration) (context.Context, context.CancelFunc) {
	_ = http.NewResponseController(c.w).SetWriteDeadline(time.Now().Add(most + time.Minute)) // the host's server may have a shorter time
	ctx, cancel := context.WithTimeout(c.ctx(), most)
	stop := context.AfterFunc(c.h.closed, cancel)
	return ctx, func() { stop(); cancel() }
}

// options returns the options of the engine in the body, or all problems with them.
func (b *StartRequest) options() (*courier.EnqueueOptions, error) {
	var p problem
	opt := &courier.EnqueueOptions{
		Params: b.Params, Priority: b.Priority, Hold: b.Hold, Version: b.Version, LimitKeys: b.LimitKeys,
		Delay: p.seconds("/delay_seconds", b.DelaySeconds), Expires: p.seconds("/expires_seconds", b.ExpiresSeconds),
	}
	if b.TimeoutSeconds != nil {
		d := p.seconds("/timeout_seconds", *b.TimeoutSeconds)
		opt.Timeout = &d
	}
	if n := b.MaxAttempts; n != nil {
		retries := *n - 1
		opt.MaxRetries = &retries
		if *n < 1 || *n > 100 {
			p.add(item{Pointer: "/max_attempts", Message: "it must be from 1 to 100"})
		}
	}
	if b.Version < 0 {
		p.add(item{Pointer: "/version", Message: "it must be a version of the job, or 0 for the latest"})
	}
	return opt, p.invalid("the body")
}

// maxSeconds is the longest time that a request may name: a hundred years.
const maxSeconds = 100 * 366 * 24 * 3600

// seconds returns a number of seconds as a duration.
func (p *problem) seconds(pointer string, n float64) time.Duration {
	if !(n >= 0 && n <= maxSeconds) {
		p.add(item{Pointer: pointer, Message: "it must be a number of seconds, not negative, and at most 100 years"})
		return 0
	}
	return time.Duration(n * float64(time.Second))
}

// labels returns the labels of an execution: those in the request, and a label with the visitor who
// starts it.
func (c *call) labels(given map[string]string) (map[string]string, error) {
	labels := c.Labels()
	for name, value := range given {
		if name == courier.LabelBy {
			return nil, oneProblem(item{Pointer: "/labels/" + courier.LabelBy, Message: "the service itself sets this label to who has started the execution: leave it out"})
		}
		labels[name] = value
	}
	return labels, nil
}

// key returns the idempotency key of a request, from the header or the body. The key includes the
// visitor, so that nobody finds the execution of another visitor by guessing a key.
func (c *call) key(inBody string) (string, error) {
	values := c.r.Header.Values("Idempotency-Key")
	key := inBody
	switch {
	case len(values) > 1:
		return "", oneProblem(item{Header: "Idempotency-Key", Message: "it is given more than once"})
	case len(values) == 1 && inBody != "" && values[0] != inBody:
		return "", oneProblem(item{Pointer: "/idempotency_key", Message: "it differs from the header Idempotency-Key: send one of them"})
	case len(values) == 1:
		if key = values[0]; key == "" {
			return "", oneProblem(item{Header: "Idempotency-Key", Message: "it is empty: leave it out, or name the request"})
		}
	}
	return c.ownKey(key)
}

// ownKey returns a key that includes the visitor. It is empty for an empty key.
func (c *call) ownKey(key string) (string, error) {
	if !utf8.ValidString(key) || utf8.RuneCountInString(key) > 200 {
		return "", oneProblem(item{Header: "Idempotency-Key", Message: "it must have 1 to 200 characters, in UTF-8"})
	}
	if key == "" {
		return "", nil
	}
	return "api/" + url.PathEscape(c.ID) + "/" + key, nil // engines and pages use no such keys
}

// wait returns how long the client wants to wait for the end, from the header Prefer (RFC 7240).
func (c *call) wait() (time.Duration, error) {
	for _, line := range c.r.Header.Values("Prefer") {
		for preference := range strings.SplitSeq(line, ",") {
			text, ok := strings.CutPrefix(strings.TrimSpace(preference), "wait=")
			if !ok {
				continue // unknown preferences don't count
			}
			n, err := strconv.Atoi(text)
			if err != nil || n < 0 {
				return 0, oneProblem(item{Header: "Prefer", Message: "wait must be a number of seconds, such as wait=30"})
			}
			return time.Duration(min(n, 60)) * time.Second, nil
		}
	}
	return 0, nil
}

// startProblem is the error of a start. A conflict that is not about a dependency is a conflict of
// the idempotency key.
func startProblem(err error, key string) error {
	_, dependency := errors.AsType[*courier.DependencyError](err)
	if key != "" && !dependency && errors.Is(err, courier.ErrConflict) {
		return ErrKeyReused
	}
	return err
}
