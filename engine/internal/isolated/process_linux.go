package isolated

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"syscall"
)

// canLimit reports whether this system has limits of memory and processor time.
const canLimit = true

// executable is the program of this process, also if its file was replaced meanwhile.
func executable() (string, error) { return "/proc/self/exe", nil }

// setLimits limits the process, and what it starts: its memory to so many bytes beyond what
// it has, and its processor time to so many seconds. 0 means no limit.
func setLimits(memory, cpu int64) error {
	offer()
	if cpu > 0 {
		if err := setLimit(syscall.RLIMIT_CPU, uint64(cpu)); err != nil {
			return err
		}
	}
	if memory > 0 {
		return setMemory(memory)
	}
	return nil
}

// offer has the system end this process before its worker when it has no memory left, unless
// somebody has decided more than that.
func offer() {
	const name, score = "/proc/self/oom_score_adj", 500
	text, err := os.ReadFile(name)
	if now, e := strconv.Atoi(string(bytes.TrimSpace(text))); err == nil && e == nil && now < score {
		_ = os.WriteFile(name, []byte(strconv.Itoa(score)), 0) // without it the system decides
	}
}

func setLimit(resource int, value uint64) error {
	return os.NewSyscallError("setrlimit", syscall.Setrlimit(resource, &syscall.Rlimit{Cur: value, Max: value}))
}

// setMemory limits the data of the process. Address space is no measure: the runtime of Go
// reserves much more of it than it uses.
func setMemory(memory int64) error {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err
	}
	_, rest, _ := bytes.Cut(status, []byte("\nVmData:"))
	line, _, ok := bytes.Cut(rest, []byte(" kB\n"))
	kb, err := strconv.ParseInt(string(bytes.TrimSpace(line)), 10, 64)
	if err != nil || !ok {
		return errors.New("/proc/self/status does not tell VmData")
	}
	limitHeap(memory)
	return setLimit(syscall.RLIMIT_DATA, uint64(kb<<10+memory))
}
