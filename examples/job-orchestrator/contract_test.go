package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/depot"
	"github.com/courierhq/courier/internal/test/pgstoretest"
	"github.com/courierhq/courier/internal/test/pgtest"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/memstore"
)

// order are the states of a job that goes well.
var order = []string{"Queued", "Processing", "Submitted", "Completed"}

// Files and run.sh are uploaded, the client executes the script in a directory of its own and
// in a process beside its own, and the results are downloaded as a ZIP. Until then the answer
// is the state.
func TestUploadIsExecutedAndDownloaded(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *program) {
		began := time.Now()
		id := s.upload("tr a-z A-Z < data.txt > result.txt; mkdir deep; echo $PPID > deep/parent; echo said; sleep 0.7", "data.txt", "hello\n")
		got, _ := s.look(id)
		for got["status"] == "Queued" && time.Since(began) < 10*time.Second {
			got, _ = s.look(id)
		}
		if d := time.Since(began); d > 500*time.Millisecond+time.Second { // and what the machine takes
			t.Errorf("it was queued for %v", d)
		}
		if got["user_id"] != "ann" || got["service"] != "demo" || got["error"] != nil || got["output"] != nil {
			t.Errorf("%v", got)
		}
		seen, _, files := s.await(id, "Completed")
		at := -1
		for _, state := range seen {
			next := slices.Index(order, state)
			if next <= at {
				t.Errorf("the states were %v", seen)
			}
			at = next
		}
		if !slices.Contains(seen, "Submitted") {
			t.Errorf("the states were %v", seen)
		}
		if files["result.txt"] != "HELLO\n" || files["stdout.txt"] != "said\n" || files["data.txt"] != "hello\n" || strings.TrimSpace(files["deep/parent"]) == "" {
			t.Errorf("%v", files)
		}
		resp, _ := s.send("GET", "/download/"+id, "")
		if resp.Header.Get("Content-Disposition") != `attachment; filename="results.zip"` {
			t.Errorf("%v", resp.Header)
		}
	}, 2)
}

// A script that fails makes the job Failed, and what it has left can be downloaded. One that is
// not there any more when it is looked for fails as well.
func TestFailingScriptIsFailedWithItsOutput(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *program) {
		id := s.upload("echo half > half.txt; echo why >&2; exit 7")
		_, got, _ := s.await(id, "Failed")
		if !strings.Contains(got["error"].(string), "run.sh has returned 7") || got["output"] != "/download/"+id+"?partial=1" {
			t.Errorf("%v", got)
		}
		resp, text := s.send("GET", got["output"].(string), "")
		if resp.Header.Get("Content-Type") != "application/zip" {
			t.Fatalf("%s", text)
		}
		if files := s.unzip(text); files["half.txt"] != "half\n" || files["stderr.txt"] != "why\n" {
			t.Errorf("%v", files)
		}
	}, 2)
}

// A client that can't be reached makes the job Failed. It is not tried again; who uploads again
// has another job.
func TestUnreachableClientIsFailedWithoutRetry(t *testing.T) {
	t.Parallel()
	for name, args := range map[string]func(t *testing.T) []string{
		"memory":     func(*testing.T) []string { return nil },
		"PostgreSQL": func(t *testing.T) []string { return []string{"-database", pgtest.URL(t), "-dir", t.TempDir()} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := freeAddr(t)
			s := launch(t, "server", append(args(t), "-service", "demo=2@http://"+at)...)
			id := s.upload("exit")
			if _, got, _ := s.await(id, "Failed"); got["output"] != nil || got["error"] == nil {
				t.Errorf("%v", got)
			}
			launch(t, "client", append(args(t), "-addr", at)...)
			again := s.upload("echo x > x.txt")
			if _, _, files := s.await(again, "Completed"); files["x.txt"] != "x\n" {
				t.Errorf("%v", files)
			}
			if got, _ := s.look(id); got["status"] != "Failed" {
				t.Errorf("%v", got)
			}
		})
	}
}

// A retrieval that fails makes the job Unknown, and is tried again, until the client is back:
// which executes again what it has not completed.
func TestFailedRetrievalIsUnknownAndTriedAgain(t *testing.T) {
	t.Parallel()
	at, url, dir := freeAddr(t), pgtest.URL(t), t.TempDir()
	c := launch(t, "client", "-addr", at, "-database", url, "-dir", dir, "-lease", "1500ms")
	s := launch(t, "server", "-service", "demo=2@http://"+at)
	id := s.upload("sleep 0.5; echo x > x.txt")
	s.await(id, "Submitted")
	c.Kill()
	if seen, got, _ := s.await(id, "Unknown"); len(seen) > 2 || got["error"] == nil {
		t.Errorf("%v, %v", seen, got)
	}
	launch(t, "client", "-addr", at, "-database", url, "-dir", dir)
	if _, _, files := s.await(id, "Completed"); files["x.txt"] != "x\n" {
		t.Errorf("%v", files)
	}
}

// A server that is killed loses nothing: another one goes on, and the client executes once.
func TestKilledServerIsReplaced(t *testing.T) {
	t.Parallel()
	c := launch(t, "client", "-database", pgtest.URL(t), "-dir", t.TempDir())
	args := []string{"-database", pgtest.URL(t), "-dir", t.TempDir(), "-service", "demo=9@" + c.at, "-lease", "1500ms"}
	s := launch(t, "server", args...)
	count := t.TempDir() + "/count"
	var ids []string
	for range 3 {
		ids = append(ids, s.upload("echo x >> "+count+"; sleep 0.5; echo done > done.txt"))
	}
	s.await(ids[0], "Submitted") // and others in the middle of their submission, maybe
	s.Kill()
	s = launch(t, "server", args...)
	for _, id := range ids {
		if _, _, files := s.await(id, "Completed"); files["done.txt"] != "done\n" {
			t.Errorf("%v", files)
		}
	}
	if text, err := os.ReadFile(count); err != nil || string(text) != "x\nx\nx\n" {
		t.Errorf("%q, %v", text, err)
	}
}

// What exceeds the quota of a user at a service stays Queued. Other users have their own.
func TestQuotaOfUserAndService(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *program) {
		ben := s.user
		ben.name = "ben"
		var ids []string
		for range 5 {
			ids = append(ids, s.upload("sleep 0.3"))
		}
		other := ben.upload("echo ben > ben.txt")
		waited := false
		for began, done := time.Now(), 0; done < 5; time.Sleep(10 * time.Millisecond) {
			under, queued := 0, 0
			done = 0
			for _, id := range ids {
				switch got, _ := s.look(id); got["status"] {
				case "Processing", "Submitted":
					under++
				case "Queued":
					queued++
				case "Completed":
					done++
				default:
					t.Fatalf("%v", got)
				}
			}
			if under > 2 { // each was looked at in turn, so one may have ended since
				if got, _ := s.look(ids[0]); got["status"] != "Completed" {
					t.Fatalf("%d are under way", under)
				}
			}
			if got, _ := ben.look(other); queued > 0 && got["status"] == "Completed" {
				waited = true
			}
			if time.Since(began) > 30*time.Second {
				t.Fatal("they do not end")
			}
		}
		if !waited {
			t.Error("ben has waited for ann")
		}
	}, 2)
}

// cleaned is a server in virtual time, whose service needs no client unless it is to fail.
func cleaned(t *testing.T, f func(u *user, files depot.Depot)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s, err := parse("server", "", []string{"-service", "demo=2@http://127.0.0.1:1", "-service", "kept=2@http://127.0.0.1:1", "-dir", t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		files := new(couriertest.Depot)
		v, err := newServer(t.Context(), s, memstore.New(), files)
		if err != nil {
			t.Fatal(err)
		}
		local := courier.Job{Name: "kept", Steps: []courier.StepSpec{ // what a client would have returned
			{ID: "get", Type: "depot.fetch"},
			{Type: "file.zip", Config: map[string]any{"source_path": "${context:get.fetched_directory}/*", "output_path": resultsName}},
			{Type: "depot.keep", Config: map[string]any{"source_path": resultsName}},
		}}
		if _, err := v.engine.Jobs().Define(t.Context(), local, nil); err != nil {
			t.Fatal(err)
		}
		if err := v.engine.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		f(direct(t, v), files)
		v.api.Close()
		if err := v.engine.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// The files of a job are removed MAX_AGE after its end, which is 48 hours, by a cleaner that
// looks every 60 seconds. Then its state is Cleaned.
func TestCleanedAfterMaxAge(t *testing.T) {
	cleaned(t, func(u *user, files depot.Depot) {
		failed := u.upload("exit")
		body, kind := form("run.sh", "exit", "user_id", "ann", "service", "kept")
		_, text := u.send("POST", "/upload", body, "Content-Type", kind)
		kept := strings.Split(string(text), `"`)[3]
		time.Sleep(10 * time.Second)
		if got, zip := u.look(kept); got["status"] != "Completed" || zip["run.sh"] != "exit" {
			u.Errorf("%v %v", got, zip)
		}
		if got, _ := u.look(failed); got["status"] != "Failed" {
			u.Errorf("%v", got)
		}
		time.Sleep(48*time.Hour - 20*time.Second)
		if got, zip := u.look(kept); got["status"] != "Completed" || zip == nil {
			u.Errorf("%v", got)
		}
		time.Sleep(90 * time.Second)
		for _, id := range []string{kept, failed} {
			got, zip := u.look(id)
			left, err := files.List(u.Context(), id+"/in")
			if got["status"] != "Cleaned" || got["output"] != nil || zip != nil || len(left) > 0 || err != nil {
				u.Errorf("%v, %v, %v", got, left, err)
			}
		}
	})
}

// Each state is that of a place in the pipeline.
func TestStateOfEachPlace(t *testing.T) {
	at := func(state courier.State, step, retries int, reason courier.Reason) *courier.Execution {
		x := &courier.Execution{State: state, Position: courier.Position{Step: step}, Retries: retries, StartedAt: time.Unix(1, 0)}
		if reason != "" {
			x.Failure = &courier.Failure{Reason: reason}
		}
		return x
	}
	fresh := at(courier.Queued, 0, 0, "")
	fresh.StartedAt = time.Time{}
	for _, c := range []struct {
		x       *courier.Execution
		removed bool
		want    string
	}{
		{fresh, false, "Queued"},
		{at(courier.Running, 0, 0, ""), false, "Processing"},
		{at(courier.Running, stepSubmit, 0, ""), false, "Processing"},
		{at(courier.Queued, stepSubmit, 0, ""), false, "Processing"}, // its server was lost
		{at(courier.Failed, stepSubmit, 0, courier.ReasonConnection), false, "Failed"},
		{at(courier.Running, stepRetrieve, 0, ""), false, "Submitted"},
		{at(courier.Queued, stepRetrieve, 1, courier.ReasonConnection), false, "Unknown"},
		{at(courier.Running, stepRetrieve, 1, courier.ReasonConnection), false, "Unknown"},
		{at(courier.Failed, stepRetrieve, 9, courier.ReasonExecution), false, "Unknown"}, // it has timed out
		{at(courier.Failed, stepRetrieve+3, 0, courier.ReasonError), false, "Failed"},
		{at(courier.Completed, 8, 0, ""), false, "Completed"},
		{at(courier.Completed, 8, 0, ""), true, "Cleaned"},
		{at(courier.Failed, 8, 0, ""), true, "Cleaned"},
		{at(courier.Failed, stepRetrieve, 9, courier.ReasonExecution), true, "Cleaned"},
	} {
		if got := state(c.x, c.removed); got != c.want {
			t.Errorf("%s at step %d with %d retries is %s, want %s", c.x.State, c.x.Position.Step, c.x.Retries, got, c.want)
		}
	}
	steps := service{name: "demo", url: "http://x"}.job(time.Hour).Steps
	if steps[stepSubmit].ID != "submit" || steps[stepRetrieve].ID != "retrieve" {
		t.Error("the states look at other steps")
	}
}

// Results that can't be retrieved for MAX_AGE are given up: the job stays Unknown.
func TestRetrievalTimesOut(t *testing.T) {
	t.Parallel()
	c := launch(t, "client")
	s := launch(t, "server", "-service", "demo=2@"+c.at, "-max-age", "2s")
	id := s.upload("sleep 60")
	s.await(id, "Submitted")
	c.Kill()
	s.await(id, "Unknown")
	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		got, _ := s.look(id)
		if got["status"] != "Unknown" || time.Since(began) > 10*time.Second {
			t.Fatalf("%v", got)
		}
		if strings.Contains(got["error"].(string), "timeout of 2s") {
			return
		}
	}
}

// A request is validated, and nothing is kept of one that is refused.
func TestUploadIsValidated(t *testing.T) {
	cleaned(t, func(u *user, files depot.Depot) {
		for _, c := range []struct {
			parts  []string
			status int
			code   string
			text   string
		}{
			{[]string{"user_id", "ann", "service", "demo"}, http.StatusBadRequest, "invalid", "run.sh"},
			{[]string{"data.txt", "x", "user_id", "ann", "service", "demo"}, http.StatusBadRequest, "invalid", "run.sh"},
			{[]string{"run.sh", "x", "service", "demo"}, http.StatusBadRequest, "invalid", "user_id"},
			{[]string{"run.sh", "x", "user_id", "ann"}, http.StatusBadRequest, "invalid", "service"},
			{[]string{"run.sh", "x", "user_id", "ann", "service", "dmeo"}, http.StatusBadRequest, "invalid", "demo"},
			{[]string{"run.sh", "x", "RUN.sh", "y", "user_id", "ann", "service", "demo"}, http.StatusBadRequest, "invalid", "two files"},
			{[]string{"run.sh", "x", "a\u202e.txt", "y", "user_id", "ann", "service", "demo"}, http.StatusBadRequest, "invalid", ""},
			{[]string{"run.sh", "x", "user_id", strings.Repeat("a", 2000), "service", "demo"}, http.StatusBadRequest, "invalid", ""},
		} {
			body, kind := form(c.parts...)
			u.problem(c.status, c.code, c.text, "POST", "/upload", body, "Content-Type", kind)
		}
		u.problem(http.StatusBadRequest, "invalid", "multipart", "POST", "/upload", "{}", "Content-Type", "application/json")
		body, kind := form("run.sh", "x", "user_id", "ann", "service", "demo")
		u.problem(http.StatusBadRequest, "invalid", "multipart", "POST", "/upload", body[:len(body)-20], "Content-Type", kind)
		u.problem(http.StatusForbidden, "forbidden", "", "POST", "/upload", body, "Content-Type", kind, "Sec-Fetch-Site", "cross-site")
		elsewhere := *u
		elsewhere.at = "http://attacker.example"
		elsewhere.problem(http.StatusForbidden, "forbidden", "name", "POST", "/upload", body, "Content-Type", kind)
		u.problem(http.StatusMethodNotAllowed, "method_not_allowed", "POST", "GET", "/upload", "")
		u.problem(http.StatusNotFound, "not_found", "", "GET", "/downloads", "")
		u.problem(http.StatusNotFound, "not_found", "", "GET", "/download/c3f8d6a0-9f8c-4b22-8b1c-5b0e2a9dc1e2", "")
		left, err := files.List(u.Context(), "")
		if err != nil || len(left) > 0 {
			u.Errorf("%v, %v", left, err)
		}
	})
}

// The same upload again, with an Idempotency-Key, is the same job, and keeps nothing twice.
func TestRepeatedUploadIsOneJob(t *testing.T) {
	cleaned(t, func(u *user, files depot.Depot) {
		body, kind := form("run.sh", "exit", "user_id", "ann", "service", "kept")
		var answers [5]string
		var all sync.WaitGroup
		for i := range answers {
			all.Go(func() {
				_, text := u.send("POST", "/upload", body, "Content-Type", kind, "Idempotency-Key", "may")
				answers[i] = strings.Split(string(text), `"`)[3]
			})
		}
		all.Wait()
		for _, a := range answers {
			if a != answers[0] {
				u.Errorf("%q", answers)
			}
		}
		if left, err := files.List(u.Context(), ""); err != nil || len(left) > 2 { // and the result
			u.Errorf("%v, %v", left, err)
		}
		body, kind = form("run.sh", "exit", "more.txt", "x", "user_id", "ann", "service", "kept")
		u.problem(http.StatusUnprocessableEntity, "idempotency_key_reused", "", "POST", "/upload", body, "Content-Type", kind, "Idempotency-Key", "may")
		ben, kind := form("run.sh", "exit", "user_id", "ben", "service", "kept")
		if _, text := u.send("POST", "/upload", ben, "Content-Type", kind, "Idempotency-Key", "may"); strings.Contains(string(text), answers[0]) {
			u.Errorf("%s", text)
		}
	})
}

// A client works for its servers alone. A payload is Prepared, Running, and then answered with
// its ZIP and how it has ended.
func TestClientSubmitAndRetrieve(t *testing.T) {
	t.Parallel()
	c := launch(t, "client")
	archive := zipped(t, "run.sh", "sleep 0.5; echo x > x.txt")
	send := func(key, auth string) (int, string) {
		resp, text := c.send("POST", "/submit", archive, "Content-Type", "application/zip", "Content-Disposition", "attachment; filename="+payloadName, "Idempotency-Key", key, "Authorization", auth)
		return resp.StatusCode, string(text)
	}
	for _, auth := range []string{"", "Bearer ", "Bearer another"} {
		if code, text := send("1", auth); code != http.StatusUnauthorized {
			t.Errorf("%q: %d %s", auth, code, text)
		}
		c.problem(http.StatusUnauthorized, "unauthenticated", "", "GET", "/retrieve/x", "", "Authorization", auth)
	}
	auth := "Bearer " + token
	code, first := send("1", auth)
	if _, again := send("1", auth); code != http.StatusAccepted || strings.Split(again, `"`)[3] != strings.Split(first, `"`)[3] {
		t.Errorf("%d %s, %s", code, first, again)
	}
	id := strings.Split(first, `"`)[3]
	var seen []string
	for began := time.Now(); time.Since(began) < 20*time.Second; time.Sleep(5 * time.Millisecond) {
		resp, text := c.send("GET", "/retrieve/"+id, "", "Authorization", auth)
		if resp.StatusCode == http.StatusOK {
			if files := c.unzip(text); files["x.txt"] != "x\n" || resp.Header.Get(headerStatus) != "Completed" {
				t.Errorf("%v %v", files, resp.Header)
			}
			break
		}
		if status := strings.Split(string(text), `"`)[7]; resp.StatusCode != http.StatusAccepted {
			t.Fatalf("%d %s", resp.StatusCode, text)
		} else if len(seen) == 0 || seen[len(seen)-1] != status {
			seen = append(seen, status)
		}
	}
	if got := strings.Join(seen, " "); got != "Prepared Running" && got != "Running" {
		t.Errorf("%s", got)
	}
	c.problem(http.StatusNotFound, "not_found", "", "GET", "/retrieve/c3f8d6a0-9f8c-4b22-8b1c-5b0e2a9dc1e2", "", "Authorization", auth)
}

// Without a role the program is both. It prints commands that README.md has too, and they work as
// printed.
func TestPrintedCommandsWorkInOneProcess(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	p, dir, id := launch(t, ""), t.TempDir(), ""
	lines := p.Printed[1:] // behind the one with the address
	for _, line := range lines {
		if !strings.Contains(string(readme), strings.ReplaceAll(line, p.at, "http://127.0.0.1:8084")) {
			t.Errorf("README.md lacks %s", line)
		}
		if m := regexp.MustCompile(`"id":"([^"]+)"`).FindStringSubmatch(p.Shell(dir, strings.ReplaceAll(line, "/ID", "/"+id))); m != nil {
			id = m[1]
			p.await(id, "Completed")
		}
	}
	archive, err := os.ReadFile(dir + "/results.zip")
	if err != nil || len(lines) != 3 {
		t.Fatalf("%q, %v", lines, err)
	}
	if files := p.unzip(archive); files["result.txt"] != "HELLO\n" {
		t.Errorf("%v", files)
	}
}

func TestArguments(t *testing.T) {
	t.Setenv("ORCHESTRATOR_TOKEN", "")
	for _, args := range [][]string{{"nothing"}, {"client", "more"}, {"client"}, {"-database", "x"}, {"server", "-service", "x"}, {"server", "-service", "demo=2@http://x"}} {
		if err := run(args, nil); err == nil {
			t.Errorf("run %v: no error", args)
		}
	}
	t.Setenv("ORCHESTRATOR_TOKEN", token)
	for _, args := range [][]string{{"server"}, {"client", "-service", "demo=2@http://x"}, {"client", "-database", "postgres://127.0.0.1:1/none?connect_timeout=1"}} {
		if err := run(args, nil); err == nil {
			t.Errorf("run %v: no error", args)
		}
	}
}

// A slowClient is a client whose answers the test gives.
type slowClient struct {
	*httptest.Server
	submit, retrieve chan func(http.ResponseWriter)
}

func newSlowClient(t *testing.T) *slowClient {
	c := &slowClient{submit: make(chan func(http.ResponseWriter)), retrieve: make(chan func(http.ResponseWriter))}
	mux := http.NewServeMux()
	answer := func(from chan func(http.ResponseWriter), w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+token {
			t.Errorf("%v", r.Header)
		}
		select {
		case f := <-from:
			f(w)
		case <-r.Context().Done():
		}
	}
	mux.HandleFunc("POST /submit", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		u := user{T: t}
		if files := u.unzip(body); err != nil || files["run.sh"] != "exit" || r.Header.Get("Idempotency-Key") == "" || r.Header.Get("Content-Disposition") != "attachment; filename=payload.zip" {
			t.Errorf("%v %v %v", files, r.Header, err)
		}
		answer(c.submit, w, r)
	})
	mux.HandleFunc("GET /retrieve/p1", func(w http.ResponseWriter, r *http.Request) { answer(c.retrieve, w, r) })
	c.Server = httptest.NewServer(mux)
	t.Cleanup(c.Close)
	return c
}

// status answers with a status, a body and what a client says of a payload.
func status(code int, body string, head ...string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "application/json")
		for i := 0; i < len(head); i += 2 {
			w.Header().Set(head[i], head[i+1])
		}
		w.WriteHeader(code)
		io.WriteString(w, body)
	}
}

// Each move of the state is reached, one after the other, by what the client answers.
func TestEachTransition(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T) store.Store{
		"memory":     func(*testing.T) store.Store { return memstore.New() },
		"PostgreSQL": func(t *testing.T) store.Store { s, _ := pgstoretest.Open(t, pgtest.URL(t)); return s },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newSlowClient(t)
			s := settings{token: token, host: "localhost", dir: t.TempDir(), maxAge: time.Hour, services: []service{{"demo", c.URL, 1}}}
			v, err := newServer(t.Context(), s, open(t), new(couriertest.Depot))
			if err != nil {
				t.Fatal(err)
			}
			if err := v.engine.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			defer v.engine.Stop(t.Context())
			u := direct(t, v)
			first := u.upload("exit")
			u.await(first, "Processing") // the client has not answered
			second := u.upload("exit")
			time.Sleep(700 * time.Millisecond)
			if got, _ := u.look(second); got["status"] != "Queued" { // beyond the quota
				t.Errorf("%v", got)
			}
			c.submit <- status(http.StatusAccepted, `{"id": "p1", "status": "queued"}`)
			u.await(first, "Submitted")
			c.retrieve <- status(http.StatusAccepted, `{"id": "p1", "status": "Prepared"}`)
			asked := time.Now()
			c.retrieve <- status(http.StatusAccepted, `{"id": "p1", "status": "Running"}`)
			if d := time.Since(asked); d < 400*time.Millisecond || d > 3*time.Second {
				t.Errorf("it asks again after %v", d)
			}
			if got, _ := u.look(first); got["status"] != "Submitted" {
				t.Errorf("%v", got)
			}
			c.retrieve <- status(http.StatusInternalServerError, "no")
			u.await(first, "Unknown")
			if got, _ := u.look(first); !strings.Contains(got["error"].(string), "500") {
				t.Errorf("%v", got)
			}
			c.submit <- status(http.StatusServiceUnavailable, "full") // of the second, which has the slot meanwhile
			u.await(second, "Failed")
			c.retrieve <- status(http.StatusOK, zipped(t, "x.txt", "x"), headerStatus, "Completed")
			if _, _, files := u.await(first, "Completed"); files["x.txt"] != "x" {
				t.Errorf("%v", files)
			}
			third := u.upload("exit")
			c.submit <- status(http.StatusAccepted, `{"id": "p1"}`)
			c.retrieve <- status(http.StatusNotFound, "nothing", headerStatus, "Failed", headerError, "run.sh has returned 3")
			if _, got, _ := u.await(third, "Failed"); got["output"] != nil || !strings.Contains(got["error"].(string), "returned 3") {
				t.Errorf("%v", got)
			}
		})
	}
}
