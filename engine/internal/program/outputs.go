package program

import "github.com/courierhq/courier"

// OutputType is the step type that keeps the outputs of jobs.
const OutputType = "file.copy"

// WithOutputs returns a job with a step behind its own for each of its outputs, which
// copies the file. The failure policy skip_and_continue does not hold for these steps:
// the file would be lost with the workspace.
func WithOutputs(job courier.Job) courier.Job {
	if len(job.Outputs) == 0 {
		return job
	}
	steps := job.Steps[:len(job.Steps):len(job.Steps)]
	for _, o := range job.Outputs {
		s := courier.StepSpec{Type: OutputType, Name: "output " + o.From, Config: map[string]any{"source_path": o.From, "destination_path": o.To, "glob": false}}
		if job.FailurePolicy.Type == courier.SkipAndContinue {
			s.FailurePolicy = courier.FailurePolicy{Type: courier.Stop}
		}
		steps = append(steps, s)
	}
	job.Steps = steps
	return job
}
