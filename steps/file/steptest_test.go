package file_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/test/raced"
	"github.com/courierhq/courier/steps/file"
	"github.com/courierhq/courier/steps/steptest"
)

// TestContract holds the steps against the contract for retries.
func TestContract(t *testing.T) {
	all := append(append(scenarios(), ownScenarios()...),
		scenario{"list", "file.list", m{"path": "A", "recursive": true}, map[string]string{"A/1": "1", "A/x/2": "2"}, nil},
		scenario{"verify", "file.verify", m{"manifest_path": "A/SUMS", "fail_if_bad": false}, sums(), nil},
		scenario{"wait", "file.wait", m{"path": "A/*", "min_files": 2, "stable_seconds": 30}, map[string]string{"A/1": "1", "A/2": "2"}, nil},
		scenario{"wait in vain", "file.wait", m{"path": "A/none", "timeout_seconds": 30, "on_timeout": "continue"}, nil, nil})
	all = append(all, scenario{"zip with a password", "file.zip", m{"source_path": "A/in", "output_path": "B/x.zip", "password": password},
		map[string]string{"A/in/1": "one", "A/in/2": medium()}, nil},
		scenario{"unzip with a password", "file.unzip", m{"archive_path": "A/x.zip", "output_directory": "B/x", "password": password}, nil, locked})
	var keys []string
	for i, c := range all {
		keys = append(keys, c.key)
		if raced.On && i%3 != 0 {
			continue // the run without the race detector has them
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			steptest.Run(t, c.contract())
		})
	}
	steptest.Cover(t, registry(file.Limits{}), keys...)
}

// contract is the scenario as a case of the contract for retries.
func (c scenario) contract() steptest.Case {
	places := raced.Or(2, 8)
	switch c.name {
	case "copy", "move across", "zip", "unzip", "tar", "untar", "gzip", "gunzip", "zstd", "unzstd", "split", "join",
		"gunzip here", "unzstd here", "zip with a password", "unzip with a password": // much content
		places = raced.Or(1, 4)
	}
	return steptest.Case{
		Packages: []string{steptest.All},
		Register: func(r *courier.Registry) { file.Register(r, nil) },
		Key:      c.key,
		Setup: func(w *steptest.World) {
			s := &site{Dir: w.Dir, Work: w.Work, A: w.Root, B: filepath.Join(w.Dir, "b")}
			if err := os.Mkdir(s.B, 0o755); err != nil {
				w.Fatal(err)
			}
			s.write(w, c.files)
			if c.setup != nil {
				c.setup(w, s)
			}
			w.Roots = []string{s.A, s.B}
			w.Config = json.RawMessage(s.config(c.cfg))
		},
		Tidy: true,
		Content: func(name string, content []byte) string {
			if strings.HasSuffix(name, "/x.zip") {
				return unlocked(content)
			}
			return string(content)
		},
		Virtual: c.key == "file.wait",
		Places:  places,
	}
}

// locked puts an encrypted archive into A.
func locked(t testing.TB, s *site) {
	t.Helper()
	s.write(t, map[string]string{"A/1": "one", "A/2": medium()})
	job := courier.NewContext(courier.ContextConfig{Execution: "y", Workspace: s.A})
	defer job.Close()
	if _, err := (file.Zip{}).Execute(t.Context(), job, file.ZipConfig{SourcePath: "2", OutputPath: "x.zip", Password: password}); err != nil {
		t.Fatal(err)
	}
}

// unlocked is what is in an encrypted archive, whose own bytes differ each time.
func unlocked(content []byte) string {
	dir, err := os.MkdirTemp("", "courier-test")
	if err != nil {
		return err.Error()
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, "in"), content, 0o600); err != nil {
		return err.Error()
	}
	job := courier.NewContext(courier.ContextConfig{Execution: "z", Workspace: dir})
	defer job.Close()
	out, err := file.Unzip{}.Execute(context.Background(), job, file.UnzipConfig{ArchivePath: "in", Password: password})
	text := fmt.Sprint(err)
	for _, name := range out.ExtractedFiles {
		b, err := os.ReadFile(filepath.Join(dir, name))
		text += fmt.Sprintf("; %s %q %v", name, b, err)
	}
	return text
}
