package exec

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/note"
	"github.com/courierhq/courier/internal/stepcontext"
)

// runOnce runs the program unless an earlier attempt has started it.
func (r *run) runOnce(ctx context.Context) (RunOutput, error) {
	once := note.Once[RunOutput]{Job: stepcontext.Of(r.job)}
	earlier, begun, err := once.Earlier()
	switch {
	case err != nil:
		return RunOutput{}, err
	case earlier != nil:
		return *earlier, r.reportAgain(earlier)
	case begun:
		return RunOutput{}, errf("program %q: an earlier attempt began to run it and did not complete; with once it is not run again; find out what it has done, then run the job again or go on after this step", r.cfg.Program)
	}
	if err := once.Begin(); err != nil {
		return RunOutput{}, err
	}
	out, err := r.run(ctx)
	switch {
	case err == nil:
		return out, once.Complete(out)
	case !r.started:
		return out, errors.Join(err, once.Forget())
	case ctx.Err() != nil:
		return out, err
	}
	return out, courier.Permanent(fmt.Errorf("%w; with once it is not run again", err))
}

// reportAgain reports the files of a run that an earlier attempt completed. If the run belongs to
// an earlier attempt of the execution, a later step of that attempt may have taken the files
// away.
func (r *run) reportAgain(out *RunOutput) error {
	err := r.reportFiles(out)
	if r.job.ExecutionAttempt() > 1 && errors.Is(err, fs.ErrNotExist) {
		r.job.Log().Warn("a file that the program has written in an earlier attempt of the execution is gone", "error", err)
		return nil
	}
	return err
}

func (r *run) reportFiles(out *RunOutput) error {
	for _, name := range []string{out.StdoutFile, out.StderrFile} {
		if name == "" {
			continue
		}
		if err := r.job.Files().Wrote(name); err != nil {
			return fmt.Errorf("the outcome of the completed run: %w", err)
		}
	}
	return r.report(out)
}
