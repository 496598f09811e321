package file_test

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/courierhq/courier/internal/test/hostile"
	"github.com/courierhq/courier/steps/file"
)

// A tarEntry is an entry whose header may lie.
type tarEntry struct {
	tar.Header
	content string
	// patch changes the header's block, whose sum is put right afterwards.
	patch func(block []byte)
}

// rawTar writes an archive with its end.
func rawTar(all ...tarEntry) []byte {
	return append(openTar(all...), make([]byte, 1024)...)
}

// openTar writes an archive without its end.
func openTar(all ...tarEntry) []byte {
	var b bytes.Buffer
	for _, e := range all {
		var one bytes.Buffer
		tw := tar.NewWriter(&one)
		if e.Typeflag == 0 {
			e.Typeflag = tar.TypeReg
		}
		if e.Size == 0 {
			e.Size = int64(len(e.content))
		}
		if e.Mode == 0 {
			e.Mode = 0o644
		}
		if err := tw.WriteHeader(&e.Header); err != nil {
			panic(fmt.Sprintf("%q: %v", e.Name, err))
		}
		block := one.Bytes()
		if e.patch != nil {
			last := block[len(block)-512:]
			e.patch(last)
			sumTar(last)
		}
		b.Write(block)
		b.WriteString(e.content)
		b.Write(make([]byte, -len(e.content)&511))
	}
	return b.Bytes()
}

// sumTar puts the sum of a header right.
func sumTar(block []byte) {
	copy(block[148:156], "        ")
	sum := 0
	for _, c := range block {
		sum += int(c)
	}
	copy(block[148:156], fmt.Sprintf("%06o\x00 ", sum))
}

// named is an entry with a name that no writer of tar archives refuses.
func named(name string) tarEntry {
	return tarEntry{Header: tar.Header{Name: "x"}, content: "x", patch: func(block []byte) {
		clear(block[:100])
		copy(block[:100], name)
	}}
}

func entryOf(name, content string) tarEntry {
	return tarEntry{Header: tar.Header{Name: name}, content: content}
}

func linkOf(name, to string, typ byte) tarEntry {
	return tarEntry{Header: tar.Header{Name: name, Linkname: to, Typeflag: typ}}
}

func sized(name, content, octal string) tarEntry {
	return tarEntry{Header: tar.Header{Name: name}, content: content, patch: func(block []byte) {
		clear(block[124:136])
		copy(block[124:136], octal)
	}}
}

func typed(name string, typ byte) tarEntry {
	return tarEntry{Header: tar.Header{Name: name}, patch: func(block []byte) { block[156] = typ }}
}

// pax are records for the next entry, as they are given.
func pax(typ byte, records ...string) tarEntry {
	var b strings.Builder
	for _, r := range records {
		n := len(r) + 3
		for len(fmt.Sprintf("%d %s\n", n, r)) != n {
			n++
		}
		fmt.Fprintf(&b, "%d %s\n", n, r)
	}
	return tarEntry{Header: tar.Header{Name: "pax"}, content: b.String(), patch: func(block []byte) { block[156] = typ }}
}

// hostileTars all have a good entry too, which must not be published.
func hostileTars() []hostileArchive {
	good := entryOf("good", "good")
	whole := rawTar(good, entryOf("e", strings.Repeat("text", 300)))
	changed := func(at int, to byte) []byte {
		b := bytes.Clone(whole)
		b[at] = to
		return b
	}
	large := rawTar(good, entryOf("zeros", strings.Repeat("\x00", 8<<20)))
	device := tarEntry{Header: tar.Header{Name: "d", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 3}}
	block := tarEntry{Header: tar.Header{Name: "d", Typeflag: tar.TypeBlock, Devmajor: 8}}
	return []hostileArchive{
		{"traversal", rawTar(good, entryOf("../e", "x")), []string{`entry "../e"`, `!has the element ".."`}},
		{"deep traversal", rawTar(good, entryOf("a/b/../../../../etc/cron.d/e", "x")), []string{`!has the element ".."`}},
		{"traversal after ./", rawTar(good, entryOf("./../e", "x")), []string{`!has the element ".."`}},
		{"traversal of a directory", rawTar(good, tarEntry{Header: tar.Header{Name: "../d/", Typeflag: tar.TypeDir}}), []string{`!has the element ".."`}},
		{"traversal in a long name", rawTar(good, entryOf(strings.Repeat("../", 60)+"e", "x")), []string{`!has the element ".."`}},
		{"traversal in a PAX record", rawTar(good, pax('x', "path=../../e"), entryOf("e", "x")), []string{`entry "../../e"`, `!has the element ".."`}},
		{"absolute", rawTar(good, entryOf("/etc/passwd", "x")), []string{"!is an absolute path"}},
		{"absolute in a PAX record", rawTar(good, pax('x', "path=/etc/passwd"), entryOf("e", "x")), []string{"!is an absolute path"}},
		{"two slashes at the front", rawTar(good, entryOf("//e", "x")), []string{"!is an absolute path"}},
		{"a dot at the end", rawTar(good, entryOf("a/.", "x")), []string{`!has the element "."`}},
		{"backslash", rawTar(good, entryOf(`..\e`, "x")), []string{"!has a backslash"}},
		{"drive letter", rawTar(good, entryOf("C:e", "x")), []string{"!begins with a drive"}},
		{"control character", rawTar(good, entryOf("a\x1b[2Je", "x")), []string{"!has the control character"}},
		{"name of a device", rawTar(good, entryOf("x/NUL.txt", "x")), []string{"!means a device on Windows"}},
		{"no UTF-8", rawTar(good, named("a\xffb")), []string{"!is not valid UTF-8"}},
		{"empty name", rawTar(good, named("")), []string{"!is empty"}},
		{"the directory itself as a file", rawTar(good, named(".")), []string{`!has the element "."`}},
		{"symbolic link", rawTar(good, linkOf("l", "/etc", tar.TypeSymlink)), []string{`entry "l"`, "!is a symbolic link"}},
		{"symbolic link, then a file beneath it", rawTar(good, linkOf("l", "/tmp", tar.TypeSymlink), entryOf("l/e", "x")), []string{"!is a symbolic link"}},
		{"hard link", rawTar(good, linkOf("l", "/etc/passwd", tar.TypeLink)), []string{"!is a hard link"}},
		{"hard link within", rawTar(good, linkOf("l", "good", tar.TypeLink)), []string{"!is a hard link"}},
		{"link by a PAX record", rawTar(good, pax('x', "linkpath=/etc/passwd"), linkOf("l", "x", tar.TypeSymlink)), []string{"!is a symbolic link"}},
		{"device", rawTar(good, device), []string{"!is a device"}},
		{"block device", rawTar(good, block), []string{"!is a device"}},
		{"pipe", rawTar(good, tarEntry{Header: tar.Header{Name: "p", Typeflag: tar.TypeFifo}}), []string{"!is a pipe"}},
		{"continued volume", rawTar(good, typed("c", 'M')), []string{"!of the unknown type 'M'"}},
		{"type of nobody", rawTar(good, typed("c", 'Z')), []string{"!of the unknown type 'Z'"}},
		{"sparse file", rawTar(good, pax('x', "GNU.sparse.major=1", "GNU.sparse.minor=0", "GNU.sparse.name=e", "GNU.sparse.realsize=99999999999"), entryOf("e", "0\n"+strings.Repeat("\x00", 510))), []string{"!is a sparse file"}},
		{"old sparse file", rawTar(good, pax('x', "GNU.sparse.size=1000000", "GNU.sparse.numblocks=0", "GNU.sparse.map="), entryOf("e", "")), []string{"!is a sparse file"}},
		{"sparse file of star", rawTar(good, pax('x', "SCHILY.realsize=1000000"), entryOf("e", "x")), []string{"!is a sparse file"}},
		{"sparse file of Solaris", rawTar(good, pax('x', "SUN.holesdata= 0 1000000"), entryOf("e", "x")), []string{"!is a sparse file"}},
		{"sparse files for all", rawTar(pax('g', "GNU.sparse.major=1"), good), []string{`!gives "GNU.sparse.major" for all`}},
		{"further volume", rawTar(pax('g', "GNU.volume.offset=512"), good), []string{`!gives "GNU.volume.offset" for all`}},
		{"name for all", rawTar(pax('g', "path=../e"), good), []string{`!gives "path" for all`}},
		{"size for all", rawTar(pax('g', "size=1"), good), []string{`!gives "size" for all`}},
		{"twice", rawTar(good, entryOf("good", "bad")), []string{"!is there twice"}},
		{"twice with ./", rawTar(good, entryOf("./good", "bad")), []string{"!is there twice"}},
		{"twice with more slashes", rawTar(entryOf("d/e", "good"), entryOf(".//d/./e", "bad")), []string{"!is there twice"}},
		{"directory of a file's name with content", rawTar(good, slashed("d/", "x", tar.TypeReg)), []string{"!has an empty element"}},
		{"letter case", rawTar(good, entryOf("GOOD", "bad")), []string{"!differs only in letter case"}},
		{"file and directory", rawTar(good, entryOf("good/x", "bad")), []string{"!is a file and a directory"}},
		{"directory and file", rawTar(good, entryOf("d/x", "x"), entryOf("d", "x")), []string{"!is a file and a directory"}},
		{"larger than said", rawTar(good, sized("e", strings.Repeat("content of a file ", 100), "00000000012")), []string{"damaged"}},
		{"smaller than said", rawTar(good, sized("e", "x", "00000077777")), []string{"damaged"}},
		{"said to be huge", rawTar(good, sized("e", "x", "77777777777")), []string{"damaged"}},
		{"said to be beyond the limit", rawTar(good, sized("e", "x", "\x80\x00\x00\x00\x7f\xff\xff\xff\xff\xff\xff\xff")), []string{`entry "e"`, "!MaxEntryBytes"}},
		{"negative size", rawTar(good, sized("e", "x", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff")), []string{"damaged"}},
		{"size of a PAX record", rawTar(good, pax('x', "size=99999999999999"), entryOf("e", "x")), []string{"!MaxEntryBytes"}},
		{"negative size of a PAX record", rawTar(good, pax('x', "size=-1"), entryOf("e", "x")), []string{"damaged"}},
		{"size that is no number", rawTar(good, sized("e", "x", "abc")), []string{"damaged"}},
		{"endless long name", rawTar(good, sized("e", "x", "77777777777"), typed("x", 'L')), []string{"damaged"}},
		{"wrong sum of a header", changed(1024+5, 'X'), []string{"damaged"}},
		{"an archive in the end", append(bytes.Clone(whole), rawTar(entryOf("more", "x"))...), []string{"!goes on behind its end"}},
		{"rubbish behind the end", append(bytes.Clone(whole), "rubbish"...), []string{"!goes on behind its end"}},
		{"no end", openTar(good), []string{"has no end"}},
		{"no end after zeros", openTar(good, entryOf("z", strings.Repeat("\x00", 2048))), []string{"has no end"}},
		{"nothing", nil, []string{"has no end"}},
		{"cut in a header", whole[:1024+100], []string{"damaged"}},
		{"cut in the content", whole[:2048], []string{"damaged"}},
		{"no archive", []byte(strings.Repeat("this is no archive", 100)), []string{"damaged"}},
		{"lzip", []byte("LZIP\x01\x0c"), []string{"!in the format of lzip"}},
		{"lzop", []byte("\x89LZO\x00\r\n"), []string{"!in the format of lzop"}},
		{"bzip2", []byte("BZh91AY&SY"), []string{"!in the format of bzip2"}},
		{"zip", rawZip(raw{name: "good", content: "x"}), []string{"!in the format of zip"}},
		{"gzip, cut", []byte(gzipped(string(whole)))[:100], []string{"damaged"}},
		{"gzip, wrong sum", flip(gzipped(string(whole)), -8), []string{"damaged"}},
		{"gzip, wrong length", flip(gzipped(string(whole)), -4), []string{"damaged"}},
		{"gzip, rubbish behind", []byte(gzipped(string(whole)) + "rubbish, and more of it"), []string{"damaged"}},
		{"gzip, a second archive", []byte(gzipped(string(whole)) + gzipped(string(whole))), []string{"!goes on behind its end"}},
		{"gzip of nothing", []byte(gzipped("")), []string{"has no end"}},
		{"gzip, bomb", []byte(gzipped(string(large))), []string{"!more than 200 times"}},
		{"gzip, bomb behind the end", []byte(gzipped(string(whole) + strings.Repeat("\x00", 8<<20))), []string{"!more than 200 times"}},
		{"gzip, bomb in a long name", []byte(gzipped(string(openTar(good)) + strings.Repeat(string(openTar(pax('x', "comment="+strings.Repeat("c", 1<<19)))), 30))), []string{"!more than 200 times"}},
		{"gzip in gzip", []byte(gzipped(gzipped(string(whole)))), []string{"damaged"}},
		{"zstd, cut", []byte(zstandard(string(whole)))[:50], []string{"damaged"}},
		{"zstd, wrong sum", flip(zstandard(string(whole)), -1), []string{"damaged"}},
		{"zstd, bomb", []byte(zstandard(string(large))), []string{"!more than 200 times"}},
		{"zstd, huge window", []byte("\x28\xb5\x2f\xfd\x00\xf8\x01\x00\x00"), []string{"window"}},
		{"set-user-id is no matter", rawTar(tarEntry{Header: tar.Header{Name: "s", Mode: 0o6755}, content: "x"}), nil},
	}
}

// flip changes a byte, counted from the end if at is negative.
func flip(s string, at int) []byte {
	b := []byte(s)
	if at < 0 {
		at += len(b)
	}
	b[at] ^= 0xff
	return b
}

func TestHostileTars(t *testing.T) {
	all := hostileTars()
	if len(all) < 40 {
		t.Errorf("only %d archives", len(all))
	}
	for _, c := range all {
		t.Run(c.name, func(t *testing.T) {
			s := newSite(t)
			s.write(t, map[string]string{"B/x.tar": string(c.zip), "A/canary": "untouched"})
			cfg := m{"archive_path": "B/x.tar", "output_directory": "A/d"}
			if c.words != nil {
				s.refuse(t, "file.untar", cfg, c.words...)
				os.Mkdir(s.path("A/d"), 0o755)
				cfg["if_exists"] = "overwrite"
				s.refuse(t, "file.untar", cfg, c.words...)
				return
			}
			s.run(t, "file.untar", cfg)
			if info, err := os.Stat(s.path("A/d/s")); err != nil || info.Mode()&^0o777 != 0 || info.Mode()&0o111 != 0 {
				t.Errorf("mode %v, %v", info.Mode(), err)
			}
		})
	}
}

// Every name that file.unzip refuses, file.untar refuses too, and the good ones
// are the same.
func TestHostileTarNames(t *testing.T) {
	s := newSite(t)
	before := s.snapshot(t)
	for _, name := range hostile.EntryNames() {
		dir := strings.HasSuffix(name, "/")
		if len(name) > 3000 || name == "./" || strings.ContainsRune(name, 0) {
			continue // means the directory itself, or can't be written in a tar archive
		}
		e := tarEntry{Header: tar.Header{Name: name, Format: tar.FormatGNU}, content: "x"}
		if dir {
			e.Typeflag, e.content = tar.TypeDir, ""
		}
		if err := os.WriteFile(s.path("B/x.tar"), rawTar(e), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := s.execute(t.Context(), registry(file.Limits{}), "file.untar", m{"archive_path": "B/x.tar", "output_directory": "A/d"}); err == nil {
			t.Errorf("%q is unpacked", name)
		}
		os.Remove(s.path("B/x.tar"))
		if after := s.snapshot(t); after != before {
			t.Fatalf("%q: left\n%s", name, after)
		}
	}
	for i, name := range hostile.GoodEntryNames() {
		name = strings.TrimSuffix(name, "/")
		if err := os.WriteFile(s.path("B/x.tar"), rawTar(entryOf(name, "x")), 0o600); err != nil {
			t.Fatal(err)
		}
		dir := fmt.Sprint("A/good", i)
		s.run(t, "file.untar", m{"archive_path": "B/x.tar", "output_directory": dir})
		if got := s.read(t, dir+"/"+name); got != "x" {
			t.Errorf("%q holds %q", name, got)
		}
	}
}

// Whatever the size of an archive, memory is bounded.
func TestUntarMemory(t *testing.T) {
	s := newSite(t)
	f, err := os.Create(s.path("B/x.tar.zst"))
	if err != nil {
		t.Fatal(err)
	}
	zw, err := zstd.NewWriter(f)
	if err != nil {
		t.Fatal(err)
	}
	tw := tar.NewWriter(zw)
	line := []byte(hexText(1 << 20))
	const size = 100 << 20
	if err := tw.WriteHeader(&tar.Header{Name: "f", Size: size}); err != nil {
		t.Fatal(err)
	}
	for range size / len(line) {
		tw.Write(line)
	}
	for _, c := range []io.Closer{tw, zw, f} {
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	r := registry(file.Limits{MaxRatio: 1000})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := s.execute(t.Context(), r, "file.untar", m{"archive_path": "B/x.tar.zst", "output_directory": "A/d"}); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > 40<<20 {
		t.Errorf("%d bytes allocated", used)
	}
}
