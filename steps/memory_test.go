package steps_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier/internal/test/confined"
	"github.com/courierhq/courier/internal/test/raced"
)

var wholeMemory = flag.Bool("memory", false, "try all hostile input on steps whose memory is bounded, and run the tests of all families so")

const (
	// maxPeak is how much memory a process may have had, with a step in it that
	// has taken hostile input: 256 MiB, of which 40 are the test's own.
	maxPeak = 256 << 20
	// maxMemory is where it dies, so that a bug does not take the machine along.
	maxMemory = 1 << 30
)

// A hostileCase is hostile input for a step, with all limits at their defaults.
type hostileCase struct {
	name   string
	key    string
	cfg    object
	sample bool     // it is tried without a flag
	want   []string // one of them is in the error; none: the step may succeed
	from   source
}

// An ordeal is what a process does with a case, and the result.
type ordeal struct {
	Dir  string
	Name string

	Error string
	Peak  uint64
	Took  time.Duration
}

// inMemory runs a case, in the process that confined.Run has started for it. It
// returns the ordeal as an error.
func inMemory(arg []byte) error {
	var o ordeal
	if err := json.Unmarshal(arg, &o); err != nil {
		return err
	}
	for _, c := range hostileCases() {
		if c.name == o.Name {
			c.suffer(&o)
		}
	}
	text, err := json.Marshal(o)
	return errors.Join(err, errors.New(string(text)))
}

// suffer runs the case's step.
func (c hostileCase) suffer(o *ordeal) {
	w, err := newHostileWorld(o.Dir, c.from)
	if err != nil {
		o.Error = "the world: " + err.Error()
		return
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), 3*time.Minute, errors.New("it takes longer than three minutes"))
	defer cancel()
	begin := time.Now()
	if _, err := w.run(ctx, attempt{Key: c.key, Cfg: c.cfg, Number: 1}); err != nil {
		o.Error = err.Error()
	}
	o.Took = time.Since(begin)
	if o.Peak, err = confined.Peak(); err != nil {
		o.Error += "; " + err.Error()
	}
}

// TestMemory gives hostile input to the steps of every family, each in a process
// of its own. Such a process stays within 256 MiB, and the step fails with an
// error that says why.
func TestMemory(t *testing.T) {
	tried := make(map[string]bool)
	for _, c := range hostileCases() {
		family, _, _ := strings.Cut(c.key, ".")
		if !*wholeMemory && (!c.sample || raced.On && tried[family]) {
			continue
		}
		tried[family] = true
		t.Run(c.name, func(t *testing.T) {
			dir, err := os.MkdirTemp("/dev/shm", "memory")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { os.RemoveAll(dir) })
			work := filepath.Join(dir, "W")
			if err := os.Mkdir(work, 0o755); err != nil {
				t.Fatal(err)
			}
			if c.from.files != nil {
				if err := c.from.files(work); err != nil {
					t.Fatal(err)
				}
			}
			limit := uint64(maxMemory)
			if raced.On {
				limit = 0 // what the race detector needs is beyond any limit
			}
			c.check(t, confined.Run(t, "memory", confined.Limits{Memory: limit}, ordeal{Dir: dir, Name: c.name}))
		})
	}
	for _, family := range []string{"azure_function", "exec", "file", "ftp", "http", "pgp", "sftp"} {
		if !tried[family] {
			t.Errorf("nothing was tried on the steps %s.*", family)
		}
	}
}

// check judges what the process has said.
func (c hostileCase) check(t *testing.T, said error) {
	t.Helper()
	if said == nil || errors.Is(said, confined.ErrMemory) || errors.Is(said, confined.ErrKilled) {
		t.Fatalf("the process ended with: %v", said)
	}
	var o ordeal
	if err := json.Unmarshal([]byte(said.Error()), &o); err != nil {
		t.Fatalf("%v: %.2000s", err, said)
	}
	t.Logf("%4d MiB, %v: %.300s", o.Peak>>20, o.Took.Round(time.Millisecond), o.Error)
	if o.Peak > maxPeak && !raced.On {
		t.Errorf("the process had %d MiB", o.Peak>>20)
	}
	for _, want := range c.want {
		if strings.Contains(o.Error, want) {
			return
		}
	}
	if len(c.want) > 0 || len(o.Error) > 4000 {
		t.Errorf("the error is %.1000q, want one of %q", o.Error, c.want)
	}
}

// TestFamiliesInMemory runs the tests of every family that have to do with
// hostile input in a process whose memory is limited, with -memory alone.
func TestFamiliesInMemory(t *testing.T) {
	if !*wholeMemory || raced.On {
		return
	}
	for _, family := range []string{"azure", "exec", "file", "ftp", "httpreq", "pgp", "sftp"} {
		t.Run(family, func(t *testing.T) {
			test := filepath.Join(t.TempDir(), family+".test")
			build := exec.CommandContext(t.Context(), "go", "test", "-c", "-o", test, "./"+family)
			if out, err := build.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			// Such tests hold their input too.
			cmd := exec.CommandContext(t.Context(), "prlimit", "--data="+strconv.Itoa(maxMemory), test,
				"-test.run", "Hostile|Endless|Bomb|Memory|Implied|Fuzz|Refuse|Limits|Nonsense", "-test.timeout", "20m")
			cmd.Dir = family
			cmd.Env = append(os.Environ(), "GOMEMLIMIT="+fmt.Sprint(maxPeak))
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%.4000s", err, out)
			}
		})
	}
}
