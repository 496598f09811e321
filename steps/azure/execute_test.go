package azure_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/steps/azure"
)

// A bench runs attempts of one step in one workspace, in virtual time.
type bench struct {
	*testing.T
	cloud   *cloud
	opt     *azure.Options
	dir     string
	attempt int
	trace   string // trace context of the attempt
	log     bytes.Buffer
	texts   strings.Builder // all errors and outputs
}

// in calls f with a bench and its cloud.
func in(t *testing.T, f func(b *bench)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{T: t, cloud: newCloud(), dir: dir}
		net, stop := serve(t, b.cloud)
		b.opt = options(net)
		f(b)
		stop()
		b.clean()
	})
}

// clean fails the test if a key is anywhere.
func (b *bench) clean() {
	all := b.texts.String() + b.log.String()
	err := filepath.WalkDir(b.dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(p)
		all += string(text)
		return err
	})
	if err != nil {
		b.Error(err)
	}
	if i := strings.Index(all, "canary"); i >= 0 {
		b.Errorf("a key shows: %.200s", all[max(0, i-100):])
	}
}

func (b *bench) job(cancelled bool) *courier.Context {
	return courier.NewContext(courier.ContextConfig{
		Execution: "e1", Step: 2, Attempt: b.attempt, Workspace: b.dir, Cancelled: cancelled, Trace: b.trace,
		Log: slog.New(slog.NewTextHandler(&b.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
}

func (b *bench) typ() *courier.StepType {
	var r courier.Registry
	azure.Register(&r, b.opt)
	typ, _ := r.Lookup("azure_function.execute")
	return typ
}

func (b *bench) call(ctx context.Context, cfg object) (out azure.ExecuteOutput, err error) {
	b.Helper()
	config, err := json.Marshal(cfg)
	if err != nil {
		b.Fatal(err)
	}
	b.attempt++
	job := b.job(false)
	defer job.Close()
	raw, err := b.typ().Execute(ctx, job, config)
	if err == nil {
		err = json.Unmarshal(raw, &out)
	}
	fmt.Fprintf(&b.texts, "%s %v\n", raw, err)
	return out, err
}

func (b *bench) run(cfg object) (azure.ExecuteOutput, error) {
	b.Helper()
	return b.call(context.Background(), cfg)
}

func (b *bench) fails(cfg object, permanent bool, want string) {
	b.Helper()
	_, err := b.run(cfg)
	if err == nil || !strings.Contains(err.Error(), want) {
		b.Errorf("the error is %v, want %q in it", err, want)
	} else if courier.IsPermanent(err) != permanent {
		b.Errorf("permanent is %v for %v", !permanent, err)
	}
}

// called fails the test unless the function was run n times.
func (b *bench) called(n int) {
	b.Helper()
	b.cloud.mu.Lock()
	defer b.cloud.mu.Unlock()
	if len(b.cloud.runs) != n {
		b.Errorf("the function was run %d times, want %d", len(b.cloud.runs), n)
	}
}

func conf(connection, function string) object {
	return object{"connection_id": connection, "function_name": function}
}

func TestHTTPTrigger(t *testing.T) {
	in(t, func(b *bench) {
		cfg := conf("http", "plain")
		cfg["input_payload"] = object{"n": 1}
		for range 2 { // the second finds the outcome of the first
			out, err := b.run(cfg)
			if err != nil || !out.FunctionSuccess || string(out.CallbackResult) != `{"got":{"n":1}}` || out.HTTPStatus != 200 || len(out.TraceID) != 32 {
				b.Errorf("%+v, %v", out, err)
			}
		}
		b.called(1)
	})
	in(t, func(b *bench) { // a failure is retried by a call with another trace id
		b.fails(conf("http", "fails"), false, `it has failed: "\"no luck with [secret function_key]\\n\""`)
		b.fails(conf("http", "fails"), false, "it has failed")
		b.called(2)
		if b.cloud.runs[0] == b.cloud.runs[1] {
			b.Error("two runs have one trace id")
		}
		cfg := conf("http", "fails")
		cfg["allow_failure"] = true
		if out, err := b.run(cfg); err != nil || out.FunctionSuccess || out.HTTPStatus != 500 {
			b.Errorf("%+v, %v", out, err)
		}
	})
}

func TestDurable(t *testing.T) {
	in(t, func(b *bench) {
		start := time.Now()
		out, err := b.run(conf("http", "durable"))
		if err != nil || !out.FunctionSuccess || string(out.CallbackResult) != `{"sum":12345678901234567890}` || out.InstanceID != "i1" {
			b.Errorf("%+v, %v", out, err)
		}
		if took := time.Since(start); took != 14*time.Second {
			b.Errorf("it took %v, although the app said 7 s twice", took)
		}
	})
	for _, status := range []string{"Failed", "Terminated", "Canceled"} {
		in(t, func(b *bench) {
			b.cloud.status = status
			b.fails(conf("http", "durable"), false, "it has failed")
			b.cloud.status = "Completed"
			if _, err := b.run(conf("http", "durable")); err != nil {
				b.Error(err)
			}
			b.called(2)
		})
	}
	in(t, func(b *bench) {
		b.cloud.status = "Dreaming"
		b.fails(conf("http", "durable"), true, "the state of the function's run is unknown")
	})
}

// What was begun is taken up, and not called again.
func TestResume(t *testing.T) {
	in(t, func(b *bench) {
		b.cloud.polls = 1000
		ctx, cancel := context.WithCancelCause(context.Background())
		time.AfterFunc(30*time.Second, func() { cancel(courier.ErrStopped) })
		if _, err := b.call(ctx, conf("http", "durable")); !errors.Is(err, courier.ErrStopped) {
			b.Errorf("interrupted: %v", err)
		}
		b.cloud.mu.Lock()
		b.cloud.polls = 1
		b.cloud.mu.Unlock()
		if out, err := b.run(conf("http", "durable")); err != nil || out.InstanceID != "i1" {
			b.Errorf("%+v, %v", out, err)
		}
		b.called(1)
	})
	in(t, func(b *bench) { // the end does not come in time, and a resume waits on
		b.cloud.polls = 100
		cfg := conf("http", "durable")
		cfg["timeout_seconds"] = 60
		b.fails(cfg, true, "it may still run; a resume goes on waiting")
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		start := time.Now()
		_, err := b.call(ctx, conf("http", "durable"))
		if took := time.Since(start); err == nil || !strings.Contains(err.Error(), "it may still run") || took != 25*time.Second {
			b.Errorf("after %v: %v", took, err)
		}
		b.cloud.mu.Lock()
		b.cloud.polls = 0
		b.cloud.mu.Unlock()
		if _, err := b.run(cfg); err != nil {
			b.Error(err)
		}
		b.called(1)
	})
}

// An answer that was lost is found in the telemetry.
func TestLostAnswer(t *testing.T) {
	lose := func(b *bench) {
		lost := false
		b.cloud.on = func(w http.ResponseWriter, r *http.Request) bool {
			if lost || strings.HasPrefix(r.URL.Path, "/v1/") || strings.Contains(r.URL.Path, "oauth2") {
				return false
			}
			lost = true
			b.cloud.mu.Lock()
			b.cloud.run(r, nil)
			b.cloud.mu.Unlock()
			panic(http.ErrAbortHandler)
		}
	}
	in(t, func(b *bench) {
		lose(b)
		b.cloud.propagate = true
		b.fails(conf("both", "plain"), false, "POST http://acme.example.com")
		if out, err := b.run(conf("both", "plain")); err != nil || !out.FunctionSuccess {
			b.Errorf("%+v, %v", out, err)
		}
		b.called(1)
		if q := b.cloud.queries[0]; !strings.Contains(q, "AppRequests") || !strings.Contains(q, b.cloud.runs[0]) {
			b.Errorf("the query is %s", q)
		}
	})
	in(t, func(b *bench) { // without telemetry it is called again
		lose(b)
		b.fails(conf("http", "plain"), false, "POST http://acme.example.com")
		if _, err := b.run(conf("http", "plain")); err != nil {
			b.Error(err)
		}
		b.called(2)
		if b.cloud.runs[0] != b.cloud.runs[1] {
			b.Error("the repetition has another trace id")
		}
	})
	in(t, func(b *bench) { // unless once is set
		lose(b)
		cfg := conf("http", "plain")
		cfg["once"] = true
		b.fails(cfg, false, "POST http://acme.example.com")
		b.fails(cfg, true, "with once it is not called again")
		b.called(1)
	})
}

// TestTrace: a call belongs to the trace of the step, under a span of its own. A repetition in
// another trace, as after a takeover, finds what the first attempt has called.
func TestTrace(t *testing.T) {
	const first, second = "0af7651916cd43dd8448eb211c80319c", "1bf7651916cd43dd8448eb211c80319c"
	in(t, func(b *bench) {
		lost := false
		b.cloud.on = func(w http.ResponseWriter, r *http.Request) bool {
			if lost || strings.HasPrefix(r.URL.Path, "/v1/") || strings.Contains(r.URL.Path, "oauth2") {
				return false
			}
			lost = true
			b.cloud.mu.Lock()
			b.cloud.run(r, nil)
			b.cloud.mu.Unlock()
			panic(http.ErrAbortHandler)
		}
		b.cloud.propagate = true
		b.trace = "00-" + first + "-b7ad6b7169203331-01"
		b.fails(conf("both", "plain"), false, "POST http://acme.example.com")
		b.trace = "00-" + second + "-b7ad6b7169203331-01"
		if out, err := b.run(conf("both", "plain")); err != nil || !out.FunctionSuccess || out.TraceID != first {
			b.Errorf("%+v, %v", out, err)
		}
		b.called(1)
		if q := b.cloud.queries[0]; b.cloud.runs[0] != first || !strings.Contains(q, first) || !strings.Contains(q, b.cloud.parents[0]) || b.cloud.parents[0] == "b7ad6b7169203331" {
			b.Errorf("the trace is %s, the span %s, the query %s", b.cloud.runs[0], b.cloud.parents[0], q)
		}
	})
	in(t, func(b *bench) {
		b.trace = "00-" + first + "-b7ad6b7169203331-01"
		if out, err := b.run(conf("http", "plain")); err != nil || out.TraceID != first {
			b.Errorf("%+v, %v", out, err)
		}
	})
}

func TestAdmin(t *testing.T) {
	in(t, func(b *bench) {
		cfg := conf("admin", "nightly")
		cfg["input_payload"] = object{"day": 1}
		start := time.Now()
		out, err := b.run(cfg)
		if took := time.Since(start); err != nil || !out.FunctionSuccess || took < 30*time.Second || took > time.Minute {
			b.Errorf("after %v: %+v, %v", took, out, err)
		}
		if want := `{"input":"{\"day\":1}"}`; b.cloud.lastInput != want {
			b.Errorf("the input is %s, want %s", b.cloud.lastInput, want)
		}
		if b.cloud.tokens != 1 {
			b.Errorf("%d tokens were fetched", b.cloud.tokens)
		}
		b.called(1)
	})
	in(t, func(b *bench) {
		b.cloud.status = "Failed"
		b.fails(conf("admin", "nightly"), false, "it has failed")
	})
	in(t, func(b *bench) {
		b.cloud.extra = 1
		b.fails(conf("admin", "nightly"), true, "telemetry shows 2 runs")
		cfg := conf("admin", "nightly")
		cfg["allow_ambiguous"] = true
		if _, err := b.run(cfg); err != nil {
			b.Error(err)
		}
		b.called(1)
	})
	in(t, func(b *bench) {
		b.cloud.extra, b.cloud.propagate = 5, true
		if _, err := b.run(conf("admin", "nightly")); err != nil {
			b.Error(err)
		}
	})
	in(t, func(b *bench) { // telemetry never comes
		b.cloud.late = 24 * time.Hour
		cfg := conf("admin", "nightly")
		cfg["timeout_seconds"] = 600
		b.fails(cfg, true, "its end was not seen")
		b.fails(cfg, true, "its end was not seen")
		b.called(1)
	})
}

// A cancelled execution terminates what it has begun.
func TestTerminate(t *testing.T) {
	in(t, func(b *bench) {
		b.cloud.polls = 1000
		ctx, cancel := context.WithCancelCause(context.Background())
		time.AfterFunc(30*time.Second, func() { cancel(courier.ErrCancelled) })
		start := time.Now()
		if _, err := b.call(ctx, conf("http", "durable")); err != courier.ErrCancelled || time.Since(start) > 31*time.Second {
			b.Errorf("cancelled: %v", err)
		}
		config, _ := json.Marshal(conf("http", "durable"))
		for _, c := range []struct {
			cancelled bool
			want      int
		}{{false, 0}, {true, 1}, {true, 1}} {
			job := b.job(c.cancelled)
			if err := b.typ().Rollback(context.Background(), job, config); err != nil || b.cloud.stopped != c.want {
				b.Errorf("cancelled %v: terminated %d times, %v", c.cancelled, b.cloud.stopped, err)
			}
			job.Close()
		}
	})
}

// Servers that are not what they should be.
func TestHostile(t *testing.T) {
	answer := func(b *bench, status int, header, value, body string) {
		b.cloud.on = func(w http.ResponseWriter, r *http.Request) bool {
			w.Header().Set(header, value)
			w.WriteHeader(status)
			fmt.Fprint(w, body)
			return true
		}
	}
	for _, c := range []struct {
		status              int
		header, value, body string
		permanent           bool
		want                string
	}{
		{202, "X", "", `{"statusQueryGetUri": "http://evil.example.com/x?code=1"}`, true, "does not lead to the app itself"},
		{202, "Location", "http://169.254.169.254/latest", ``, true, "does not lead to the app itself"},
		{202, "X", "", `{"statusQueryGetUri": "http://u:p@acme.example.com/x"}`, true, "does not lead to the app itself"},
		{202, "X", "", `{"statusQueryGetUri": "\u0001://"}`, true, "does not lead to the app itself"},
		{202, "X", "", "nothing", true, "has no statusQueryGetUri"},
		{302, "Location", "http://evil.example.com/", "", true, "status 302"},
		{200, "X", "", strings.Repeat("x", 2<<20), true, "more than 1048576 bytes"},
		{401, "X", "", "you sent " + functionKey + "\x1b[2J", true, `"you sent [secret function_key]\x1b[2J"; check the key`},
		{404, "X", "", "", true, "check the url of the connection and the function's name"},
		{429, "X", "", "", false, "status 429"},
		{503, "X", "", "", false, "status 503"},
		{504, "X", "", "", false, "its answer did not come"},
	} {
		in(t, func(b *bench) {
			answer(b, c.status, c.header, c.value, c.body)
			b.fails(conf("http", "plain"), c.permanent, c.want)
		})
	}
	for _, body := range []string{"no", "{}", `{"tables": []}`, `{"tables": [{"columns": [{"name": "at"}], "rows": [[]]}]}`} {
		in(t, func(b *bench) {
			b.cloud.on = func(w http.ResponseWriter, r *http.Request) bool {
				if strings.HasPrefix(r.URL.Path, "/v1/") {
					fmt.Fprint(w, body)
				}
				return strings.HasPrefix(r.URL.Path, "/v1/")
			}
			b.fails(conf("admin", "nightly"), true, "the answer of telemetry")
		})
	}
}

// What is wrong with a configuration or a connection is said before anything is
// called.
func TestBadConfig(t *testing.T) {
	in(t, func(b *bench) {
		for want, change := range map[string]object{
			"function_name: must begin":   {"function_name": `x" or true`},
			"function_name: is required":  {"function_name": ""},
			"timeout_seconds":             {"timeout_seconds": 0},
			"poll_seconds":                {"poll_seconds": 0},
			"telemetry_delay_seconds":     {"telemetry_delay_seconds": -1},
			`trigger: "timer" is not one`: {"trigger": "timer"},
			"did you mean":                {"connection_id": "htp"},
			"needs its master_key":        {"trigger": "admin"},
			"unknown field \"wait\"":      {"wait": true},
		} {
			cfg := conf("http", "plain")
			for k, v := range change {
				cfg[k] = v
			}
			b.fails(cfg, true, want)
		}
		b.called(0)
		for want, c := range map[string]azure.Connection{
			"url: the URL has":            {URL: "acme.example.com:x"},
			"must be like":                {URL: "http://u:canary@acme.example.com"},
			"give it or workspace_id":     {URL: "http://a.example.com", AppID: "a", WorkspaceID: "b"},
			"tokens: are missing":         {URL: "http://a.example.com", AppID: "a"},
			"function_key: secret \"no\"": {URL: "http://a.example.com", FunctionKey: "secret:no"},
		} {
			b.opt.Connections = azure.Map{"x": c}
			if _, err := b.run(conf("x", "f")); err == nil || (!strings.Contains(err.Error(), want) && want != "url: the URL has") {
				b.Errorf("%v: %v, want %q", c, err, want)
			}
		}
		if text := fmt.Sprintf("%v %+v %#v %s", azure.Connection{URL: "u", FunctionKey: "canary"}, azure.Connection{URL: "u", MasterKey: "canary"}, azure.Connection{FunctionKey: "canary"}, azure.Map{"a": {FunctionKey: "canary"}}); strings.Contains(text, "canary") {
			b.Errorf("a key shows in %s", text)
		}
	})
}

// Validate tests the connection and calls nothing.
func TestValidate(t *testing.T) {
	in(t, func(b *bench) {
		job := b.job(false)
		defer job.Close()
		for _, id := range []string{"http", "admin", "both"} {
			config, _ := json.Marshal(conf(id, "plain"))
			if err := b.typ().Validate(context.Background(), job, config); err != nil {
				b.Errorf("%s: %v", id, err)
			}
		}
		b.called(0)
		for _, want := range []string{"key=accepted", "state=", "Running", "version=", "4.1.0", `key="not tested"`, "telemetry=true"} {
			if !strings.Contains(b.log.String(), want) {
				b.Errorf("told is\n%s\nwithout %q", b.log.String(), want)
			}
		}
		config, _ := json.Marshal(conf("wrong", "plain"))
		if err := b.typ().Validate(context.Background(), job, config); err == nil || !strings.Contains(err.Error(), "status 401") || !strings.Contains(err.Error(), "check the key") {
			b.Errorf("a wrong master key: %v", err)
		}
		b.cloud.on = func(w http.ResponseWriter, r *http.Request) bool {
			w.WriteHeader(http.StatusForbidden)
			return true
		}
		for i, source := range []string{"again", ""} {
			config, _ := json.Marshal(conf("both", "plain"))
			err := b.typ().Validate(context.Background(), job, config)
			if err == nil || !strings.Contains(err.Error(), "check the key or the permissions") {
				b.Errorf("%d %s: %v", i, source, err)
			}
		}
	})
}
