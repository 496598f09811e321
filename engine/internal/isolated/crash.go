package isolated

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/stepcall"
)

// crash returns the error of a child that has ended without an outcome.
func (c *call) crash() error {
	state := c.cmd.ProcessState
	text := c.job.Redact(c.stderr.text())
	signal := signalOf(state.Sys())
	cpu := usedCPU(state.SysUsage())
	first := crashLine(text)
	lower := strings.ToLower(first)
	crashed := func(format string, args ...any) error {
		return courier.WithClass(fmt.Errorf("the step's process "+format, args...), courier.ReasonCrashed)
	}
	switch {
	case c.limits.CPU > 0 && signal == "killed" && cpu >= c.limits.CPU-c.limits.CPU/4: // the limit counts whole ticks, and the usage what was used of them
		return crashed("was killed after %v of processor time, the limit of courier.Isolation.CPU", c.limits.CPU)
	case strings.Contains(lower, "out of memory") || strings.Contains(lower, "cannot allocate memory") || sanitized(text) ||
		c.limits.Memory > 0 && starved(text):
		if c.limits.Memory > 0 {
			return crashed("ran out of memory: it needed more than the %d bytes of courier.Isolation.Memory", c.limits.Memory)
		}
		return crashed("ran out of memory%s", lastLines(text))
	case strings.HasPrefix(first, "panic: "):
		return &stepcall.PanicError{What: first + ", in a goroutine that the step has started", Stack: text}
	case first != "":
		return crashed("has crashed: %s", first)
	case signal == "killed":
		return crashed("was killed; if nobody did that, the system had no memory left%s", lastLines(text))
	case signal != "":
		return crashed("was ended by the signal %q%s", signal, lastLines(text))
	}
	return crashed("has ended with exit code %d before the step returned; a step must not end its process%s", state.ExitCode(), lastLines(text))
}

// starved reports whether the runtime of Go got no memory for what it needs itself: for the
// stack of a thread, or in a place that does not expect it, so that it has a fault on its own
// stack, which is that of goroutine 0.
func starved(text string) bool {
	return strings.Contains(text, "pthread_create failed") || strings.Contains(text, "failed to create new OS thread") ||
		strings.HasPrefix(text, "SIGSEGV") && strings.Contains(text, "\ngoroutine 0 gp=")
}

// sanitized reports whether the run-time support of the race detector and the like has got no
// memory.
func sanitized(text string) bool {
	return strings.Contains(text, "Sanitizer failed to allocate") || strings.Contains(text, "Sanitizer: failed to intercept mmap")
}

// crashLine returns the line in which the runtime of Go says why it ends the program; empty
// if there is none.
func crashLine(text string) string {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") || strings.HasPrefix(line, "runtime: out of memory") {
			return printable(strings.TrimSpace(line), maxShown)
		}
	}
	return ""
}

// maxShown is how many bytes of what a child has written an error shows.
const maxShown = 1 << 10

// lastLines returns the end of what the child has written to standard error, as the end of
// a sentence; empty if that is nothing.
func lastLines(text string) string {
	text = strings.TrimSpace(text)
	if text == "" {
		return ""
	}
	if cut := len(text) - maxShown; cut > 0 {
		for !utf8.RuneStart(text[cut]) {
			cut++
		}
		text = "..." + text[cut:]
	}
	return "; it wrote: " + printable(text, 2*maxShown)
}

// printable returns text with nothing in it that acts on a terminal, of at most about so
// many bytes.
func printable(text string, most int) string {
	var b strings.Builder
	for _, r := range text {
		if b.Len() >= most {
			b.WriteString("...")
			break
		}
		if r == '\n' || unicode.IsPrint(r) {
			b.WriteRune(r)
		} else {
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
	}
	return b.String()
}
