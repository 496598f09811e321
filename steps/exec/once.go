package exec

import (
	"context"
	"errors"
	"fmt"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/note"
)

// A onceNote is written before a program with once is started, and again when
// it has succeeded.
type onceNote struct {
	Output *RunOutput `json:"output,omitempty"`
}

const onceName = "once"

// runOnce runs the program unless an earlier attempt has begun to.
func (r *run) runOnce(ctx context.Context) (RunOutput, error) {
	var n onceNote
	found, err := note.Read(r.job, onceName, &n)
	switch {
	case err != nil:
		return RunOutput{}, err
	case found && n.Output != nil:
		return *n.Output, r.reportAgain(n.Output)
	case found:
		return RunOutput{}, errf("program %q: an earlier attempt began to run it and did not complete; with once it is not run again; find out what it has done, then run the job again or go on after this step", r.cfg.Program)
	}
	if err := note.Write(r.job, onceName, onceNote{}); err != nil {
		if errors.Is(err, note.ErrNoPlace) {
			err = errf("once: %w", err)
		}
		return RunOutput{}, err
	}
	out, err := r.run(ctx)
	switch {
	case err == nil:
		return out, note.Write(r.job, onceName, onceNote{&out})
	case !r.started:
		return out, errors.Join(err, note.Remove(r.job, onceName))
	case ctx.Err() != nil:
		return out, err
	}
	return out, courier.Permanent(fmt.Errorf("%w; with once it is not run again", err))
}

// reportAgain reports the files of a run that an earlier attempt completed.
func (r *run) reportAgain(out *RunOutput) error {
	for _, name := range []string{out.StdoutFile, out.StderrFile} {
		if name == "" {
			continue
		}
		if err := r.job.Wrote(name); err != nil {
			return fmt.Errorf("the outcome of the completed run: %w", err)
		}
	}
	return r.report(out)
}
