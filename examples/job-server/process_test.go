package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/courierhq/courier/internal/test/pgtest"
	"github.com/courierhq/courier/internal/test/process"
	"github.com/courierhq/courier/webhook"
)

// process returns the payload of the event that says in which process a job has run.
func (c *client) process(id string) (pid int, environment string) {
	c.Helper()
	for _, e := range c.stream(id, "") {
		if e.kind == "process" {
			p := e.data["payload"].(object)
			return int(p["pid"].(float64)), fmt.Sprint(p["environment"])
		}
	}
	c.Fatal("there is no such event")
	return 0, ""
}

// alive reports whether there is a process.
func alive(pid int) bool {
	p, err := os.FindProcess(pid)
	return err == nil && p.Signal(syscall.Signal(0)) == nil
}

// Each attempt has a process of its own, with an environment that has nothing of the server's,
// and a limit of memory: one that crashes leaves the server and other jobs alone. A cancel
// reaches the process as SIGTERM: a function that listens for it hears it, otherwise its context
// ends, and one that hears neither is killed after the grace. The metrics and the log tell of
// all that.
func TestJobsRunInProcessesOfTheirOwn(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, p *program) {
		retried := p.start("test.work", `{"fails": 1}`)
		other := p.start("test.work", `{"seconds": 2, "report": true}`)
		id := p.start("test.work", `{"report": true}`)
		hog := p.start("test.limited", `{"grab": 400}`)
		hears, deaf := p.start("test.work", `{"seconds": 60}`), p.start("test.work", `{"seconds": 60, "deaf": true}`)
		listens := p.start("test.work", `{"seconds": 60, "signals": true}`)
		p.await(id, "succeeded")
		pid, environment := p.process(id)
		if pid == p.PID() || alive(pid) || !strings.Contains(environment, "PATH=") || strings.Contains(environment, "WEBHOOK_SECRET") || strings.Contains(environment, process.Variable) {
			t.Errorf("process %d, environment %s", pid, environment)
		}
		p.await(hears, "running")
		asked := time.Now()
		p.cancel(hears)
		p.await(hears, "cancelled")
		p.logged("listening", listens)
		p.cancel(listens)
		p.await(listens, "cancelled")
		p.logged("told by a signal", listens)
		p.await(deaf, "running")
		time.Sleep(200 * time.Millisecond) // its process has begun
		killed := time.Now()
		if status := p.cancel(deaf); status != "cancelling" {
			t.Errorf("it is %s", status)
		}
		p.await(deaf, "cancelled")
		if d := time.Since(killed); d < 300*time.Millisecond || d > 5*time.Second {
			t.Errorf("the grace of 300 ms took %v; that of a job that hears %v", d, killed.Sub(asked))
		}
		if j := p.await(hog, "failed"); !strings.Contains(j["errorSummary"].(string), "memory") || j["attempts"] != 1.0 || j["maxAttempts"] != 1.0 {
			t.Errorf("%v", j)
		}
		p.await(other, "succeeded")
		if second, _ := p.process(other); second == pid {
			t.Error("two jobs have had one process")
		}
		p.await(retried, "succeeded")
		p.metrics()
		p.logged("working", id)
		video := p.start("transcode.video", `{"url": "https://example.com/video.mp4", "seconds": 0}`)
		p.await(video, "succeeded")
		p.logged("the video is done with", video) // by its hook onEnd
	})
}

// metrics requires those of the contract: queue depth, running, successes, failures, durations,
// retries and expirations of leases.
func (p *program) metrics() {
	p.Helper()
	resp, err := http.Get(p.at + "/metrics")
	if err != nil {
		p.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		p.Fatal(err)
	}
	for _, want := range []string{
		"courier_queue_depth{", "courier_executions{", `cicd_pipeline_run_duration_seconds_count{cicd_pipeline_name="test.work@1"`, `cicd_pipeline_result="success"`,
		`cicd_pipeline_run_errors_total{cicd_pipeline_name="test.limited@1",error_type="crashed"} 1`, `courier_step_duration_seconds_bucket{`, `courier_slices_total{cicd_pipeline_name="test.work@1",courier_slice_end="retried"} 1`, "courier_takeovers_total",
	} {
		if !strings.Contains(string(text), want) {
			p.Errorf("the metrics lack %s:\n%s", want, text)
		}
	}
}

// logged requires that the log has, or soon gets, a message about a job, by its jobId, and no secret.
func (p *program) logged(message, id string) {
	p.Helper()
	process.Until(p.T, func() (any, bool) { return "no " + message + " for " + id + " in the log", p.hasLogged(message, id) })
	if strings.Contains(p.Log.String(), hookSecret) {
		p.Error("the log has a secret")
	}
}

func (p *program) hasLogged(message, id string) bool {
	p.Helper()
	found := false
	text := p.Log.String()
	text = text[:strings.LastIndexByte(text, '\n')+1] // the last line may be in the middle
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		line := make(object)
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			p.Errorf("%v: %s", err, lines.Text())
		}
		found = found || line["msg"] == message && line["jobId"] == id
	}
	return found
}

// Another server goes on with the job of one that was killed. In between the job is orphaned.
// That uses up no attempt, and the process of the job ends with its server.
func TestKilledServerIsReplaced(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	dir := t.TempDir() // a new process of the same host would have it too
	ann := launch(t, "-database", url, "-worker", "ann", "-workspace", dir, "-lease", "1500ms")
	id := ann.start("test.work", `{"seconds": 1.5, "report": true}`)
	j := ann.await(id, "running")
	first := ann.instant(j, "heartbeatAt")
	for ann.instant(ann.is(id, "running"), "heartbeatAt").Equal(first) { // which is half a second old at most
		time.Sleep(20 * time.Millisecond)
	}
	if j["workerId"] != "ann" {
		t.Errorf("%v", j)
	}
	ann.Kill()
	bob := launch(t, "-database", url, "-worker", "bob")
	j = bob.await(id, "succeeded")
	if j["workerId"] != "bob" || j["attempts"] != 1.0 {
		t.Errorf("%v", j)
	}
	if got := strings.Join(kinds(bob.stream(id, "")), " "); got != "queued started orphaned started process succeeded" && got != "queued started orphaned queued started process succeeded" {
		t.Errorf("%s", got)
	}
	if first, _ := bob.process(id); first == 0 {
		t.Error("it has run nowhere")
	}
}

// An execution whose server is gone reads orphaned until another one is there.
func TestOrphanedIsSeen(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	ann := launch(t, "-database", url, "-lease", "1500ms")
	watcher := launch(t, "-database", url, "-max-concurrent", "1")
	busy := []string{watcher.start("test.limited", `{"seconds": 2.5}`), watcher.start("test.limited", `{"seconds": 2.5}`)}
	for _, id := range busy {
		watcher.await(id, "running")
	}
	ann.Kill()
	orphan := ""
	for began := time.Now(); orphan == "" && time.Since(began) < 10*time.Second; time.Sleep(20 * time.Millisecond) {
		for _, id := range busy {
			if watcher.get(id)["status"] == "orphaned" {
				orphan = id
			}
		}
	}
	if orphan == "" {
		t.Fatal("no job was orphaned")
	}
	got, _ := watcher.send("GET", "/v1/jobs?status=orphaned", "", http.StatusOK)
	for _, j := range got["items"].([]any) { // none, if it was claimed since
		if j.(object)["status"] != "orphaned" {
			t.Errorf("%v", j)
		}
	}
	for _, id := range busy {
		for watcher.get(id)["status"] != "succeeded" {
			time.Sleep(20 * time.Millisecond)
		}
	}
}

// A server that is asked to stop lets its jobs end, and others go on.
func TestStoppedServerLetsItsJobsEnd(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	ann := launch(t, "-database", url, "-worker", "ann")
	id := ann.start("test.work", `{"seconds": 1}`)
	ann.await(id, "running")
	bob := launch(t, "-database", url)
	ann.Stop()
	if j := bob.is(id, "succeeded"); j["attempts"] != 1.0 || j["workerId"] != "ann" {
		t.Errorf("%v", j)
	}
	bob.await(bob.start("test.work", ""), "succeeded")
	bob.Stop()
	launch(t).Stop()
}

// Twenty starts with one key at two servers at the same time make one job, and a definition's
// limit holds over both.
func TestServersShareKeysAndLimits(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	both := []*program{launch(t, "-database", url), launch(t, "-database", url)}
	var all sync.WaitGroup
	var ids [20]string
	for i := range ids {
		all.Go(func() { ids[i] = both[i%2].start("test.work", "", `"idempotencyKey": "upload-123"`) })
	}
	for i := range 6 {
		all.Go(func() { both[i%2].start("test.limited", `{"seconds": 0.3}`) })
	}
	all.Wait()
	for _, id := range ids {
		if id != ids[0] {
			t.Errorf("%v", ids)
			break
		}
	}
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		running, _ := both[0].send("GET", "/v1/jobs?definitionKey=test.limited&status=running", "", http.StatusOK)
		if n := len(running["items"].([]any)); n > 2 {
			t.Fatalf("%d run at once", n)
		}
		done, _ := both[1].send("GET", "/v1/jobs?definitionKey=test.limited&status=succeeded", "", http.StatusOK)
		if len(done["items"].([]any)) == 6 {
			break
		}
		if time.Since(began) > 20*time.Second {
			t.Fatalf("%v", done)
		}
	}
}

// Webhooks are told of the hooks, signed with HMAC, and sent again until they are received.
func TestWebhooksAreSignedAndRepeated(t *testing.T) {
	t.Parallel()
	type call struct{ hook, job, id string }
	got, refused := make(chan call, 100), make(chan call, 1)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = webhook.Verify(r.Header, body, hookSecret)
		}
		if err != nil || webhook.Verify(r.Header, append(body, ' '), hookSecret) == nil {
			t.Errorf("the signature: %v", err)
		}
		var n struct {
			Data struct {
				ExecutionID string `json:"execution_id"`
			}
		}
		if err := json.Unmarshal(body, &n); err != nil {
			t.Error(err)
		}
		c := call{r.Header.Get("X-Hook"), n.Data.ExecutionID, r.Header.Get(webhook.HeaderID)}
		select {
		case refused <- c:
			w.WriteHeader(http.StatusInternalServerError) // of the first alone
		default:
			got <- c
		}
	}))
	defer receiver.Close()
	p := launch(t, "-database", pgtest.URL(t), "-webhook", receiver.URL)
	want := map[call]bool{}
	for key, params := range map[string]string{"onSuccess": "", "onFail": `{"fails": 1}`} {
		id := p.start("test.limited", params)
		for _, hook := range []string{"onStart", key, "onEnd"} {
			want[call{hook: hook, job: id}] = true
		}
	}
	again := false
	for len(want) > 0 {
		select {
		case c := <-got:
			first := <-refused
			refused <- first
			again = again || c == first
			delete(want, call{hook: c.hook, job: c.job})
		case <-time.After(30 * time.Second):
			t.Fatalf("%v are missing", want)
		}
	}
	if !again {
		t.Error("what was refused was not sent again")
	}
}

// The program prints the commands of its contract, which README.md has too, and they work as
// printed.
func TestPrintedCommandsWork(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	p := launch(t)
	id := ""
	shell := func(part, want string) string {
		t.Helper()
		i := slices.IndexFunc(p.Commands(), func(line string) bool { return strings.Contains(line, part) })
		if i < 0 {
			t.Fatalf("%q has no %s", p.Printed, part)
		}
		line := p.Commands()[i]
		if !strings.Contains(string(readme), strings.ReplaceAll(line, p.at, "http://127.0.0.1:8083")) {
			t.Errorf("README.md lacks %s", line)
		}
		out := p.Shell("", strings.ReplaceAll(line, "JOBID", id))
		if !strings.Contains(out, want) {
			t.Errorf("%s: %s; want %s", line, out, want)
		}
		return out
	}
	id = regexp.MustCompile(`"jobId":"([^"]+)"`).FindStringSubmatch(shell("-d '", "202 Accepted"))[1]
	p.await(id, "running")
	shell("/v1/jobs?", id)
	shell("/JOBID/cancel", "202 Accepted")
	shell("/JOBID/events", "event: cancelled")
	shell("/v1/jobs/JOBID", `"status":"cancelled"`)
	shell("/metrics", "courier_queue_depth")
	if len(p.Commands()) != 6 {
		t.Errorf("%q", p.Printed)
	}
}
