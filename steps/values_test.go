package steps_test

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/engine/dryrun"
	"github.com/courierhq/courier/flow"
	"github.com/courierhq/courier/steps"
)

// hostileValues are names that a partner can give a file. The last ones climb.
var hostileValues = []string{"*", "a?b", "[x]", "{a,b}", "**", "../x", "a/../../x", `..\x`, "..", `a\..\x`}

// fields calls f with every string of a configuration, by its path.
func fields(s *courier.Schema, name string, f func(name string, list bool, s *courier.Schema)) {
	for _, p := range s.Properties {
		fields(p.Schema, strings.TrimPrefix(name+"."+p.Name, "."), f)
	}
	switch {
	case s.Type == "string":
		f(name, false, s)
	case s.Type == "array" && s.Items.Type == "string":
		f(name, true, s.Items)
	}
}

// pathLike are the names of fields that hold paths, patterns or URLs.
var pathLike = regexp.MustCompile(`path|pattern|exclude|director|(^|_)(dir|url|uri|glob)(_|$)|move_to|done_file|output_files|file_name|function_name`)

// Every field that by its name takes a path, a pattern or a URL says so by its
// kind, and treats hostile values accordingly, by whole references and inside of a
// text: a wildcard in them is none, and a segment ".." is refused.
func TestHostileValuesInAllFields(t *testing.T) {
	reg, count := registry(), 0
	for _, key := range reg.Keys() {
		typ, _ := reg.Lookup(key)
		fields(typ.Config(), "", func(name string, list bool, s *courier.Schema) {
			if s.Kind == "" {
				if pathLike.MatchString(name) {
					t.Errorf("%s: %s looks like a path, a pattern or a URL, but has no kind; see docs/how-to/write-a-step.md", key, name)
				}
				return
			}
			count++
			for _, v := range hostileValues {
				for _, text := range []string{"context:params.x", "/root/a/${context:params.x}"} {
					checkFilled(t, typ, name, list, s, text, v)
				}
			}
		})
	}
	if count < 100 {
		t.Errorf("only %d fields have a kind", count)
	}
}

func checkFilled(t *testing.T, typ *courier.StepType, name string, list bool, s *courier.Schema, text, v string) {
	t.Helper()
	config := map[string]any{name: text}
	if list {
		config[name] = []any{text}
	}
	template, _ := flow.Compile(config)
	raw, err := template.For(typ.Config(), false, nil).Render(nil, courier.Values{"params.x": v}, nil)
	if climbs := strings.Contains(v, ".."); climbs || err != nil {
		if !climbs || err == nil {
			t.Errorf("%s: %s: %q with %q: %v", typ.Key(), name, text, v, err)
		}
		return
	}
	if s.Kind != "pattern" {
		return
	}
	var got map[string]json.RawMessage
	var one courier.Pattern
	if err = json.Unmarshal(raw, &got); err == nil {
		err = json.Unmarshal([]byte(strings.Trim(string(got[name]), "[]")), &one)
	}
	if err != nil || one.ContainsAny(`*?[{`) {
		t.Errorf("%s: %s: %q with %q became the pattern %q (%v)", typ.Key(), name, text, v, one, err)
	}
}

// The types that work on local files touch nothing but the named file, even if
// it is gone, for every pattern of their configuration.
func TestHostileValuesTouchNothingElse(t *testing.T) {
	root := t.TempDir()
	names := []string{"a.csv", "b/payroll.csv", "b/x", "a-b", "axb", "x", "sub/deep/c.csv"}
	for _, n := range names {
		p := filepath.Join(root, "in", filepath.FromSlash(n))
		if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(n), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	h := couriertest.New(t, nil)
	steps.Register(h.Registry, nil)
	before, tried := filesBelow(t, filepath.Join(root, "in")), 0
	var calls []courier.StepSpec
	for _, key := range h.Registry.Keys() {
		typ, _ := h.Registry.Lookup(key)
		fields(typ.Config(), "", func(name string, list bool, s *courier.Schema) {
			if s.Kind != "pattern" || name == "pattern" || name == "exclude" || key == "file.wait" {
				return
			}
			for _, text := range []string{"context:params.whole", filepath.ToSlash(h.Dir) + "/in/${context:params.x}"} {
				config := map[string]any{name: text}
				if list {
					config[name] = []any{text}
				}
				for _, p := range typ.Config().Properties {
					if p.Required && p.Name != name {
						config[p.Name] = filepath.ToSlash(h.Dir) + "/out/"
					}
				}
				calls = append(calls, courier.StepSpec{Type: key, Config: config})
			}
		})
	}
	if err := os.Rename(filepath.Join(root, "in"), filepath.Join(h.Dir, "in")); err != nil {
		t.Fatal(err)
	}
	for _, v := range hostileValues {
		job := courier.Job{Name: "hostile", FailurePolicy: courier.FailurePolicy{Type: courier.SkipAndContinue}, Steps: calls}
		h.Run(job, map[string]any{"x": v, "whole": filepath.ToSlash(h.Dir) + "/in/" + v})
		tried += len(calls)
		if after := filesBelow(t, filepath.Join(h.Dir, "in")); !slices.Equal(after, before) {
			t.Fatalf("with %q the directory became %q, was %q", v, after, before)
		}
		for _, f := range filesBelow(t, filepath.Join(h.Dir, "out")) {
			t.Errorf("with %q there is %q", v, f)
		}
	}
	if tried < 100 {
		t.Errorf("only %d steps were tried", tried)
	}
}

// filesBelow lists the files below a directory.
func filesBelow(t *testing.T, dir string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			p, err = filepath.Rel(dir, p)
			files = append(files, p)
		}
		return err
	})
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return files
}

// A value leads from one partner's directory into another's only if the step
// allows it, which definitions in JSON can say too. A dry run knows.
func TestAllowParent(t *testing.T) {
	for _, allowed := range []bool{false, true} {
		h := couriertest.New(t, nil)
		steps.Register(h.Registry, nil)
		h.WriteFile("a/prices.csv", "a")
		h.WriteFile("b/prices.csv", "b")
		job := courier.Job{Name: "copy", Steps: []courier.StepSpec{{Type: "file.copy", AllowParent: allowed, Config: map[string]any{
			"source_path": filepath.ToSlash(h.Dir) + "/a/${context:params.name}", "destination_path": "out.csv",
		}}}}
		raw, err := json.Marshal(job)
		if err != nil || strings.Contains(string(raw), `"allow_parent":true`) != allowed {
			t.Fatalf("%s, %v", raw, err)
		}
		var read courier.Job
		if err := json.Unmarshal(raw, &read); err != nil {
			t.Fatal(err)
		}
		params := map[string]any{"name": "../b/prices.csv"}
		dry, err := h.Engine.Jobs().DryRun(t.Context(), read, &dryrun.Options{Params: params})
		if err != nil || strings.Contains(dry.String(), "allow_parent") == allowed {
			t.Errorf("allowed %t: a dry run says %v, %v", allowed, dry, err)
		}
		got := h.Run(read, params)
		if allowed {
			got.RequireState(courier.Completed)
			continue
		}
		got.RequireState(courier.Failed)
		message := got.Err.Error()
		for _, want := range []string{"config.source_path", `"params.name"`, "allow_parent"} {
			if !strings.Contains(message, want) {
				t.Errorf("the failure %q doesn't say %s", message, want)
			}
		}
	}
}
