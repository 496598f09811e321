package pgtest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A guarded program ends with this process, however this one ends: a shell waits
// for the end of a pipe that this process holds open, and kills the program
// then.
type guarded struct {
	pid   int // of the program
	shell *exec.Cmd
	hold  *os.File // the shell's standard input
	alive *os.File // a pipe to which the program and its children hold the other end
}

// script is what the shell runs. Its arguments are the directory of the program,
// the signal that ends it, and the command. When the pipe ends, it kills the
// program and removes what is left: the directory, and the shared memory of a
// postmaster that was killed. When a line comes instead, it lets go.
const script = `
dir=$1 signal=$2
shift 2
"$@" </dev/null 3>&1 >&2 &
pid=$!
echo $pid
exec >&-
if read -r line; then
	wait $pid
	exit
fi
exec 2>/dev/null
kill -s "$signal" $pid
kill -s CONT $pid
wait $pid
n=0
if [ -f data/postmaster.pid ]; then
	while read -r key id; do
		n=$((n + 1))
		[ $n != 7 ] || ipcrm -m "$id"
	done <data/postmaster.pid
fi
cd /
rm -rf "$dir"
exit 0
`

// startGuarded runs the command in dir for the account. What it writes is
// appended to the file log in there.
func startGuarded(as *account, dir, signal string, env []string, command ...string) (*guarded, error) {
	log, err := as.open(dir, logName)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	stdin, hold, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer stdin.Close()
	alive, stdout, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, hold.Close())
	}
	defer stdout.Close()
	g := &guarded{hold: hold, alive: alive}
	g.shell = as.command(dir, "/bin/sh", append([]string{"-c", script, "sh", dir, signal}, command...)...)
	g.shell.Env = append(append(os.Environ(), "LC_ALL=C"), env...)
	g.shell.Stdin, g.shell.Stdout, g.shell.Stderr = stdin, stdout, log
	if err := g.shell.Start(); err != nil {
		return nil, errors.Join(err, hold.Close(), alive.Close())
	}
	if g.pid, err = g.readPID(); err != nil {
		return nil, errors.Join(err, g.end())
	}
	return g, nil
}

// readPID reads the line that the shell writes first.
func (g *guarded) readPID() (int, error) {
	if err := g.alive.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return 0, err
	}
	var line strings.Builder
	for b := make([]byte, 1); b[0] != '\n'; {
		if _, err := io.ReadFull(g.alive, b); err != nil {
			return 0, fmt.Errorf("process id: %w", err)
		}
		line.Write(b)
	}
	return strconv.Atoi(strings.TrimSpace(line.String()))
}

// gone waits until the program and all its children are gone, for at most the
// given time, and reports whether they are.
func (g *guarded) gone(within time.Duration) bool {
	if g.alive.SetReadDeadline(time.Now().Add(within)) != nil {
		return false
	}
	_, err := io.Copy(io.Discard, g.alive)
	return err == nil
}

// runGuarded runs the command as startGuarded does, to its end.
func runGuarded(as *account, dir string, env []string, command ...string) error {
	began := logSize(dir)
	g, err := startGuarded(as, dir, "KILL", env, command...)
	if err != nil {
		return err
	}
	name := filepath.Base(command[0])
	if !g.gone(patience) {
		return errors.Join(fmt.Errorf("%s: still running after %v", name, patience), g.end())
	}
	if err := g.release(); err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, logTail(dir, began))
	}
	return nil
}

// await waits until the server in dir is ready. The log had the given size
// before it was started.
func (g *guarded) await(dir string, log int64, ready func() bool) error {
	for deadline := time.Now().Add(patience); !ready(); {
		if g.gone(pause) {
			return fmt.Errorf("start: the server ended: %s", logTail(dir, log))
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("start: the server is not ready after %v: %s", patience, logTail(dir, log))
		}
	}
	return nil
}

// signal sends the program a signal.
func (g *guarded) signal(sig syscall.Signal) error {
	p, err := os.FindProcess(g.pid)
	if err != nil {
		return err
	}
	defer p.Release()
	return p.Signal(sig)
}

// release lets the shell go once the program is gone, and leaves the directory.
// It returns how the program ended.
func (g *guarded) release() error {
	_, err := io.WriteString(g.hold, "leave\n")
	return errors.Join(err, g.end())
}

// end lets the shell end the program, if it runs, and waits for both.
func (g *guarded) end() error {
	err := errors.Join(g.hold.Close(), g.shell.Wait())
	if !g.gone(patience) {
		err = errors.Join(err, errors.New("processes of the server are still running"))
	}
	return errors.Join(err, g.alive.Close())
}

func logSize(dir string) int64 {
	info, err := os.Stat(filepath.Join(dir, logName))
	if err != nil {
		return 0
	}
	return info.Size()
}

// logTail returns the end of what the server in dir wrote since its log had the
// given size.
func logTail(dir string, since int64) string {
	text, err := os.ReadFile(filepath.Join(dir, logName))
	if err != nil {
		return err.Error()
	}
	text = text[min(since, int64(len(text))):]
	return strings.TrimSpace(string(text[max(0, len(text)-20_000):]))
}
