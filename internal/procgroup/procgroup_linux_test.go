package procgroup

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// A group gets signals only while its leader's number is its own: the last one
// when the leader has ended and nobody has taken note of it, and none after
// that, whoever asks.
func TestNoSignalAfterTheEnd(t *testing.T) {
	for range 20 {
		var states []string
		note := func(cmd *exec.Cmd) {
			stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(cmd.Process.Pid), "stat"))
			if err != nil {
				states = append(states, "gone")
				return
			}
			_, after, _ := strings.Cut(string(stat), ") ")
			states = append(states, after[:1])
		}
		cmd := exec.Command("/bin/true")
		g := New(cmd)
		g.terminate, g.kill = note, note
		ended, err := g.Start(cmd.Start)
		if err != nil {
			t.Fatal(err)
		}
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		g.Terminate() // as when the step is cancelled just now
		g.Kill()
		if len(states) != 1 || states[0] != "Z" {
			t.Fatalf("signals were sent in the states %v, want one, to a process that has ended and is still known", states)
		}
	}
}
