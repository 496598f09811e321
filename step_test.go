package courier_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/courierhq/courier/internal/jsontext"
	"github.com/courierhq/courier/internal/stepcontext"

	"github.com/courierhq/courier"
)

type greetConfig struct {
	Name  string   `json:"name" courier:"required" doc:"whom to greet"`
	Times int      `json:"times" default:"2"`
	Style string   `json:"style" default:"plain"`
	Tags  []string `json:"tags"`
	Inner struct {
		Deep bool `json:"deep"`
	} `json:"inner"`
}

type greetOutput struct {
	Text string `json:"text"`
	N    int64  `json:"n,omitempty"`
}

// greet implements all optional abilities and notes what was called.
type greet struct{ calls *[]string }

func (g greet) Execute(ctx context.Context, job *courier.Context, cfg greetConfig) (greetOutput, error) {
	*g.calls = append(*g.calls, "execute")
	return greetOutput{Text: strings.Repeat("hello "+cfg.Name+" ", cfg.Times) + cfg.Style}, job.Set("extra", 1)
}
func (g greet) Validate(context.Context, *courier.Context, greetConfig) error {
	*g.calls = append(*g.calls, "validate")
	return nil
}
func (g greet) Cleanup(context.Context, *courier.Context, greetConfig) error {
	*g.calls = append(*g.calls, "cleanup")
	return nil
}

func TestRegisterAndExecute(t *testing.T) {
	var reg courier.Registry
	var calls []string
	courier.Register(&reg, "Demo.Greet", greet{&calls}, &courier.TypeOptions{Aliases: []string{"demo.hello"}, Doc: "greets"})
	for _, key := range []string{"demo.greet", "DEMO.GREET", "demo.hello"} {
		if typ, ok := reg.Lookup(key); !ok || typ.Key() != "demo.greet" || typ.Doc() != "greets" {
			t.Errorf("Lookup(%q) = %v, %v", key, typ, ok)
		}
	}
	typ, _ := reg.Lookup("demo.greet")
	out, err := typ.Execute(t.Context(), &courier.Context{}, []byte(`{"name":"Ada"}`))
	if err != nil || string(out) != `{"extra":1,"text":"hello Ada hello Ada plain"}` {
		t.Errorf("Execute = %s, %v", out, err)
	}
	cfg := []byte(`{"name":"x"}`)
	if err := errors.Join(typ.Validate(t.Context(), nil, cfg), typ.Cleanup(t.Context(), nil, cfg), typ.Rollback(t.Context(), nil, cfg)); err != nil {
		t.Error(err)
	}
	if want := []string{"execute", "validate", "cleanup", "cleanup"}; !reflect.DeepEqual(calls, want) {
		t.Errorf("calls = %v, want %v", calls, want)
	}
}

func TestConfigIsDecodedStrictly(t *testing.T) {
	var reg courier.Registry
	var calls []string
	courier.Register(&reg, "demo.greet", greet{&calls}, nil)
	typ, _ := reg.Lookup("demo.greet")
	for cfg, want := range map[string]string{
		`{"nmae":"x"}`:             "unknown field",
		`{}`:                       "name: is required",
		`{"name":""}`:              "name: is required",
		`{"name":1}`:               "name: must be a string",
		`{"name":"x","times":"2"}`: "times: must be a whole number",
		`{"name":"x","times":1.5}`: "times",
	} {
		_, err := typ.Execute(t.Context(), &courier.Context{}, []byte(cfg))
		if err == nil || !strings.Contains(err.Error(), want) || !courier.IsPermanent(err) {
			t.Errorf("%s: %v, want a permanent error with %q", cfg, err, want)
		}
	}
	if len(calls) > 0 {
		t.Errorf("the step was called: %v", calls)
	}
}

func TestCheckReportsAllAtOnce(t *testing.T) {
	var reg courier.Registry
	courier.Register(&reg, "demo.greet", greet{new([]string)}, nil)
	typ, _ := reg.Lookup("demo.greet")
	v, err := jsontext.Parse([]byte(`{"nmae":"x","times":"2","tags":["a",1],"inner":{"depp":true},"style":"context:0.x"}`))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range typ.Check(v.(map[string]any), false) {
		got = append(got, p.String())
	}
	want := []string{
		`config.inner: unknown field "depp"; did you mean "deep"?`,
		`config: unknown field "nmae"; did you mean "name"?`,
		"config.tags[1]: must be a string, not 1",
		"config.times: must be a whole number, not a string",
		"config.name: is required",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if p := typ.Check(map[string]any{"name": "x", "times": json.Number("99999999999999999999")}, true); len(p) != 1 {
		t.Errorf("a number out of range: %v", p)
	}
}

func TestRegisterPanics(t *testing.T) {
	nop := func(context.Context, *courier.Context, struct{}) (struct{}, error) { return struct{}{}, nil }
	for _, key := range []string{"", "greet", "flow.greet", "a..b", "a.b c", "1.a", "demo.taken", "é.a"} {
		var reg courier.Registry
		courier.RegisterFunc(&reg, "demo.taken", nop, nil)
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("Register(%q) did not panic", key)
				}
			}()
			courier.RegisterFunc(&reg, key, nop, nil)
		}()
	}
}

func TestRegisterRefusesWhatJSONCannotHold(t *testing.T) {
	mustPanic := func(what string, f func(r *courier.Registry)) {
		t.Helper()
		defer func() {
			if recover() == nil {
				t.Errorf("Register took %s", what)
			}
		}()
		f(new(courier.Registry))
	}
	mustPanic("a number as configuration", func(r *courier.Registry) {
		courier.RegisterFunc(r, "demo.bad", func(context.Context, *courier.Context, int) (struct{}, error) { return struct{}{}, nil }, nil)
	})
	mustPanic("a text as output", func(r *courier.Registry) {
		courier.RegisterFunc(r, "demo.bad", func(context.Context, *courier.Context, struct{}) (string, error) { return "", nil }, nil)
	})
	mustPanic("a list as output", func(r *courier.Registry) {
		courier.RegisterFunc(r, "demo.bad", func(context.Context, *courier.Context, struct{}) ([]string, error) { return nil, nil }, nil)
	})
	mustPanic("a tag that is misspelt", func(r *courier.Registry) {
		type inner struct {
			N int `courier:"requird"`
		}
		courier.RegisterFunc(r, "demo.bad", func(context.Context, *courier.Context, struct{ L []*inner }) (struct{}, error) {
			return struct{}{}, nil
		}, nil)
	})
	mustPanic("a channel as output", func(r *courier.Registry) {
		courier.RegisterFunc(r, "demo.bad", func(context.Context, *courier.Context, struct{}) (chan int, error) { return nil, nil }, nil)
	})
	mustPanic("a function in a list of structs", func(r *courier.Registry) {
		type inner struct{ F func() }
		courier.RegisterFunc(r, "demo.bad", func(context.Context, *courier.Context, struct{ L []inner }) (struct{}, error) { return struct{}{}, nil }, nil)
	})
}

func TestOutputsAreNeverAltered(t *testing.T) {
	run := func(v any) (json.RawMessage, error) {
		var reg courier.Registry
		courier.RegisterFunc(&reg, "demo.out", func(_ context.Context, job *courier.Context, _ struct{}) (struct{}, error) {
			return struct{}{}, job.Set("v", v)
		}, nil)
		typ, _ := reg.Lookup("demo.out")
		return typ.Execute(t.Context(), &courier.Context{}, nil)
	}
	for _, bad := range []any{"caf\xe9.txt", "a\x00b", map[string]any{"x": []string{"\xff"}}, func() {}} {
		if out, err := run(bad); err == nil {
			t.Errorf("%q was stored as %s", bad, out)
		}
	}
	for _, good := range []any{"\uFFFD", `\ufffd`, `\\u0000`, "<&>", uint64(1<<63 + 1), json.Number("1e400")} {
		out, err := run(good)
		if err != nil {
			t.Errorf("%v: %v", good, err)
			continue
		}
		v, _ := jsontext.Parse(out)
		got, _ := jsontext.Append(nil, v.(map[string]any)["v"])
		if want, _ := jsontext.Append(nil, good); string(got) != string(want) {
			t.Errorf("%v became %s", good, got)
		}
	}
}

func TestGetAndSnapshot(t *testing.T) {
	job := courier.NewContext(courier.ContextConfig{Values: courier.Values{
		"0.n": json.Number("9007199254740993"), "0.list": []any{"a"}, "params.day": "today",
	}})
	if n, err := courier.Get[int64](job, "0.n"); n != 9007199254740993 || err != nil {
		t.Errorf("Get = %d, %v", n, err)
	}
	if _, err := courier.Get[int8](job, "0.n"); err == nil {
		t.Error("Get into an int8 lost digits without an error")
	}
	if _, err := courier.Get[string](job, "0.m"); !errors.Is(err, courier.ErrNotFound) {
		t.Errorf("Get of nothing: %v", err)
	}
	if s, ok := courier.TryGet[[]string](job, "0.list"); !ok || s[0] != "a" {
		t.Errorf("TryGet = %v, %v", s, ok)
	}
	if s := stepcontext.Of(job).Snapshot(); len(s) != 3 || s["params.day"] != "today" {
		t.Errorf("Snapshot = %v", s)
	}
	var zero courier.Context
	if _, ok := courier.TryGet[int](&zero, "0.n"); ok || len(stepcontext.Of(&zero).Snapshot()) != 0 || zero.Attempt() != 1 {
		t.Error("the zero Context is not empty")
	}
	if err := zero.Set("a.b", 1); err == nil {
		t.Error("Set took a name with a dot")
	}
}

// Null is missing for a type that can't hold it, as an output that its step left
// out reads.
func TestTryGetOfNull(t *testing.T) {
	job := courier.NewContext(courier.ContextConfig{Values: courier.Values{"0.n": nil, "0.zero": json.Number("0"), "0.o": map[string]any{"n": nil}}})
	defer job.Close()
	for name, got := range map[string]bool{
		"int": has[int](job, "0.n"), "float64": has[float64](job, "0.n"), "string": has[string](job, "0.n"), "bool": has[bool](job, "0.n"),
		"struct": has[struct{ A int }](job, "0.n"), "array": has[[2]int](job, "0.n"), "a part": has[int](job, "0.o.n"), "json.Number": has[json.Number](job, "0.n"),
	} {
		if got {
			t.Errorf("%s: null is a value", name)
		}
	}
	for name, got := range map[string]bool{
		"*int": has[*int](job, "0.n"), "any": has[any](job, "0.n"), "list": has[[]int](job, "0.n"), "map": has[map[string]int](job, "0.n"),
		"json.RawMessage": has[json.RawMessage](job, "0.n"), "a real 0": has[int](job, "0.zero"), "around it": has[map[string]any](job, "0.o"),
	} {
		if !got {
			t.Errorf("%s: the value is missing", name)
		}
	}
	if n, ok := courier.TryGet[int](job, "0.n"); n != 0 || ok {
		t.Errorf("TryGet = %d, %t", n, ok)
	}
}

func has[T any](job *courier.Context, key string) bool {
	_, ok := courier.TryGet[T](job, key)
	return ok
}

func TestProgressAddsUp(t *testing.T) {
	var last courier.Progress
	job := courier.NewContext(courier.ContextConfig{OnProgress: func(p courier.Progress) { last = p }})
	job.Progress(10, 100, "a")
	job.Progress(5, -1, "b")
	job.Progress(100, 100, "a")
	job.Progress(100, 100, "a") // a repeated end counts once
	job.Progress(7, -1, "b")
	if job.Reports().Bytes != 107 || last.Bytes != 107 || last.Item != "b" {
		t.Errorf("bytes = %d, last = %+v", job.Reports().Bytes, last)
	}
	job.Progress(3, -1, "b") // started again
	if job.Reports().Bytes != 110 {
		t.Errorf("bytes after a restart = %d, want 110", job.Reports().Bytes)
	}
}

type conn struct {
	name   string
	closed *[]string
}

func (c *conn) Close() error { *c.closed = append(*c.closed, c.name); return nil }

func TestKeep(t *testing.T) {
	var closed []string
	res := new(courier.Resources)
	job := courier.NewContext(courier.ContextConfig{Resources: res})
	opened := 0
	get := func(key string) (*conn, error) {
		return courier.Keep(t.Context(), job, key, func(context.Context) (*conn, error) {
			opened++
			return &conn{key, &closed}, nil
		})
	}
	a, err := get("a")
	if again, _ := get("a"); err != nil || again != a || opened != 1 {
		t.Errorf("the second Keep opened again: %d, %v", opened, err)
	}
	if _, err := courier.Keep(t.Context(), job, "a", func(context.Context) (io.ReadCloser, error) { return nil, nil }); err == nil {
		t.Error("a key served two types")
	}
	job.Drop("a")
	if b, _ := get("a"); b == a || len(closed) != 1 {
		t.Errorf("Drop did not close and forget: %v", closed)
	}
	get("b")
	fail := errors.New("no")
	if _, err := courier.Keep(t.Context(), job, "c", func(context.Context) (*conn, error) { return nil, fail }); !errors.Is(err, fail) {
		t.Errorf("error of open: %v", err)
	}
	job.Close() // the resources belong to the execution, not to the attempt
	if len(closed) != 1 {
		t.Errorf("closed with the attempt: %v", closed)
	}
	res.Close()
	if want := []string{"a", "b", "a"}; !reflect.DeepEqual(closed, want) {
		t.Errorf("closed = %v, want %v", closed, want)
	}
	if _, err := get("d"); err == nil {
		t.Error("something was opened after Close")
	}
}

// bomb is a resource that can't be closed.
type bomb struct{}

func (bomb) Close() error { panic("boom") }

func TestPanicOfCloseIsAnError(t *testing.T) {
	var closed []string
	res := new(courier.Resources)
	job := courier.NewContext(courier.ContextConfig{Resources: res})
	_, err1 := courier.Keep(t.Context(), job, "conn", func(context.Context) (*conn, error) { return &conn{"a", &closed}, nil })
	_, err2 := courier.Keep(t.Context(), job, "bomb", func(context.Context) (bomb, error) { return bomb{}, nil })
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	if err := res.Close(); err == nil || !strings.Contains(err.Error(), "close a courier_test.bomb: panic: boom") || len(closed) != 1 {
		t.Errorf("Close = %v, closed %v; want the panic as an error, and the other one closed", err, closed)
	}
}

func TestKeepOpensOnceForMany(t *testing.T) {
	var job courier.Context
	var mu sync.Mutex
	var wg sync.WaitGroup
	opened, closed := 0, []string(nil)
	for range 50 {
		wg.Go(func() {
			_, err := courier.Keep(t.Context(), &job, "x", func(context.Context) (*conn, error) {
				mu.Lock()
				defer mu.Unlock()
				opened++
				return &conn{"x", &closed}, nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	job.Close()
	if opened != 1 || len(closed) != 1 {
		t.Errorf("opened %d, closed %d", opened, len(closed))
	}
}

func TestSchemaFollowsJSON(t *testing.T) {
	type inner struct {
		Deep string `json:"deep"`
	}
	type config struct {
		*inner
		Quoted int64 `json:"quoted,string"`
	}
	var reg courier.Registry
	courier.RegisterFunc(&reg, "demo.odd", func(context.Context, *courier.Context, config) (struct{}, error) { return struct{}{}, nil }, nil)
	typ, _ := reg.Lookup("demo.odd")
	if p := typ.Check(map[string]any{"quoted": "7"}, true); len(p) != 0 {
		t.Errorf("problems: %v", p)
	}
	if got := typ.Config().Names(); !reflect.DeepEqual(got, []string{"deep", "quoted"}) {
		t.Errorf("names: %v", got)
	}
}

func TestParseValueTakesOneValue(t *testing.T) {
	for _, s := range []string{"[1]]", "1}", "1 2", "", "[1"} {
		if v, err := jsontext.Parse([]byte(s)); err == nil {
			t.Errorf("ParseValue(%q) = %v", s, v)
		}
	}
}
