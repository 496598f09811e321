package remotetour

import (
	"path/filepath"

	"github.com/courierhq/courier/internal/test/steprig"
)

// AfterDownload checks what the step type key does with files that it has downloaded: it deletes
// them, or moves them over what is there, and leaves those whose done_file is not there.
func AfterDownload(r *steprig.Rig, key string) {
	r.T.Helper()
	for _, name := range []string{"in/a", "in/b", "in/c", "in/a.done", "in/b.done", "archive/a"} {
		r.Put(name, []byte(name))
	}
	out := r.Must(r.Run(r.T.Context(), key, steprig.Object{"remote_path": "in", "done_file": "*.done", "after_transfer": "move", "move_to": "archive"}))
	if out["file_count"] != 2. || out["not_ready_count"] != 1. {
		r.T.Errorf("%v", out)
	}
	steprig.WantTree(r.T, r.Remote, "archive/a", "archive/b", "in/c")
	if r.Get("archive/a") != "in/a" {
		r.T.Error("the archived file was not replaced")
	}
	r.Work = filepath.Join(r.T.TempDir(), "other")
	r.Must(r.Run(r.T.Context(), key, steprig.Object{"remote_path": "in/c", "after_transfer": "delete"}))
	steprig.WantTree(r.T, r.Remote, "archive/a", "archive/b")
	_, err := r.Run(r.T.Context(), key, steprig.Object{"remote_path": "in/none", "done_file": "*.done"})
	steprig.WantError(r.T, err, true, "no such file")
	r.Put("in/d", nil)
	_, err = r.Run(r.T.Context(), key, steprig.Object{"remote_path": "in/d", "done_file": "*.done"})
	steprig.WantError(r.T, err, false, `its done_file "in/d.done" is not there yet`)
	_, err = r.Run(r.T.Context(), key, steprig.Object{"remote_path": "in", "done_file": "*.done"})
	steprig.WantError(r.T, err, false, "1 that are not yet")
}
