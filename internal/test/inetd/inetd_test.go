package inetd_test

import (
	"bufio"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier/internal/test/inetd"
)

// TestMain is also the program that serves: it answers the first line, and waits
// for more. Or it accepts connections, and greets.
func TestMain(m *testing.M) {
	switch os.Getenv("COURIER_INETD") {
	case "":
		os.Exit(m.Run())
	case "wait":
		l, err := net.FileListener(os.Stdin)
		for err == nil {
			var conn net.Conn
			if conn, err = l.Accept(); err == nil {
				io.WriteString(conn, "hello\n")
				if line, _ := bufio.NewReader(conn).ReadString('\n'); line == "end\n" {
					os.Exit(3)
				}
			}
		}
		os.Exit(1)
	}
	line, _ := bufio.NewReader(os.Stdin).ReadString('\n')
	os.Stderr.WriteString("heard " + line)
	os.Stdout.WriteString("got " + line)
	io.Copy(io.Discard, os.Stdin)
}

// TestServer has a process for each connection, which are all ended by a cut.
func TestServer(t *testing.T) {
	dir, self := t.TempDir(), os.Args[0]
	s, err := inetd.Start(t, dir, func() *exec.Cmd {
		cmd := exec.Command(self)
		cmd.Env = append(os.Environ(), "COURIER_INETD=serve")
		return cmd
	})
	if err != nil {
		t.Fatal(err)
	}
	var open []*bufio.Reader
	for _, word := range []string{"one", "two"} {
		conn, err := net.Dial("tcp", s.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		r := bufio.NewReader(conn)
		open = append(open, r)
		io.WriteString(conn, word+"\n")
		if line, err := r.ReadString('\n'); line != "got "+word+"\n" {
			t.Errorf("the answer is %q, %v", line, err)
		}
	}
	s.Cut()
	for _, r := range open {
		if rest, _ := io.ReadAll(r); len(rest) != 0 {
			t.Errorf("after the cut comes %q", rest)
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, "log"))
	if err != nil || !strings.Contains(string(text), "heard one") || !strings.Contains(string(text), "heard two") {
		t.Errorf("the log is %q, %v", text, err)
	}
}

// TestWait has one process accept all connections, until it is cut, and another one
// after that, until it ends by itself.
func TestWait(t *testing.T) {
	dir, self := t.TempDir(), os.Args[0]
	s, err := inetd.StartWait(t, dir, func() *exec.Cmd {
		cmd := exec.Command(self)
		cmd.Env = append(os.Environ(), "COURIER_INETD=wait")
		return cmd
	})
	if err != nil {
		t.Fatal(err)
	}
	dial := func(say string) *bufio.Reader {
		t.Helper()
		conn, err := net.Dial("tcp", s.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		r := bufio.NewReader(conn)
		if line, err := r.ReadString('\n'); line != "hello\n" {
			t.Fatalf("the greeting is %q, %v", line, err)
		}
		io.WriteString(conn, say)
		return r
	}
	for _, say := range []string{"go on\n", "", "end\n"} {
		r := dial(say)
		if say == "" {
			s.Cut()
		}
		if say != "go on\n" {
			if rest, _ := io.ReadAll(r); len(rest) != 0 {
				t.Errorf("after the end comes %q", rest)
			}
		}
	}
	for i := 0; ; i++ { // the end of a process is noticed soon
		conn, err := net.Dial("tcp", s.Addr().String())
		if err != nil {
			break
		}
		conn.Close()
		if i == 100 {
			t.Fatal("connections are accepted although nobody serves them")
		}
		time.Sleep(50 * time.Millisecond)
	}
	text, err := os.ReadFile(filepath.Join(dir, "log"))
	if err != nil || !strings.Contains(string(text), "has ended: exit status 3") {
		t.Errorf("the log is %q, %v", text, err)
	}
}
