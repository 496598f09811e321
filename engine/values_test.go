package engine_test

import (
	"path/filepath"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/engine"
)

// TestValuesOfAnotherHost gives the path of a workspace with the values of an execution on the
// host that has it, and not on another one.
func TestValuesOfAnotherHost(t *testing.T) {
	dir := t.TempDir()
	couriertest.Virtual(t, &engine.Options{Workspace: dir, WorkspaceID: "here"}, func(t *testing.T, h *couriertest.Harness) {
		h.Stub("demo.write", func(_ ctx, job *courier.Context, _ map[string]any) (map[string]any, error) {
			f, err := job.Files().Create("a.txt")
			if err != nil {
				return nil, err
			}
			return nil, f.Commit()
		})
		h.Stub("demo.fail", func(ctx, *courier.Context, map[string]any) (map[string]any, error) { return nil, errBoom })
		x := h.Run(h.Job(`{"name": "files", "steps": [{"type": "demo.write"}, {"type": "demo.fail"}]}`), nil).RequireState(courier.Failed)
		away := engine.New(h.Store, h.Registry, &engine.Options{Workspace: t.TempDir(), WorkspaceID: "there"})
		for name, c := range map[string]struct {
			e    *engine.Engine
			want any
		}{"with the workspace": {h.Engine, filepath.Join(dir, string(x.ID))}, "without it": {away, nil}} {
			v, err := c.e.Executions().Values(t.Context(), x.ID)
			if err != nil || v["job.workspace"] != c.want || v["job.name"] != "files" {
				t.Errorf("%s: %v, %v; want %v", name, v["job.workspace"], err, c.want)
			}
		}
	})
}
