package httpreq

import (
	"context"
	"errors"
	"fmt"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/note"
	"github.com/courierhq/courier/internal/safehttp"
	"github.com/courierhq/courier/internal/stepcontext"
)

// runOnce sends the request unless an earlier attempt may have sent it.
func (p *prepared) runOnce(ctx context.Context) (RequestOutput, error) {
	once := note.Once[RequestOutput]{Job: stepcontext.Of(p.job)}
	earlier, begun, err := once.Earlier()
	switch {
	case err != nil:
		return RequestOutput{}, err
	case earlier != nil:
		return *earlier, nil
	case begun:
		return RequestOutput{}, errf("%s %s: an earlier attempt was interrupted when the request may have been sent; with once it is not sent again; find out at the server, then run the job again or go on after this step", p.method, safehttp.Origin(p.url))
	}
	client, err := p.opt.open(ctx, p.job)
	if err != nil {
		return RequestOutput{}, err
	}
	if _, err := client.Reach(ctx, p.url); err != nil {
		return RequestOutput{}, err // nothing was sent
	}
	if err := once.Begin(); err != nil {
		return RequestOutput{}, err
	}
	out, err := p.exchange(ctx, client)
	if err != nil {
		return out, doubt(ctx, once, err)
	}
	return out, once.Complete(out)
}

// doubt returns the error of a request with once that may have been sent. If
// the server has refused it, it may be sent again.
func doubt(ctx context.Context, once note.Once[RequestOutput], err error) error {
	if _, ok := errors.AsType[*refusal](err); ok {
		return errors.Join(err, once.Forget())
	}
	if ctx.Err() != nil {
		return err
	}
	return courier.Permanent(fmt.Errorf("%w; the server may have acted on it, so with once it is not sent again", err))
}

// A refusal is a response which says that the server has not acted.
type refusal struct{ err error }

func (e *refusal) Error() string { return e.err.Error() }
func (e *refusal) Unwrap() error { return e.err }
