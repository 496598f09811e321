package file_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/courierhq/courier"
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
	var keys []string
	for _, c := range all {
		keys = append(keys, c.key)
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			steptest.Run(t, c.contract())
		})
	}
	steptest.Cover(t, registry(file.Limits{}), keys...)
}

// contract is the scenario as a case of the contract for retries.
func (c scenario) contract() steptest.Case {
	places := 16
	switch c.name {
	case "copy", "move across", "zip", "unzip", "tar", "untar", "gzip", "gunzip", "zstd", "unzstd", "split", "join": // much content
		places = 6
	}
	return steptest.Case{
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
		Tidy:    true,
		Virtual: c.key == "file.wait",
		Places:  places,
	}
}
