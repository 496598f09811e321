// Package hours makes the store count the figures by hour, once a minute. Each engine on a store
// asks for it in each minute, and the store counts for the first of them; an engine that fails or
// hangs stops nothing. Counting an hour twice changes only the samples, because the store counts
// each hour anew; see [store.Figures].
package hours

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/courierhq/courier/engine/internal/core"
	"github.com/courierhq/courier/store"
)

// every is how old the figures are at most, while engines run, and fresh is how old they are at
// least when they are counted again.
const (
	every = time.Minute
	fresh = every / 2
)

// countTimeout is how long the store may take. On a store with a long history each of the first
// calls reads one day of it.
const countTimeout = 5 * time.Minute

// A Service makes the store count the figures.
type Service struct {
	roles  core.Roles
	log    *slog.Logger
	worker string
}

// New returns the service of an engine. It starts nothing.
func New(roles core.Roles, log *slog.Logger, worker string) *Service {
	return &Service{roles, log, worker}
}

// Run makes the store count the figures until the engine stops. It returns at once if the store
// keeps none. An error is in the log once, until the next success.
func (s *Service) Run(l core.Lifetime) {
	figures, err := s.roles.Figures()
	if err != nil {
		return
	}
	timer := time.NewTimer(core.NextTurn(s.worker, every))
	defer timer.Stop()
	failed := ""
	for {
		select {
		case <-l.Stop:
			return
		case <-timer.C:
		}
		err := s.count(l.Ctx, figures)
		switch {
		case errors.Is(err, errors.ErrUnsupported) || l.Ctx.Err() != nil: // by the store in a wrapper
			return
		case err == nil && failed != "":
			s.log.Info("the hourly figures are counted again")
			failed = ""
		case err != nil && failed != err.Error():
			failed = err.Error()
			s.log.Error("the hourly figures can't be counted; will retry in the next minute", "error", err)
		}
		timer.Reset(core.NextTurn(s.worker, every))
	}
}

// count makes the store count the figures, unless another engine just has.
func (s *Service) count(ctx context.Context, figures store.Figures) error {
	ctx, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	return figures.CountHours(ctx, fresh)
}
