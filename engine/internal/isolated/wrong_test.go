//go:build linux

package isolated_test

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/engine/internal/isolated"
	"github.com/courierhq/courier/internal/jsontext"
	"github.com/courierhq/courier/store/memstore"
)

// misbehaving is the variable that says how the test program is no good host.
const misbehaving = "COURIER_TEST_MISBEHAVING"

// misbehave does what a host should not do, as a child. It returns in a host that only
// leaves out the call of RunIsolated.
func misbehave(how string) {
	how, arg, _ := strings.Cut(how, ":")
	if raw, err := hex.DecodeString(arg); err == nil && how != "build" {
		arg = string(raw)
	}
	switch how {
	case "leaves out":
		return
	case "late":
		e := engine.New(memstore.New(), nil, &engine.Options{Workspace: arg})
		if _, err := e.Jobs().Define(context.Background(), courier.Job{Name: "j"}, nil); err == nil {
			_ = os.WriteFile(arg, []byte("an engine has a store in a child"), 0o600)
		}
		if err := e.Start(context.Background()); err == nil || !strings.Contains(err.Error(), "comes too late") {
			_ = os.WriteFile(arg, []byte(fmt.Sprint("started: ", err)), 0o600)
		}
		time.Sleep(time.Minute)
	case "never":
		time.Sleep(time.Minute)
	case "ends":
		fmt.Fprintln(os.Stderr, `unknown command`, os.Args[1])
		os.Exit(64)
	case "no hello":
		send(arg)
	case "frame":
		in, nonce := os.NewFile(3, "in"), ""
		var head [4]byte
		if _, err := io.ReadFull(in, head[:]); err == nil {
			var f struct{ Hello struct{ Nonce string } }
			_ = json.NewDecoder(in).Decode(&f)
			nonce = f.Hello.Nonce
		}
		hello := fmt.Sprintf(`{"hello":{"nonce":%q}}`, nonce)
		send(string(binary.BigEndian.AppendUint32(nil, uint32(len(hello)))) + hello + arg)
	case "build":
		engine.RunIsolated(func() (*courier.Registry, error) {
			switch arg {
			case "fails":
				return nil, fmt.Errorf("no keys")
			case "panics":
				panic("no luck")
			case "nil":
				return nil, nil
			}
			return new(courier.Registry), nil
		})
	}
	os.Exit(3)
}

// send sends bytes to the parent and waits for the end.
func send(bytes string) {
	_, _ = os.NewFile(4, "out").WriteString(bytes)
	time.Sleep(time.Minute)
}

// outcome is a frame with an outcome.
func outcome(json string) string {
	text := `{"outcome":` + json + `}`
	return string(binary.BigEndian.AppendUint32(nil, uint32(len(text)))) + text
}

// TestDeepOutputs has a step give outputs that are nested too deep.
func TestDeepOutputs(t *testing.T) {
	b := newBench(t, nil)
	for depth, want := range map[int]string{
		jsontext.MaxDepth - 1: "", jsontext.MaxDepth: "its output can't be stored: it is nested 1001 levels deep", 9000: `set "also": is nested 9000 levels deep, more than the 1000 that can be stored`,
	} {
		_, list, err := b.run(fmt.Sprintf(`[{"type": "test.do", "config": {"what": "deep", "arg": "%d"}}]`, depth), nil)
		if s := list[0]; (err == nil) != (want == "") || !strings.Contains(s.Error, want) || err != nil && len(s.Outputs) > 100 {
			t.Errorf("%d: %v, %d bytes of outputs", depth, err, len(s.Outputs))
		}
	}
}

// TestMisbehaving checks what becomes of an attempt whose child does not do what it should:
// it fails soon, with a reason, and nothing is left of the child.
func TestMisbehaving(t *testing.T) {
	mark := filepath.Join(t.TempDir(), "mark")
	const broken = "the step's process was killed, because its messages can't be read: broken frame: "
	for _, c := range []struct {
		how, want string
		permanent bool
	}{
		{"late:" + mark, "engine.RunIsolated was called too late: make engine.RunIsolated(build) the first statement of main", true},
		{"never", "the step's process did not begin within 1s: the machine is overloaded, or engine.RunIsolated was called too late", false},
		{"ends", "the step's process has ended with exit code 64 before the step returned; a step must not end its process; it wrote: unknown command courier:isolated-step", false},
		{"no hello:\x00\x00\x00\x02{}", broken + "unexpected frame", false},
		{"no hello:\x00\x00\x00\x1d{\"hello\":{\"nonce\":\"guessed\"}}", broken + "unexpected frame", false},
		{"frame:\x00\x00\x00\x00", broken + "it has a length of 0 bytes, and 1 to 67108864 are permitted", false},
		{"frame:\xff\xff\xff\xff{", broken + "it has a length of 4294967295 bytes", false},
		{"frame:\x00\x00\x00\x05{\"a\"}", broken + "invalid character '}'", false},
		{"frame:\x00\x00\x00\x02{}", broken + "unexpected frame", false},
		{"frame:\x00\x00\x00\x23{\"begin\":{\"method\":\"x\",\"type\":\"y\"}}", broken + "unexpected frame", false},
		{"frame:" + outcome(`{"outputs":{"a":`+strings.Repeat("[", 9000)+strings.Repeat("]", 9000)+`}}`), "the work is done, but its output can't be stored: it is nested 9001 levels deep", true},
		{"frame:" + outcome(`{"outputs":{"a":"\u0000"}}`), "the work is done, but its output can't be stored: it contains a NUL character", true},
		{"build:fails", "build of engine.RunIsolated: no keys", false},
		{"build:panics", "panic: no luck, at isolated/wrong_test.go", false},
		{"build:nil", "build of engine.RunIsolated returns no registry", true},
		{"build:empty", `the registry that it returns has no step type "test.do"`, true},
	} {
		t.Run(strings.ReplaceAll(fmt.Sprintf("%.12q", c.how), "/", "_"), func(t *testing.T) {
			if c.how == "never" {
				defer isolated.SetGoneAfter(time.Second)()
			}
			how, arg, _ := strings.Cut(c.how, ":")
			if how != "build" {
				arg = hex.EncodeToString([]byte(arg)) // no environment can hold all bytes
			}
			t.Setenv(misbehaving, how+":"+arg)
			b := newBench(t, func(o *engine.Options) {
				o.Isolate = map[string]courier.Isolation{"*": {Env: []string{misbehaving}}}
			})
			began := time.Now()
			_, list, err := b.run(`[{"type": "test.do", "config": {"what": "nothing"}}]`, nil)
			if s := list[0]; !strings.HasPrefix(s.Error, c.want) && !strings.Contains(s.Error, c.want) || courier.IsPermanent(err) != c.permanent {
				t.Errorf("%q (permanent: %v), want %q", s.Error, courier.IsPermanent(err), c.want)
			}
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
	if text, err := os.ReadFile(mark); err == nil {
		t.Errorf("%s", text)
	}
}

// TestNotCalled checks what a program that does not call RunIsolated is told, when its engine
// starts and when a step asks for a process of its own.
func TestNotCalled(t *testing.T) {
	const want = "engine.RunIsolated was not called, so no step can run in a process of its own; make engine.RunIsolated(build) the first statement of main"
	if os.Getenv(misbehaving) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestNotCalled$")
		cmd.Env = append(os.Environ(), misbehaving+"=leaves out")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
		return
	}
	if err := newBench(t, nil).e.Start(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("Start: %v", err)
	}
	b := newBench(t, func(o *engine.Options) { o.Isolate = nil })
	_, list, err := b.run(`[{"type": "test.do", "isolate": true}]`, nil)
	if s := list[0]; !strings.HasPrefix(s.Error, want) || !courier.IsPermanent(err) {
		t.Errorf("a step: %q", s.Error)
	}
}

// TestStaleMarker checks that a program that somebody starts with the argument of a child says
// so and ends.
func TestStaleMarker(t *testing.T) {
	out, err := exec.Command(os.Args[0], isolated.Marker).CombinedOutput()
	if want := `the argument "courier:isolated-step" is for processes that a worker starts; leave it out`; err == nil || !strings.Contains(string(out), want) {
		t.Errorf("%s (%v), want %q", out, err, want)
	}
}
