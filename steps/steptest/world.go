package steptest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/courierhq/courier"
)

// A World is the environment of one run of a step. Each run gets a new one. For Setup it is also
// a test of its own: functions that Setup registers with Cleanup run at the end of the world.
type World struct {
	testing.TB

	// Registry is the registry with the step's type.
	Registry *courier.Registry
	// Config is the step's configuration, which is Config of the Case unless Setup replaces it.
	Config any

	// Dir contains all directories of the world. Its content is part of the result, even where
	// the step cannot reach it, such as the files of a server.
	Dir string
	// Work is the workspace. Relative paths start there.
	Work string
	// Root is a directory outside the workspace that the step may use.
	Root string
	// Roots are all such directories. Setup may add more.
	Roots []string

	// Secrets resolves secrets, and Values are the values in scope. Nil means
	// that there are none.
	Secrets func(ctx context.Context, r courier.SecretRequest) (string, error)
	Values  courier.Scope

	c       *Case
	typ     *courier.StepType
	config  []byte
	kept    *courier.Resources
	job     *courier.Context      // of the last attempt; nil if the next one begins without its cursor
	begun   bool                  // there was an attempt
	again   int                   // the attempt of the execution, unless it is the first
	probe   atomic.Pointer[probe] // of the latest attempt
	ends    []func()
	goLabel string
	ok      bool

	// For types without Cleanup, for which an engine cleans up itself.
	executed *attempt // the last one
	removed  bool     // a failed attempt has reported that it removed a file
	made     []string // files of Setup in the workspace, as if steps before had made them
}

// The step's place in its execution.
const (
	execution = "0198c2f0-0000-7000-8000-000000000001"
	step      = 3
)

// newWorld makes a world. It returns nil if that is not possible, after it has reported the
// reason.
func (c *Case) newWorld(t testing.TB) *World {
	t.Helper()
	dir, err := os.MkdirTemp(c.Dir, "steptest")
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		t.Error(err)
		return nil
	}
	w := &World{
		TB: t, c: c, ok: true,
		Registry: new(courier.Registry), Config: c.Config,
		Dir: dir, Work: filepath.Join(dir, "work"), Root: filepath.Join(dir, "root"),
		kept: new(courier.Resources),
	}
	w.goLabel = fmt.Sprintf("%s %p", t.Name(), w)
	w.Roots = []string{w.Root}
	w.Cleanup(func() { os.RemoveAll(dir) })
	if err := errors.Join(os.Mkdir(w.Work, 0o700), os.Mkdir(w.Root, 0o755)); err != nil {
		t.Error(err)
		return nil
	}
	if c.Register != nil {
		c.Register(w.Registry)
	}
	if c.Setup != nil {
		c.Setup(w)
	}
	if err := w.prepare(); err != nil {
		t.Error(err)
		w.end()
		return nil
	}
	return w
}

// memory returns a directory in a file system in memory, or "" if there is none.
func memory() string {
	const dir = "/dev/shm"
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return ""
	}
	return dir
}

// prepare looks the step's type up and encodes its configuration.
func (w *World) prepare() error {
	if keys := w.Registry.Keys(); w.c.Key != "" {
		w.typ, _ = w.Registry.Lookup(w.c.Key)
	} else if len(keys) == 1 {
		w.typ, _ = w.Registry.Lookup(keys[0])
	}
	if w.typ == nil {
		return fmt.Errorf("no step type %q among %q; set Case.Register and Case.Key", w.c.Key, w.Registry.Keys())
	}
	if w.c.Remote != nil {
		w.typ = w.c.Remote(w.typ)
	}
	if w.Config == nil {
		w.Config = map[string]any{}
	}
	var err error
	if w.config, err = json.Marshal(w.Config); err != nil || w.typ.CleansUp() {
		return err
	}
	return filepath.WalkDir(w.Work, func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			p, err = filepath.Rel(w.Work, p)
			w.made = append(w.made, filepath.ToSlash(p))
		}
		return err
	})
}

// end closes what the step kept open, and calls the functions that Setup registered.
func (w *World) end() {
	w.Helper()
	if err := w.kept.Close(); err != nil && w.ok {
		w.Errorf("closing what the step kept open: %v", err)
	}
	w.ended()
	for _, f := range slices.Backward(w.ends) {
		f()
	}
}

// Cleanup registers a function for the end of the world.
func (w *World) Cleanup(f func()) { w.ends = append(w.ends, f) }

// TempDir makes a directory below Dir. It is part of the result.
func (w *World) TempDir() string {
	w.Helper()
	dir, err := os.MkdirTemp(w.Dir, "tmp")
	if err != nil {
		w.Fatal(err)
	}
	return dir
}

// Path returns the path of a file as in the step's configuration: a relative name is in the
// workspace.
func (w *World) Path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(w.Work, filepath.FromSlash(name))
}

// Write writes a file and makes its parent directories. The modification time is always the same.
// See [World.Path] for the name.
func (w *World) Write(name, content string) {
	w.Helper()
	p, at := w.Path(name), time.Date(2024, 5, 6, 7, 8, 9, 123456000, time.UTC)
	err := os.MkdirAll(filepath.Dir(p), 0o755)
	if err == nil {
		err = os.WriteFile(p, []byte(content), 0o644)
	}
	if err == nil {
		err = os.Chtimes(p, at, at)
	}
	if err != nil {
		w.Fatal(err)
	}
}

// Reach makes an operation of an outside system a place, such as a request to a server that Setup
// has started. The system calls Reach before the operation. If Reach returns an error, the
// operation must fail with it. The text begins with the operation's name. Reach may block until
// the step has been cut off, so the system must not hold anything that another connection of the
// step needs. It may be called at any time and by any goroutine.
func (w *World) Reach(operation string) error {
	if p := w.probe.Load(); p != nil {
		return p.reach(outside, func() string { return operation })
	}
	return nil
}

// broken reports a broken rule.
func (w *World) broken(where string, r rule, details string) {
	w.Helper()
	w.ok = false
	if details != "" {
		details = "\n" + details
	}
	w.Errorf("%s: %s%s\nTo do: %s.", where, r.says, details, r.advice)
}
