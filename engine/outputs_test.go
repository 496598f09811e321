package engine_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/steps/file"
)

type packed struct {
	Path  string   `json:"archive_path" file:"output_path"`
	Parts []string `json:"parts" file:"output_path"`
}

type packing struct {
	Output string `json:"output_path"`
	Fail   string `json:"fail"`
}

// withPack registers the step type demo.pack, which writes a file into the workspace.
func withPack(t *testing.T, h *couriertest.Harness) {
	courier.RegisterFunc(h.Registry, "demo.pack", func(_ ctx, job *courier.Context, cfg packing) (packed, error) {
		name := job.Files().Dir() + "/out*1.txt"
		put(t, job, name)
		put(t, job, job.Files().Dir()+"/outx1.txt") // which the name would match as a pattern
		return packed{Path: name, Parts: []string{name}}, nil
	}, nil)
}

func TestOutputsAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := t.TempDir()
		h := couriertest.New(t, &engine.Options{Roots: []string{out}})
		withPack(t, h)
		file.Register(h.Registry, nil)
		text := strings.ReplaceAll(`{"name": "out", "failure_policy": {"type": "retry_step", "max_retries": 1},
			"outputs": [{"from": "context:pack.archive_path", "to": "DIR/a/"}, {"from": "context:0.parts[0]", "to": "DIR/${context:params.name}"}],
			"params": {"name": "b.txt"}, "steps": [{"id": "pack", "type": "demo.pack"}]}`, "DIR", filepath.ToSlash(out))
		job := h.Job(text)
		def, err := h.Engine.Jobs().Define(t.Context(), job, nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(def.Warnings) > 0 || len(def.Job.Steps) != 1 || len(def.Job.Outputs) != 2 {
			t.Errorf("defined with warnings %v, %d steps and %d outputs", def.Warnings, len(def.Job.Steps), len(def.Job.Outputs))
		}
		if again, err := h.Engine.Jobs().Define(t.Context(), def.Job, nil); err != nil || again.Job.Version != def.Job.Version {
			t.Errorf("what was returned is another job: version %d, %v", again.Job.Version, err)
		}
		report, err := h.Engine.Jobs().DryRun(t.Context(), job, nil)
		if err != nil || !report.OK() || len(report.Steps) != 3 {
			t.Errorf("dry run: %v\n%s", err, &report)
		}
		for range 2 { // the second replaces
			r := h.Run(job, nil).RequireState(courier.Completed)
			for _, name := range []string{"a/out*1.txt", "b.txt"} {
				if !exists(t, filepath.Join(out, name)) {
					t.Errorf("%s is missing", name)
				}
			}
			if exists(t, filepath.Join(out, "a/outx1.txt")) {
				t.Error("the name of an output is taken for a pattern")
			}
			if s := r.Steps; len(s) != 3 || s[2].Type != "file.copy" || len(s[2].Files) != 1 {
				t.Errorf("steps %+v", s)
			}
		}
	})
}

// TestOutputsThatCantBeKept checks that the failure policy applies to outputs, that a
// resume tries them again, and that skip_and_continue does not lose them.
func TestOutputsThatCantBeKept(t *testing.T) {
	for _, policy := range []string{"stop", "skip_and_continue", "retry_step"} {
		synctest.Test(t, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "out")
			h := couriertest.New(t, &engine.Options{Roots: []string{out}})
			withPack(t, h)
			file.Register(h.Registry, nil)
			job := h.Job(`{"name": "out", "failure_policy": "` + policy + `", "outputs": [{"from": "context:0.archive_path", "to": "` + filepath.ToSlash(out) + `/x/"}], "steps": [{"type": "demo.pack"}]}`)
			if err := os.WriteFile(out, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			r := h.Run(job, nil).RequireState(courier.Failed)
			if want := map[string]int{"retry_step": 5}[policy]; len(r.Steps) != max(2, want) || r.Failure.Step != 1 {
				t.Errorf("%s: %d records, failure %+v", policy, len(r.Steps), r.Failure)
			}
			if err := errors.Join(os.Remove(out), os.Mkdir(out, 0o700)); err != nil {
				t.Fatal(err)
			}
			if _, err := h.Engine.Resume(t.Context(), r.ID, nil); err != nil {
				t.Fatal(err)
			}
			h.Start()
			h.Wait(r.ID).RequireState(courier.Completed)
			if !exists(t, filepath.Join(out, "x", "out*1.txt")) {
				t.Errorf("%s: the output is missing", policy)
			}
		})
	}
}

func TestDefineChecksOutputs(t *testing.T) {
	h := couriertest.New(t, nil)
	withPack(t, h)
	define := func(outputs string) string {
		_, err := h.Engine.Jobs().Define(t.Context(), h.Job(`{"name": "out", "outputs": [`+outputs+`], "steps": [{"id": "pack", "type": "demo.pack"}]}`), nil)
		if err == nil {
			return ""
		}
		return err.Error()
	}
	if err := define(`{"from": "context:pack.archive_path", "to": "/srv/"}`); !strings.Contains(err, `outputs[0]: outputs are kept by steps of the type "file.copy", which is not registered; register it, by steps.Register`) || strings.Contains(err, "step 1") {
		t.Errorf("without file.copy: %s", err)
	}
	file.Register(h.Registry, nil)
	for outputs, want := range map[string]string{
		`{"from": "context:pack.archive_path", "to": "/srv/"}`: "",
		`{"from": "context:pak.archive_path", "to": "/srv/"}`:  `outputs[0].from: `,
		`{"from": "context:pack.archive", "to": "/srv/"}`:      `outputs[0].from: "pack.archive" has no value`,
		`{"from": "out.txt", "to": "/srv/"}`:                   `outputs[0].from: "out.txt" must be a reference`,
		`{"from": "context:pack.parts", "to": "/srv/"}`:        `outputs[0].from: "pack.parts" is a list, but from must be a string`,
		`{"from": "context:pack.archive_path", "to": "srv/"}`:  `outputs[0].to: "srv/" must be an absolute path`,
		`{"from": "context:pack.archive_path"}`:                `outputs[0].to: `,
		`{"from": "context:1.copied_file", "to": "/srv/"}`:     `outputs[0].from: `,
	} {
		if err := define(outputs); want == "" && err != "" || !strings.Contains(err, want) || strings.Contains(err, "step 1 ") || strings.Contains(err, "source_path") {
			t.Errorf("%s: %q, want %q", outputs, err, want)
		}
	}
}
