package couriertest

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/courierhq/courier/internal/jsontext"

	"github.com/courierhq/courier"
)

// RunStep executes one step alone, as an engine does. It decodes the configuration strictly, with
// its defaults. If attempt is above 1, it first cleans up an earlier attempt. The output is encoded
// as JSON and decoded again. The workspace is a directory for this test alone. The step may also
// use files anywhere below root; an empty root allows none.
func RunStep[C, O any](t testing.TB, s courier.Step[C, O], config map[string]any, root string, attempt int) (O, error) {
	t.Helper()
	var out O
	reg := new(courier.Registry)
	courier.Register(reg, "test.step", s, nil)
	typ, _ := reg.Lookup("test.step")
	cfg := courier.ContextConfig{Execution: "test", Job: "test", Type: typ.Key(), Attempt: attempt, Workspace: t.TempDir()}
	if root != "" {
		cfg.Roots = []string{root}
	}
	job := courier.NewContext(cfg)
	defer job.Close()
	raw, err := jsontext.Append(nil, config)
	if err != nil {
		t.Fatal(err)
	}
	if attempt > 1 {
		if err := typ.Cleanup(t.Context(), job, raw); err != nil {
			return out, err
		}
	}
	result, err := typ.Execute(context.WithoutCancel(t.Context()), job, raw)
	if err != nil || len(result) == 0 {
		return out, err
	}
	return out, json.Unmarshal(result, &out)
}
