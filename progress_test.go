package courier

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestProgressForgets names as many items as a hostile directory has.
func TestProgressForgets(t *testing.T) {
	job := NewContext(ContextConfig{})
	for i := range 1000 {
		job.Progress(0, -1, fmt.Sprint(i)) // nothing is known of its size
		job.Progress(5, 5, fmt.Sprint("finished ", i))
	}
	if n := len(job.reported.items); n > 0 {
		t.Errorf("%d items are kept in memory, none of which is under way", n)
	}
}

// TestProgressMoved tells what an attempt has moved from what was there before it.
func TestProgressMoved(t *testing.T) {
	for what, c := range map[string]struct {
		report func(job *Context)
		want   int64
	}{
		"moved": {func(job *Context) {
			job.Progress(4, 10, "a")
			job.Progress(10, 10, "a")
		}, 10},
		"resumed": {func(job *Context) {
			job.SetProgress(4, 10, "a")
			job.Progress(10, 10, "a")
		}, 6},
		"resumed further back, beside another": {func(job *Context) {
			job.Progress(7, 10, "a")
			job.Progress(1, 1, "b")
			job.SetProgress(4, 10, "a")
			job.Progress(2, 2, "c")
			job.Progress(10, 10, "a")
		}, 7 + 1 + 2 + 6},
		"all was there": {func(job *Context) {
			job.SetProgress(10, 10, "a")
			job.Progress(1, 1, "b")
			job.Progress(10, 10, "a")
		}, 1},
		"from the start": {func(job *Context) {
			job.SetProgress(4, 10, "a")
			job.SetProgress(0, 10, "a")
			job.Progress(10, 10, "a")
		}, 10},
		"files that are deleted": {func(job *Context) {
			job.SetProgress(1, 2, "dir")
			job.SetProgress(2, 2, "dir")
		}, 0},
	} {
		job := NewContext(ContextConfig{})
		if c.report(job); job.Reports().Bytes != c.want {
			t.Errorf("%s: %d bytes, want %d", what, job.Reports().Bytes, c.want)
		}
	}
}

func TestCursor(t *testing.T) {
	type place struct{ Done int }
	var saved []string
	job := NewContext(ContextConfig{
		Cursor:  json.RawMessage(`{"Done": 7}`),
		Secrets: func(context.Context, SecretRequest) (string, error) { return "hunter22", nil },
	})
	if _, err := job.Secret(t.Context(), "pw"); err != nil {
		t.Fatal(err)
	}
	var p place
	if !job.Cursor(&p) || p.Done != 7 {
		t.Errorf("the cursor of the attempt before is %+v", p)
	}
	other := []int{1}
	if job.Cursor(&other) || !slices.Equal(other, []int{1}) {
		t.Errorf("a cursor of another form was decoded: %v", other)
	}
	for what, c := range map[string]struct {
		v    any
		want string
	}{
		"too long":   {strings.Repeat("x", 4<<10), "more than 4096"},
		"a secret":   {map[string]string{"at": "x hunter22"}, `the secret "pw"`},
		"not JSON":   {func() {}, "save cursor"},
		"not stored": {"\x00", "save cursor"},
	} {
		if err := job.SaveCursor(c.v); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", what, err, c.want)
		}
	}
	if !job.Cursor(&p) || p.Done != 7 {
		t.Errorf("after refused ones the cursor is %+v", p)
	}
	for _, v := range []any{place{8}, strings.Repeat("x", 4<<10-2), nil} {
		if err := job.SaveCursor(v); err != nil {
			t.Error(err)
		}
		var raw json.RawMessage
		job.Cursor(&raw)
		saved = append(saved, string(raw))
	}
	if want := []string{`{"Done":8}`, `"` + strings.Repeat("x", 4<<10-2) + `"`, ""}; !slices.Equal(saved, want) {
		t.Errorf("saved %.100q", saved)
	}
	job.Close()
	if err := job.SaveCursor(place{10}); err != nil || job.Cursor(&p) {
		t.Error("a cursor was saved when the attempt was over", err)
	}
	var zero Context
	if err := zero.SaveCursor(place{9}); err != nil || !zero.Cursor(&p) || p.Done != 9 {
		t.Error("a context that nobody listens to does not keep the cursor", err, p)
	}
}
