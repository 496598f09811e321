package chaos

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A journal is a file of lines in JSON that outlives the process that writes
// it, however that ends.
type journal struct{ f *os.File }

func openJournal(name string) (*journal, error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	return &journal{f}, err
}

// write appends a line, in one system call: it is there as a whole or not at all, unless
// the process is killed meanwhile.
func (j *journal) write(v any) {
	line, err := json.Marshal(v)
	if err == nil {
		_, err = j.f.Write(append(line, '\n'))
	}
	if err != nil {
		panic(fmt.Sprintf("journal %s: %v", j.f.Name(), err)) // nothing that follows could be checked
	}
}

func (j *journal) close() error { return j.f.Close() }

// readJournals calls f for each line of the journals in dir whose names end
// with suffix, with the name of the process that wrote it. The last line may be cut, if
// the process was killed while it wrote it; it does not count then, as if the process had
// been killed before.
func readJournals[T any](dir, suffix string, f func(process string, line *T)) error {
	names, err := filepath.Glob(filepath.Join(dir, "*"+suffix))
	if err != nil {
		return err
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		process := strings.TrimSuffix(filepath.Base(name), suffix)
		for line := range bytes.Lines(text) {
			if !bytes.HasSuffix(line, []byte("\n")) {
				break
			}
			var v T
			if err := json.Unmarshal(line, &v); err != nil {
				return fmt.Errorf("%s: %w: %s", name, err, line)
			}
			f(process, &v)
		}
	}
	return nil
}

// clocks tells the time by the clock that all processes of the machine share
// and nobody sets, and by that of the day, which is the server's too.
func clocks() (monotonic, wall int64) {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(fmt.Sprintf("clock: %v", err))
	}
	return t.Nano(), time.Now().UnixNano()
}
