// Command custom-step shows a step type of your own: a typed configuration, a typed output, and its
// use in a pipeline. Its unit test is in main_test.go.
package main

import (
	"bufio"
	"context"
	"fmt"
	"log"
	"os"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/store/memstore"
)

// A CountConfig is the configuration of text.count.
type CountConfig struct {
	Path string `json:"path" courier:"required" doc:"the file to count"`
}

// A CountOutput is the output of text.count, for later steps.
type CountOutput struct {
	Lines int `json:"lines"`
}

// count counts the lines of a file.
func count(ctx context.Context, job *courier.Context, cfg CountConfig) (CountOutput, error) {
	f, err := job.Files().Open(cfg.Path)
	if err != nil {
		return CountOutput{}, err
	}
	defer f.Close()
	var out CountOutput
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if ctx.Err() != nil {
			return out, context.Cause(ctx)
		}
		out.Lines++
	}
	return out, lines.Err()
}

// A ReportConfig is the configuration of text.report.
type ReportConfig struct {
	Text string `json:"text" courier:"required"`
}

// report prints a text.
func report(_ context.Context, _ *courier.Context, cfg ReportConfig) (struct{}, error) {
	_, err := fmt.Println(cfg.Text)
	return struct{}{}, err
}

// register adds the step types of this program to a registry.
func register(reg *courier.Registry) {
	courier.RegisterFunc(reg, "text.count", count, &courier.TypeOptions{Doc: "counts the lines of a file"})
	courier.RegisterFunc(reg, "text.report", report, nil)
}

// pipeline counts the lines of a file and reports whether there are many.
func pipeline() courier.Job {
	return courier.Job{
		Name:   "count-lines",
		Params: map[string]any{"path": nil},
		Steps: []courier.StepSpec{
			{ID: "count", Type: "text.count", Config: map[string]any{"path": "context:params.path"}},
			{Type: "flow.if", Config: map[string]any{"left": "context:count.lines", "operator": "greater_than", "right": 2}},
			{Type: "text.report", Config: map[string]any{"text": "many lines: ${context:count.lines}"}},
			{Type: "flow.else"},
			{Type: "text.report", Config: map[string]any{"text": "few lines: ${context:count.lines}"}},
			{Type: "flow.end"},
		},
	}
}

func main() {
	dir, err := os.MkdirTemp("", "custom-step")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := dir + "/poem.txt"
	if err := os.WriteFile(path, []byte("one\ntwo\nthree\n"), 0o600); err != nil {
		log.Fatal(err)
	}
	var reg courier.Registry
	register(&reg)
	e := engine.New(memstore.New(), &reg, &engine.Options{Roots: []string{dir}, Workspace: dir + "/work"})
	if _, err := e.Run(context.Background(), pipeline(), &courier.EnqueueOptions{Params: map[string]any{"path": path}}); err != nil {
		log.Fatal(err)
	}
}
