package remote_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/remote"
)

// pending is a file that is published by Commit.
type pending struct {
	*courier.PendingFile
	before error // what Commit fails with before it has published the file
}

func (p pending) Commit() error {
	if p.before != nil {
		return p.before
	}
	return p.PendingFile.Commit()
}

// TestTarget: a file that an attempt of the step has written is its own, in later
// attempts, and also when one of them has died while it was about to replace it.
func TestTarget(t *testing.T) {
	for _, workspace := range []bool{true, false} {
		dir, allowed := t.TempDir(), t.TempDir()
		local := filepath.Join(allowed, "f")
		resources := new(courier.Resources)
		defer resources.Close()
		attempt := 0
		write := func(value, content string, fails error) (skipped bool, err error) {
			attempt++
			cfg := courier.ContextConfig{Execution: "0198c0df-0000-7000-8000-000000000001", Step: 1, Attempt: attempt, Roots: []string{allowed}, Resources: resources}
			if workspace {
				cfg.Workspace = dir
			}
			job := courier.NewContext(cfg)
			defer job.Close()
			target := remote.Target{Job: job, Family: "sftp", Local: local, IfExists: value}
			if skipped, err := target.Skips(t.Context()); skipped || err != nil {
				return skipped, err
			}
			w, err := job.Files().Create(local)
			if err != nil {
				t.Fatal(err)
			}
			defer w.Close()
			if _, err := w.Write([]byte(content)); err != nil {
				t.Fatal(err)
			}
			return target.Commit(t.Context(), pending{w, fails})
		}
		died := errors.New("died")
		for i, c := range []struct {
			value, content string
			fails          error
			others         string // what another puts there before
			skipped        bool
			want           error
			then           string
		}{
			{value: "skip", content: "one", then: "one"},
			{value: "fail", content: "two, longer", then: "two, longer"},
			{value: "skip", content: "three", fails: died, want: died, then: "two, longer"},
			{value: "fail", content: "four, longest", then: "four, longest"},
			{value: "skip", content: "five", others: "mine", skipped: true, then: "mine"},
			{value: "fail", content: "five", want: fs.ErrExist, then: "mine"},
			{value: "overwrite", content: "six", then: "six"},
		} {
			if c.others != "" {
				if err := errors.Join(os.WriteFile(local, []byte(c.others), 0o600), os.Chtimes(local, time.Time{}, time.Unix(1e9, 0))); err != nil {
					t.Fatal(err)
				}
			}
			skipped, err := write(c.value, c.content, c.fails)
			got, _ := os.ReadFile(local)
			if skipped != c.skipped || !errors.Is(err, c.want) || string(got) != c.then {
				t.Errorf("workspace %v, %d: skipped %v, %v, the file is %q; want %v, %v, %q", workspace, i, skipped, err, got, c.skipped, c.want, c.then)
			}
		}
	}
}
