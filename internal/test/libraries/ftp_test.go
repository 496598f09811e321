package libraries

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jlaffaye/ftp"

	"github.com/courierhq/courier/internal/ftpclient"
	"github.com/courierhq/courier/internal/test/ftpdtest"
)

// A partner is an FTP server on loopback that answers by a script.
type partner struct {
	addr string

	mu   sync.Mutex
	said []string // commands
}

// commands returns what the server has been asked.
func (p *partner) commands() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.said)
}

// newPartner starts a server. Answer returns the lines of the reply to a command, or
// "" for the usual one.
func newPartner(t *testing.T, answer func(command string) string) *partner {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	p := &partner{addr: l.Addr().String()}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go p.serve(conn, answer)
		}
	}()
	return p
}

func (p *partner) serve(conn net.Conn, answer func(string) string) {
	defer conn.Close()
	fmt.Fprint(conn, "220 here\r\n")
	usual := map[string]string{"USER": "331 password\r\n", "PASS": "230 in\r\n", "QUIT": "221 bye\r\n", "FEAT": "502 no\r\n", "PWD": "257 \"/\"\r\n"}
	in := bufio.NewScanner(conn)
	for in.Scan() {
		p.mu.Lock()
		p.said = append(p.said, in.Text())
		p.mu.Unlock()
		reply := answer(in.Text())
		if verb, _, _ := strings.Cut(in.Text(), " "); reply == "" {
			if reply = usual[verb]; reply == "" {
				reply = "200 ok\r\n"
			}
		}
		fmt.Fprint(conn, reply)
	}
}

// library logs in with jlaffaye/ftp.
func library(t *testing.T, addr, user, password string) *ftp.ServerConn {
	t.Helper()
	c, err := ftp.Dial(addr, ftp.DialWithTimeout(time.Minute))
	if err == nil {
		err = c.Login(user, password)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Quit() })
	return c
}

// ours logs in with the client of this module.
func ours(t *testing.T, addr, user, password string, active bool) *ftpclient.Conn {
	t.Helper()
	c, err := ftpclient.Dial(t.Context(), ftpclient.Config{
		Addr: addr, Username: user, Password: password, Security: ftpclient.SecurityNone, Active: active,
		ConnectTimeout: time.Minute, OperationTimeout: time.Minute, MaxListing: 1 << 20,
		Redact: strings.Clone, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.End(ftpclient.ErrClosed) })
	return c
}

// TestFTPUnaskedReplies: a reply that nothing has asked for is taken for the one to
// the next command, so that the size of one file is returned for another.
func TestFTPUnaskedReplies(t *testing.T) {
	sizes := func(command string) string {
		switch command {
		case "SIZE a":
			return "213 1\r\n213 1\r\n"
		case "SIZE b":
			return "213 2\r\n"
		}
		return ""
	}
	c := library(t, newPartner(t, sizes).addr, "ada", "x")
	c.FileSize("a")
	if n, err := c.FileSize("b"); n != 1 || err != nil {
		t.Errorf("jlaffaye/ftp returns %d, %v for the size of b, not that of a: %s", n, err, again)
	}
	o := ours(t, newPartner(t, sizes).addr, "ada", "x", false)
	o.Stat(t.Context(), "a")
	if n, err := o.Stat(t.Context(), "b"); err == nil && n.Size != 2 {
		t.Errorf("our client returns %d for the size of b", n.Size)
	}
}

// TestFTPNoActiveMode: the server is never told where to connect to, and the source
// of the library has no command for it.
func TestFTPNoActiveMode(t *testing.T) {
	refuses := func(command string) string {
		if strings.HasPrefix(command, "EPSV") || strings.HasPrefix(command, "PASV") {
			return "502 active only\r\n"
		}
		return ""
	}
	isPort := func(c string) bool { return strings.HasPrefix(c, "PORT ") || strings.HasPrefix(c, "EPRT ") }
	p := newPartner(t, refuses)
	if _, err := library(t, p.addr, "ada", "x").Retr("f"); err == nil || slices.ContainsFunc(p.commands(), isPort) {
		t.Errorf("jlaffaye/ftp retrieves by %q, %v: %s", p.commands(), err, again)
	}
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/jlaffaye/ftp").Output()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(dir)), "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("the source of the library is not to be found in %s: %v", dir, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(file, "_test.go") && (bytes.Contains(text, []byte(`"EPRT`)) || bytes.Contains(text, []byte(`"PORT`))) {
			t.Errorf("jlaffaye/ftp has active mode, in %s: %s", file, again)
		}
	}
	p = newPartner(t, func(command string) string {
		if isPort(command) {
			return "501 that is all\r\n"
		}
		return refuses(command)
	})
	if ours(t, p.addr, "ada", "x", true).Retrieve(t.Context(), "f", 0, func(io.Reader) error { return nil }); !slices.ContainsFunc(p.commands(), isPort) {
		t.Errorf("our client retrieves by %q", p.commands())
	}
}

// contentServer starts a server that sends content to whoever lists or retrieves, and
// then says how the transfer has ended.
func contentServer(t *testing.T, content, end string) *partner {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return newPartner(t, func(command string) string {
		switch verb, _, _ := strings.Cut(command, " "); verb {
		case "EPSV":
			return fmt.Sprintf("229 here (|||%d|)\r\n", l.Addr().(*net.TCPAddr).Port)
		case "LIST", "RETR":
			conn, err := l.Accept()
			if err != nil {
				return "425 no connection\r\n"
			}
			io.WriteString(conn, content)
			conn.Close()
			return "150 here\r\n" + end + "\r\n"
		}
		return ""
	})
}

// TestFTPUnreadableLines: List leaves out the lines of a listing that the library
// cannot read, and says nothing about them.
func TestFTPUnreadableLines(t *testing.T) {
	const listing = "-rw-r--r-- 1 ada ada 5 Jan 1 2020 a\r\nthis is no entry\r\n"
	entries, err := library(t, contentServer(t, listing, "226 done").addr, "ada", "x").List("")
	if err != nil || len(entries) != 1 {
		t.Errorf("jlaffaye/ftp lists %d entries, %v, for a listing with a line that it cannot read: %s", len(entries), err, again)
	}
	var names []string
	unknown, err := ours(t, contentServer(t, listing, "226 done").addr, "ada", "x", false).List(t.Context(), "", false,
		func(e ftpclient.Entry) error { names = append(names, e.Name); return nil })
	if err != nil || unknown != 1 || len(names) != 1 {
		t.Errorf("our client lists %q and %d unknown lines, %v", names, unknown, err)
	}
}

// TestFTPCutTransfer: reading a file that the server has cut off ends without an
// error. Only Close returns it.
func TestFTPCutTransfer(t *testing.T) {
	r, err := library(t, contentServer(t, "half", "426 cut off").addr, "ada", "x").Retr("f")
	if err != nil {
		t.Fatal(err)
	}
	content, readErr := io.ReadAll(r)
	if closeErr := r.Close(); string(content) != "half" || readErr != nil || closeErr == nil {
		t.Errorf("jlaffaye/ftp reads %q, %v, and closes with %v, of a file that was cut off: %s", content, readErr, closeErr, again)
	}
	err = ours(t, contentServer(t, "half", "426 cut off").addr, "ada", "x", false).Retrieve(t.Context(), "f", 0,
		func(r io.Reader) error { _, err := io.Copy(io.Discard, r); return err })
	if err == nil {
		t.Error("our client retrieves a file that was cut off without an error")
	}
}

// TestFTPNoContext: no method of a connection takes a context, so nothing ends a call
// to a server that does not answer.
func TestFTPNoContext(t *testing.T) {
	ctx := reflect.TypeFor[context.Context]()
	takesContext := func(typ reflect.Type) (names []string) {
		for m := range typ.Methods() {
			for in := range m.Type.Ins() {
				if in == ctx {
					names = append(names, m.Name)
				}
			}
		}
		return names
	}
	if names := takesContext(reflect.TypeFor[*ftp.ServerConn]()); len(names) > 0 {
		t.Errorf("jlaffaye/ftp takes a context in %q: %s", names, again)
	}
	if names := takesContext(reflect.TypeFor[*ftpclient.Conn]()); !slices.Contains(names, "Retrieve") || !slices.Contains(names, "List") {
		t.Errorf("our client takes a context in %q only", names)
	}
}

// servers are those that are installed.
var servers = map[string]func(testing.TB, ftpdtest.Security) *ftpdtest.Server{
	"vsftpd": ftpdtest.VSFTPD, "proftpd": ftpdtest.ProFTPD, "pure-ftpd": ftpdtest.PureFTPD,
}

// TestFTPSameServers has both clients look at the same files on real servers, and
// read what the other has written.
func TestFTPSameServers(t *testing.T) {
	for name, start := range servers {
		t.Run(name, func(t *testing.T) {
			s := start(t, ftpdtest.Plain)
			a, b := library(t, s.Addr, s.User, s.Password), ours(t, s.Addr, s.User, s.Password, false)
			contents := map[string]string{"empty": "", "with space": "x", "é.txt": strings.Repeat("0123456789", 50_000), "-a": "dash"}
			for name, content := range contents {
				if err := s.Write(name, []byte(content)); err != nil {
					t.Fatal(err)
				}
			}
			for name, content := range contents {
				read(t, a, b, path.Join(s.Path, name), content)
			}
			compareLists(t, a, b, s.Path)
			written := path.Join(s.Path, "by ours")
			if err := b.Store(t.Context(), written, false, func(w io.Writer) error { _, err := io.WriteString(w, "ours"); return err }); err != nil {
				t.Error(err)
			}
			read(t, a, b, written, "ours")
			written = path.Join(s.Path, "by the library")
			if err := a.Stor(written, strings.NewReader("theirs")); err != nil {
				t.Error(err)
			}
			read(t, a, b, written, "theirs")
			if err := b.Rename(t.Context(), written, written+"2"); err != nil {
				t.Error(err)
			}
			if err := a.Delete(written + "2"); err != nil {
				t.Error(err)
			}
			compareLists(t, a, b, s.Path)
		})
	}
}

// read reads a file with both clients, whole and from its middle, and compares what
// they say about it.
func read(t *testing.T, a *ftp.ServerConn, b *ftpclient.Conn, file, want string) {
	t.Helper()
	for _, from := range []int{0, len(want) / 2} {
		var theirs, mine bytes.Buffer
		r, err := a.RetrFrom(file, uint64(from))
		if err == nil {
			_, err = theirs.ReadFrom(r)
			r.Close()
		}
		if e := b.Retrieve(t.Context(), file, int64(from), func(r io.Reader) error { _, err := mine.ReadFrom(r); return err }); err != nil || e != nil || theirs.String() != want[from:] || mine.String() != want[from:] {
			t.Errorf("%q from %d: %d bytes, %v; ours: %d bytes, %v; want %d", file, from, theirs.Len(), err, mine.Len(), e, len(want)-from)
		}
	}
	n, err := b.Stat(t.Context(), file)
	size, e := a.FileSize(file)
	at, e2 := a.GetTime(file)
	if err != nil || e != nil || e2 != nil || n.Size != size || size != int64(len(want)) || !n.Modified.Truncate(time.Second).Equal(at.Truncate(time.Second)) {
		t.Errorf("%q: %d bytes of %v, %v, %v; ours: %d of %v, %v", file, size, at, e, e2, n.Size, n.Modified, err)
	}
}

// compareLists lists a directory with both clients.
func compareLists(t *testing.T, a *ftp.ServerConn, b *ftpclient.Conn, dir string) {
	t.Helper()
	var theirs, mine []string
	list, err := a.List(dir)
	for _, e := range list {
		if e.Name != "." && e.Name != ".." {
			theirs = append(theirs, fmt.Sprintf("%q %d %t", e.Name, e.Size, e.Type == ftp.EntryTypeFolder))
		}
	}
	unknown, e := b.List(t.Context(), dir, false, func(e ftpclient.Entry) error {
		if e.Name != "." && e.Name != ".." {
			mine = append(mine, fmt.Sprintf("%q %d %t", e.Name, e.Size, e.IsDir))
		}
		return nil
	})
	slices.Sort(theirs)
	slices.Sort(mine)
	if err != nil || e != nil || unknown > 0 || len(mine) == 0 || !slices.Equal(theirs, mine) {
		t.Errorf("the library lists %q, %v; ours %q, %v, %d unknown", theirs, err, mine, e, unknown)
	}
}
