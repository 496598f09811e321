package file_test

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"strings"
	"unicode/utf8"
)

// A raw is an entry whose every field can be a lie.
type raw struct {
	name    string // in the directory
	local   string // in the local header; "=" for the same
	content string // unpacked
	store   bool
	flags   uint16
	mode    uint32 // Unix mode in the directory
	// Changes to what is true, in the directory.
	method      uint16
	crc         uint32
	size        int64 // unpacked
	packed      int64
	sharesFirst bool // has the first entry's local header
	localMethod uint16
	localFlags  uint16
	extra       string // in the directory
}

// rawZip writes an archive, as told and not as it should be.
func rawZip(all ...raw) []byte {
	le := binary.LittleEndian
	var b, dir bytes.Buffer
	for _, e := range all {
		packed, method := []byte(e.content), zip.Store
		if !e.store {
			var z bytes.Buffer
			w, _ := flate.NewWriter(&z, flate.BestCompression)
			w.Write(packed)
			w.Close()
			packed, method = z.Bytes(), zip.Deflate
		}
		at := b.Len()
		local := e.local
		if local == "=" || local == "" {
			local = e.name
		}
		crc := crc32.ChecksumIEEE([]byte(e.content))
		if e.sharesFirst {
			at = 0
		} else {
			b.Write(le.AppendUint32(nil, 0x04034b50))
			for _, v := range []uint16{20, e.flags | e.localFlags, method + e.localMethod, 0, 0} {
				b.Write(le.AppendUint16(nil, v))
			}
			for _, v := range []uint32{crc, uint32(len(packed)), uint32(len(e.content))} {
				b.Write(le.AppendUint32(nil, v))
			}
			b.Write(le.AppendUint16(nil, uint16(len(local))))
			b.Write(le.AppendUint16(nil, 0))
			b.WriteString(local)
			b.Write(packed)
		}
		flags := e.flags
		if utf8.ValidString(e.name) {
			flags |= 0x800
		}
		dir.Write(le.AppendUint32(nil, 0x02014b50))
		for _, v := range []uint16{3<<8 | 20, 20, flags, method + e.method, 0, 0} {
			dir.Write(le.AppendUint16(nil, v))
		}
		for _, v := range []uint32{crc + e.crc, uint32(int64(len(packed)) + e.packed), uint32(int64(len(e.content)) + e.size)} {
			dir.Write(le.AppendUint32(nil, v))
		}
		for _, v := range []uint16{uint16(len(e.name)), uint16(len(e.extra)), 0, 0, 0} {
			dir.Write(le.AppendUint16(nil, v))
		}
		dir.Write(le.AppendUint32(nil, e.mode<<16))
		dir.Write(le.AppendUint32(nil, uint32(at)))
		dir.WriteString(e.name + e.extra)
	}
	at := b.Len()
	b.Write(dir.Bytes())
	b.Write(le.AppendUint32(nil, 0x06054b50))
	for _, v := range []uint16{0, 0, uint16(len(all)), uint16(len(all))} {
		b.Write(le.AppendUint16(nil, v))
	}
	b.Write(le.AppendUint32(nil, uint32(dir.Len())))
	b.Write(le.AppendUint32(nil, uint32(at)))
	b.Write(le.AppendUint16(nil, 0))
	return b.Bytes()
}

// A hostileArchive must be refused with words in the error.
type hostileArchive struct {
	name  string
	zip   []byte
	words []string
}

// hostileArchives all have a good entry too, which must not be published.
func hostileArchives() []hostileArchive {
	good := raw{name: "good", content: "good"}
	const symlink, fifo, char, block, socket, setuid = 0o120777, 0o010644, 0o020644, 0o060644, 0o140644, 0o104755
	// An entry in an entry: the data of the first is the second's header.
	inner := rawZip(raw{name: "b", content: "inside", store: true})
	quoted := raw{name: "a", content: string(inner[:30+1+6]), store: true}
	outer := rawZip(good, quoted, raw{name: "b", content: "inside", store: true, sharesFirst: true})
	// Point the third entry into the second.
	start := bytes.Index(outer, inner[:30])
	last := bytes.LastIndex(outer, []byte("\x50\x4b\x01\x02"))
	binary.LittleEndian.PutUint32(outer[last+42:], uint32(start))

	many := []raw{good}
	for i := range 1000 {
		many = append(many, raw{name: fmt.Sprint("e", i), content: "good", sharesFirst: true})
	}
	zeros := strings.Repeat("\x00", 3<<20)
	return []hostileArchive{
		{"symlink", rawZip(good, raw{name: "l", content: "/etc", mode: symlink}), []string{`entry "l"`, "!is a symbolic link"}},
		{"symlink, then a file beneath it", rawZip(good, raw{name: "l", content: "/tmp", mode: symlink}, raw{name: "l/x", content: "x"}), []string{"!is a symbolic link"}},
		{"relative symlink", rawZip(good, raw{name: "l", content: "..", mode: symlink}), []string{"!is a symbolic link"}},
		{"pipe", rawZip(good, raw{name: "p", mode: fifo}), []string{"!is a pipe"}},
		{"device", rawZip(good, raw{name: "d", mode: char}), []string{"!is a device"}},
		{"device with content", rawZip(good, raw{name: "d", mode: char, content: "x"}), []string{"!is a device"}},
		{"block device", rawZip(good, raw{name: "d", mode: block}), []string{"!is a device"}},
		{"socket", rawZip(good, raw{name: "s", mode: socket}), []string{"!is a socket"}},
		{"twice", rawZip(good, raw{name: "good", content: "bad"}), []string{`entry "good"`, "!is there twice"}},
		{"twice with ./", rawZip(good, raw{name: ".//good", content: "bad"}), []string{"!is there twice"}},
		{"name beside another one", rawZip(good, raw{name: "e\xff", content: "x", extra: unicodePath("e\xff", "../e")}), []string{`!has the element ".."`}},
		{"letter case", rawZip(good, raw{name: "GOOD", content: "bad"}), []string{"!differs only in letter case"}},
		{"letter case of a directory", rawZip(raw{name: "d/good"}, raw{name: "D/bad"}), []string{"!differs only in letter case"}},
		{"letter case, Kelvin", rawZip(raw{name: "k"}, raw{name: "\u212a"}), []string{"!differs only in letter case"}},
		{"letter case, long s", rawZip(raw{name: "s"}, raw{name: "ſ"}), []string{"!differs only in letter case"}},
		{"file and directory", rawZip(good, raw{name: "good/x"}), []string{"!is a file and a directory"}},
		{"directory and file", rawZip(raw{name: "d/x"}, raw{name: "d"}), []string{"!is a file and a directory"}},
		{"given directory and file", rawZip(raw{name: "d/"}, raw{name: "d"}), []string{"!is a file and a directory"}},
		{"directory with content", rawZip(good, raw{name: "d/", content: "x"}), []string{"!is a directory with content"}},
		{"encrypted", rawZip(good, raw{name: "e", content: "x", flags: 1}), []string{`entry "e"`, "!is encrypted"}},
		{"strongly encrypted", rawZip(good, raw{name: "e", content: "x", flags: 0x41}), []string{"!is encrypted"}},
		{"AES", rawZip(good, raw{name: "e", content: "x", store: true, method: 99}), []string{"!is encrypted"}},
		{"encrypted in secret", rawZip(good, raw{name: "e", content: "x", localFlags: 1}), []string{"!in its own header"}},
		{"another method", rawZip(good, raw{name: "e", content: "x", store: true, method: 12}), []string{"!packed by method 12"}},
		{"patched", rawZip(good, raw{name: "e", content: "x", flags: 0x20}), []string{"!can be unpacked"}},
		{"another name inside", rawZip(good, raw{name: "e", local: "../e", content: "x"}), []string{`entry "e"`, `!"../e"`}},
		{"another method inside", rawZip(good, raw{name: "e", content: "x", store: true, localMethod: 8}), []string{"!in its own header"}},
		{"one header for all", rawZip(many...), []string{`entry "e0"`, `!"good"`}},
		{"quoted headers", outer, []string{`entry "b"`, `!shares bytes`, `"a"`}},
		{"large", rawZip(good, raw{name: "e", content: zeros}), []string{`entry "e"`, "!more than 200 times"}},
		{"said to be large", rawZip(good, raw{name: "e", content: "x", size: 2 << 30}), []string{`entry "e"`, "!more than 200 times"}},
		{"said to be small", rawZip(good, raw{name: "e", content: zeros, size: -3<<20 + 10}), []string{`entry "e"`, "damaged"}},
		{"shorter than said", rawZip(good, raw{name: "e", content: "x", size: 1}), []string{`entry "e"`, "damaged"}},
		{"longer than the archive", rawZip(good, raw{name: "e", content: "x", packed: 1 << 30}), []string{"damaged"}},
		{"into the directory", rawZip(good, raw{name: "e", content: "x", store: true, packed: 150, size: 150}), []string{"damaged"}},
		{"wrong sum", rawZip(good, raw{name: "e", content: "x", crc: 1}), []string{`entry "e"`, "damaged"}},
		{"no sum", rawZip(good, raw{name: "e", content: "x", crc: -crc32.ChecksumIEEE([]byte("x"))}), []string{`entry "e"`, "damaged"}},
		{"broken data", bytes.Replace(rawZip(good, raw{name: "e", content: "good", local: "="}), []byte("e\x4a"), []byte("e\xff"), 1), []string{`entry "e"`, "damaged"}},
		{"no archive", []byte("this is no archive"), []string{"not a zip archive"}},
		{"nothing", nil, []string{"not a zip archive"}},
		{"gzip", []byte("\x1f\x8b\x08\x00"), []string{"not a zip archive"}},
		{"set-user-id is no matter", rawZip(raw{name: "s", content: "x", mode: setuid}), nil},
	}
}
