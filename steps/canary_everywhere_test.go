package steps_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/httpapi"
	"github.com/courierhq/courier/internal/jsontext"
	"github.com/courierhq/courier/internal/test/raced"
	"github.com/courierhq/courier/notify"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/storewrap"
)

// A journey is the harness of TestSecretsThatTravel, with all that anybody gets to see.
type journey struct {
	*couriertest.Harness
	t    *testing.T
	on   route
	mu   sync.Mutex
	seen map[string]*bytes.Buffer // by where it is seen
	// halts are what interrupts executions, by their ids; each is taken once.
	halts map[courier.ExecutionID]func() error
}

// see notes what can be seen somewhere.
func (j *journey) see(where string, what ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.seen[where] == nil {
		j.seen[where] = new(bytes.Buffer)
	}
	for _, w := range what {
		if b, ok := w.([]byte); ok {
			j.seen[where].Write(b)
			continue
		}
		text, err := jsontext.Append(nil, w)
		if err != nil {
			j.t.Errorf("%s: %v", where, err)
		}
		fmt.Fprintf(j.seen[where], "%s\n%+v\n", text, w)
	}
}

// A sight is a writer of what is seen somewhere.
type sight struct {
	j     *journey
	where string
}

func (s sight) Write(p []byte) (int, error) { s.j.see(s.where, bytes.Clone(p)); return len(p), nil }

// Send makes it a mailer.
func (s sight) Send(_ context.Context, m notify.Mail) error { s.j.see(s.where, m); return nil }

func newJourney(t *testing.T) *journey {
	t.Helper()
	j := &journey{t: t, seen: make(map[string]*bytes.Buffer), halts: make(map[courier.ExecutionID]func() error)}
	j.on.Dir = t.TempDir()
	w := &world{dir: j.on.Dir}
	t.Cleanup(func() {
		if err := w.close(); err != nil {
			t.Error(err)
		}
	})
	at := site{world: w, TB: t}
	for _, name := range []string{"sftp/clean/f", "ftp/clean/f", "sftp/in/x", "ftp/in/x", "sftp/up/x", "ftp/up/x", "B/clean/f", "B/made/x", "depot/x"} {
		at.write(name, "content")
	}
	if err := j.on.serve(w); err != nil {
		t.Fatal(err)
	}
	where, err := json.Marshal(j.on)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(routeIs, string(where))
	j.Harness = couriertest.New(t, j.options("one"))
	if err := j.on.register(j.Registry); err != nil {
		t.Fatal(err)
	}
	j.Stub("demo.write", func(_ context.Context, _ *courier.Context, cfg map[string]any) (map[string]any, error) {
		return nil, j.write(fmt.Sprint(cfg["plain"]), fmt.Sprint(cfg["hard"]))
	})
	j.Stub("demo.halt", func(_ context.Context, job *courier.Context, _ map[string]any) (map[string]any, error) {
		j.mu.Lock()
		halt := j.halts[job.Execution()]
		delete(j.halts, job.Execution())
		j.mu.Unlock()
		if halt == nil {
			return nil, nil
		}
		return nil, halt()
	})
	j.subscribe()
	return j
}

// options are those of an engine on the journey.
func (j *journey) options(worker string) *engine.Options {
	return &engine.Options{
		Worker: worker, Workspace: filepath.Join(j.on.Dir, "W"), Roots: []string{filepath.Join(j.on.Dir, "B")}, Lease: 1500 * time.Millisecond, Slots: 16, Grace: 5 * time.Second,
		Log: slog.New(slog.NewJSONHandler(sight{j, "the log of the engine"}, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Secrets: func(_ context.Context, q courier.SecretRequest) (string, error) {
			if secret, ok := canaries[q.Name]; ok {
				return secret, nil
			}
			return "", courier.Permanent(errors.New("no such secret"))
		},
		Observers:   []func(courier.Event){func(e courier.Event) { j.see("events", e) }},
		Subscribers: map[string]func(context.Context, notify.Notification) error{"tell": func(_ context.Context, n notify.Notification) error { j.see("notifications", n); return nil }},
		Mailer:      sight{j, "mails"},
		Webhooks:    notify.WebhookOptions{AllowPlain: true, Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}},
	}
}

// subscribe has everybody notified of everything. The receiver of the webhook refuses one
// request, and repeats what it was sent.
func (j *journey) subscribe() {
	var requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		j.see("bodies of webhooks", body)
		if requests.Add(1) == 1 {
			w.WriteHeader(http.StatusInternalServerError)
			fmt.Fprint(w, r.Header)
		}
	}))
	j.t.Cleanup(server.Close)
	all := []courier.EventType{
		courier.EventJobStarted, courier.EventJobCompleted, courier.EventJobFailed, courier.EventJobPaused, courier.EventJobResumed, courier.EventJobTakenOver,
		courier.EventStepStarted, courier.EventStepCompleted, courier.EventStepFailed, courier.EventStepSkipped, courier.EventStep,
	}
	for _, s := range []notify.Subscription{
		{Name: "func", Kind: notify.KindFunc, Func: "tell"},
		{Name: "email", Kind: notify.KindEmail, Email: &notify.EmailTarget{To: []string{"ann@example.com"}}, Window: new(time.Duration)},
		{Name: "webhook", Kind: notify.KindWebhook, Webhook: &notify.WebhookTarget{URL: server.URL, Secrets: []string{"secret:travels-hook"}, Headers: map[string]string{"X-Key": "secret:travels"}}},
	} {
		s.Events = all
		if _, err := j.Engine.Subscriptions().Set(j.t.Context(), s, courier.By{Actor: "ann"}); err != nil {
			j.t.Fatal(err)
		}
	}
}

// write lays the canaries out in content and names on all disks.
func (j *journey) write(plain, hard string) error {
	var errs []error
	for _, name := range []string{"B/clean/f", "B/in/" + plain + ".csv", "B/move/" + plain, "B/del/" + plain, "sftp/in/" + plain, "ftp/in/" + plain, "sftp/del/" + plain, "ftp/del/" + plain, "sftp/clean/f", "ftp/clean/f"} {
		name = filepath.Join(j.on.Dir, filepath.FromSlash(name))
		errs = append(errs, os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(plain+"\n"+hard+"\n"), 0o644))
	}
	return errors.Join(errs...)
}

// define is a job that writes the secrets, is interrupted, and then shows them in each way;
// each is an item of its own that fails, and its attempts are apart in time.
func (j *journey) define(name, policy string, ways ...travel) courier.Job {
	list := []object{
		{"type": "demo.write", "config": object{"plain": "secret:travels", "hard": "secret:travels-hard"}},
		{"id": "halt", "type": "demo.halt"},
	}
	retries := 0 // in processes of their own, which take time
	if len(ways) == 0 {
		retries, ways = 1, travels()
	}
	if policy == "retry_step" {
		list[1]["failure_policy"] = object{"type": "retry_step", "backoff_base_seconds": 0.01}
		policy = "stop"
	}
	for _, v := range ways {
		list = append(list, object{"type": "flow.foreach", "config": object{"source": []string{"x"}, "on_item_failure": "continue", "continue_on": []string{"connection", "login", "timeout", "quota", "space"}}},
			object{"type": v.typ, "config": v.config, "timeout_seconds": 20, "failure_policy": object{"type": "retry_step", "max_retries": retries, "backoff_base_seconds": 0.01}},
			object{"type": "flow.end"})
	}
	return j.job(object{"name": name, "steps": list, "failure_policy": object{"type": policy, "max_retries": 1, "backoff_base_seconds": 0.01}})
}

func (j *journey) job(job object) courier.Job {
	j.t.Helper()
	text, err := json.Marshal(job)
	if err != nil {
		j.t.Fatal(err)
	}
	return j.Job(strings.ReplaceAll(string(text), "$B", filepath.Join(j.on.Dir, "B")))
}

// fill is a configuration of a step type with a secret in one of its fields.
func fill(config object, name string, value any) object {
	filled := make(object)
	for k, v := range config {
		filled[k] = v
	}
	first, rest, nested := strings.Cut(name, ".")
	if nested {
		inner, _ := filled[first].(object)
		value = fill(inner, rest, value)
	}
	filled[first] = value
	return filled
}

// fields is a job in which each field of each step type that is a text is the secret.
func (j *journey) fields() courier.Job {
	bases := map[string]object{}
	for _, v := range slices.Backward(travels()) {
		bases[v.typ] = v.config
	}
	var list []object
	add := func(typ string, config object) {
		list = append(list, object{"type": typ, "config": config, "timeout_seconds": 5, "failure_policy": "skip_and_continue"})
	}
	for _, key := range j.Registry.Keys() {
		typ, _ := j.Registry.Lookup(key)
		if strings.HasPrefix(key, "demo.") {
			continue
		}
		base, ok := bases[typ.Key()]
		if !ok {
			j.t.Errorf("no travel for %s", key)
		}
		fields(typ.Config(), "", func(name string, list bool, s *courier.Schema) {
			if len(s.Enum) > 0 || strings.Contains(name, "seconds") {
				return
			}
			for _, secret := range []string{"secret:travels", "secret:travels-hard"} {
				if list {
					add(key, fill(base, name, []string{secret}))
				} else {
					add(key, fill(base, name, secret))
				}
			}
		})
	}
	for _, v := range []object{
		{"headers": object{"X-Key": "secret:travels"}}, {"query": object{"q": "secret:travels-hard"}}, {"json": object{"q": "secret:travels-hard"}, "method": "POST"},
	} {
		v["url"] = "http://web/tell/500"
		add("http.request", v)
	}
	add("exec.run", object{"program": "sh", "args": []string{"-c", "echo $TOKEN >&2; echo $TOKEN; exit 3"}, "env": object{"TOKEN": "secret:travels-hard"}})
	add("azure_function.execute", object{"connection_id": "acme", "function_name": "tell", "input_payload": object{"a": "secret:travels-hard"}})
	return j.job(object{"name": "fields", "steps": list})
}

// enqueue starts an execution that halt interrupts.
func (j *journey) enqueue(job courier.Job, queue string, halt func(id courier.ExecutionID) error) courier.ExecutionID {
	j.t.Helper()
	job.Queue = queue
	if _, err := j.Engine.Jobs().Define(j.t.Context(), job, nil); err != nil {
		j.t.Fatal(err)
	}
	report, err := j.Engine.Jobs().DryRun(j.t.Context(), job, nil)
	if err != nil {
		j.t.Fatal(err)
	}
	j.see("dry runs", report)
	x, err := j.Engine.Enqueue(j.t.Context(), job.Name, &courier.EnqueueOptions{Hold: true, By: courier.By{Actor: "ann"}})
	if err != nil {
		j.t.Fatal(err)
	}
	if halt != nil {
		j.mu.Lock()
		j.halts[x.ID] = func() error { return halt(x.ID) }
		j.mu.Unlock()
	}
	if _, err := j.Engine.Release(j.t.Context(), x.ID, courier.By{Actor: "ann"}); err != nil {
		j.t.Fatal(err)
	}
	return x.ID
}

// engine starts another engine, which serves a queue.
func (j *journey) engine(worker string, s store.Store, isolated bool, queues ...string) *engine.Engine {
	j.t.Helper()
	opt := j.options(worker)
	opt.Queues = queues
	if isolated {
		opt.Isolate = map[string]courier.Isolation{"demo.show": {Env: []string{routeIs}}}
		for _, family := range []string{"file", "depot", "exec", "http", "azure_function", "job", "pgp", "sftp", "ftp"} {
			opt.Isolate[family+".*"] = courier.Isolation{Env: []string{routeIs}}
		}
	}
	opt.Roots = append(opt.Roots, j.Dir)
	e := engine.New(s, j.Registry, opt)
	if err := e.Start(j.t.Context()); err != nil {
		j.t.Fatal(err)
	}
	j.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		e.Stop(ctx)
	})
	return e
}

// ended waits until an execution has ended.
func (j *journey) ended(id courier.ExecutionID) courier.Execution {
	j.t.Helper()
	return j.settled(id, func(s courier.State) bool { return s.Final() || s == courier.Failed })
}

func (j *journey) settled(id courier.ExecutionID, is func(courier.State) bool) courier.Execution {
	j.t.Helper()
	for end := time.Now().Add(3 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
		x, err := j.Engine.Executions().Get(j.t.Context(), id)
		if err != nil {
			j.t.Fatal(err)
		}
		if is(x.State) {
			return x
		}
		if time.Now().After(end) {
			j.t.Fatalf("%s is still %s", x.Job, x.State)
		}
	}
}

// api asks the API for all that there is.
func (j *journey) api(ids []courier.ExecutionID) {
	j.t.Helper()
	api := httpapi.New(j.Engine, &httpapi.Options{
		Access: access.Policy{Who: func(*http.Request) (access.Principal, error) { return access.Principal{ID: "ann"}, nil }},
		Log:    slog.New(slog.NewJSONHandler(sight{j, "the log of the API"}, nil)),
	})
	defer api.Close()
	var document struct{ Paths map[string]map[string]any }
	if err := json.Unmarshal(api.OpenAPI(), &document); err != nil {
		j.t.Fatal(err)
	}
	ask := func(path string) int {
		ctx, cancel := context.WithTimeout(j.t.Context(), 5*time.Second)
		if strings.HasSuffix(path, "/events") {
			ctx, cancel = context.WithTimeout(j.t.Context(), 50*time.Millisecond)
		}
		defer cancel()
		rec := httptest.NewRecorder()
		api.ServeHTTP(rec, httptest.NewRequestWithContext(ctx, "GET", path, nil))
		j.see("answers of the API", rec.Body.Bytes())
		return rec.Code
	}
	good := 0
	for path, methods := range document.Paths {
		if methods["get"] == nil || strings.Contains(path, "openapi") || strings.Contains(path, "/schema/") {
			continue
		}
		names := []string{path}
		if strings.Contains(path, "{") {
			names = nil
			for _, id := range ids {
				x, err := j.Engine.Executions().Get(j.t.Context(), id)
				if err != nil {
					j.t.Fatal(err)
				}
				name := x.Job
				if strings.Contains(path, "subscriptions") {
					name = "webhook"
				}
				names = append(names, strings.NewReplacer("{id}", string(id), "{name}", name, "{seq}", "3").Replace(path))
			}
		}
		for _, name := range names {
			for _, query := range []string{"", "?details=true&limit=1000"} {
				if ask(name+query) == http.StatusOK {
					good++
				}
			}
		}
	}
	if good < 100 {
		j.t.Errorf("only %d requests were answered", good)
	}
}

// TestSecretsThatTravel has a secret come to each step type by files, by names of files and
// by what servers answer, and in each field of its configuration, behind all that can come
// between two steps: backoffs, pauses, resumes, repairs of items, other engines, and processes
// of their own. It must be nowhere in what is recorded, logged, answered or sent to subscribers.
func TestSecretsThatTravel(t *testing.T) {
	j := newJourney(t)
	by := courier.By{Actor: "ann", Reason: "go on"}
	fails := func(courier.ExecutionID) error { return errors.New("halted") }
	j.engine("home", j.Store, false, "default")
	j.engine("apart", j.Store, true, "apart")

	// Workers that are lost, and that are stopped, with another one that takes over.
	var dead atomic.Bool
	killed, stopped := make(chan bool, 1), make(chan bool, 1)
	j.engine("doomed", storewrap.Intercept(j.Store, func(ctx context.Context, _ *storewrap.Call, do func(context.Context) error) error {
		if dead.Load() {
			<-ctx.Done()
			return ctx.Err()
		}
		return do(ctx)
	}), false, "lost")
	leaver := j.engine("leaver", j.Store, false, "stopped")
	ids := []courier.ExecutionID{
		j.enqueue(j.define("killed", "stop"), "lost", func(courier.ExecutionID) error { dead.Store(true); killed <- true; return nil }),
		j.enqueue(j.define("stopped", "stop"), "stopped", func(courier.ExecutionID) error {
			go func() { leaver.Stop(context.Background()); stopped <- true }()
			time.Sleep(100 * time.Millisecond)
			return nil
		}),
		j.enqueue(j.fields(), "default", nil),
		j.enqueue(j.define("backoff", "retry_step"), "default", fails),
	}
	isolated, resumes := travels(), map[string]courier.ResumeOptions{"failed": {}, "skipped": {Skip: true}, "earlier": {From: "0"}}
	if raced.On { // these do what the others do, which takes long
		isolated = isolated[:5]
		delete(resumes, "skipped")
		delete(resumes, "earlier")
	} else {
		ids = append(ids, j.enqueue(j.define("again", "retry_job"), "default", fails))
	}
	resumed := make(map[courier.ExecutionID]*courier.ResumeOptions)
	for some := range slices.Chunk(isolated, 20) {
		id := j.enqueue(j.define(fmt.Sprint("isolated-", len(ids)), "stop", some...), "apart", fails)
		ids, resumed[id] = append(ids, id), &courier.ResumeOptions{By: by}
	}
	for name, opt := range resumes {
		opt.By = by
		id := j.enqueue(j.define(name, "stop"), "default", fails)
		ids, resumed[id] = append(ids, id), &opt
	}
	paused := j.enqueue(j.define("paused", "stop"), "default", func(id courier.ExecutionID) error {
		_, err := j.Engine.Pause(t.Context(), id, by)
		return err
	})
	ids, resumed[paused] = append(ids, paused), &courier.ResumeOptions{By: by}
	<-killed
	<-stopped
	j.engine("heir", j.Store, false, "lost", "stopped")
	for id, opt := range resumed {
		j.settled(id, func(s courier.State) bool { return s == courier.Failed || s == courier.Paused })
		if report, err := j.Engine.DryRunResume(t.Context(), id, opt); err != nil {
			t.Error(err)
		} else {
			j.see("dry runs", report)
		}
		if _, err := j.Engine.Resume(t.Context(), id, opt); err != nil {
			t.Error(err)
		}
	}
	// The items that have failed are executed again.
	for _, id := range ids {
		if x := j.ended(id); strings.HasPrefix(x.Job, "isolated") || x.Job == "fields" {
			continue
		} else if x.FailedItems == 0 {
			t.Errorf("%s is %s, %v, without an item that has failed", x.Job, x.State, x.Err())
		} else if _, err := j.Engine.Resume(t.Context(), id, &courier.ResumeOptions{By: by}); err != nil {
			t.Error(err)
		}
	}
	types := make(map[string]int)
	for _, id := range ids {
		j.ended(id)
		r := j.Wait(id)
		steps, err := j.Engine.Executions().StepsPage(t.Context(), store.StepFilter{Execution: id, Details: true, Limit: 1000})
		if err != nil {
			t.Fatal(err)
		}
		j.see("records", r.Execution, r.Audit, r.Values, steps)
		for _, s := range steps {
			text, err := jsontext.Append(nil, s)
			if err != nil {
				t.Fatal(err)
			}
			types[s.Type] += min(1, strings.Count(string(text), "secret travels")+strings.Count(string(text), `secret \"travels`))
		}
		if r.Err != nil {
			j.see("errors", []byte(fmt.Sprintf("%v %+v", r.Err, r.Err)))
		}
	}
	actions, err := j.Engine.Journal(t.Context(), store.ActionFilter{})
	if err != nil {
		t.Fatal(err)
	}
	j.see("journal", actions)
	for _, s := range []string{"func", "email", "webhook"} {
		list, err := j.Engine.Subscriptions().Deliveries(t.Context(), notify.DeliveryFilter{Subscription: s, Limit: 1000})
		if err != nil {
			t.Fatal(err)
		}
		j.see("deliveries", list)
	}
	j.api(ids)
	j.judge(types)
}

// judge looks for the secrets in all that was seen.
func (j *journey) judge(types map[string]int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	hidden := []string{"records", "events", "notifications", "mails", "bodies of webhooks", "answers of the API", "the log of the engine"}
	for where, seen := range j.seen {
		for _, name := range []string{"travels", "travels-hard", "travels-hook"} {
			for _, form := range forms(canaries[name]) {
				if at := bytes.Index(seen.Bytes(), []byte(form)); at >= 0 {
					j.t.Errorf("%s: there is the secret %s in %.600q", where, name, seen.Bytes()[max(0, at-300):])
					break
				}
			}
		}
		j.t.Logf("%s: %d bytes, %d secrets hidden", where, seen.Len(), bytes.Count(seen.Bytes(), []byte("[secret travels")))
	}
	for _, where := range hidden {
		if j.seen[where] == nil || !bytes.Contains(j.seen[where].Bytes(), []byte("[secret travels")) {
			j.t.Errorf("%s: no secret has come there, and was hidden", where)
		}
	}
	for _, key := range j.Registry.Keys() {
		if typ, _ := j.Registry.Lookup(key); typ.Key() == key && types[key] == 0 && !strings.HasPrefix(key, "demo.") {
			j.t.Errorf("no secret has come to %s, and was hidden", key)
		}
	}
}
