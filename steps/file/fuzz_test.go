package file_test

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/steps/file"
)

func FuzzEntryName(f *testing.F) {
	for _, name := range append(hostileNames(), goodNames()...) {
		f.Add(strings.TrimSuffix(name, "/"))
	}
	const base = "/base/dir"
	f.Fuzz(func(t *testing.T, name string) {
		if file.CheckEntryName(name) != nil {
			return
		}
		joined := filepath.ToSlash(filepath.Join(base, filepath.FromSlash(name)))
		switch {
		case joined != base+"/"+name:
			t.Errorf("%q becomes %q", name, joined)
		case !filepath.IsLocal(filepath.FromSlash(name)) || path.Clean(name) != name || !fs.ValidPath(name) || name == ".":
			t.Errorf("%q is not local or not clean", name)
		case !utf8.ValidString(name) || strings.ContainsAny(name, "\\:\x00\r\n\x1b\u202e"):
			t.Errorf("%q has forbidden characters", name)
		}
		for _, e := range strings.Split(name, "/") {
			if e == "" || strings.Trim(e, ". ") == "" || strings.TrimRight(e, ". ") != e || len(e) > 255 {
				t.Errorf("%q has the element %q", name, e)
			}
		}
	})
}

func FuzzUnzip(f *testing.F) {
	for _, c := range hostileArchives() {
		if len(c.zip) < 4096 {
			f.Add(c.zip)
		}
	}
	for _, name := range []string{"good", "d/good", "../bad", "/bad", `..\bad`, "d/../../bad", "nul"} {
		f.Add(rawZip(raw{name: "a/b", content: "text"}, raw{name: name, content: "more text", store: true}))
	}
	dir, err := os.MkdirTemp("", "courier-fuzz")
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { os.RemoveAll(dir) })
	const most = 1 << 20
	step := file.Unzip{Limits: file.Limits{MaxFiles: 50, MaxBytes: most}}
	f.Fuzz(func(t *testing.T, data []byte) {
		home, err := os.MkdirTemp(dir, "")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(home)
		work := filepath.Join(home, "deep", "work")
		if err := os.MkdirAll(work, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(work, "x.zip"), data, 0o600); err != nil {
			t.Fatal(err)
		}
		job := courier.NewContext(courier.ContextConfig{Execution: "x", Workspace: work})
		defer job.Close()
		out, err := step.Execute(t.Context(), job, file.UnzipConfig{ArchivePath: "x.zip", OutputDirectory: "out"})

		files, size := 0, int64(0)
		walkErr := filepath.WalkDir(home, func(p string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			rel, _ := filepath.Rel(work, p)
			switch {
			case rel == "x.zip" || rel == filepath.FromSlash("0/unzip-journal.courier-tmp"):
			case d.IsDir() && (!strings.HasPrefix(rel, "out") || err == nil):
			case !strings.HasPrefix(rel, "out"+string(filepath.Separator)):
				t.Errorf("%s was made", rel)
			default:
				info, infoErr := d.Info()
				if infoErr != nil {
					return infoErr
				}
				if !info.Mode().IsRegular() || info.Mode()&^0o600 != 0 {
					t.Errorf("%s is %v", rel, info.Mode())
				}
				files, size = files+1, size+info.Size()
			}
			return nil
		})
		if walkErr != nil {
			t.Error(walkErr)
		}
		_, there := os.Lstat(filepath.Join(work, "out"))
		switch {
		case err != nil && there == nil:
			t.Errorf("refused (%v), but published", err)
		case err == nil && (files != out.FileCount || size != out.Size || size > most || files > 50):
			t.Errorf("%d files of %d bytes, output %+v", files, size, out)
		}
	})
}
