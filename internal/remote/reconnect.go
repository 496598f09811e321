package remote

import (
	"context"
	"fmt"

	"github.com/courierhq/courier"
)

// MaxReconnects is how often lost connections are replaced by others for one
// piece of work in one attempt.
const MaxReconnects = 3

// Reconnecting calls f, which opens the connection called id where it has none,
// and calls it again, up to MaxReconnects times, when it fails because that was
// lost. F goes on where it was.
func Reconnecting(ctx context.Context, job *courier.Context, id string, lost func(error) bool, f func() error) error {
	var first error
	for n := 0; ; n++ {
		err := f()
		if err != nil && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		switch again := err != nil && lost(err); {
		case again && n < MaxReconnects:
			job.Log().Info("the connection is lost, the transfer goes on with another", "connection", id, "reason", err.Error())
			first = err
		case err == nil || again || n == 0 || courier.IsPermanent(err):
			return err
		default:
			return fmt.Errorf("%w; going on with another connection: %w", first, err)
		}
	}
}
