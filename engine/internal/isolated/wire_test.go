package isolated

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math"
	"reflect"
	"strings"
	"testing"
	"testing/slogtest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/workspace"
)

// TestContextCrosses checks that each field of a context's configuration crosses, or is one
// for which the child asks.
func TestContextCrosses(t *testing.T) {
	asked := []string{"Values", "Secrets", "Redactor", "Resources", "Log", "OnProgress", "OnFile", "Propagate"}
	var cfg courier.ContextConfig
	v := reflect.ValueOf(&cfg).Elem()
	for i := range v.NumField() {
		f, name := v.Field(i), v.Type().Field(i).Name
		if strings.Contains(strings.Join(asked, " ")+" ", name+" ") {
			continue
		}
		switch f.Interface().(type) {
		case string, courier.ExecutionID:
			f.SetString("text of " + name)
		case int:
			f.SetInt(int64(i + 1))
		case bool:
			f.SetBool(true)
		case []int:
			f.Set(reflect.ValueOf([]int{3, 1}))
		case []string:
			f.Set(reflect.ValueOf([]string{"a", "b"}))
		case json.RawMessage:
			f.Set(reflect.ValueOf(json.RawMessage(`{"a":1}`)))
		default:
			t.Fatalf("nobody says how the field %s crosses", name)
		}
	}
	text, err := json.Marshal(sent(&cfg))
	if err != nil {
		t.Fatal(err)
	}
	var got contextConfig
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if received := got.received(); !reflect.DeepEqual(received, cfg) {
		t.Errorf("received is\n%+v\nwant\n%+v", received, cfg)
	}
}

// FuzzReceive checks that whatever comes is a frame or an error, and that a frame comes as it
// was sent.
func FuzzReceive(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x02{}"))
	f.Add([]byte("\x00\x00\x00\x05{}"))
	f.Add([]byte("\x00\x00"))
	f.Add([]byte("\xff\xff\xff\xff{}"))
	f.Add([]byte("\x00\x00\x00\x1c{\"outcome\":{\"outputs\":\"<\"}}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c := newConn(bytes.NewReader(data), io.Discard, 1<<10)
		for {
			got, err := c.receive()
			if err == io.EOF {
				return
			}
			if err != nil {
				if !errors.Is(err, errFrame) {
					t.Fatalf("an error of another kind: %v", err)
				}
				return
			}
			var b bytes.Buffer
			again := newConn(&b, &b, math.MaxInt32)
			if err := again.send(got); err != nil {
				t.Fatal(err)
			}
			back, err := again.receive()
			a, _ := json.Marshal(got)
			if z, _ := json.Marshal(back); err != nil || !bytes.Equal(a, z) {
				t.Fatalf("%s comes as %s (%v)", a, z, err)
			}
		}
	})
}

// TestFailures checks that an error means in the other process what it meant in this one.
func TestFailures(t *testing.T) {
	cause := errors.New("the cause")
	for _, err := range []error{
		errors.New("plain"), courier.Permanent(errors.New("for good")), fs.ErrNotExist,
		courier.WithClass(errors.New("login"), courier.ReasonLogin), fmt.Errorf("meanwhile: %w", cause),
		courier.Errorf(courier.ErrNotFound, "none"), context.Canceled, fmt.Errorf("late: %w", context.DeadlineExceeded),
		courier.ErrStopped, courier.Permanent(courier.Errorf(courier.ErrInvalid, "bad")), &courier.ConfigError{Err: errors.New("required")},
	} {
		text, e := json.Marshal(failureOf(err, cause))
		var f *failure
		if e = errors.Join(e, json.Unmarshal(text, &f)); e != nil {
			t.Fatal(e)
		}
		got := f.error(cause)
		if got.Error() != err.Error() || courier.IsPermanent(got) != courier.IsPermanent(err) || courier.ClassOf(got) != courier.ClassOf(err) {
			t.Errorf("%v comes as %v: permanent %v, class %s", err, got, courier.IsPermanent(got), courier.ClassOf(got))
		}
		for _, target := range append([]error{cause}, kinds...) {
			if errors.Is(got, target) != errors.Is(err, target) {
				t.Errorf("%v is %v: %v", err, target, errors.Is(got, target))
			}
		}
	}
	if failureOf(nil, cause).error(cause) != nil {
		t.Error("no error comes as one")
	}
}

// TestLog checks the handler against the rules for handlers, and that values keep their kinds.
func TestLog(t *testing.T) {
	var b bytes.Buffer
	h := &logHandler{conn: newConn(nil, &b, 0), level: slog.LevelInfo}
	var results []map[string]any
	collect := func() []map[string]any {
		c := newConn(&b, io.Discard, minFrame)
		for {
			f, err := c.receive()
			if err != nil {
				return results
			}
			var line bytes.Buffer
			f.Log.writeTo(slog.New(slog.NewJSONHandler(&line, nil)))
			var m map[string]any
			if err := json.Unmarshal(line.Bytes(), &m); err != nil {
				t.Fatal(err)
			}
			results = append(results, m)
		}
	}
	if err := slogtest.TestHandler(h, collect); err != nil {
		t.Error(err)
	}
	b.Reset()
	at := time.Date(2026, 5, 6, 7, 8, 9, 10, time.UTC)
	slog.New(h).Info("m", "s", "<&>", "i", -1, "u", uint64(math.MaxUint64), "f", 1.5, "n", math.Inf(1), "b", true, "d", time.Minute, "t", at,
		"e", fs.ErrNotExist, "j", map[string]any{"a": 1}, "x", func() {}, "p", error((*fs.PathError)(nil)))
	f, err := newConn(&b, io.Discard, minFrame).receive()
	if err != nil {
		t.Fatal(err)
	}
	var line bytes.Buffer
	f.Log.writeTo(slog.New(slog.NewTextHandler(&line, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == "x" || a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})))
	const want = `level=INFO msg=m s=<&> i=-1 u=18446744073709551615 f=1.5 n=+Inf b=true d=1m0s t=2026-05-06T07:08:09.000Z e="file does not exist" j=map[a:1] p="a *fs.PathError whose methods panic: runtime error: invalid memory address or nil pointer dereference"` + "\n"
	if line.String() != want {
		t.Errorf("the line is\n%swant\n%s", line.String(), want)
	}
}

// TestDirectoriesAreSwept checks that the engine's sweep knows the directories of children.
func TestDirectoriesAreSwept(t *testing.T) {
	if DirPrefix != workspace.ProcessPrefix {
		t.Errorf("directories begin with %q, and swept are those with %q", DirPrefix, workspace.ProcessPrefix)
	}
}
