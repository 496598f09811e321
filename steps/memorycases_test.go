package steps_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/courierhq/courier/internal/test/ftpserver"
	"github.com/courierhq/courier/internal/test/hostile"
	"github.com/courierhq/courier/internal/test/sftpserver"
)

// hostileCases are all of them, by family.
func hostileCases() []hostileCase {
	var all []hostileCase
	for _, family := range [][]hostileCase{archiveCases(), fileCases(), pgpCases(), sftpCases(), ftpCases(), httpCases(), azureCases(), execCases()} {
		all = append(all, family...)
	}
	return all
}

// file is a source of one file called in.
func file(write func(w io.Writer) error) source {
	return source{files: func(dir string) error {
		f, err := os.Create(filepath.Join(dir, "in"))
		if err != nil {
			return err
		}
		defer f.Close()
		return write(f)
	}}
}

func text(s func() string) source {
	return file(func(w io.Writer) error { _, err := io.WriteString(w, s()); return err })
}

// repeat writes s many times through a compressor.
func repeat(w io.WriteCloser, s string, times int) error {
	many := min(times, max(1, 1<<20/len(s)))
	block := strings.Repeat(s, many)
	for range times / many {
		if _, err := io.WriteString(w, block); err != nil {
			return err
		}
	}
	return w.Close()
}

func archiveCases() []hostileCase {
	const n = 10_000
	limit := []string{"MaxFiles in file.Options", "MaxPathBytes in file.Options", "MaxRatio in file.Options"}
	var all []hostileCase
	for i, name := range []string{"own chain", "branch at every level", "long names", "one chain"} {
		all = append(all,
			hostileCase{"unzip, " + name, "file.unzip", object{"archive_path": "in"}, i == 1, limit,
				file(func(w io.Writer) error { _, err := w.Write(hostile.Trees(n)[i].Zip()); return err })},
			hostileCase{"untar, " + name, "file.untar", object{"archive_path": "in"}, i == 0, limit,
				file(func(w io.Writer) error { _, err := w.Write(hostile.Trees(n)[i].Tar()); return err })})
	}
	tars := func(h tar.Header, times int) source {
		return file(func(w io.Writer) error {
			g := gzip.NewWriter(w)
			t := tar.NewWriter(g)
			for i := range times {
				one := h
				one.Name = fmt.Sprintf("%d%s", i, h.Name)
				if err := t.WriteHeader(&one); err != nil {
					return err
				}
			}
			t.Close()
			return g.Close()
		})
	}
	long := strings.Repeat("n", 250) + "/"
	return append(all,
		hostileCase{"untar, records of a MiB", "file.untar", object{"archive_path": "in"}, false, append(limit, "damaged"),
			tars(tar.Header{PAXRecords: map[string]string{"COURIER.x": strings.Repeat("x", 1<<19)}}, 2000)},
		hostileCase{"untar, flat with long paths", "file.untar", object{"archive_path": "in"}, false, nil,
			tars(tar.Header{Name: "/" + strings.Repeat(long, 10) + "f", Format: tar.FormatGNU}, 900)},
		hostileCase{"unzip, a directory of small entries", "file.unzip", object{"archive_path": "in"}, false, limit,
			file(func(w io.Writer) error { _, err := w.Write(hostile.Flat(220_000).Zip()); return err })},
	)
}

func fileCases() []hostileCase {
	sum := strings.Repeat("0", 64)
	return []hostileCase{
		{"gunzip, bomb", "file.gunzip", object{"source_path": "in", "output_path": "out"}, false, []string{"MaxRatio"},
			file(func(w io.Writer) error { return repeat(gzip.NewWriter(w), "\x00", 1<<30) })},
		{"unzstd, bomb", "file.unzstd", object{"source_path": "in", "output_path": "out"}, false, []string{"MaxRatio"},
			file(func(w io.Writer) error {
				z, err := zstd.NewWriter(w, zstd.WithWindowSize(128<<20))
				if err != nil {
					return err
				}
				return repeat(z, "\x00", 1<<30)
			})},
		{"unzstd, large window", "file.unzstd", object{"source_path": "in", "output_path": "out"}, false, nil,
			file(func(w io.Writer) error {
				z, err := zstd.NewWriter(w, zstd.WithWindowSize(128<<20), zstd.WithEncoderConcurrency(1))
				if err != nil {
					return err
				}
				return repeat(z, noise(1<<20), 160)
			})},
		{"verify, long names", "file.verify", object{"manifest_path": "in"}, true, []string{"MaxPathBytes", "MaxMatches"},
			text(func() string { return strings.Repeat(sum+"  "+strings.Repeat("n/", 7000)+"\n", 6_000) })},
		{"verify, empty lines", "file.verify", object{"manifest_path": "in"}, false, []string{"lines"},
			text(func() string { return strings.Repeat("\n", 1_000_000) })},
		{"join, empty parts", "file.join", object{"manifest_path": "in", "output_path": "out"}, true, []string{"MaxFiles"},
			text(func() string {
				return `{"name":"f","size":1,"sha256":"` + sum + `","parts":[{}` + strings.Repeat(",{}", 3_000_000) + "]}"
			})},
		{"join, deep", "file.join", object{"manifest_path": "in", "output_path": "out"}, false, []string{"damaged"},
			text(func() string { return `{"name":` + strings.Repeat("[", 5_000_000) })},
		{"list, long paths", "file.list", object{"path": ".", "recursive": true}, false, []string{"MaxPathBytes", "MaxMatches", "more than"},
			source{files: func(dir string) error { return longPaths(dir, 25_000) }}},
		{"zip, long paths", "file.zip", object{"source_path": "deep", "output_path": "out"}, false, []string{"MaxFiles", "MaxPathBytes", "bytes"},
			source{files: func(dir string) error { return longPaths(dir, 12_000) }}},
	}
}

// longPaths makes empty files with paths of almost 4 kB.
func longPaths(dir string, n int) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	deep := "deep" + strings.Repeat("/"+strings.Repeat("d", 250), 15)
	if err := root.MkdirAll(deep, 0o755); err != nil {
		return err
	}
	at, err := root.OpenRoot(deep)
	if err != nil {
		return err
	}
	defer at.Close()
	for i := range n {
		f, err := at.Create(fmt.Sprint(i))
		if err != nil {
			return err
		}
		f.Close()
	}
	return nil
}

// pgpPacket is an OpenPGP packet, said to be n bytes long.
func pgpPacket(tag byte, n int, body string) string {
	return string([]byte{0xC0 | tag, 255, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}) + body
}

// deflated is a compressed packet with s many times in it.
func deflated(s string, times int) string {
	var b bytes.Buffer
	b.WriteString("\x02")
	if err := repeat(zlib.NewWriter(&b), s, times); err != nil {
		panic(err)
	}
	return pgpPacket(8, b.Len(), b.String())
}

func pgpCases() []hostileCase {
	verify, decrypt := object{"source_path": "in", "require": "valid"}, object{"source_path": "in"}
	const lots = 1 << 30
	nested := func() string {
		s := deflated("\x00", 1<<28)
		for range 60 {
			s = deflated(s, 1)
		}
		return s
	}
	return []hostileCase{
		{"verify, bomb", "pgp.verify", object{"source_path": "in", "output_path": "out", "require": "valid"}, true, []string{"damaged"},
			text(func() string {
				return deflated(pgpPacket(11, lots, "b\x00\x00\x00\x00\x00")+strings.Repeat("\x00", 1<<20), 32)
			})},
		{"verify, bomb of signatures", "pgp.verify", verify, false, []string{"damaged", "input", "signature"},
			text(func() string { return deflated(pgpPacket(2, lots, "\x04"), 1<<22) })},
		{"verify, bomb of markers", "pgp.verify", verify, false, []string{"holds no content"},
			text(func() string { return deflated("\xca\x03PGP", 1<<22) })},
		{"verify, nested", "pgp.verify", verify, false, []string{"damaged", "input", "OpenPGP"}, text(nested)},
		{"verify, long packets", "pgp.verify", verify, false, []string{"one complete message"},
			text(func() string { return strings.Repeat(pgpPacket(2, 16<<20, strings.Repeat("\x04", 16<<20)), 6) })},
		{"verify, text of one line", "pgp.verify", verify, false, []string{"line", "input"},
			text(func() string {
				return "-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA256\n\n" + strings.Repeat("x", 100<<20)
			})},
		{"decrypt, bomb", "pgp.decrypt", decrypt, false, []string{"input"}, text(func() string { return deflated("\x00", 1<<26) })},
		{"decrypt, said to be long", "pgp.decrypt", decrypt, false, []string{"input"}, text(func() string { return pgpPacket(1, 0xffffffff, strings.Repeat("\x03", 1<<20)) })},
		{"decrypt, recipients", "pgp.decrypt", decrypt, false, []string{"input"},
			text(func() string { return strings.Repeat(pgpPacket(1, 300, strings.Repeat("\x03", 300)), 400_000) })},
		{"decrypt, long before the data", "pgp.decrypt", decrypt, false, []string{"input"},
			text(func() string { return pgpPacket(10, 200<<20, strings.Repeat("\x00", 200<<20)) })},
		{"decrypt, endless header", "pgp.decrypt", decrypt, false, []string{"input"},
			text(func() string { return "-----BEGIN PGP MESSAGE-----\n" + strings.Repeat("Comment: a\n", 20_000_000) })},
		{"decrypt, endless line", "pgp.decrypt", decrypt, false, []string{"input"},
			text(func() string { return "-----BEGIN PGP MESSAGE-----\n\n" + strings.Repeat("yv8A", 50_000_000) })},
	}
}

// sftpTree is a server with directories in directories, and files with long names
// in each. It answers each directory's first part of the listing only.
func sftpTree(files, dirs int, name func(i int) string) sftpserver.Script {
	var mu sync.Mutex
	listed := make(map[string]bool)
	folder := &sftpserver.Attrs{Mode: os.ModeDir | 0o700, ModTime: time.Unix(0, 0)}
	return sftpserver.Script{Answer: func(r sftpserver.Request, w io.Writer) bool {
		switch r.Method {
		case "stat", "lstat":
			w.Write(r.Attributes(*folder))
			return true
		case "readdir":
			mu.Lock()
			before := listed[r.Handle]
			listed[r.Handle] = true
			mu.Unlock()
			if before {
				return false
			}
			var all []sftpserver.Entry
			for i := range dirs {
				all = append(all, sftpserver.Entry{Name: "d" + name(i), Attrs: folder})
			}
			for i := range files {
				all = append(all, sftpserver.Entry{Name: name(i)})
			}
			w.Write(r.Names(all...))
			return true
		}
		return false
	}}
}

// sftpList is a server with one directory that goes on for ever.
func sftpList(name func(i int) string) sftpserver.Script {
	var mu sync.Mutex
	i := 0
	return sftpserver.Script{Answer: func(r sftpserver.Request, w io.Writer) bool {
		if r.Method != "readdir" {
			return false
		}
		mu.Lock()
		defer mu.Unlock()
		var all []sftpserver.Entry
		for range 100 {
			all = append(all, sftpserver.Entry{Name: name(i)})
			i++
		}
		w.Write(r.Names(all...))
		return true
	}}
}

func longName(i int) string { return fmt.Sprintf("%0200d", i) }

func sftpCases() []hostileCase {
	list := object{"connection_id": "sftp", "remote_path": "/", "pattern": "**"}
	limit := []string{"more than 100000 files", "longer than", "directories deep"}
	cases := []hostileCase{
		{"sftp.list, long names", "sftp.list", list, true, limit, source{sftp: sftpList(longName)}},
		{"sftp.list, short names", "sftp.list", list, false, limit, source{sftp: sftpList(func(i int) string { return fmt.Sprint(i) })}},
		{"sftp.list, bad names", "sftp.list", list, false, limit, source{sftp: sftpList(func(i int) string { return "../" + longName(i) })}},
		{"sftp.list, tree", "sftp.list", list, false, limit, source{sftp: sftpTree(90, 3, longName)}},
		{"sftp.list, directories", "sftp.list", list, false, limit, source{sftp: sftpTree(0, 100, longName)}},
		{"sftp.download, tree", "sftp.download", object{"connection_id": "sftp", "remote_path": "/", "pattern": "**"}, false, limit, source{sftp: sftpTree(90, 3, longName)}},
		{"sftp.delete, list", "sftp.delete", object{"connection_id": "sftp", "remote_path": "/", "pattern": "**"}, false, limit, source{sftp: sftpList(longName)}},
		{"sftp.rmdir, tree", "sftp.rmdir", object{"connection_id": "sftp", "remote_path": "/x", "recursive": true}, false, []string{"directories are nested more than"}, source{sftp: sftpTree(90, 3, longName)}},
	}
	return cases
}

// removes is a server on which everything is a directory that can be removed.
func removes(list func(dir string, c net.Conn)) source {
	return source{ftp: ftpserver.Options{Answer: func(c *ftpserver.Conn, v, argument string) bool {
		switch v {
		case "MLST":
			c.Reply("250-here", " type=dir;modify=20240506070809; "+argument, "250 end")
		case "DELE", "RMD":
			c.Reply("250 gone")
		case "MLSD":
			c.Content(v, func(conn net.Conn) error { list(argument, conn); return nil })
		default:
			return false
		}
		return true
	}}}
}

// ftpSends is a server whose listings are what write sends.
func ftpSends(verb string, write func(dir string, c net.Conn)) source {
	return source{ftp: ftpserver.Options{NoMLSD: verb == "LIST", Answer: func(c *ftpserver.Conn, v, argument string) bool {
		if v != verb {
			return false
		}
		c.Content(verb, func(conn net.Conn) error { write(argument, conn); return nil })
		return true
	}}}
}

func ftpCases() []hostileCase {
	list := object{"connection_id": "ftp", "pattern": "**"}
	limit := []string{"more than 100000 files", "longer than", "directories deep"}
	endless := func(line func(i int) string) func(string, net.Conn) {
		return func(_ string, c net.Conn) {
			for i := 0; ; i++ {
				if _, err := io.WriteString(c, line(i)+"\r\n"); err != nil {
					return
				}
			}
		}
	}
	tree := func(_ string, c net.Conn) {
		var b strings.Builder
		for i := range 3 {
			fmt.Fprintf(&b, "type=dir;modify=20240506070809; d%s\r\n", longName(i))
		}
		for i := range 90 {
			fmt.Fprintf(&b, "type=file;size=1;modify=20240506070809; %s\r\n", longName(i))
		}
		io.WriteString(c, b.String())
	}
	reply := func(verb, text string) source {
		return source{ftp: ftpserver.Options{Answer: func(c *ftpserver.Conn, v, _ string) bool {
			if v == verb {
				for range 100_000 {
					c.Raw(text)
				}
			}
			return v == verb
		}}}
	}
	return []hostileCase{
		{"ftp.list, long names", "ftp.list", list, false, limit, ftpSends("MLSD", endless(func(i int) string { return "type=file;size=1; " + longName(i) }))},
		{"ftp.list, LIST", "ftp.list", list, false, limit, ftpSends("LIST", endless(func(i int) string { return "-rw-r--r-- 1 a b 1 May  6 2024 " + longName(i) }))},
		{"ftp.list, nonsense", "ftp.list", list, false, limit, ftpSends("LIST", endless(longName))},
		{"ftp.list, one line", "ftp.list", list, true, limit, ftpSends("MLSD", func(_ string, c net.Conn) { pour(c, strings.Repeat("x", 64<<10)) })},
		{"ftp.list, tree", "ftp.list", list, false, limit, ftpSends("MLSD", tree)},
		{"ftp.rmdir, tree", "ftp.rmdir", object{"connection_id": "ftp", "remote_path": "x", "recursive": true}, false, []string{"too many directories in directories"}, removes(tree)},
		{"ftp.list, endless reply", "ftp.list", list, false, []string{"more than"}, reply("FEAT", "211-a\r\n"+strings.Repeat(strings.Repeat("y", 1000)+"\r\n", 100))},
		{"ftp.list, endless greeting", "ftp.list", list, false, []string{"8 KiB", "has no code"}, source{ftp: ftpserver.Options{Greeting: "220" + strings.Repeat("x", 1<<20)}}},
	}
}

const httpOK = "HTTP/1.1 200 OK\r\n"

func httpSays(head string, body func(c net.Conn)) source {
	return source{http: func(c net.Conn) { io.WriteString(c, head); body(c) }}
}

func httpCases() []hostileCase {
	get := object{"url": "http://web.example.com/x"}
	most := object{"url": "http://web.example.com/x", "max_bytes": 1 << 30}
	zeros := func(w io.Writer) { repeat(gzip.NewWriter(w), "\x00", 1<<30) }
	return []hostileCase{
		{"http, endless body", "http.request", get, true, []string{"max_bytes"}, httpSays(httpOK+"\r\n", func(c net.Conn) { pour(c, strings.Repeat("x", 64<<10)) })},
		{"http, as much as allowed", "http.request", most, false, []string{"max_bytes", "bytes"}, httpSays(httpOK+"\r\n", func(c net.Conn) { pour(c, strings.Repeat("x", 64<<10)) })},
		{"http, gzip bomb", "http.request", get, false, []string{"max_bytes"}, httpSays(httpOK+"Content-Encoding: gzip\r\n\r\n", func(c net.Conn) { zeros(c) })},
		{"http, small values", "http.request", get, false, nil, httpSays(httpOK+"Content-Type: application/json\r\n\r\n", func(c net.Conn) {
			io.WriteString(c, "[[]"+strings.Repeat(",[]", 300_000)+"]")
		})},
		{"http, deep", "http.request", get, false, []string{"nested", "not valid"}, httpSays(httpOK+"Content-Type: application/json\r\n\r\n", func(c net.Conn) {
			io.WriteString(c, strings.Repeat("[", 9_000)+strings.Repeat("]", 9_000))
		})},
		{"http, endless headers", "http.request", get, false, []string{"header"}, httpSays(httpOK, func(c net.Conn) { pour(c, "X-A: "+strings.Repeat("b", 1000)+"\r\n") })},
		{"http, endless header", "http.request", get, false, []string{"header"}, httpSays(httpOK+"X: ", func(c net.Conn) { pour(c, strings.Repeat("b", 64<<10)) })},
		{"http, interim responses", "http.request", get, false, []string{"http"}, httpSays("", func(c net.Conn) { pour(c, "HTTP/1.1 103 Early Hints\r\nX: y\r\n\r\n") })},
		{"http, long refusal", "http.request", get, false, []string{"500"}, httpSays("HTTP/1.1 500 x\r\n\r\n", func(c net.Conn) { pour(c, strings.Repeat("x", 64<<10)) })},
	}
}

func azureCases() []hostileCase {
	call := object{"connection_id": "app", "function_name": "f"}
	json := httpOK + "Content-Type: application/json\r\n\r\n"
	return []hostileCase{
		{"azure, endless body", "azure_function.execute", call, true, []string{"bytes"}, httpSays(json, func(c net.Conn) { pour(c, strings.Repeat("1", 64<<10)) })},
		{"azure, deep", "azure_function.execute", call, true, []string{"nested"}, httpSays(json, func(c net.Conn) {
			io.WriteString(c, strings.Repeat("[", 9_000)+strings.Repeat("]", 9_000))
		})},
		{"azure, small values", "azure_function.execute", call, false, nil, httpSays(json, func(c net.Conn) {
			io.WriteString(c, "[[]"+strings.Repeat(",[]", 300_000)+"]")
		})},
		{"azure, endless headers", "azure_function.execute", call, false, []string{"header"}, httpSays(httpOK, func(c net.Conn) { pour(c, "X-A: "+strings.Repeat("b", 1000)+"\r\n") })},
	}
}

func execCases() []hostileCase {
	run := func(script string) object { return object{"program": "sh", "args": []string{"-c", script}} }
	return []hostileCase{
		{"exec, long output", "exec.run", run("head -c 30000000 /dev/zero; head -c 30000000 /dev/zero >&2; exit 3"), true, []string{"3"}, source{}},
		{"exec, long line", "exec.run", run("yes | tr -d '\\n' | head -c 300000000; exit 3"), false, []string{"3"}, source{}},
		{"exec, no UTF-8", "exec.run", run("yes | tr 'y\\n' '\\377\\377' | head -c 300000000; exit 3"), false, []string{"3"}, source{}},
	}
}
