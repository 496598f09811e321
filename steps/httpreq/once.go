package httpreq

import (
	"context"
	"errors"
	"fmt"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/note"
	"github.com/courierhq/courier/internal/safehttp"
)

// A onceNote is written before a request with once is sent, and again with its
// outcome.
type onceNote struct {
	Output *RequestOutput `json:"output,omitempty"`
}

const onceName = "once"

// runOnce sends the request unless an earlier attempt may have done so.
func (p *prepared) runOnce(ctx context.Context) (RequestOutput, error) {
	var n onceNote
	found, err := note.Read(p.job, onceName, &n)
	switch {
	case err != nil:
		return RequestOutput{}, err
	case found && n.Output != nil:
		return *n.Output, nil
	case found:
		return RequestOutput{}, errf("%s %s: an earlier attempt was interrupted when the request may have been sent; with once it is not sent again; find out at the server, then run the job again or go on after this step", p.method, safehttp.Origin(p.url))
	}
	client, err := p.opt.open(ctx, p.job)
	if err != nil {
		return RequestOutput{}, err
	}
	if _, err := client.Reach(ctx, p.url); err != nil {
		return RequestOutput{}, err // nothing was sent
	}
	if err := note.Write(p.job, onceName, onceNote{}); err != nil {
		if errors.Is(err, note.ErrNoPlace) {
			err = errf("once: %w", err)
		}
		return RequestOutput{}, err
	}
	out, err := p.exchange(ctx, client)
	if err != nil {
		return out, p.doubt(ctx, err)
	}
	return out, note.Write(p.job, onceName, onceNote{&out})
}

// doubt is what becomes of an error after a request with once was sent. If the
// server has refused it, it may be sent again.
func (p *prepared) doubt(ctx context.Context, err error) error {
	if _, ok := errors.AsType[*refusal](err); ok {
		return errors.Join(err, note.Remove(p.job, onceName))
	}
	if ctx.Err() != nil {
		return err
	}
	return courier.Permanent(fmt.Errorf("%w; the server may have acted on it, so with once it is not sent again", err))
}

// A refusal is a response that says that the server has not acted.
type refusal struct{ err error }

func (e *refusal) Error() string { return e.err.Error() }
func (e *refusal) Unwrap() error { return e.err }
