package file_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/courierhq/courier/steps/file"
)

// What file.hash writes, the programs check, and the other way round.
func TestHashPrograms(t *testing.T) {
	for _, a := range []string{"sha256", "sha512", "md5"} {
		t.Run(a, func(t *testing.T) {
			s := newSite(t)
			files := map[string]string{"A/in/1": "one", "A/in/x/äöü ß": medium(), "A/in/empty": "", "A/in/*star": "s", `A/in/back\slash`: "b", "A/in/new\nline": "n", "A/in/ret\rurn": "r"}
			s.write(t, files)
			out := s.run(t, "file.hash", m{"source_path": "A/in", "output_path": "A/in/", "algorithm": a})
			manifest := strings.ToUpper(a) + "SUMS"
			equal(t, out, "manifest_path", "/a/in/"+manifest)
			equal(t, out, "file_count", 7)
			equal(t, out, "hash", nil)
			must(t, s.path("A/in"), a+"sum", "--strict", "--quiet", "-c", manifest)
			out = s.run(t, "file.verify", m{"manifest_path": "A/in/" + manifest, "algorithm": a})
			equal(t, out, "valid", true)
			equal(t, out, "file_count", 7)
			by := must(t, s.path("A/in"), a+"sum", "1", "./x/äöü ß", "--", "new\nline")
			s.write(t, map[string]string{"B/by": by + "\n# comment\n\n"})
			equal(t, s.run(t, "file.verify", m{"manifest_path": "B/by", "directory": "A/in"}), "file_count", 3)
		})
	}
}

func TestHash(t *testing.T) {
	s := newSite(t)
	s.write(t, map[string]string{"A/SAME": "s", "A/in/a.csv": "a", "A/in/b.csv": "b", "A/in/x/a.csv": "c", "A/in/u.courier-tmp-1": "part", "A/y/a.csv": "d"})
	out := s.run(t, "file.hash", m{"source_path": "A/in/a.csv"})
	equal(t, out, "hash", "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb")
	equal(t, out, "manifest_path", "3/1/SHA256SUMS")
	out = s.run(t, "file.hash", m{"source_path": "A/in/**/*.csv", "source_paths": []string{"A/in/a.csv"}, "output_path": "B/sums"})
	equal(t, out, "file_count", 3)
	if got := s.read(t, "B/sums"); strings.Count(got, "\n") != 3 || !strings.HasSuffix(got, "  x/a.csv\n") {
		t.Errorf("manifest %q", got)
	}
	for _, c := range []struct {
		cfg   m
		words []string
	}{
		{m{}, []string{"!source_path and source_paths"}},
		{m{"source_path": "A/none"}, []string{"no such file"}},
		{m{"source_path": "A/*.none"}, []string{"there is no file to hash"}},
		{m{"source_path": "A/SAME", "output_path": "A/SAME"}, []string{"!are the same file", "no manifest was made"}},
		{m{"source_paths": []string{"A/in/a.csv", "A/y/a.csv"}}, []string{"!the same name in the manifest"}},
		{m{"source_path": "A/in", "output_path": "/etc/x"}, []string{"!engine.Options.Roots"}},
	} {
		s.refuse(t, "file.hash", c.cfg, c.words...)
	}
}

func TestVerify(t *testing.T) {
	s := newSite(t)
	s.write(t, sums())
	os.Mkdir(s.path("A/dir"), 0o755)
	out := s.run(t, "file.verify", m{"manifest_path": "A/SUMS", "fail_if_bad": false})
	equal(t, out, "valid", false)
	equal(t, out, "missing", []string{"4"})
	equal(t, out, "different", []string{"3"})
	equal(t, out, "size", len("one")*2+len("two")+len("three"))
	s.refuse(t, "file.verify", m{"manifest_path": "A/SUMS"}, `1 missing: ["4"]`, `1 different: ["3"]`)
	s.refuse(t, "file.verify", m{"manifest_path": "A/SUMS", "algorithm": "sha256"}, "!has a sum by md5", "asks for sha256")
	sum := strings.Repeat("0", 64)
	for text, words := range map[string][]string{
		"":                         {"lists no file"},
		"# nothing":                {"lists no file"},
		"rubbish\n":                {"line 1 is not a sum"},
		sum + "\n":                 {"line 1 is not a sum"},
		sum[:63] + "g  x\n":        {"line 1 is not a sum"},
		sum[1:] + "  x\n":          {"line 1 is not a sum"},
		sum + " x\n":               {"line 1 is not a sum"},
		"\\" + sum + "  x\\t\n":    {"line 1 has the unknown escape"},
		"\\" + sum + "  x\\\n":     {"line 1 has a name that ends"},
		sum + "  ../x\n":           {"!leads out of the directory"},
		sum + "  /etc/passwd\n":    {"!leads out of the directory"},
		sum + "  a/../../../x\n":   {"!leads out of the directory"},
		sum + "  a\x00b\n":         {"!leads out of the directory"},
		sum + "  dir\n":            {`1 different: ["dir"]`},
		strings.Repeat("x", 1<<16): {"line 1 is longer"},
	} {
		s.write(t, map[string]string{"A/BAD": text})
		s.refuse(t, "file.verify", m{"manifest_path": "A/BAD"}, words...)
	}
	many := strings.Repeat(sum+"  x\n", 11)
	s.write(t, map[string]string{"A/BAD": many})
	s.refuseWith(t, registry(file.Limits{MaxMatches: 10}), "file.verify", m{"manifest_path": "A/BAD"}, "!more than 10 files")
	s.write(t, map[string]string{"A/BAD": strings.Repeat("#\n", 1000)})
	s.refuseWith(t, registry(file.Limits{MaxMatches: 10}), "file.verify", m{"manifest_path": "A/BAD"}, "!more than 40 lines")
	s.write(t, map[string]string{"A/BAD": strings.Repeat(sum+"  "+strings.Repeat("x/", 1000)+"x\n", 6)})
	s.refuseWith(t, registry(file.Limits{MaxPathBytes: 12_000}), "file.verify", m{"manifest_path": "A/BAD"}, "!MaxPathBytes")
}

func TestSplitJoin(t *testing.T) {
	for _, format := range []string{"json", "text"} {
		for _, c := range []struct {
			content string
			size    int
			parts   int
		}{{"", 10, 1}, {"x", 10, 1}, {"0123456789", 10, 1}, {"0123456789a", 10, 2}, {big(), 1 << 20, len(big()) >> 20}, {strings.Repeat("x", 1001), 1, 1001}} {
			t.Run(fmt.Sprint(format, len(c.content), "/", c.size), func(t *testing.T) {
				t.Parallel()
				s := newSite(t)
				s.write(t, map[string]string{"A/a file": c.content})
				out := s.run(t, "file.split", m{"source_path": "A/a file", "output_directory": "B", "part_bytes": c.size, "manifest_format": format})
				equal(t, out, "part_count", c.parts)
				equal(t, out, "size", len(c.content))
				parts := out["part_files"].([]any)
				var joined strings.Builder
				for _, p := range parts {
					joined.WriteString(s.read(t, "B/"+filepath.Base(p.(string))))
				}
				if joined.String() != c.content || len(parts) != c.parts {
					t.Errorf("%d parts, %d bytes", len(parts), joined.Len())
				}
				manifest := "B/" + filepath.Base(out["manifest_path"].(string))
				if format == "text" {
					must(t, s.B, "sha256sum", "--quiet", "--strict", "--ignore-missing", "-c", filepath.Base(manifest))
				}
				back := s.run(t, "file.join", m{"manifest_path": manifest, "output_path": "A/back"})
				equal(t, back, "sha256", out["sha256"])
				equal(t, back, "part_count", c.parts)
				if s.read(t, "A/back") != c.content {
					t.Error("the content is another")
				}
			})
		}
	}
}

func TestSplitRefuses(t *testing.T) {
	s := newSite(t)
	s.write(t, map[string]string{"A/f": "text", "A/d/x": "", "A/" + strings.Repeat("n", 252): "x"})
	for _, c := range []struct {
		cfg   m
		words []string
	}{
		{m{"source_path": "A/f", "part_bytes": 0}, []string{"!part_bytes: must be at least 1, not 0"}},
		{m{"source_path": "A/f", "part_bytes": -1}, []string{"!part_bytes: must be at least 1, not -1"}},
		{m{"source_path": "A/none", "part_bytes": 1}, []string{"no such file"}},
		{m{"source_path": "A", "part_bytes": 1}, []string{"!is a directory"}},
		{m{"source_path": "A/f", "part_bytes": 1, "output_directory": "A/f"}, []string{"!is a regular file"}},
		{m{"source_path": "A/" + strings.Repeat("n", 252), "part_bytes": 1}, []string{"!the name of a part"}},
	} {
		s.refuse(t, "file.split", c.cfg, c.words...)
	}
	s.refuseWith(t, registry(file.Limits{MaxFiles: 3}), "file.split", m{"source_path": "A/f", "part_bytes": 1}, "!more than 3 parts")
}

func TestJoinRefuses(t *testing.T) {
	good := splitOf("f", "a text", 3)
	manifest := good["B/f.manifest.json"]
	replace := func(old, to string) string {
		if !strings.Contains(manifest, old) {
			t.Fatalf("%q is not in %s", old, manifest)
		}
		return strings.Replace(manifest, old, to, 1)
	}
	sum := strings.Repeat("0", 64)
	for _, c := range []struct {
		name, manifest string
		files          map[string]string
		words          []string
	}{
		{"a part is missing", manifest, map[string]string{"B/f.002": ""}, []string{"f.002", "has 0 bytes, not 3", "not arrived completely"}},
		{"a part is longer", manifest, map[string]string{"B/f.001": "a te"}, []string{"has 4 bytes, not 3"}},
		{"a part is different", manifest, map[string]string{"B/f.001": "b t"}, []string{"f.001", "has the SHA-256"}},
		{"the whole is different", replace(`"sha256": "`, `"sha256": "`+sum+`", "was": "`), nil, []string{"together have the SHA-256", "not " + sum}},
		{"parts in another place", replace("f.001", "../f.001"), nil, []string{"!has the name"}},
		{"parts below", replace("f.001", "x/f.001"), nil, []string{"!has the name", "has a slash"}},
		{"absolute part", replace("f.001", "/etc/passwd"), nil, []string{"!has the name"}},
		{"hostile name", replace(`"name": "f"`, `"name": "../f"`), nil, []string{"!has the name"}},
		{"no name", replace(`"name": "f"`, `"name": ""`), nil, []string{"!has the name"}},
		{"wrong size", replace(`"size": 6`, `"size": 7`), nil, []string{"!has parts of 6 bytes for a file of 7"}},
		{"negative size", replace(`"size": 3`, `"size": -3`), nil, []string{"!has -3 bytes"}},
		{"huge size", replace(`"size": 6`, `"size": 9223372036854775807`), nil, []string{"!MaxEntryBytes"}},
		{"no sum", replace(`"sha256": "`, `"sha256": "x`), nil, []string{"!no SHA-256"}},
		{"no parts", `{"name": "f", "size": 0, "sha256": "` + sum + `"}`, nil, []string{"lists no parts"}},
		{"cut", manifest[:len(manifest)-5], nil, []string{"damaged or incomplete"}},
		{"empty", "", nil, []string{"has 0 files"}},
		{"text without sizes", sum + "  f\n" + sum + "  f.001\n", nil, []string{"2 files and 0 sizes"}},
		{"text with a bad size", "# size x\n" + sum + "  f\n", nil, []string{"line 1 has no size"}},
		{"text, cut", "# size 1\n" + sum + "  f\n# size 1\n" + sum + "  f.0", nil, []string{"incomplete"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSite(t)
			s.write(t, good)
			s.write(t, map[string]string{"B/m": c.manifest})
			s.write(t, c.files)
			s.refuse(t, "file.join", m{"manifest_path": "B/m", "output_path": "A/f"}, c.words...)
			s.refuse(t, "file.join", m{"manifest_path": "B/m"}, c.words...)
		})
	}
	s := newSite(t)
	s.write(t, good)
	cfg := m{"manifest_path": "B/f.manifest.json", "output_path": "A/f"}
	s.refuseWith(t, registry(file.Limits{MaxFiles: 1}), "file.join", cfg, "!more than 1 parts")
	cfg["output_path"] = "B/f.manifest.json"
	s.refuse(t, "file.join", cfg, "!is the manifest itself")
}

func TestMkdir(t *testing.T) {
	s := newSite(t)
	s.write(t, map[string]string{"A/f": "text"})
	for range 2 {
		equal(t, s.run(t, "file.mkdir", m{"path": "A/new/deep/"}), "created_directory", "/a/new/deep")
		equal(t, s.run(t, "file.mkdir", m{"path": "here"}), "created_directory", "here")
		s.run(t, "file.mkdir", m{"path": "A"})
	}
	for _, dir := range []string{"A/new/deep", "W/here"} {
		if info, err := os.Stat(s.path(dir)); err != nil || !info.IsDir() {
			t.Errorf("%s: %v, %v", dir, info, err)
		}
	}
	s.refuse(t, "file.mkdir", m{"path": "A/f"}, "!exists and is a regular file")
	s.refuse(t, "file.mkdir", m{"path": "A/f/g"}, "not a directory")
	s.refuse(t, "file.mkdir", m{"path": "../x"}, "!leads out of the workspace")
	os.Symlink("/etc", s.path("A/etc"))
	s.refuse(t, "file.mkdir", m{"path": "A/etc/courier"}, "leads out")
}
