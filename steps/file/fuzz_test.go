package file_test

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/steps/file"
)

func FuzzUnzip(f *testing.F) {
	for _, c := range hostileArchives() {
		if len(c.zip) < 4096 {
			f.Add(c.zip)
		}
	}
	for _, name := range []string{"good", "d/good", "../bad", "/bad", `..\bad`, "d/../../bad", "nul"} {
		f.Add(rawZip(raw{name: "a/b", content: "text"}, raw{name: name, content: "more text", store: true}))
	}
	step := file.Unzip{Limits: fuzzLimits}
	fuzzExtraction(f, "unzip", func(ctx context.Context, job *courier.Context) (file.UnzipOutput, error) {
		return step.Execute(ctx, job, file.UnzipConfig{ArchivePath: "x.zip", OutputDirectory: "out"})
	})
}

func FuzzUntar(f *testing.F) {
	for _, c := range hostileTars() {
		if len(c.zip) < 8192 {
			f.Add(c.zip)
		}
	}
	good := rawTar(entryOf("a/b", "text"), tarEntry{Header: tar.Header{Name: "d/", Typeflag: tar.TypeDir}}, entryOf("./c", "more text"))
	f.Add(good)
	f.Add([]byte(gzipped(string(good))))
	f.Add([]byte(zstandard(string(good))))
	step := file.Untar{Limits: fuzzLimits}
	fuzzExtraction(f, "untar", func(ctx context.Context, job *courier.Context) (file.UnzipOutput, error) {
		return step.Execute(ctx, job, file.UntarConfig{ArchivePath: "x.zip", OutputDirectory: "out"})
	})
}

var fuzzLimits = file.Limits{MaxFiles: 50, MaxBytes: 1 << 20}

// fuzzExtraction fuzzes a step that unpacks x.zip into out. Nothing may appear
// anywhere else, and in out only what the output says.
func fuzzExtraction(f *testing.F, verb string, execute func(context.Context, *courier.Context) (file.UnzipOutput, error)) {
	dir, err := os.MkdirTemp("", "courier-fuzz")
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { os.RemoveAll(dir) })
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
		out, err := execute(t.Context(), job)

		files, size := 0, int64(0)
		walkErr := filepath.WalkDir(home, func(p string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			rel, _ := filepath.Rel(work, p)
			switch {
			case rel == "x.zip" || rel == filepath.FromSlash(".notes/0/"+verb+"-journal.courier-tmp"):
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
		case err == nil && (files != out.FileCount || size != out.Size || size > fuzzLimits.MaxBytes || files > fuzzLimits.MaxFiles):
			t.Errorf("%d files of %d bytes, output %+v", files, size, out)
		}
	})
}

// A manifest is refused, or every name in it means a file below the directory.
func FuzzManifest(f *testing.F) {
	for _, text := range sums() {
		f.Add(text)
	}
	for name, text := range splitOf("f", "a text", 3) {
		if strings.HasSuffix(name, "json") {
			f.Add(text)
		}
	}
	sum := strings.Repeat("0", 64)
	f.Add("\\" + sum + "  a\\nb\n")
	f.Add("# size 0\n" + sum + "  f\n# size 0\n" + sum + " *f.001\n")
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text string) {
		work, err := os.MkdirTemp(dir, "")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(work)
		for name, content := range map[string]string{"m": text, "f.001": "", "1": "one"} {
			if err := os.WriteFile(filepath.Join(work, name), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		job := courier.NewContext(courier.ContextConfig{Execution: "x", Workspace: work})
		defer job.Close()
		v, err := file.Verify{}.Execute(t.Context(), job, file.VerifyConfig{ManifestPath: "m"})
		if n := len(v.Missing) + len(v.Different); err == nil && (v.FileCount == 0 || n > v.FileCount || v.Valid != (n == 0)) {
			t.Errorf("output %+v", v)
		}
		for _, name := range append(v.Missing, v.Different...) {
			if !filepath.IsLocal(name) {
				t.Errorf("%q is taken for a file below", name)
			}
		}
		j, err := file.Join{}.Execute(t.Context(), job, file.JoinConfig{ManifestPath: "m", OutputPath: "joined"})
		b, there := os.ReadFile(filepath.Join(work, "joined"))
		if (err == nil) != (there == nil) || err == nil && (int64(len(b)) != j.Size || fmt.Sprintf("%x", sha256.Sum256(b)) != j.SHA256) {
			t.Errorf("output %+v, %v, file of %d bytes, %v", j, err, len(b), there)
		}
	})
}
