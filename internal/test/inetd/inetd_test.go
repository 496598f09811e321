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

	"github.com/courierhq/courier/internal/test/inetd"
)

// TestMain is also the program that serves: it answers the first line, and waits
// for more.
func TestMain(m *testing.M) {
	if os.Getenv("COURIER_INETD") == "" {
		os.Exit(m.Run())
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
