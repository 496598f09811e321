package definitions

import (
	"fmt"
	"path"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/program"
	"github.com/courierhq/courier/flow"
	"github.com/courierhq/courier/internal/reference"
)

// ofOutputs returns problems of a job with its outputs as steps, in which those of these
// steps are about the outputs.
func ofOutputs(job *courier.Job, problems []courier.Problem) []courier.Problem {
	for i := range problems {
		p := &problems[i]
		n := p.Step - len(job.Steps)
		if n < 0 || n >= len(job.Outputs) {
			continue
		}
		field := fmt.Sprintf("outputs[%d]", n)
		switch {
		case p.Field == "type":
			p.Message = fmt.Sprintf("outputs are kept by steps of the type %q, which is not registered; register it, by steps.Register or file.Register", program.OutputType)
		case strings.HasPrefix(p.Field, "config.source_path"):
			field += ".from"
		case strings.HasPrefix(p.Field, "config.destination_path"):
			field += ".to"
		}
		message := strings.NewReplacer("source_path", "from", "destination_path", "to").Replace(p.Message)
		*p = courier.Problem{Step: -1, Field: field, Message: message}
	}
	return problems
}

// checkOutputs reports what is wrong with the outputs of a job, beside what is wrong with
// the steps that keep them.
func checkOutputs(job *courier.Job, tree *flow.Tree) (problems []courier.Problem) {
	for i, o := range job.Outputs {
		problem := func(field, format string, args ...any) {
			problems = append(problems, courier.Problem{Step: -1, Field: fmt.Sprintf("outputs[%d].%s", i, field), Message: fmt.Sprintf(format, args...)})
		}
		key, whole := strings.CutPrefix(o.From, "context:")
		ref, err := reference.Parse(key)
		if step, ok := tree.Head(ref.Head); !whole || err != nil || ok && step >= len(job.Steps) {
			problem("from", "%q must be a reference to the output of a step that is the path of a file, such as \"context:pack.archive_path\"", o.From)
		}
		windows := len(o.To) > 1 && o.To[1] == ':'
		if to := o.To; !path.IsAbs(to) && !windows && !strings.HasPrefix(to, `\`) && !strings.HasPrefix(to, "context:") && !strings.HasPrefix(to, "${") {
			problem("to", "%q must be an absolute path, in one of engine.Options.Roots: what lies in the workspace is removed with it", to)
		}
	}
	return problems
}
