package arch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Requirements returns the entries of the go.mod file in root that the
// libraries do not allow: direct requirements of anything else, and
// replacements, which end at the border of this repository. Indirect
// requirements follow from the direct ones and are not judged.
func Requirements(ctx context.Context, root string, libraries []string) ([]Finding, error) {
	out, err := goCommand(ctx, root, nil, "mod", "edit", "-json")
	if err != nil {
		return nil, err
	}
	var mod struct {
		Require []struct {
			Path     string
			Indirect bool
		}
		Replace []struct{ Old struct{ Path string } }
	}
	if err := json.Unmarshal(out, &mod); err != nil {
		return nil, fmt.Errorf("go mod edit -json: %w", err)
	}
	src, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return nil, err
	}
	var found []Finding
	for _, r := range mod.Require {
		if !r.Indirect && !slices.Contains(libraries, r.Path) {
			found = append(found, Finding{"go.mod", lineOf(src, r.Path), "requires " + r.Path +
				", which is no library that internal/test/arch/policy.go allows: do without it, or put what needs it into a nested module"})
		}
	}
	for _, r := range mod.Replace {
		found = append(found, Finding{"go.mod", lineOf(src, r.Old.Path), "replaces " + r.Old.Path +
			", which holds in this repository but not for those who import it: require a version that is published"})
	}
	return found, nil
}

// lineOf returns the number of the first line of src that has word among its
// words, or 1.
func lineOf(src []byte, word string) int {
	n := 0
	for line := range bytes.Lines(src) {
		n++
		if slices.Contains(strings.Fields(string(line)), word) {
			return n
		}
	}
	return 1
}

// Linked returns the paths of the modules of other people that a program for
// goos links when it imports the given directories of the module in root.
// Directories that do not exist are left out.
func Linked(ctx context.Context, root, goos string, dirs []string) ([]string, error) {
	args := []string{"list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}}{{end}}{{end}}"}
	flags := len(args)
	for _, dir := range dirs {
		if hasGo(root, dir) {
			args = append(args, "./"+dir)
		}
	}
	if len(args) == flags {
		return nil, nil
	}
	out, err := goCommand(ctx, root, []string{"GOOS=" + goos, "CGO_ENABLED=0"}, args...)
	if err != nil {
		return nil, err
	}
	mods := strings.Fields(string(out))
	slices.Sort(mods)
	return slices.Compact(mods), nil
}

// hasGo reports whether the directory dir below root holds Go files.
func hasGo(root, dir string) bool {
	names, err := fs.Glob(os.DirFS(filepath.Join(root, filepath.FromSlash(dir))), "*.go")
	return err == nil && len(names) > 0
}

// goCommand runs the go command in dir and returns what it printed.
func goCommand(ctx context.Context, dir string, env []string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(cmd.Environ(), "GOWORK=off", "GOFLAGS=-mod=readonly -buildvcs=false")
	cmd.Env = append(cmd.Env, env...)
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("%w\n%s", err, bytes.TrimSpace(exit.Stderr))
	}
	if err != nil {
		return nil, fmt.Errorf("go %s: %w", strings.Join(args, " "), err)
	}
	return out, nil
}
