package synced

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"syscall"
	"unsafe"
)

// A call is a system call of the traced process. While a tracer's function
// looks at it, the thread that makes it stands still.
type call struct {
	pid, thread int
	number      uint64
	args        [6]uint64
	note        any   // what the function left at the entry for the exit
	entry       bool  // the call is about to be made; otherwise it has returned
	result      int64 // at the exit; negative for an error
}

// Constants of ptrace(2) that package syscall does not have.
const (
	optionSysGood  = 0x1
	optionClone    = 0x8
	optionExitKill = 0x100000
	getSyscallInfo = 0x420e
	infoEntry      = 1
	infoExit       = 2
)

// callInfo is struct ptrace_syscall_info, which is the same for all processors.
type callInfo struct {
	Op      uint8
	_       [3]uint8
	_       uint32
	_, _    uint64 // where the process is
	Payload [8]uint64
}

// trace runs a program and calls look before and after each system call of all
// its threads. It returns an error if the program fails or can't be traced.
func trace(path string, args []string, look func(*call)) error {
	// All requests have to come from the thread that started the program.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	output, err := os.CreateTemp("", "traced")
	if err != nil {
		return err
	}
	defer os.Remove(output.Name())
	defer output.Close()
	p, err := os.StartProcess(path, append([]string{path}, args...), &os.ProcAttr{
		Files: []*os.File{nil, output, output},
		Sys:   &syscall.SysProcAttr{Ptrace: true},
	})
	if err != nil {
		return fmt.Errorf("the program can't be traced; this test needs ptrace(2) of its own child (in a container: --cap-add SYS_PTRACE): %w", err)
	}
	defer p.Release()
	t := &tracer{pid: p.Pid, look: look, calls: make(map[int]*call)}
	status, err := t.run()
	if err != nil {
		syscall.Kill(p.Pid, syscall.SIGKILL)
		return fmt.Errorf("trace: %w", err)
	}
	if status != 0 {
		said, _ := os.ReadFile(output.Name())
		return fmt.Errorf("the program ended with status %d:\n%s", status, bytes.TrimSpace(said))
	}
	return nil
}

type tracer struct {
	pid   int
	look  func(*call)
	calls map[int]*call // by thread, those that have not returned; nil for none
}

// run follows the program to its end, and returns its status.
func (t *tracer) run() (int, error) {
	const wall, noThread = 0x40000000, 0x20000000
	var ws syscall.WaitStatus
	if _, err := syscall.Wait4(t.pid, &ws, wall, nil); err != nil {
		return 0, err
	}
	if !ws.Stopped() {
		return 0, fmt.Errorf("the program did not stop at its start: %v", ws)
	}
	if err := syscall.PtraceSetOptions(t.pid, optionSysGood|optionClone|optionExitKill); err != nil {
		return 0, err
	}
	t.calls[t.pid] = nil
	if err := syscall.PtraceSyscall(t.pid, 0); err != nil {
		return 0, err
	}
	for {
		thread, err := syscall.Wait4(-1, &ws, wall|noThread, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil {
			return 0, err
		}
		if ws.Exited() || ws.Signaled() {
			delete(t.calls, thread)
			if thread == t.pid {
				if ws.Signaled() {
					return 0, fmt.Errorf("the program ended by %v", ws.Signal())
				}
				return ws.ExitStatus(), nil
			}
			continue
		}
		pass := 0
		_, known := t.calls[thread]
		switch sig := ws.StopSignal(); {
		case sig == syscall.SIGTRAP|0x80:
			if err := t.syscall(thread); err != nil {
				return 0, err
			}
		case sig == syscall.SIGTRAP: // a new thread was made
		case sig == syscall.SIGSTOP && !known:
			t.calls[thread] = nil // and this is its start
		default:
			pass = int(sig)
		}
		if err := syscall.PtraceSyscall(thread, pass); err != nil && !errors.Is(err, syscall.ESRCH) {
			return 0, err
		}
	}
}

// syscall looks at the call at whose entry or exit a thread stands.
func (t *tracer) syscall(thread int) error {
	var info callInfo
	n, _, e := syscall.Syscall6(syscall.SYS_PTRACE, getSyscallInfo, uintptr(thread), unsafe.Sizeof(info), uintptr(unsafe.Pointer(&info)), 0, 0)
	switch {
	case e == syscall.ESRCH:
		return nil // killed meanwhile
	case e != 0:
		return fmt.Errorf("system calls can't be looked at; Linux 5.3 or newer is needed: %w", e)
	case n == 0:
		return errors.New("the kernel says nothing about system calls")
	}
	switch info.Op {
	case infoEntry:
		c := &call{pid: t.pid, thread: thread, number: info.Payload[0], args: [6]uint64(info.Payload[1:7]), entry: true}
		t.look(c)
		t.calls[thread] = c
	case infoExit:
		if c := t.calls[thread]; c != nil {
			c.entry, c.result = false, int64(info.Payload[0])
			t.look(c)
			t.calls[thread] = nil
		}
	}
	return nil
}

// memory reads from the process.
func (c *call) memory(at uint64, n int) []byte {
	b := make([]byte, n)
	read, err := syscall.PtracePeekData(c.thread, uintptr(at), b)
	if err != nil {
		return nil
	}
	return b[:read]
}

// text reads a string that ends with a zero.
func (c *call) text(at uint64) string {
	var b []byte
	for len(b) < 4096 {
		const word = 8
		part := c.memory(at+uint64(len(b)), word)
		if i := bytes.IndexByte(part, 0); i >= 0 || len(part) == 0 {
			return string(append(b, part[:max(i, 0)]...))
		}
		b = append(b, part...)
	}
	return string(b)
}

// file returns the path of an open file, or "" if it is none on a disk.
func (c *call) file(fd uint64) string {
	path, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", c.pid, int32(fd)))
	if err != nil || !strings.HasPrefix(path, "/") {
		return ""
	}
	return path
}

// opened describes an open file, also one that has no name any more.
func (c *call) opened(fd uint64) fs.FileInfo {
	info, _ := os.Stat(fmt.Sprintf("/proc/%d/fd/%d", c.pid, int32(fd)))
	return info
}

// path returns the path that a directory and a name, at an address, stand for.
func (c *call) path(dir, name uint64) string {
	text := c.text(name)
	if strings.HasPrefix(text, "/") {
		return text
	}
	const workingDirectory = -100
	if int32(dir) == workingDirectory {
		wd, _ := os.Readlink(fmt.Sprintf("/proc/%d/cwd", c.pid))
		return wd + "/" + text
	}
	return c.file(dir) + "/" + text
}
