package courier_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/store/memstore"
)

// A step type is a function with a typed configuration and a typed output.
func ExampleRegisterFunc() {
	type config struct {
		Text string `json:"text" courier:"required" doc:"what to count"`
	}
	type output struct {
		Words int `json:"words"`
	}
	var reg courier.Registry
	courier.RegisterFunc(&reg, "text.count", func(_ context.Context, _ *courier.Context, cfg config) (output, error) {
		return output{len(strings.Fields(cfg.Text))}, nil
	}, &courier.TypeOptions{Doc: "counts words"})

	ctx := context.Background()
	e := engine.New(memstore.New(), &reg, nil)
	x, err := e.Run(ctx, courier.Job{Name: "count", Steps: []courier.StepSpec{
		{ID: "count", Type: "text.count", Config: map[string]any{"text": "to be or not to be"}},
	}}, nil)
	if err != nil {
		log.Fatal(err)
	}
	steps, err := e.Executions().Steps(ctx, x.ID)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", steps[0].Outputs)
	// Output:
	// {"words":6}
}

// Upper is a step type with a method for each ability.
type Upper struct{}

// An UpperConfig is the configuration of text.upper.
type UpperConfig struct {
	Source string `json:"source" courier:"required,path"`
	Target string `json:"target" courier:"required,path"`
}

// An UpperOutput is what text.upper leaves for later steps.
type UpperOutput struct {
	File string `json:"file" file:"target"`
}

// Execute writes a file under a temporary name. The file gets its name, and is on
// the disk, when it is committed.
func (Upper) Execute(_ context.Context, job *courier.Context, cfg UpperConfig) (UpperOutput, error) {
	out := UpperOutput{File: cfg.Target}
	r, err := job.Files().Open(cfg.Source)
	if err != nil {
		return out, err
	}
	defer r.Close()
	text, err := io.ReadAll(io.LimitReader(r, 1<<20))
	if err != nil {
		return out, err
	}
	w, err := job.Files().Create(cfg.Target)
	if err != nil {
		return out, err
	}
	defer w.Close() // removes it unless it was committed
	if _, err := w.WriteString(strings.ToUpper(string(text))); err != nil {
		return out, err
	}
	return out, w.Commit()
}

// Cleanup removes what an interrupted attempt has left.
func (Upper) Cleanup(_ context.Context, job *courier.Context, cfg UpperConfig) error {
	return job.Files().RemoveSideFiles(cfg.Target)
}

// A step type that cleans up, tests connections or rolls back is a Go type.
func ExampleRegister() {
	dir, err := os.MkdirTemp("", "upper")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	source, target := filepath.Join(dir, "poem.txt"), filepath.Join(dir, "loud.txt")
	if err := os.WriteFile(source, []byte("to be"), 0o600); err != nil {
		log.Fatal(err)
	}
	var reg courier.Registry
	courier.Register(&reg, "text.upper", Upper{}, nil)
	e := engine.New(memstore.New(), &reg, &engine.Options{Roots: []string{dir}, Workspace: filepath.Join(dir, "work")})
	if _, err := e.Run(context.Background(), courier.Job{Name: "upper", Steps: []courier.StepSpec{
		{Type: "text.upper", Config: map[string]any{"source": source, "target": target}},
	}}, nil); err != nil {
		log.Fatal(err)
	}
	text, err := os.ReadFile(target)
	fmt.Println(string(text), err)
	// Output:
	// TO BE <nil>
}

// Mistakes in the JSON of a job are found all at once, by line and column.
func ExampleJob_UnmarshalJSON() {
	var job courier.Job
	fmt.Println(job.UnmarshalJSON([]byte(`{
  "name": "fetch",
  "stepz": [],
  "limit": "one"
}`)))
	// Output:
	// read job "fetch": 2 problems:
	//   line 3, column 12: unknown field "stepz"; did you mean "steps"?
	//   line 4, column 12: limit: must be a whole number, not a JSON string
}
