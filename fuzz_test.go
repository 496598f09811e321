package courier_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/courierhq/courier/internal/jsontext"

	"github.com/courierhq/courier"
)

// mustAppend returns the JSON text of v.
func mustAppend(t *testing.T, v any) []byte {
	t.Helper()
	b, err := jsontext.Append(nil, v)
	if err != nil {
		t.Fatalf("%+v can't be written: %v", v, err)
	}
	return b
}

// FuzzJob reads anything as a job. What is accepted is what encoding/json
// reads, and survives being stored.
func FuzzJob(f *testing.F) {
	for _, s := range []string{
		`{"name":"n","steps":[{"id":"a","type":"a.b","config":{"x":"${context:0.y}","n":1.50,"l":[null,true]},"timeout_seconds":1.5,"stall_timeout_seconds":0}]}`,
		`{"name":"n","version":3,"failure_policy":"retry_job","params":{},"queue":"q","limit":2,"limit_keys":["a"],"steps":[]}`,
		`{"failure_policy":{"type":"retry_step","max_retries":0,"backoff_base_seconds":0.5,"backoff_max_seconds":9223372036.854775807}}`,
		`{"nmae":1,"name":1,"steps":[{"typ":"x"},1,{"config":[]}],"name":"x"}`,
		`{"name":"\ud800"}`, "{\"name\":\"\xff\"}", `{"steps":{"a":[{}]}}`, `[`, `{"name":"a","steps":null} x`, `{"NAME":"x"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var job courier.Job
		if err := json.Unmarshal(text, &job); err != nil {
			if len(err.Error()) > 100_000 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
			return
		}
		var oracle struct {
			Name, Queue string
			Limit       int
			Keys        []string `json:"limit_keys"`
			Steps       []struct{ ID, Type, Name string }
		}
		if err := json.Unmarshal(text, &oracle); err != nil {
			t.Fatalf("encoding/json refuses it: %v", err)
		}
		if !utf8.Valid(text) {
			t.Error("text that is not UTF-8 is accepted, and so altered")
		}
		same := job.Name == oracle.Name && job.Queue == oracle.Queue && job.Limit == oracle.Limit &&
			reflect.DeepEqual(job.LimitKeys, oracle.Keys) && len(job.Steps) == len(oracle.Steps)
		for i, s := range oracle.Steps {
			same = same && job.Steps[i].ID == s.ID && job.Steps[i].Type == s.Type && job.Steps[i].Name == s.Name
		}
		if !same {
			t.Errorf("read %+v, encoding/json reads %+v", job, oracle)
		}
		stored, err := jsontext.Append(nil, job)
		if err != nil {
			if !bytes.Contains(text, []byte(`\u0000`)) {
				t.Errorf("accepted, but not storable: %v", err)
			}
			return
		}
		var back courier.Job
		if err := json.Unmarshal(stored, &back); err != nil {
			t.Fatalf("%s is stored, and then: %v", stored, err)
		}
		if again := mustAppend(t, back); !bytes.Equal(again, stored) {
			t.Errorf("%s is stored, then %s", stored, again)
		}
		if (back.Params == nil) != (job.Params == nil) || len(back.Params) != len(job.Params) {
			t.Errorf("params %#v become %#v", job.Params, back.Params)
		}
		for i := range job.Steps {
			if a, b := job.Steps[i].Timeout, back.Steps[i].Timeout; !reflect.DeepEqual(a, b) {
				t.Errorf("step %d: timeout %v becomes %v", i, a, b)
			}
		}
	})
}

// FuzzFailurePolicy checks that a policy that is accepted survives being
// stored, and that its figures are usable.
func FuzzFailurePolicy(f *testing.F) {
	for _, s := range []string{
		`"stop"`, `"retry_step"`, `{"type":"retry_job","max_retries":5}`, `{"backoff_base_seconds":1e-9,"backoff_max_seconds":9e9}`,
		`{"type":"retry_step","max_retries":-1}`, `{"type":"skip"}`, `{}`, `null`, `{"max_retries":null}`,
	} {
		f.Add([]byte(s), 3)
	}
	f.Fuzz(func(t *testing.T, text []byte, n int) {
		var p courier.FailurePolicy
		if json.Unmarshal(text, &p) != nil {
			return
		}
		var back courier.FailurePolicy
		if err := json.Unmarshal(mustAppend(t, p), &back); err != nil {
			t.Fatal(err)
		}
		if p.Type == "" {
			p.Type = courier.Stop
		}
		if !reflect.DeepEqual(p, back) {
			t.Errorf("%s is %+v, then %+v", text, p, back)
		}
		n = max(0, min(n, math.MaxInt-1))
		d, next := p.Backoff(n), p.Backoff(n+1)
		if p.Retries() < 0 || d < 0 || next < d || p.BackoffMax != nil && next > *p.BackoffMax {
			t.Errorf("%+v: %d retries, backoff %v, then %v", p, p.Retries(), d, next)
		}
		base, most := time.Second, time.Minute
		if p.BackoffBase != nil {
			base = *p.BackoffBase
		}
		if p.BackoffMax != nil {
			most = *p.BackoffMax
		}
		want := new(big.Int).Lsh(big.NewInt(int64(base)), uint(min(n, 100)))
		if want.Cmp(big.NewInt(int64(most))) > 0 {
			want.SetInt64(int64(most))
		}
		if want.Cmp(big.NewInt(int64(d))) != 0 {
			t.Errorf("%+v: backoff %d is %v, want %v ns", p, n, d, want)
		}
	})
}

// FuzzSeconds checks that durations keep every nanosecond in JSON, and that
// their text is read as math/big reads it.
func FuzzSeconds(f *testing.F) {
	f.Add(int64(1_500_000_000), "1.5")
	f.Add(int64(math.MaxInt64), "9223372036.854775807")
	f.Add(int64(math.MinInt64), "-1")
	f.Add(int64(9_007_199_254_740_993), "1e-9")
	f.Add(int64(1), "4e-10")
	f.Add(int64(-1), "12345678.0000000019")
	f.Fuzz(func(t *testing.T, ns int64, text string) {
		d := time.Duration(ns)
		var entry courier.AuditEntry
		if err := json.Unmarshal(mustAppend(t, courier.AuditEntry{Elapsed: d}), &entry); err != nil || entry.Elapsed != d {
			t.Errorf("an elapsed time of %d ns becomes %d, %v", d, entry.Elapsed, err)
		}
		var x courier.Execution
		if err := json.Unmarshal(mustAppend(t, courier.Execution{Timeout: d}), &x); err != nil || x.Timeout != d {
			t.Errorf("a timeout of %d ns of an execution becomes %d, %v", d, x.Timeout, err)
		}
		var s courier.StepSpec
		err := json.Unmarshal(mustAppend(t, courier.StepSpec{Timeout: &d}), &s)
		if d < 0 && err == nil || d >= 0 && (err != nil || *s.Timeout != d) {
			t.Errorf("a timeout of %d ns becomes %v, %v", d, s.Timeout, err)
		}

		text = strings.TrimSpace(text)
		if _, exponent, _ := strings.Cut(strings.ToLower(text), "e"); len(exponent) > 4 || !json.Valid([]byte(text)) {
			return
		}
		want, ok := new(big.Rat).SetString(text)
		s = courier.StepSpec{}
		err = json.Unmarshal([]byte(`{"timeout_seconds":`+text+`}`), &s)
		switch {
		case err != nil && len(err.Error()) > 200:
			t.Errorf("the error has %d bytes", len(err.Error()))
		case !ok: // text, null, an object
			if s.Timeout != nil {
				t.Errorf("%s is %v", text, *s.Timeout)
			}
			return
		}
		want.Mul(want, big.NewRat(int64(time.Second), 1))
		least, most := big.NewRat(1, 1), new(big.Rat).SetInt64(math.MaxInt64)
		switch {
		case want.Sign() == 0, want.Cmp(least) >= 0 && want.Cmp(most) <= 0:
			if err != nil || s.Timeout == nil {
				t.Fatalf("%s is refused: %v", text, err)
			}
			got := new(big.Rat).SetInt64(int64(*s.Timeout))
			if diff := got.Sub(got, want); diff.Abs(diff).Cmp(big.NewRat(2, 1)) > 0 {
				far, _ := diff.Float64()
				if relative, _ := want.Float64(); far > relative/(1<<52) {
					t.Errorf("%s is %d ns", text, *s.Timeout)
				}
			}
		case want.Sign() < 0 && err == nil:
			t.Errorf("%s is accepted as %v", text, *s.Timeout)
		}
	})
}

// FuzzRecords reads anything as what stores keep. What is accepted is written
// and read again without a change.
func FuzzRecords(f *testing.F) {
	for _, s := range []string{
		`{"step":3,"loops":[{"step":1,"index":2}]}`,
		`{"id":"0190","job":"n","version":1,"state":"running","queue":"default","priority":-3,"attempt":1,"position":{"step":1},"params":{"a":[1.0,"<"]},"created_at":"2024-02-29T23:59:59.999999999Z","due_at":"2024-01-01T00:00:00+02:00","timeout_seconds":1.5,"current":{"iteration":[0,1]}}`,
		`{"execution_id":"0190","seq":7,"at":"2024-01-01T00:00:00Z","step":0,"from":"running","to":"completed","elapsed_seconds":-0.25}`,
		`{"step":-1,"reason":"error","message":"no\u2028"}`,
		`{"Type":"StepProgress","At":"2024-01-01T00:00:00Z","ItemTotal":-1,"Iteration":[1]}`,
		`{"execution_id":"0190","outputs":{"a":"\ud83d\ude00"},"files":[{"path":"a","size":1}],"ended_at":"0001-01-01T00:00:00Z"}`,
		`{"timeout_seconds":null,"elapsed_seconds":null}`,
	} {
		for kind := range uint8(7) {
			f.Add(kind, []byte(s))
		}
	}
	f.Fuzz(func(t *testing.T, kind uint8, text []byte) {
		switch kind % 7 {
		case 0:
			stable[courier.Position](t, text)
		case 1:
			stable[courier.Execution](t, text)
		case 2:
			stable[courier.StepExecution](t, text)
		case 3:
			stable[courier.AuditEntry](t, text)
		case 4:
			stable[courier.Event](t, text)
		case 5:
			stable[courier.StepSpec](t, text)
		case 6:
			stable[courier.Problem](t, text)
		}
	})
}

func stable[T any](t *testing.T, text []byte) {
	t.Helper()
	var v T
	if json.Unmarshal(text, &v) != nil {
		return
	}
	first, err := json.Marshal(v)
	if err != nil {
		t.Fatalf("%T %s can't be written: %v", v, text, err)
	}
	var back T
	if err := json.Unmarshal(first, &back); err != nil {
		t.Fatalf("%s can't be read again: %v", first, err)
	}
	if again, err := json.Marshal(back); err != nil || !bytes.Equal(first, again) {
		t.Errorf("%s becomes %s, %v", first, again, err)
	}
}

// FuzzValue reads anything as a JSON value. What encoding/json would alter is
// refused, and what is written is read again as the same value.
func FuzzValue(f *testing.F) {
	for _, s := range []string{
		`{"a":[1.50,-0,1e400,null,true,"<>& \u2028"]}`, `"\u0000"`, `"\ufffd"`, `"\uFFFD"`, `"\ud83d\ude00"`, `"\ud800"`, `"\udc00\ud800"`, `"\\ud800"`, "\"\xff\"", `1 2`, ` 1 `, `{"a":1,"a":2}`, ``, `[[[[`, "\"\ufffd\"",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		v, err := jsontext.Parse(text)
		var plain any
		dec := json.NewDecoder(bytes.NewReader(text))
		dec.UseNumber()
		valid := json.Valid(text) && dec.Decode(&plain) == nil
		if err != nil {
			// Replacement characters that were not there are a reason.
			if valid && utf8.Valid(text) && !bytes.Contains(bytes.ToLower(text), []byte(`\ud`)) {
				t.Errorf("ParseValue(%q) = %v", text, err)
			}
		} else if !valid || !reflect.DeepEqual(v, plain) {
			t.Errorf("ParseValue(%q) = %#v, encoding/json reads %#v", text, v, plain)
		} else if shown := fmt.Sprintf("%q", v); strings.Contains(shown, "\ufffd") && !bytes.Contains(text, []byte("\ufffd")) && !bytes.Contains(bytes.ToLower(text), []byte(`\ufffd`)) {
			t.Errorf("ParseValue(%q) = %s, which is altered", text, shown)
		}
		if valid {
			raw, rawErr := jsontext.Append([]byte("x"), json.RawMessage(text))
			if rawErr == nil && !utf8.Valid(raw) {
				t.Errorf("AppendJSON writes the text %q as %q", text, raw)
			}
			if got, e := jsontext.Parse(raw[1:]); rawErr == nil && (e != nil || err != nil || !reflect.DeepEqual(got, v)) {
				t.Errorf("AppendJSON writes the text %q as %q: %v", text, raw, e)
			}
		}
		if err != nil {
			return
		}
		out, err := jsontext.Append(nil, v)
		if err != nil {
			if !bytes.Contains(text, []byte(`\u0000`)) {
				t.Errorf("AppendJSON(%#v) = %v", v, err)
			}
			return
		}
		if back, err := jsontext.Parse(out); err != nil || !reflect.DeepEqual(back, v) {
			t.Errorf("%q becomes %q: %#v, %v", text, out, back, err)
		}
		if s, ok := v.(string); jsontext.Text(v) != s && ok || !ok && v != nil && jsontext.Text(v) != string(out) {
			t.Errorf("Text(%#v) = %q", v, jsontext.Text(v))
		}
	})
}

// everything is a configuration with every kind of field.
type everything struct {
	Text    string             `json:"text" courier:"required"`
	Mode    string             `json:"mode" default:"fast"`
	Count   int8               `json:"count" default:"3"`
	Big     uint64             `json:"big"`
	Ratio   float32            `json:"ratio" default:"0.5"`
	Exact   json.Number        `json:"exact"`
	On      *bool              `json:"on" default:"true"`
	Bytes   []byte             `json:"bytes"`
	At      time.Time          `json:"at"`
	List    []string           `json:"list" default:"[\"a\"]"`
	Pair    [2]int             `json:"pair"`
	Map     map[string]int     `json:"map"`
	Any     any                `json:"any"`
	Policy  courier.Policy     `json:"policy"`
	Inner   struct{ X, Y int } `json:"inner"`
	Untaged string
	nested
}

type nested struct {
	Deep []struct {
		Name string `json:"name"`
	} `json:"deep"`
}

// FuzzConfig decodes anything as a step's configuration, after another one, for
// decoders are used again. It is decoded as encoding/json does it without that,
// and what can be decoded is not refused beforehand.
func FuzzConfig(f *testing.F) {
	for _, s := range []string{
		`{"text":"x"}`, `{"text":"x","count":-128,"big":18446744073709551615,"ratio":1e3,"exact":1.0,"on":null,"bytes":"eA==","at":"2024-01-01T00:00:00Z","list":[],"pair":[1,2,3],"map":{"a":1},"any":{"b":[1]},"inner":{"X":1},"deep":[{"name":"n"}],"Untaged":"u"}`,
		`{}`, `{"text":""}`, `{"text":"x","list":null}`, `{"TEXT":"x"}`, `{"text":"x","unknown":1}`, `{"text":"x"}{}`, `{"text":"x"} `, `[]`, `{"count":1000}`, `{"text":"context:0.x"}`, `{"text":1}`, ``, `null`, `{"text":"x","ratio":1,"exact":2}`, `{"text":"a","inner":{"x":1.0}}`, `{"text":"a","inner":{"x":1}}`, `{"text":"a","untaged":"u"}`, `{"text":"a","deep":[{"Name":"n"}]}`,
	} {
		f.Add([]byte(s), []byte(`{"text":"y"}`))
		f.Add([]byte(`{"text":"y"}`), []byte(s))
	}
	var got everything
	var reg courier.Registry
	courier.RegisterFunc(&reg, "fuzz.config", func(_ context.Context, _ *courier.Context, c everything) (struct{}, error) {
		got = c
		return struct{}{}, nil
	}, nil)
	typ, _ := reg.Lookup("fuzz.config")
	run := func(t *testing.T, config []byte) error {
		job := courier.NewContext(courier.ContextConfig{})
		defer job.Close()
		got = everything{}
		_, err := typ.Execute(t.Context(), job, config)
		if e, ok := errors.AsType[*courier.ConfigError](err); err != nil && (!ok || e.Error() == "" || !courier.IsPermanent(err)) {
			t.Errorf("the error of a configuration is a %T: %v", err, err)
		}
		return err
	}
	f.Fuzz(func(t *testing.T, config, before []byte) {
		run(t, before)
		err := run(t, config)

		want := everything{Mode: "fast", Count: 3, Ratio: 0.5, On: new(true), List: []string{"a"}}
		dec := json.NewDecoder(bytes.NewReader(config))
		dec.DisallowUnknownFields()
		dec.UseNumber()
		wantErr := error(nil)
		if len(config) > 0 {
			wantErr = dec.Decode(&want)
		}
		if wantErr == nil && (len(config) > 0 && !json.Valid(config) || want.Text == "") {
			wantErr = errors.New("more than one value, or a required field is empty")
		}
		if wantErr == nil && repeated(config) {
			return // internal/jsontext has tests of these
		}
		if wantErr == nil && len(config) > 0 && !exactNames(t, config, want) {
			wantErr = errors.New("the name of a field in another letter case")
		}
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("%q: %v, want %v", config, err, wantErr)
		}
		if err == nil && !reflect.DeepEqual(got, want) {
			t.Errorf("%q is %+v, want %+v", config, got, want)
		}

		v, parseErr := jsontext.Parse(config)
		fields, ok := v.(map[string]any)
		if parseErr != nil || !ok {
			return
		}
		problems := typ.Check(fields, true)
		if len(problems) == 0 && err != nil && !strings.Contains(string(config), ":") {
			t.Errorf("Check accepts %q, but: %v", config, err)
		}
		// Check is stricter only in the letter case of names, and in that null
		// can't be told from nothing where something is required.
		for _, p := range problems {
			if err == nil && !strings.Contains(p.Message, "unknown field") && !strings.Contains(p.Message, "required") && !strings.Contains(p.Message, "given twice") && !repeated(config) {
				t.Errorf("Check(%q): %v", config, p)
			}
		}
	})
}

// exactNames reports whether a text has no other names than what was decoded from it has when
// it is encoded: package json takes names in any letter case, which is right for fields that
// have none in JSON, whose names begin with a capital here.
func exactNames(t *testing.T, text []byte, decoded everything) bool {
	again, err := json.Marshal(decoded)
	if err != nil {
		t.Fatal(err)
	}
	var given, known any
	if err := errors.Join(json.Unmarshal(text, &given), json.Unmarshal(again, &known)); err != nil {
		t.Fatal(err)
	}
	return hasNames(known, given)
}

// hasNames reports whether known has the names of all objects in given.
func hasNames(known, given any) bool {
	switch given := given.(type) {
	case map[string]any:
		object, ok := known.(map[string]any)
		taken := make(map[string]bool)
		for name, value := range given {
			for own := range object {
				if own != "" && own[0] >= 'A' && own[0] <= 'Z' && strings.EqualFold(own, name) {
					name = own
				}
			}
			inner, is := object[name]
			if ok && name != "policy" && (!is || taken[name] || !hasNames(inner, value)) {
				return false
			}
			taken[name] = true
		}
	case []any:
		list, _ := known.([]any)
		for i := range min(len(list), len(given)) {
			if !hasNames(list[i], given[i]) {
				return false
			}
		}
	}
	return true
}

// repeated reports whether the text of an object has names twice, of which a
// decoder and a map may keep different ones.
func repeated(text []byte) bool {
	v, _ := jsontext.Parse(text)
	compact, err := json.Marshal(v)
	var plain bytes.Buffer
	return err != nil || json.Compact(&plain, text) != nil || plain.Len() > len(compact)
}

// FuzzPath asks for anything as the path of a file. It is below the workspace
// or an allowed directory, and means the same when it is used again.
func FuzzPath(f *testing.F) {
	dir := f.TempDir()
	work, other := filepath.Join(dir, "box"), filepath.Join(dir, "other")
	for _, s := range []string{"a/b", "../x", "/etc/passwd", ".", "a/../../box/x", work + "/x", other, other + "/../box", other + "-not", "a\x00", "\xff", "a//b/", "C:/x", `\\x`, "~/x"} {
		f.Add(s)
	}
	job := courier.NewContext(courier.ContextConfig{Execution: "x", Workspace: work, Roots: []string{other}})
	f.Cleanup(func() { job.Close() })
	f.Fuzz(func(t *testing.T, name string) {
		p, err := job.Files().Path(name)
		if err != nil {
			if !courier.IsPermanent(err) || len(err.Error()) > 1000+len(dir) {
				t.Errorf("Path(%q) = %v", name, err)
			}
			return
		}
		full := filepath.FromSlash(p)
		if !filepath.IsAbs(full) {
			full = filepath.Join(work, full)
		}
		if full != work && full != other && !strings.HasPrefix(full, work+string(filepath.Separator)) && !strings.HasPrefix(full, other+string(filepath.Separator)) {
			t.Errorf("Path(%q) = %q", name, p)
		}
		for _, again := range []string{p, full} {
			if q, err := job.Files().Path(again); err != nil || q != p {
				t.Errorf("Path(%q) = %q, and of %q it is %q, %v", name, p, again, q, err)
			}
		}
		if root, rel, err := job.Files().Root(name); err == nil && filepath.Join(root.Name(), rel) != full {
			t.Errorf("Root(%q) = %q, %q, but the path is %q", name, root.Name(), rel, p)
		}
	})
}

// TestTextIsNotAltered gives text that package json would change in silence.
func TestTextIsNotAltered(t *testing.T) {
	for _, text := range []string{"\"M\xfcller\"", `"\ud800"`, `"\udc00\ud800"`, `"\ud800\\udc00"`, `"\ud800x"`, `"\\\udfff"`} {
		if v, err := jsontext.Parse([]byte(text)); err == nil {
			t.Errorf("ParseValue(%q) = %q", text, v)
		}
		var job courier.Job
		if err := json.Unmarshal([]byte(`{"name":`+text+`,"steps":[]}`), &job); err == nil || !strings.Contains(err.Error(), "UTF-8") {
			t.Errorf("the name %q is read as %q, %v", text, job.Name, err)
		}
		if b, err := jsontext.Append(nil, map[string]any{"x": json.RawMessage(text)}); err == nil {
			t.Errorf("AppendJSON writes %q", b)
		}
	}
	for _, text := range []string{`"\ud83d\ude00"`, `"\\ud800"`, "\"\ufffd\"", `"\u00fc"`, `"\\\ud83d\ude00\\"`} {
		if _, err := jsontext.Parse([]byte(text)); err != nil {
			t.Errorf("ParseValue(%q) = %v", text, err)
		}
		if _, err := jsontext.Append(nil, json.RawMessage(text)); err != nil {
			t.Errorf("AppendJSON(%q) = %v", text, err)
		}
	}
}

// TestEmptyParamsStay stores a job that declares that it has no params, which
// is not the same as declaring nothing.
func TestEmptyParamsStay(t *testing.T) {
	for want, params := range map[string]map[string]any{
		`{"name":"","params":{},"steps":null}`: {},
		`{"name":"","steps":null}`:             nil,
	} {
		stored := mustAppend(t, courier.Job{Params: params})
		var back courier.Job
		if err := json.Unmarshal(stored, &back); err != nil || string(stored) != want || (back.Params == nil) != (params == nil) {
			t.Errorf("%#v is stored as %s and read as %#v, %v", params, stored, back.Params, err)
		}
	}
}

// TestSecondsInJSON writes durations as people do, and to the nanosecond.
func TestSecondsInJSON(t *testing.T) {
	for want, d := range map[string]time.Duration{
		"0": 0, "1": time.Second, "300": 5 * time.Minute, "0.5": 500 * time.Millisecond, "-0.25": -250 * time.Millisecond,
		"0.000000001": 1, "9223372036.854775807": math.MaxInt64, "-9223372036.854775808": math.MinInt64, "9007199.254740993": 9007199254740993,
	} {
		if got := string(mustAppend(t, courier.AuditEntry{Elapsed: d})); !strings.HasSuffix(got, `"elapsed_seconds":`+want+"}") {
			t.Errorf("%d ns is %s, want %s", d, got, want)
		}
	}
	var x courier.Execution
	if err := json.Unmarshal([]byte(`{"timeout_seconds":null}`), &x); err != nil || x.Timeout != 0 {
		t.Errorf("null is %v, %v", x.Timeout, err)
	}
}

// TestLongNumbers checks that errors do not repeat what is very long.
func TestLongNumbers(t *testing.T) {
	digits := strings.Repeat("1", 100_000)
	for _, text := range []string{`{"version":` + digits + `}`, `{"steps":[{"timeout_seconds":-1.` + digits + `},{"timeout_seconds":99999999999.` + digits + `},{"timeout_seconds":0.0000000000` + digits + `}]}`} {
		var job courier.Job
		if err := json.Unmarshal([]byte(text), &job); err == nil || len(err.Error()) > 1000 {
			t.Errorf("%.40s: %.200v", text, err)
		}
	}
}
