package courier_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/stepcontext"
)

// TestTake checks that a context has the same reports as another one, if it takes what that
// one passes on as JSON.
func TestTake(t *testing.T) {
	dir := t.TempDir()
	parent := courier.NewContext(courier.ContextConfig{Workspace: dir})
	refused := errors.New("refused")
	taker := stepcontext.Of(parent).(stepcontext.Remote)
	cfg := taker.Config()
	cfg.Redactor = nil
	cfg.OnProgress = func(p courier.Progress) {
		if err := taker.Take(stepcontext.Report{Progress: &p}); err != nil {
			t.Error(err)
		}
	}
	child := courier.NewContext(cfg)
	stepcontext.Of(child).(stepcontext.Remote).Forward(func(r stepcontext.Report) error {
		text, err := json.Marshal(r)
		if err != nil {
			return err
		}
		if string(r.Cursor) == `"refuse"` {
			return refused
		}
		var got stepcontext.Report
		if err := json.Unmarshal(text, &got); err != nil {
			return err
		}
		return taker.Take(got)
	}, func(text string) string { return "clean " + text })
	if parent.Reports().Workspace {
		t.Error("the workspace counts as used before it was")
	}
	for _, name := range []string{"a", "b", "a"} {
		w, err := child.Files().Create(name)
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
	err := errors.Join(child.Files().Remove("b"), child.Emit("done", 1), child.SaveCursor(7), child.Files().ReportRemote(courier.File{Path: "/x", Connection: "c"}))
	if err != nil {
		t.Fatal(err)
	}
	if err := child.SaveCursor("refuse"); !errors.Is(err, refused) {
		t.Errorf("the error of a cursor that is refused is %v", err)
	}
	a, b := parent.Reports(), child.Reports()
	if !reflect.DeepEqual(a.Files, b.Files) || len(a.Files) != 3 {
		t.Errorf("files are %v, want %v", a.Files, b.Files)
	}
	if !reflect.DeepEqual(a.Events, b.Events) || len(a.Events) != 1 {
		t.Errorf("events are %v, want %v", a.Events, b.Events)
	}
	var cursor int
	if !parent.Cursor(&cursor) || cursor != 7 || a.Bytes != 7 || !a.Workspace {
		t.Errorf("cursor %d, %d bytes, workspace used: %v", cursor, a.Bytes, a.Workspace)
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
