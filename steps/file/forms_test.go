package file_test

import (
	"archive/tar"
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A form is an archive of a form that is rare, and the files in it.
type form struct {
	name  string
	data  []byte
	files map[string]string
}

// unicodePath is the extra field that gives a name in UTF-8 beside another one.
func unicodePath(beside, name string) string {
	b := binary.LittleEndian.AppendUint16(nil, 0x7075)
	b = append(binary.LittleEndian.AppendUint16(b, uint16(5+len(name))), 1)
	return string(binary.LittleEndian.AppendUint32(b, crc32.ChecksumIEEE([]byte(beside)))) + name
}

// zip64 gives an archive the end record of large ones.
func zip64(b []byte) []byte {
	const end, at = 22, 16 // its length, and where it says where the directory is
	le := binary.LittleEndian
	b, last := b[:len(b)-end], bytes.Clone(b[len(b)-end:])
	count, size, offset := uint64(le.Uint16(last[8:])), uint64(le.Uint32(last[12:])), uint64(le.Uint32(last[at:]))
	start := uint64(len(b))
	b = append(le.AppendUint64(append(bytes.Clone(b), "PK\x06\x06"...), 44), 45, 0, 45, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	for _, v := range []uint64{count, count, size, offset} {
		b = le.AppendUint64(b, v)
	}
	b = le.AppendUint64(append(b, "PK\x06\x07\x00\x00\x00\x00"...), start)
	b = le.AppendUint32(b, 1)
	copy(last[8:], bytes.Repeat([]byte{0xff}, 12))
	return append(b, last...)
}

// streamed gives an archive of one entry a data descriptor, as it is written to a pipe.
func streamed(content, signature string) []byte {
	const flag = 8
	b := rawZip(raw{name: "a", content: content, store: true, flags: flag})
	sums := bytes.Clone(b[14:26]) // CRC and sizes
	clear(b[14:26])
	at := bytes.Index(b, []byte("PK\x01\x02"))
	b = append(append(append(bytes.Clone(b[:at]), signature...), sums...), b[at:]...)
	binary.LittleEndian.PutUint32(b[len(b)-6:], uint32(at+len(signature)+len(sums)))
	return b
}

func zipForms() []form {
	const content = "some content"
	one := rawZip(raw{name: "a", content: content})
	a := map[string]string{"a": content}
	le := binary.LittleEndian
	large := string(le.AppendUint64(le.AppendUint64([]byte{1, 0, 16, 0}, uint64(len(content))), uint64(len(content))))
	const sentinel = 1<<32 - 1 - int64(len(content))
	comment := append(bytes.Clone(one[:len(one)-2]), "\x07\x00made by"...)
	return []form{
		{"program in front", append([]byte("#!/bin/sh\nexec unzip $0\n"), one...), a},
		{"mark of a split archive", append([]byte("PK00"), one...), a},
		{"comment", comment, a},
		{"a line behind", append(bytes.Clone(one), '\n'), a},
		{"zeros behind", append(bytes.Clone(one), make([]byte, 5000)...), a},
		{"zip64", zip64(one), a},
		{"zip64 of an entry", zip64(rawZip(raw{name: "a", content: content, store: true, size: sentinel, packed: sentinel, extra: large})), a},
		{"data descriptor", streamed(content, "PK\x07\x08"), a},
		{"data descriptor without signature", streamed(content, ""), a},
		{"directory itself", rawZip(raw{name: "./", mode: 0o040755}, raw{name: "./a", content: content}), a},
		{"names that are not tidy", rawZip(raw{name: "d//x", content: "1"}, raw{name: "././e/./", mode: 0o040755}, raw{name: "d/.//y", content: "2"}), map[string]string{"d/x": "1", "e/": "", "d/y": "2"}},
		{"directory twice", rawZip(raw{name: "d/", mode: 0o040755}, raw{name: "d/x", content: "1"}, raw{name: "d/", mode: 0o040755}, raw{name: "d/y", content: "2"}), map[string]string{"d/x": "1", "d/y": "2"}},
		{"name in UTF-8 beside", rawZip(raw{name: "pri\x89m", content: "1", extra: unicodePath("pri\x89m", "приём")}), map[string]string{"приём": "1"}},
		{"name beside another name", rawZip(raw{name: "pri\x82m", content: "1", extra: unicodePath("another", "приём")}), map[string]string{"priém": "1"}},
		{"nothing in it", rawZip(), nil},
	}
}

// slashed is an entry with a slash at the end of its name and any type.
func slashed(name, content string, typ byte) tarEntry {
	return tarEntry{Header: tar.Header{Name: "d", Mode: 0o755}, content: content, patch: func(block []byte) {
		copy(block, name)
		block[156] = typ
	}}
}

func tarForms() []form {
	one := entryOf("a", "some content")
	a := map[string]string{"a": "some content"}
	dir := tarEntry{Header: tar.Header{Name: "d/", Typeflag: tar.TypeDir, Mode: 0o755}}
	field := func(at int, text string) []byte {
		e := one
		e.patch = func(block []byte) { copy(block[at:], text) }
		return rawTar(e)
	}
	whole := string(rawTar(one))
	skipped := "\x50\x2a\x4d\x18\x04\x00\x00\x00abcd"
	return []form{
		{"V7", field(257, strings.Repeat("\x00", 8+2*32+2*8)), a},
		{"owners of plexus-archiver", field(108, "       \x00       \x00"), a},
		{"size in spaces", field(124, "         14 "), a},
		{"size in base 256", field(124, "\x80\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x0c"), a},
		{"negative time in base 256", field(136, strings.Repeat("\xff", 12)), a},
		{"no owners", field(100, strings.Repeat("\x00", 24)), a},
		{"one block at the end", append(openTar(one), make([]byte, 512)...), a},
		{"zeros behind", append(rawTar(one), make([]byte, 1<<16+1)...), a},
		{"label of GNU tar", rawTar(typed("label", 'V'), one), a},
		{"label in a PAX record", rawTar(pax('g', "GNU.volume.label=label"), one), a},
		{"of git", rawTar(pax('g', "comment=0123456789"), one), a},
		{"of star", rawTar(pax('g', "SCHILY.archtype=exustar", "SCHILY.release=star 1.6"), pax('x', "SCHILY.dev=2050", "SCHILY.filetype=regular", "SCHILY.acl.access=user::rw-", "mtime=1000.5"), one), a},
		{"owners for all", rawTar(pax('g', "uid=1", "gname=users", "hdrcharset=ISO-IR 10646 2000 UTF-8"), one), a},
		{"records without a file", rawTar(one, pax('x', "mtime=1")), a},
		{"incremental backup", rawTar(slashed("d/", "Yx\x00\x00", 'D'), entryOf("d/x", "1")), map[string]string{"d/x": "1"}},
		{"directory as an empty file", rawTar(slashed("d/", "", tar.TypeReg)), map[string]string{"d/": ""}},
		{"directory twice", rawTar(dir, entryOf("d/x", "1"), dir, entryOf("d/y", "2")), map[string]string{"d/x": "1", "d/y": "2"}},
		{"names that are not tidy", rawTar(entryOf("././a", "1"), entryOf("d//x", "2"), entryOf("d/./y", "3")), map[string]string{"a": "1", "d/x": "2", "d/y": "3"}},
		{"nothing in it", rawTar(), nil},
		{"members of gzip", []byte(gzipped(whole[:700]) + gzipped("") + gzipped(whole[700:])), a},
		{"zeros behind gzip", []byte(gzipped(whole) + strings.Repeat("\x00", 5000)), a},
		{"frames of Zstandard", []byte(zstandard(whole[:700]) + zstandard(whole[700:]) + skipped), a},
		{"frame of pzstd in front", []byte(skipped + zstandard(whole)), a},
	}
}

// tree returns the files in a directory, and the directories with nothing in them.
func (s *site) tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := make(map[string]string)
	filepath.WalkDir(s.path(dir), func(p string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(s.path(dir), p)
		switch rel = filepath.ToSlash(rel); {
		case err != nil:
			return err
		case !d.IsDir():
			found[rel] = s.read(t, dir+"/"+rel)
		case rel != ".":
			if list, err := os.ReadDir(p); err == nil && len(list) == 0 {
				found[rel+"/"] = ""
			}
		}
		return nil
	})
	return found
}

// TestForms: what unzip and tar make of an archive of a rare form, file.unzip and
// file.untar make of it too.
func TestForms(t *testing.T) {
	for _, c := range []struct {
		key     string
		forms   []form
		program []string
		alone   map[string]bool // what the program reads otherwise
	}{
		{"file.unzip", zipForms(), []string{"unzip", "-q", "../../b/x"}, map[string]bool{"name beside another name": true}},
		{"file.untar", tarForms(), []string{"tar", "-xf", "../../b/x"}, map[string]bool{"frame of pzstd in front": true}},
	} {
		for _, f := range c.forms {
			t.Run(c.key+"/"+f.name, func(t *testing.T) {
				s := newSite(t)
				s.write(t, map[string]string{"B/x": string(f.data)})
				s.run(t, c.key, m{"archive_path": "B/x", "output_directory": "A/ours"})
				if got := s.tree(t, "A/ours"); !maps.Equal(got, f.files) {
					t.Errorf("unpacked %q, want %q", got, f.files)
				}
				if c.alone[f.name] {
					return
				}
				os.Mkdir(s.path("A/theirs"), 0o755)
				said, err := command(t, s.path("A/theirs"), c.program[0], c.program[1:]...) // the error may be a warning
				if got := s.tree(t, "A/theirs"); !maps.Equal(got, f.files) {
					t.Errorf("%s unpacked %q, want %q: %v, %s", c.program[0], got, f.files, err, said)
				}
			})
		}
	}
}
