package libraries

import (
	"encoding/binary"
	"io"
	"net"
	"os"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pkg/sftp"

	"github.com/courierhq/courier/internal/sftpclient"
)

// again is what a test says when a defect is gone.
const again = "look at this decision again"

// The types of SFTP's packets that the scripted servers use.
const (
	typeInit     = 1
	typeVersion  = 2
	typeOpen     = 3
	typeClose    = 4
	typeRead     = 5
	typeLstat    = 7
	typeOpendir  = 11
	typeReaddir  = 12
	typeRemove   = 13
	typeMkdir    = 14
	typeRmdir    = 15
	typeRealpath = 16
	typeStat     = 17
	typeRename   = 18
	typeStatus   = 101
	typeHandle   = 102
	typeData     = 103
	typeName     = 104
	typeAttrs    = 105

	statusOK      = 0
	statusEOF     = 1
	statusFailure = 4
)

// A script answers the requests of an SFTP client. Body is what comes after the id
// of a request.
type script func(typ byte, body []byte) (answer byte, content []byte)

func u32(v uint32) []byte    { return binary.BigEndian.AppendUint32(nil, v) }
func text(s string) []byte   { return append(u32(uint32(len(s))), s...) }
func status(c uint32) []byte { return append(append(u32(c), text("")...), text("")...) }

// serve speaks SFTP on a connection until it ends.
func serve(conn net.Conn, f script) {
	defer conn.Close()
	var size [4]byte
	for {
		if _, err := io.ReadFull(conn, size[:]); err != nil {
			return
		}
		p := make([]byte, binary.BigEndian.Uint32(size[:]))
		if _, err := io.ReadFull(conn, p); err != nil {
			return
		}
		answer := append([]byte{typeVersion}, u32(3)...)
		if p[0] != typeInit {
			typ, content := f(p[0], p[5:])
			answer = append(append([]byte{typ}, p[1:5]...), content...)
		}
		if _, err := conn.Write(append(u32(uint32(len(answer))), answer...)); err != nil {
			return
		}
	}
}

// pipes returns pkg/sftp's client, and ours, which is the same behind a guard, each with a server of its own.
func pipes(t testing.TB, f script) (*sftp.Client, *sftpclient.Client) {
	t.Helper()
	var ends [2]net.Conn
	for i := range ends {
		ours, theirs := net.Pipe()
		ends[i] = ours
		go serve(theirs, f)
		t.Cleanup(func() { ours.Close() })
	}
	library, err := sftp.NewClientPipe(ends[0], ends[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { library.Close() })
	client, err := sftpclient.NewClient(ends[1], time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return library, client
}

// listing answers the requests of a listing that has one entry.
func listing(name, long string, attrs []byte) script {
	var mu sync.Mutex
	given := make(map[string]bool)
	return func(typ byte, body []byte) (byte, []byte) {
		switch typ {
		case typeOpendir:
			return typeHandle, text("h")
		case typeReaddir:
			mu.Lock()
			defer mu.Unlock()
			if given[string(body)] {
				return typeStatus, status(statusEOF)
			}
			given[string(body)] = true
			return typeName, append(append(append(u32(1), text(name)...), text(long)...), attrs...)
		}
		return typeStatus, status(statusOK)
	}
}

// TestSFTPHostileNames: ReadDir returns the last part of a name, so nobody can
// tell that the server has sent another.
func TestSFTPHostileNames(t *testing.T) {
	const name = "../../etc/passwd"
	library, _ := pipes(t, listing(name, "", u32(0)))
	found, err := library.ReadDir(".")
	if err != nil || len(found) != 1 || found[0].Name() != "passwd" {
		t.Errorf("pkg/sftp lists %v, %v for %q, not passwd: %s", found, err, name, again)
	}
	_, client := pipes(t, listing(name, "", u32(0)))
	var ours []string
	err = client.List(t.Context(), ".", 1<<20, func(e sftpclient.Entry) error { ours = append(ours, e.Name); return nil }, func(int) {})
	if err != nil || len(ours) != 1 || ours[0] != name {
		t.Errorf("our client lists %q, %v", ours, err)
	}
}

// TestSFTPRemoveOfDirectories: Remove of what the server does not remove as a file
// removes it as a directory.
func TestSFTPRemoveOfDirectories(t *testing.T) {
	var mu sync.Mutex
	asked := 0
	library, client := pipes(t, func(typ byte, _ []byte) (byte, []byte) {
		if typ != typeRmdir {
			return typeStatus, status(statusFailure)
		}
		mu.Lock()
		defer mu.Unlock()
		asked++
		return typeStatus, status(statusOK)
	})
	if err := client.Remove(t.Context(), "empty"); err == nil || asked != 0 {
		t.Errorf("our client removes a directory as a file: %v", err)
	}
	if err := library.Remove("empty"); err != nil || asked != 1 {
		t.Errorf("pkg/sftp's Remove asks %d times for the removal of a directory, %v: %s", asked, err, again)
	}
}

// TestSFTPNothing: a success in place of the attributes of a file is returned as
// nothing at all, without an error.
func TestSFTPNothing(t *testing.T) {
	library, client := pipes(t, func(byte, []byte) (byte, []byte) { return typeStatus, status(statusOK) })
	if info, err := library.Lstat("x"); info != nil || err != nil {
		t.Errorf("pkg/sftp's Lstat returns %v, %v for a success without attributes: %s", info, err, again)
	}
	if a, err := client.Lstat(t.Context(), "x"); err == nil {
		t.Errorf("our client returns %+v for a success without attributes", a)
	}
}

// TestSFTPEndlessRead: data of no length in answer to a read makes ReadAt ask for
// ever.
func TestSFTPEndlessRead(t *testing.T) {
	const most = 1000
	var mu sync.Mutex
	reads := 0
	// count returns how many there were, and begins to count anew.
	count := func() int {
		mu.Lock()
		defer mu.Unlock()
		n := reads
		reads = 0
		return n
	}
	var server net.Conn
	f := func(typ byte, _ []byte) (byte, []byte) {
		switch typ {
		case typeOpen:
			return typeHandle, text("h")
		case typeStat, typeLstat, 8: // fstat
			return typeAttrs, append(u32(1), 0, 0, 0, 0, 0, 0, 0, 10)
		case typeRead:
			mu.Lock()
			defer mu.Unlock()
			if reads++; reads == most {
				server.Close()
			}
			return typeData, u32(0)
		}
		return typeStatus, status(statusOK)
	}
	var ours net.Conn
	ours, server = net.Pipe()
	go serve(server, f)
	defer ours.Close()
	library, err := sftp.NewClientPipe(ours, ours)
	if err != nil {
		t.Fatal(err)
	}
	defer library.Close()
	file, err := library.Open("x")
	if err != nil {
		t.Fatal(err)
	}
	_, err = file.ReadAt(make([]byte, 10), 0)
	if n := count(); err == nil || n < most {
		t.Errorf("pkg/sftp's ReadAt ends after %d reads without data, %v: %s", n, err, again)
	}
	_, client := pipes(t, f)
	x, err := client.Open(t.Context(), "x", os.O_RDONLY)
	if err != nil {
		t.Fatal(err)
	}
	r := sftpclient.Reading{Workers: sftpclient.OneWorker(x), Size: 10, To: io.Discard, Progress: func(int64) {}}
	err = r.Run(t.Context())
	if n := count(); err == nil || n > 2 {
		t.Errorf("our client ends after %d reads without data: %v", n, err)
	}
}

// FuzzSFTPEntries has both clients read an entry of a listing and compares what they
// make of it: the guard adds what pkg/sftp leaves out, and changes nothing else.
func FuzzSFTPEntries(f *testing.F) {
	f.Add("name", "-rw-r--r-- 1 0 0 5 Jan 1 00:00 name", uint32(1|4|8), uint64(5), uint32(0o100644), uint32(1e9), false)
	f.Add("d", "drwx", uint32(4), uint64(0), uint32(0o040755), uint32(0), false)
	f.Add("l", "lrwx", uint32(1|2|4|8), uint64(1)<<40, uint32(0o120777), uint32(7), false)
	f.Add("cut", "", uint32(1|8), uint64(9), uint32(0), uint32(3), true)
	f.Fuzz(func(t *testing.T, name, long string, flags uint32, size uint64, mode, mtime uint32, cut bool) {
		if name == "" || name == "." || name == ".." || strings.HasSuffix(name, "/") || strings.ContainsRune(name, 0) {
			return // pkg/sftp leaves these out, or alters them
		}
		flags &= 1 | 2 | 4 | 8
		attrs := u32(flags)
		if flags&1 != 0 {
			attrs = binary.BigEndian.AppendUint64(attrs, size)
		}
		if flags&2 != 0 {
			attrs = append(append(attrs, u32(0)...), u32(0)...)
		}
		if flags&4 != 0 {
			attrs = append(attrs, u32(mode)...)
		}
		if flags&8 != 0 {
			attrs = append(append(attrs, u32(mtime)...), u32(mtime)...)
		}
		if cut {
			attrs = attrs[:len(attrs)-1]
		}
		s := listing(name, long, attrs)
		library, _ := pipes(t, s)
		theirs, theirErr := library.ReadDir(".")
		_, client := pipes(t, listing(name, long, attrs))
		var ours []sftpclient.Entry
		ourErr := client.List(t.Context(), ".", 1<<20, func(e sftpclient.Entry) error { ours = append(ours, e); return nil }, func(int) {})
		if (theirErr == nil) != (ourErr == nil) {
			t.Fatalf("pkg/sftp: %v; ours: %v", theirErr, ourErr)
		}
		if ourErr != nil {
			return
		}
		if len(ours) != 1 || len(theirs) != 1 {
			t.Fatalf("%d and %d entries", len(theirs), len(ours))
		}
		a, b := ours[0], theirs[0]
		if path.Base(a.Name) != b.Name() {
			t.Errorf("names %q and %q", b.Name(), a.Name)
		}
		if n, err := a.Attrs.FileSize(); err == nil && n != b.Size() {
			t.Errorf("sizes %d and %d", b.Size(), n)
		}
		if flags&8 != 0 && !a.Attrs.Modified().Equal(b.ModTime()) {
			t.Errorf("times %v and %v", b.ModTime(), a.Attrs.Modified())
		}
		if flags&4 != 0 && mode&sftpclient.ModeType != 0 && a.Attrs.IsDir() != b.IsDir() {
			t.Errorf("directories %v and %v", b.IsDir(), a.Attrs.IsDir())
		}
		if flags&4 != 0 && a.Attrs.Mode&0o777 != uint32(b.Mode().Perm()) {
			t.Errorf("modes %o and %o", b.Mode().Perm(), a.Attrs.Mode&0o777)
		}
	})
}
