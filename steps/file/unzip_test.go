package file_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/test/hostile"
	"github.com/courierhq/courier/internal/test/raced"
	"github.com/courierhq/courier/steps/file"
)

func TestUnzip(t *testing.T) {
	archive := string(rawZip(raw{name: "in/"}, raw{name: "in/b", content: "b"}, raw{name: "a", content: "a", store: true}, raw{name: "empty/"}, raw{name: "x/y/z", content: ""}))
	for _, c := range []struct {
		name  string
		cfg   m
		files map[string]string
		dir   string
		want  map[string]string
	}{
		{"default", m{"archive_path": "B/x.zip"}, nil, "W/3/1/unzipped", nil},
		{"new directory", m{"archive_path": "B/x.zip", "output_directory": "A/new/deep"}, nil, "A/new/deep", nil},
		{"in the workspace", m{"archive_path": "B/x.zip", "output_directory": "out/"}, nil, "W/out", nil},
		{"empty directory", m{"archive_path": "B/x.zip", "output_directory": "A/"}, nil, "A", nil},
		{"merge", m{"archive_path": "B/x.zip", "output_directory": "A/d", "if_exists": "overwrite"}, map[string]string{"A/d/a": "old", "A/d/in/c": "kept", "A/d/k": "kept"}, "A/d", map[string]string{"in/c": "kept", "k": "kept"}},
		{"merge into a root", m{"archive_path": "B/x.zip", "output_directory": "B", "if_exists": "overwrite"}, nil, "B", map[string]string{"x.zip": archive}},
		{"merge into nothing", m{"archive_path": "B/x.zip", "output_directory": "A/d", "if_exists": "overwrite"}, nil, "A/d", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSite(t)
			s.write(t, map[string]string{"B/x.zip": archive})
			s.write(t, c.files)
			out := s.run(t, "file.unzip", c.cfg)
			dir := strings.NewReplacer("A", "/a", "B", "/b", "W/", "").Replace(c.dir)
			equal(t, out, "extracted_directory", dir)
			equal(t, out, "extracted_files", []string{dir + "/in/b", dir + "/a", dir + "/x/y/z"})
			equal(t, out, "file_count", 3)
			equal(t, out, "size", 2)
			want := map[string]string{"in/b": "b", "a": "a", "x/y/z": ""}
			for name, content := range c.want {
				want[name] = content
			}
			count := 0
			filepath.WalkDir(s.path(c.dir), func(p string, d fs.DirEntry, err error) error {
				if err == nil && !d.IsDir() {
					count++
				}
				return err
			})
			for name, content := range want {
				if got := s.read(t, c.dir+"/"+name); got != content {
					t.Errorf("%s holds %q, want %q", name, got, content)
				}
			}
			if count != len(want) {
				t.Errorf("%d files, want %d", count, len(want))
			}
			if info, err := os.Stat(s.path(c.dir) + "/empty"); err != nil || !info.IsDir() {
				t.Errorf("the empty directory: %v, %v", info, err)
			}
		})
	}
}

// TestFilesOfOtherTypes: an entry with content is a file, whatever an archive says it was
// made of. Info-ZIP marks what comes out of a pipe as a pipe.
func TestFilesOfOtherTypes(t *testing.T) {
	for key, archive := range map[string][]byte{
		"file.unzip": rawZip(raw{name: "-", mode: 0o010600, content: "content"}, raw{name: "s", mode: 0o140600, content: "content"}),
		"file.untar": rawTar(tarEntry{Header: tar.Header{Name: "-"}, content: "content", patch: func(block []byte) { block[156] = tar.TypeCont }}, entryOf("s", "content")),
	} {
		t.Run(key, func(t *testing.T) {
			s := newSite(t)
			s.write(t, map[string]string{"B/x": string(archive)})
			s.run(t, key, m{"archive_path": "B/x", "output_directory": "A/out"})
			for _, name := range []string{"A/out/-", "A/out/s"} {
				info, err := os.Lstat(s.path(name))
				if err != nil || !info.Mode().IsRegular() || s.read(t, name) != "content" {
					t.Errorf("%s: %v, %v", name, info, err)
				}
			}
		})
	}
}

// TestNamesOfDOS has names as DOS and old versions of .NET write them.
func TestNamesOfDOS(t *testing.T) {
	onDOS := func(b []byte) []byte { // the byte before the attributes says where it was made
		return bytes.ReplaceAll(b, []byte("PK\x01\x02\x14\x03"), []byte("PK\x01\x02\x14\x00"))
	}
	s := newSite(t)
	s.write(t, map[string]string{"B/x.zip": string(onDOS(rawZip(raw{name: `dir\`}, raw{name: `dir\a`, content: "a"}, raw{name: "gr\x81\xe1e\xff", content: "b"})))})
	s.run(t, "file.unzip", m{"archive_path": "B/x.zip", "output_directory": "A/out"})
	for name, want := range map[string]string{"A/out/dir/a": "a", "A/out/grüße\u00a0": "b"} {
		if got := s.read(t, name); got != want {
			t.Errorf("%s: %q", name, got)
		}
	}
	for want, archive := range map[string][]byte{
		`!has the element ".."`: onDOS(rawZip(raw{name: `..\e`, content: "x"})),
		"!is an absolute path":  onDOS(rawZip(raw{name: `\e`, content: "x"})),
		"!begins with a drive":  onDOS(rawZip(raw{name: `C:\e`, content: "x"})),
		"!is there twice":       onDOS(rawZip(raw{name: `d\e`, content: "x"}, raw{name: "d/e", content: "x"})),
		"!has a backslash":      rawZip(raw{name: `d\e`, content: "x"}),
	} {
		s.write(t, map[string]string{"B/bad.zip": string(archive)})
		s.refuse(t, "file.unzip", m{"archive_path": "B/bad.zip", "output_directory": "A/bad"}, want)
	}
}

func TestUnzipRefuses(t *testing.T) {
	s := newSite(t)
	s.write(t, map[string]string{"B/x.zip": string(rawZip(raw{name: "f/a", content: "a"}, raw{name: "g", content: "g"})), "A/d/other": "o", "A/f": "file", "A/e/f": "f", "A/h/g/x": "x"})
	os.Symlink("d", s.path("A/link"))
	os.Symlink("none", s.path("A/dangling"))
	os.Mkdir(s.path("A/l"), 0o755)
	os.Symlink("../d", s.path("A/l/f"))
	for _, c := range []struct {
		cfg   m
		words []string
	}{
		{m{"archive_path": "B/x.zip", "output_directory": "A/d"}, []string{"!exists and is not empty", "if_exists"}},
		{m{"archive_path": "B/x.zip", "output_directory": "A"}, []string{"!exists and is not empty"}},
		{m{"archive_path": "B/x.zip", "output_directory": "A/link"}, []string{"!exists and is not empty"}},
		{m{"archive_path": "B/x.zip", "output_directory": "A/dangling"}, []string{"!leads nowhere"}},
		{m{"archive_path": "B/x.zip", "output_directory": "A/f"}, []string{"!is a regular file"}},
		{m{"archive_path": "B/x.zip", "output_directory": "A/f/g"}, []string{"not a directory"}},
		{m{"archive_path": "B/x.zip", "output_directory": "/tmp/x"}, []string{"!engine.Options.Roots"}},
		{m{"archive_path": "B/x.zip", "output_directory": "A/e", "if_exists": "overwrite"}, []string{"!the archive has a directory of that name"}},
		{m{"archive_path": "B/x.zip", "output_directory": "A/h", "if_exists": "overwrite"}, []string{"!the archive has a file of that name"}},
		{m{"archive_path": "B/x.zip", "output_directory": "A/l", "if_exists": "overwrite"}, []string{"!is a symbolic link"}},
		{m{"archive_path": "B/none.zip"}, []string{"no such file"}},
		{m{"archive_path": "B"}, []string{"!is a directory"}},
		{m{"archive_path": "/etc/passwd"}, []string{"!engine.Options.Roots"}},
	} {
		s.refuse(t, "file.unzip", c.cfg, c.words...)
	}
}

func TestUnzipLimits(t *testing.T) {
	s := newSite(t)
	s.write(t, map[string]string{"B/x.zip": string(rawZip(raw{name: "a", content: strings.Repeat("a", 100)}, raw{name: "b", content: strings.Repeat("b", 50)}, raw{name: "d/"}))})
	cfg := m{"archive_path": "B/x.zip", "output_directory": "A/d"}
	s.refuseWith(t, registry(file.Limits{MaxFiles: 2}), "file.unzip", cfg, "!3 entries; 2 are allowed")
	s.refuseWith(t, registry(file.Limits{MaxEntryBytes: 99}), "file.unzip", cfg, `entry "a"`, "!unpacks to 100 bytes; 99 are allowed")
	s.refuseWith(t, registry(file.Limits{MaxBytes: 149}), "file.unzip", cfg, "!more than 149 bytes")
	if _, err := s.execute(t.Context(), registry(file.Limits{MaxFiles: 3, MaxEntryBytes: 100, MaxBytes: 150}), "file.unzip", cfg); err != nil {
		t.Error(err)
	}
}

// An archive for which there is no room is refused before anything is written.
func TestUnzipNoRoom(t *testing.T) {
	if runtime.GOOS == "windows" {
		return // which does not tell how much is left
	}
	const n, each = 5000, 1<<32 - 1000 // 20 TiB, by what it says
	all := make([]raw, n)
	for i := range all {
		all[i] = raw{name: fmt.Sprint(i), content: "packed", store: true, method: zip.Deflate, localMethod: zip.Deflate, size: each}
	}
	s := newSite(t)
	s.write(t, map[string]string{"B/x.zip": string(rawZip(all...))})
	limits := file.Limits{MaxEntryBytes: 1 << 40, MaxBytes: 1 << 50, MaxRatio: 1 << 40}
	s.refuseWith(t, registry(limits), "file.unzip", m{"archive_path": "B/x.zip", "output_directory": "A/d"},
		fmt.Sprintf("unpacks to %d bytes", n*(each+len("packed"))), "left; nothing was unpacked: make room")
}

// A directory of millions of entries is not even read.
func TestUnzipHugeDirectory(t *testing.T) {
	const n = 300_000
	all := make([]raw, n)
	for i := range all {
		all[i] = raw{name: fmt.Sprintf("%06d", i), sharesFirst: i > 0, store: true}
	}
	s := newSite(t)
	s.write(t, map[string]string{"B/x.zip": string(rawZip(all...))})
	all = nil
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	s.refuseWith(t, registry(file.Limits{MaxFiles: 1000}), "file.unzip", m{"archive_path": "B/x.zip"}, "!too large for 1000 entries")
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > 80<<20 {
		t.Errorf("%d bytes allocated", used)
	}
}

func TestHostileNames(t *testing.T) {
	const markedUTF8 = 1 << 11 // otherwise a name that is no UTF-8 is one of DOS
	names := hostile.EntryNames()
	if len(names) < 150 {
		t.Errorf("only %d names", len(names))
	}
	s := newSite(t)
	before := s.snapshot(t)
	for _, name := range names {
		for i, archive := range [][]byte{
			rawZip(raw{name: "good", content: "good"}, raw{name: name, content: "bad", flags: markedUTF8}),
			rawZip(raw{name: "good", content: "good"}, raw{name: name + "/", flags: markedUTF8}),
		} {
			if i == 1 && (strings.HasSuffix(name, "/") || name == "." || name == "a/.") {
				continue // means the directory itself, or a
			}
			if err := os.WriteFile(s.path("B/x.zip"), archive, 0o644); err != nil {
				t.Fatal(err)
			}
			_, err := s.execute(t.Context(), registry(file.Limits{}), "file.unzip", m{"archive_path": "B/x.zip", "output_directory": "A/d"})
			if !courier.IsPermanent(err) || !strings.Contains(fmt.Sprint(err), "entry \"") {
				t.Errorf("%q: error %v", name, err)
			}
			if err != nil && strings.ContainsFunc(err.Error(), func(r rune) bool { return r < ' ' || r == 0x7f || r == 0x202e }) {
				t.Errorf("%q: the error has it unescaped: %q", name, err)
			}
			os.Remove(s.path("B/x.zip"))
			if after := s.snapshot(t); after != before {
				t.Fatalf("%q: changed\n%sto\n%s", name, before, after)
			}
		}
	}
}

func TestGoodNames(t *testing.T) {
	for _, name := range hostile.GoodEntryNames() {
		s := newSite(t)
		s.write(t, map[string]string{"B/x.zip": string(rawZip(raw{name: name, content: strings.Repeat("x", b2i(!strings.HasSuffix(name, "/")))}))})
		out, err := s.execute(t.Context(), registry(file.Limits{}), "file.unzip", m{"archive_path": "B/x.zip", "output_directory": "A/d"})
		if err != nil {
			t.Errorf("%q: %v", name, err)
			continue
		}
		if strings.HasSuffix(name, "/") {
			continue
		}
		equal(t, out, "extracted_files", []string{"/a/d/" + name})
		// The paths are usable as they are.
		if got := s.read(t, "A/d/"+name); got != "x" {
			t.Errorf("%q holds %q", name, got)
		}
		equal(t, s.run(t, "file.delete", m{"path": "A/d/" + name}), "deleted_count", 1)
	}
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

func TestHostileArchives(t *testing.T) {
	for _, c := range hostileArchives() {
		t.Run(c.name, func(t *testing.T) {
			for _, exists := range []string{"fail", "overwrite"} {
				s := newSite(t)
				s.write(t, map[string]string{"B/x.zip": string(c.zip), "A/d/kept": "kept"})
				cfg := m{"archive_path": "B/x.zip", "output_directory": "A/" + map[string]string{"fail": "new", "overwrite": "d"}[exists], "if_exists": exists}
				if c.words != nil {
					s.refuse(t, "file.unzip", cfg, c.words...)
					continue
				}
				out := s.run(t, "file.unzip", cfg)
				info, err := os.Stat(s.Dir + out["extracted_files"].([]any)[0].(string))
				if err != nil || info.Mode()&^0o666 != 0 {
					t.Errorf("%v, %v", info.Mode(), err)
				}
			}
		})
	}
}

// An archive that was cut off or damaged anywhere gives what it held, or
// nothing.
func TestDamagedArchives(t *testing.T) {
	whole := rawZip(raw{name: "one", content: "the first file"}, raw{name: "d/two", content: "the second", store: true}, raw{name: "d/"})
	want := map[string]string{"one": "the first file", "d/two": "the second"}
	s := newSite(t)
	try := func(what string, archive []byte) {
		t.Helper()
		if err := os.WriteFile(s.path("B/x.zip"), archive, 0o644); err != nil {
			t.Fatal(err)
		}
		removeJournals(t, s)
		_, err := s.execute(t.Context(), registry(file.Limits{}), "file.unzip", m{"archive_path": "B/x.zip", "output_directory": "A/d"})
		left := 0
		filepath.WalkDir(s.A, func(p string, d fs.DirEntry, err error) error {
			if d != nil && !d.IsDir() {
				left++
				rel, _ := filepath.Rel(s.path("A/d"), p)
				if content := s.read(t, p); want[rel] != content {
					t.Errorf("%s: %s holds %q", what, rel, content)
				}
			}
			return nil
		})
		if list, _ := os.ReadDir(s.A); err != nil && len(list) > 0 || err == nil && left != len(want) {
			t.Errorf("%s: error %v, but left %v", what, err, list)
		}
		os.RemoveAll(s.path("A/d"))
	}
	for n := 0; n < len(whole); n += raced.Or(3, 1) {
		try(fmt.Sprintf("cut off at %d", n), whole[:n])
	}
	for n := 0; n < len(whole); n += raced.Or(4, 1) {
		for _, flip := range []byte{0x01, 0x90} {
			damaged := bytes.Clone(whole)
			damaged[n] ^= flip
			try(fmt.Sprintf("byte %d flipped by %#x", n, flip), damaged)
		}
	}
}

// Somebody swaps directories and links while the steps work. Whatever they
// do, they do it inside.
func TestSymlinkRace(t *testing.T) {
	s := newSite(t)
	outside := filepath.Join(s.Dir, "outside")
	s.write(t, map[string]string{"A/x/f": "mine", "A/real/f": "mine", "W/src": "mine", "W/in.zip": archiveOf(map[string]string{"A/f": "mine", "A/g/h": "mine"})})
	if err := os.MkdirAll(filepath.Join(outside, "g"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"f", "canary", "g/h"} {
		if err := os.WriteFile(filepath.Join(outside, name), []byte("secret"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	describe := func() string {
		var b strings.Builder
		filepath.WalkDir(outside, func(p string, d fs.DirEntry, err error) error {
			content, _ := os.ReadFile(p)
			fmt.Fprintln(&b, p, err, string(content))
			return nil
		})
		return b.String()
	}
	before := describe()

	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		x, real, link := s.path("A/x"), s.path("A/real"), s.path("A/link")
		os.Symlink(outside, link)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			os.Rename(x, real+"2")
			if i%2 == 0 {
				os.Symlink("../outside", x)
			} else {
				os.Rename(link, x)
			}
			os.Rename(x, link)
			os.Rename(real+"2", x)
			os.MkdirAll(filepath.Join(x, "g"), 0o755)
			os.WriteFile(filepath.Join(x, "f"), []byte("mine"), 0o644)
		}
	}()
	steps := []struct {
		key string
		cfg m
	}{
		{"file.copy", m{"source_path": "A/x/f", "destination_path": "B/copy"}},
		{"file.copy", m{"source_path": "src", "destination_path": "A/x/f"}},
		{"file.copy", m{"source_path": "src", "destination_path": "A/x/new/"}},
		{"file.copy", m{"source_path": "A/**", "destination_path": "B/all"}},
		{"file.move", m{"source_path": "A/x/f", "destination_path": "B/moved"}},
		{"file.zip", m{"source_path": "A/x", "output_path": "B/x.zip"}},
		{"file.zip", m{"source_path": "src", "output_path": "A/x/x.zip"}},
		{"file.unzip", m{"archive_path": "in.zip", "output_directory": "A/x", "if_exists": "overwrite"}},
		{"file.unzip", m{"archive_path": "in.zip", "output_directory": "A/x/sub"}},
		{"file.list", m{"path": "A", "recursive": true}},
		{"file.delete", m{"path": "A/x/**"}},
		{"file.delete", m{"path": "A/x/g", "recursive": true}},
	}
	r, succeeded := registry(file.Limits{}), 0
	for i := range 600 {
		st := steps[i%len(steps)]
		job := courier.NewContext(courier.ContextConfig{Workspace: s.Work, Roots: []string{s.A, s.B}, Step: i, Execution: "x"})
		if _, err := s.in(t.Context(), job, r, st.key, st.cfg); err == nil {
			succeeded++
		}
		job.Close()
	}
	close(stop)
	<-done
	if after := describe(); after != before {
		t.Errorf("outside was\n%s, is\n%s", before, after)
	}
	err := filepath.WalkDir(s.B, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content := s.read(t, p)
		if strings.HasSuffix(p, ".zip") {
			for _, c := range entries(t, p) {
				content += c
			}
		}
		if strings.Contains(content, "secret") {
			t.Errorf("%s holds what lies outside", p)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if succeeded < 50 {
		t.Errorf("only %d of 600 steps succeeded, so the race shows little", succeeded)
	}
}

// The default directory of a retry is another one, but what the first attempt
// has unpacked is not unpacked again.
func TestUnzipDefaultDirectory(t *testing.T) {
	for n := 1; ; n++ {
		s := newSite(t)
		s.write(t, map[string]string{"W/in.zip": archiveOf(map[string]string{"A/f": "text"})})
		cfg := m{"archive_path": "in.zip"}
		killed := s.kill(t, "file.unzip", cfg, n)
		job := s.job()
		typ, _ := registry(file.Limits{}).Lookup("file.unzip")
		if err := typ.Cleanup(t.Context(), job, s.config(cfg)); err != nil {
			t.Error(err)
		}
		out, err := s.in(t.Context(), job, registry(file.Limits{}), "file.unzip", cfg)
		job.Close()
		if err != nil {
			t.Fatal(err)
		}
		dir := out["extracted_directory"].(string)
		if dir != "3/1/unzipped" && dir != "3/2/unzipped" || s.read(t, "W/"+dir+"/f") != "text" {
			t.Errorf("point %d: %v", n, out)
		}
		all, err := filepath.Glob(filepath.Join(s.Work, "3", "*", "*"))
		if err != nil || len(all) != 1 {
			t.Errorf("point %d: left %v, %v", n, all, err)
		}
		if !killed {
			return
		}
	}
}

// When the execution is cancelled nothing is kept for a resume.
func TestUnzipCancelled(t *testing.T) {
	for n := 1; ; n++ {
		s := newSite(t)
		s.write(t, map[string]string{"W/in.zip": archiveOf(map[string]string{"A/f": "1", "A/g": "2"}), "A/d/x": "x"})
		cfg := m{"archive_path": "in.zip", "output_directory": "A/d", "if_exists": "overwrite"}
		if !s.kill(t, "file.unzip", cfg, n) {
			return
		}
		job := courier.NewContext(courier.ContextConfig{
			Execution: "0198c2f0-0000-7000-8000-000000000001", Step: 3, Attempt: 1,
			Workspace: s.Work, Roots: []string{s.A, s.B}, Cancelled: true,
		})
		typ, _ := registry(file.Limits{}).Lookup("file.unzip")
		if err := typ.Rollback(t.Context(), job, s.config(cfg)); err != nil {
			t.Error(err)
		}
		job.Close()
		list, err := os.ReadDir(s.A)
		if err != nil || len(list) != 1 {
			t.Errorf("point %d: left %v, %v", n, list, err)
		}
	}
}

func TestValidate(t *testing.T) {
	s := newSite(t)
	s.write(t, map[string]string{"A/f": "f"})
	r := registry(file.Limits{})
	for _, c := range []struct {
		key  string
		cfg  m
		want string
	}{
		{"file.copy", m{"source_path": "A/f", "destination_path": "B/g"}, ""},
		{"file.copy", m{"source_path": "A/later", "destination_path": "B/new/deep/g"}, ""},
		{"file.copy", m{"source_path": "1/1/later", "destination_path": "2/x"}, ""},
		{"file.copy", m{"source_path": "1/1/*.csv", "destination_path": "2/"}, ""},
		{"file.copy", m{"source_path": "A/none/later", "destination_path": "B/g"}, "source_path: "},
		{"file.copy", m{"source_path": "A/none/later", "destination_path": "B/g", "ignore_missing": true}, ""},
		{"file.copy", m{"source_path": "/etc/passwd", "destination_path": "B/g"}, "source_path: "},
		{"file.copy", m{"source_path": "A/f", "destination_path": "/etc/x"}, "destination_path: "},
		{"file.copy", m{"source_path": "A/[", "destination_path": "B/g", "glob": true}, "source_path: "},
		{"file.move", m{"source_path": "../x", "destination_path": "B/g"}, "source_path: "},
		{"file.move", m{"source_path": "A/*", "destination_path": "B/"}, ""},
		{"file.delete", m{"path": "A/f"}, ""},
		{"file.delete", m{"path": "A/*"}, ""},
		{"file.delete", m{"path": "A"}, "path: "},
		{"file.delete", m{"path": "/"}, "path: "},
		{"file.delete", m{"path": "/*"}, "path: "},
		{"file.delete", m{"path": "x/../y"}, "path: "},
		{"file.delete", m{"path": "/etc/passwd"}, "path: "},
		{"file.list", m{"path": "A"}, ""},
		{"file.list", m{"path": "A", "pattern": "["}, "pattern"},
		{"file.list", m{"path": "/etc"}, "path: "},
		{"file.zip", m{"source_path": "A/f"}, ""},
		{"file.zip", m{"source_paths": []string{"A/f", "/etc/*"}}, "source_paths: "},
		{"file.zip", m{}, "config: give at least one of source_path and source_paths"},
		{"file.zip", m{"source_path": "A/f", "output_path": "/etc/x"}, "output_path: "},
		{"file.unzip", m{"archive_path": "A/f"}, ""},
		{"file.unzip", m{"archive_path": "A/none/f"}, "archive_path: "},
		{"file.unzip", m{"archive_path": "A/f", "output_directory": "/tmp"}, "output_directory: "},
	} {
		typ, _ := r.Lookup(c.key)
		job := courier.NewContext(courier.ContextConfig{Workspace: filepath.Join(s.Work, "dry"), Roots: []string{s.A, s.B}})
		err := typ.Validate(t.Context(), job, s.config(c.cfg))
		if (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s %v: error %v, want %q", c.key, c.cfg, err, c.want)
		}
		job.Close()
		fields := slices.Collect(func(yield func(string) bool) {
			for name := range c.cfg {
				if strings.Contains(name, "path") || strings.Contains(name, "directory") {
					yield(name)
				}
			}
		})
		job = courier.NewContext(courier.ContextConfig{Workspace: filepath.Join(s.Work, "dry"), Roots: []string{s.A, s.B}, Unresolved: fields})
		if err := typ.Validate(t.Context(), job, s.config(c.cfg)); err != nil && len(fields) > 0 && c.cfg["pattern"] == nil {
			t.Errorf("%s %v without values: %v", c.key, c.cfg, err)
		}
		job.Close()
	}
	if _, err := os.Stat(filepath.Join(s.Work, "dry")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a dry run made a workspace: %v", err)
	}
}
