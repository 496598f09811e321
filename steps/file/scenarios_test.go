package file_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/md5"
	"crypto/sha256"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
)

// archiveScenarios are those of the steps for archives, sums and parts.
func archiveScenarios() []scenario {
	few := map[string]string{"A/in/1.csv": "one", "A/in/x/3.csv": "three", "B/out/other": "kept"}
	large := maps.Clone(few)
	large["A/in/5.csv"] = medium()
	put := func(name, content string) func(t testing.TB, s *site) {
		return func(t testing.TB, s *site) {
			t.Helper()
			s.write(t, map[string]string{name: content})
		}
	}
	packed := tarOf(large)
	parts := splitOf("f", medium(), 100<<10)
	return []scenario{
		{"tar", "file.tar", m{"source_path": "A/in", "output_path": "B/out/", "format": "tar.gz"}, large, nil},
		{"tar over", "file.tar", m{"source_path": "A/in", "output_path": "B/out/t", "format": "tar.zst"}, few, put("B/out/t", "old")},
		{"untar", "file.untar", m{"archive_path": "in.tgz", "output_directory": "B/out/new"}, few, put("W/in.tgz", gzipped(packed))},
		{"untar merge", "file.untar", m{"archive_path": "in.tar", "output_directory": "B/out", "if_exists": "overwrite"}, few, put("W/in.tar", tarOf(few))},
		{"gzip", "file.gzip", m{"source_path": "A/f", "output_path": "B/new/"}, map[string]string{"A/f": big()}, nil},
		{"gunzip", "file.gunzip", m{"source_path": "A/f.gz", "output_path": "B/"}, map[string]string{"A/f.gz": gzipped(medium())}, nil},
		{"zstd", "file.zstd", m{"source_path": "A/f", "output_path": "B/f"}, map[string]string{"A/f": big()}, nil},
		{"unzstd", "file.unzstd", m{"source_path": "A/f.zst", "output_path": "A/f"}, map[string]string{"A/f.zst": zstandard(medium()), "A/f": "old"}, nil},
		{"hash", "file.hash", m{"source_path": "A", "output_path": "A/SUMS"}, few, put("A/SUMS", "old")},
		{"split", "file.split", m{"source_path": "A/f", "output_directory": "B/new", "part_bytes": 100 << 10}, map[string]string{"A/f": medium()}, nil},
		{"split over", "file.split", m{"source_path": "A/f", "output_directory": "A", "part_bytes": 3, "manifest_format": "text"},
			map[string]string{"A/f": "a text", "A/f.002": "old", "A/f.sha256": "old"}, nil},
		{"join", "file.join", m{"manifest_path": "B/f.manifest.json", "output_path": "A/joined"}, parts, nil},
	}
}

// ownScenarios are those that write into the attempt's own directory, or have
// nothing that could be killed half-way.
func ownScenarios() []scenario {
	few := map[string]string{"A/in/1.csv": "one", "A/in/x/3.csv": "three"}
	return []scenario{
		{"zip here", "file.zip", m{"source_path": "A/in"}, few, nil},
		{"tar here", "file.tar", m{"source_path": "A/in"}, few, nil},
		{"gzip here", "file.gzip", m{"source_path": "A/f"}, map[string]string{"A/f": "text"}, nil},
		{"gunzip here", "file.gunzip", m{"source_path": "A/f.gz"}, map[string]string{"A/f.gz": gzipped(big())}, nil},
		{"unzstd here", "file.unzstd", m{"source_path": "A/f.zst"}, map[string]string{"A/f.zst": zstandard(big())}, nil},
		{"hash here", "file.hash", m{"source_path": "A", "algorithm": "md5"}, few, nil},
		{"split here", "file.split", m{"source_path": "A/f", "part_bytes": 4}, map[string]string{"A/f": "a text"}, nil},
		{"join here", "file.join", m{"manifest_path": "B/f.manifest.json"}, splitOf("f", "text", 3), nil},
		{"mkdir", "file.mkdir", m{"path": "B/new/deep"}, nil, nil},
		{"mkdir there", "file.mkdir", m{"path": "B/out"}, map[string]string{"B/out/other": "kept"}, nil},
	}
}

// tarOf returns a tar archive of the files.
func tarOf(files map[string]string) string {
	var b bytes.Buffer
	tw := tar.NewWriter(&b)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		h := &tar.Header{Name: name[2:], Mode: 0o644, Size: int64(len(files[name])), ModTime: time.Date(2024, 1, 2, 3, 4, 5, 0, time.UTC)}
		if err := tw.WriteHeader(h); err != nil {
			panic(err)
		}
		io.WriteString(tw, files[name])
	}
	if err := tw.Close(); err != nil {
		panic(err)
	}
	return b.String()
}

func gzipped(s string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	io.WriteString(w, s)
	w.Close()
	return b.String()
}

func zstandard(s string) string {
	w, err := zstd.NewWriter(nil)
	if err != nil {
		panic(err)
	}
	defer w.Close()
	return string(w.EncodeAll([]byte(s), nil))
}

// sums are files with a manifest that says that two are missing or wrong.
func sums() map[string]string {
	line := func(content, name string) string {
		return fmt.Sprintf("%x  %s\n", sha256.Sum256([]byte(content)), name)
	}
	return map[string]string{
		"A/1": "one", "A/x/2": "two", "A/3": "three",
		"A/SUMS": "# a comment\n" + line("one", "1") + line("two", "x/2") + line("others", "3") + line("none", "4") + fmt.Sprintf("%X *1\r\n", md5.Sum([]byte("one"))),
	}
}

// splitOf returns the parts of a file in B, and their manifest.
func splitOf(name, content string, size int) map[string]string {
	files := make(map[string]string)
	var parts []string
	for i := 0; i*size < len(content); i++ {
		part := content[i*size : min(len(content), (i+1)*size)]
		p := fmt.Sprintf("%s.%03d", name, i+1)
		files["B/"+p] = part
		parts = append(parts, fmt.Sprintf(`{"name": %q, "size": %d, "sha256": "%x"}`, p, len(part), sha256.Sum256([]byte(part))))
	}
	files["B/"+name+".manifest.json"] = fmt.Sprintf(`{"name": %q, "size": %d, "sha256": "%X", "parts": [%s]}`,
		name, len(content), sha256.Sum256([]byte(content)), strings.Join(parts, ", "))
	return files
}
