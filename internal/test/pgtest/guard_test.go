package pgtest_test

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/courierhq/courier/internal/test/pgtest"
)

// dirVariable makes this program one that opens a cluster in the directory it
// names, and ends without closing it.
const dirVariable = "COURIER_PGTEST_DIR"

// abandon opens a cluster, tells its address, and ends in a panic together with
// its input.
func abandon(dir string) {
	c, err := pgtest.Open(&pgtest.Options{Dir: dir})
	if err != nil {
		panic(err)
	}
	fmt.Println(c.Addr())
	bufio.NewReader(os.Stdin).ReadByte()
	panic("as at a timeout")
}

func TestNothingLeft(t *testing.T) {
	for _, tt := range []struct {
		name    string
		kill    bool // or else it ends in a panic
		crashed bool // the postmaster was killed before
		end     string
	}{
		{"panic", false, false, "exit status 2"},
		{"killed", true, false, "signal: killed"},
		{"killed after the postmaster", true, true, "signal: killed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir, err := os.MkdirTemp("", "courier-pgtest-") // which another user can pass through
			if err != nil {
				t.Fatal(err)
			}
			defer os.RemoveAll(dir)
			if err := os.Chmod(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), dirVariable+"="+dir)
			stdin, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			stdout, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer cmd.Process.Kill()
			addr, err := bufio.NewReader(stdout).ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			addr = strings.TrimSpace(addr)
			pid, memory := lockFile(t, dir)
			if tt.crashed {
				if err := signal(pid, syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
			}
			if left := leftovers(dir, addr, pid, memory); left == "" {
				t.Fatal("nothing is seen of a cluster that is there")
			}
			if tt.kill {
				cmd.Process.Kill()
			} else {
				stdin.Close()
			}
			cmd.Wait()
			if got := cmd.ProcessState.String(); got != tt.end {
				t.Errorf("the process ended with %s, want %s", got, tt.end)
			}
			left := leftovers(dir, addr, pid, memory)
			for range 2000 {
				if left == "" {
					return
				}
				<-time.After(10 * time.Millisecond)
				left = leftovers(dir, addr, pid, memory)
			}
			t.Errorf("left: %s", left)
		})
	}
}

// lockFile returns the process id of the server in dir, and the id of its shared
// memory.
func lockFile(t *testing.T, dir string) (pid int, memory string) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*", "data", "postmaster.pid"))
	if err != nil || len(names) != 1 {
		t.Fatalf("lock files: %q, %v", names, err)
	}
	text, err := os.ReadFile(names[0])
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	if pid, err = strconv.Atoi(lines[0]); err != nil {
		t.Fatal(err)
	}
	return pid, strings.Fields(lines[6])[1]
}

func signal(pid int, sig os.Signal) error {
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	return p.Signal(sig)
}

// leftovers returns what is still there of a server.
func leftovers(dir, addr string, pid int, memory string) string {
	var left []string
	if names, _ := filepath.Glob(filepath.Join(dir, "*", "*")); len(names) > 0 {
		left = append(left, "files")
	}
	if conn, err := net.Dial("tcp", addr); err == nil {
		conn.Close()
		left = append(left, "a listener")
	}
	if signal(pid, syscall.Signal(0)) == nil {
		left = append(left, "a process")
	}
	table, _ := os.ReadFile("/proc/sysvipc/shm") // other systems have none
	for line := range strings.Lines(string(table)) {
		if f := strings.Fields(line); len(f) > 1 && f[1] == memory {
			left = append(left, "shared memory")
		}
	}
	return strings.Join(left, ", ")
}
