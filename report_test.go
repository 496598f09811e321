package courier_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"testing"

	"github.com/courierhq/courier"
)

// TestTake checks that a context has the same reports as another one, if it takes what that
// one passes on as JSON.
func TestTake(t *testing.T) {
	dir := t.TempDir()
	parent := courier.NewContext(courier.ContextConfig{Workspace: dir})
	refused := errors.New("refused")
	cfg := parent.Config()
	cfg.Redactor, cfg.Clean = nil, func(text string) string { return "clean " + text }
	cfg.OnProgress = func(p courier.Progress) {
		if err := parent.Take(courier.ContextReport{Progress: &p}); err != nil {
			t.Error(err)
		}
	}
	cfg.OnReport = func(r courier.ContextReport) error {
		text, err := json.Marshal(r)
		if err != nil {
			return err
		}
		if string(r.Cursor) == `"refuse"` {
			return refused
		}
		var got courier.ContextReport
		if err := json.Unmarshal(text, &got); err != nil {
			return err
		}
		return parent.Take(got)
	}
	child := courier.NewContext(cfg)
	if parent.UsedWorkspace() {
		t.Error("the workspace counts as used before it was")
	}
	for _, name := range []string{"a", "b", "a"} {
		w, err := child.Create(name)
		if err == nil {
			_, err = w.WriteString("text " + name)
		}
		if err == nil {
			err = w.Commit()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	child.Stage("transfer")
	child.Progress(5, 5, "a")
	child.Progress(2, -1, "b")
	child.AddSecret("token", "hunter2secret")
	err := errors.Join(child.Remove("b"), child.Emit("done", 1), child.SaveCursor(7), child.ReportRemote(courier.File{Path: "/x", Connection: "c"}))
	if err != nil {
		t.Fatal(err)
	}
	if err := child.SaveCursor("refuse"); !errors.Is(err, refused) {
		t.Errorf("the error of a cursor that is refused is %v", err)
	}
	if a, b := parent.Files(), child.Files(); !reflect.DeepEqual(a, b) || len(a) != 3 {
		t.Errorf("files are %v, want %v", a, b)
	}
	if a, b := parent.Events(), child.Events(); !reflect.DeepEqual(a, b) || len(a) != 1 {
		t.Errorf("events are %v, want %v", a, b)
	}
	var cursor int
	if !parent.Cursor(&cursor) || cursor != 7 || parent.Bytes() != 7 || !parent.UsedWorkspace() {
		t.Errorf("cursor %d, %d bytes, workspace used: %v", cursor, parent.Bytes(), parent.UsedWorkspace())
	}
	if got := parent.Redact("a hunter2secret"); got != "a [secret token]" {
		t.Errorf("the parent redacts to %q", got)
	}
	if got := child.Redact("a hunter2secret"); got != "clean a [secret token]" {
		t.Errorf("the child redacts to %q", got)
	}
	if err := child.SaveCursor(nil); err != nil || parent.Cursor(&cursor) {
		t.Errorf("a cursor that was removed is there (%v)", err)
	}
}

// TestRemote checks that the methods of a type that is called elsewhere are, and no others.
func TestRemote(t *testing.T) {
	var reg courier.Registry
	courier.Register(&reg, "test.all", withAll{}, nil)
	courier.RegisterFunc(&reg, "test.plain", func(context.Context, *courier.Context, struct{}) (struct{}, error) { return struct{}{}, nil }, nil)
	var called []string
	for _, key := range []string{"test.all", "test.plain"} {
		typ, _ := reg.Lookup(key)
		remote := typ.Remote(func(_ context.Context, _ *courier.Context, method string, config []byte) (json.RawMessage, error) {
			called = append(called, fmt.Sprint(method, " ", string(config)))
			return json.RawMessage(`{"a":1}`), nil
		})
		job, ctx := courier.NewContext(courier.ContextConfig{}), t.Context()
		out, err := remote.Execute(ctx, job, []byte("1"))
		err = errors.Join(err, remote.Validate(ctx, job, []byte("2")), remote.Cleanup(ctx, job, []byte("3")), remote.Rollback(ctx, job, []byte("4")))
		if string(out) != `{"a":1}` || err != nil || remote.CleansUp() != typ.CleansUp() || len(remote.Check(map[string]any{"x": 1}, true)) != 1 {
			t.Errorf("%s: %s, %v", key, out, err)
		}
		if err := typ.Validate(ctx, job, nil); err != nil {
			t.Errorf("the type itself has changed: %v", err)
		}
	}
	if want := "[Execute 1 Validate 2 Cleanup 3 Rollback 4 Execute 1 Validate 2]"; fmt.Sprint(called) != want {
		t.Errorf("called are %v, want %s", called, want)
	}
}

type withAll struct{}

func (withAll) Execute(context.Context, *courier.Context, struct{}) (struct{}, error) {
	return struct{}{}, nil
}
func (withAll) Validate(context.Context, *courier.Context, struct{}) error { return nil }
func (withAll) Cleanup(context.Context, *courier.Context, struct{}) error  { return nil }
func (withAll) Rollback(context.Context, *courier.Context, struct{}) error { return nil }
