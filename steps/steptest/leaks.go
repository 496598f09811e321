package steptest

import (
	"bytes"
	"fmt"
	"runtime/pprof"
	"strings"
	"time"
)

// ended fails if goroutines that attempts of this world started still run. They
// carry the label of the world, so goroutines of other tests do not count.
func (w *World) ended() {
	w.Helper()
	if !w.ok {
		return
	}
	for wait := time.Duration(0); ; wait += wait + 50*time.Microsecond {
		stacks := w.goroutines()
		if len(stacks) == 0 {
			return
		}
		if wait > time.Second {
			w.broken("at the end", ruleGoroutine, strings.Join(stacks, "\n"))
			if w.c.Virtual {
				time.Sleep(late) // it may end, and a bubble must not end before
			}
			return
		}
		time.Sleep(wait)
	}
}

// goroutines returns the stacks of the goroutines with the world's label.
func (w *World) goroutines() []string {
	var b bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&b, 1); err != nil {
		w.Error(err)
	}
	var stacks []string
	for s := range strings.SplitSeq(b.String(), "\n\n") {
		if strings.Contains(s, fmt.Sprintf("%q", w.goLabel)) {
			stacks = append(stacks, s)
		}
	}
	return stacks
}
