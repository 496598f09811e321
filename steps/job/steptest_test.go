package job_test

import (
	"context"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/steps/job"
	"github.com/courierhq/courier/steps/steptest"
)

// A failed is the failure of job.fail as an output, since the contract is about steps
// that succeed.
type failed struct {
	Error     string         `json:"error"`
	Class     courier.Reason `json:"class"`
	Permanent bool           `json:"permanent"`
}

type failing struct{ job.Fail }

// Execute returns the failure.
func (f failing) Execute(ctx context.Context, c *courier.Context, cfg job.FailConfig) (failed, error) {
	_, err := f.Fail.Execute(ctx, c, cfg)
	if err == nil || err.Error() != cfg.Message {
		return failed{}, err
	}
	return failed{err.Error(), courier.ClassOf(err), courier.IsPermanent(err)}, nil
}

// TestContract holds the step against the contract for retries: it fails alike, and
// leaves nothing.
func TestContract(t *testing.T) {
	steptest.Run(t, steptest.Case{
		Packages: []string{steptest.All}, Tidy: true, Virtual: true,
		Register: func(r *courier.Registry) {
			job.Register(r)
			courier.Register(r, "job.fail", failing{}, &courier.TypeOptions{Replace: true})
		},
		Config: map[string]any{"message": "nothing was delivered", "class": "not_found"},
	})
	var r courier.Registry
	job.Register(&r)
	steptest.Cover(t, &r, "job.fail")
}
