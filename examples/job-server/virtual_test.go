package main

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/schedule"
)

// A start is answered with jobId and status, and the job has the fields of the contract.
func TestStartAndGetHaveTheFieldsOfTheContract(t *testing.T) {
	virtual(t, func(w *world) {
		got, head := w.send("POST", "/v1/jobs", `{"definitionKey": "transcode.video", "definitionVersion": 1, "params": {"url": "https://example.com/video.mp4", "seconds": 40},
			"priority": 5, "maxAttempts": 3, "idempotencyKey": "upload-123"}`, http.StatusAccepted)
		id := got["jobId"].(string)
		if len(got) != 2 || got["status"] != "queued" || head.Get("Location") != "/v1/jobs/"+id {
			t.Errorf("%v %v", got, head)
		}
		j := w.get(id)
		for name, want := range (object{
			"jobId": id, "definitionKey": "transcode.video", "definitionVersion": 1.0, "status": "queued", "attempts": 0.0, "maxAttempts": 3.0, "priority": 5.0,
			"idempotencyKey": "upload-123", "startedAt": nil, "heartbeatAt": nil, "leaseExpiresAt": nil, "workerId": nil, "finishedAt": nil, "scheduledAt": nil,
		}) {
			if j[name] != want {
				t.Errorf("queued: %s is %v, want %v", name, j[name], want)
			}
		}
		w.begin()
		time.Sleep(30 * time.Second)
		j = w.is(id, "running")
		started, beat, queued := w.instant(j, "startedAt"), w.instant(j, "heartbeatAt"), w.instant(j, "queuedAt")
		if j["attempts"] != 1.0 || j["workerId"] != "worker-2" || !started.Equal(queued) || beat.Sub(started) < 25*time.Second || !w.instant(j, "leaseExpiresAt").Equal(beat.Add(15*time.Second)) {
			t.Errorf("running: %v", j)
		}
		time.Sleep(20 * time.Second)
		j = w.is(id, "succeeded")
		if w.instant(j, "finishedAt").Sub(started) != 40*time.Second || j["heartbeatAt"] != nil || j["attempts"] != 1.0 || j["errorSummary"] != nil ||
			fmt.Sprint(j["params"]) != "map[seconds:40 url:https://example.com/video.mp4]" {
			t.Errorf("succeeded: %v", j)
		}
	}, "-worker", "worker-2")
}

// Where a start says nothing, the version is 1, the priority 0, the attempts 3, and an attempt
// takes an hour at most. Nothing limits how many jobs of a definition run at once.
func TestDefaults(t *testing.T) {
	virtual(t, func(w *world) {
		w.begin()
		id := w.start("test.work", `{"seconds": 7200}`)
		for range 30 {
			w.start("test.work", `{"seconds": 1800}`)
		}
		synctest.Wait()
		if n := w.count("running"); n != 31 {
			t.Errorf("%d run", n)
		}
		time.Sleep(time.Hour + time.Second)
		j := w.is(id, "queued")
		if j["definitionVersion"] != 1.0 || j["priority"] != 0.0 || j["maxAttempts"] != 3.0 || j["attempts"] != 1.0 || !strings.Contains(j["errorSummary"].(string), "1h0m0s") {
			t.Errorf("%v", j)
		}
		time.Sleep(3 * time.Hour)
		if j = w.is(id, "failed"); j["attempts"] != 3.0 {
			t.Errorf("%v", j)
		}
	}, "-max-concurrent", "100")
}

// All moves between states are those of the contract; what it does not have is refused with 409.
func TestStatesAndTheirTransitions(t *testing.T) {
	for _, c := range []struct {
		name, params string
		cancelAfter  time.Duration // 0 for never
		want         string
	}{
		{"succeeds", `{"seconds": 5}`, 0, "queued started succeeded"},
		{"fails and succeeds", `{"seconds": 5, "fails": 2}`, 0, "queued started retrying started retrying started succeeded"},
		{"fails for good", `{"fails": 3}`, 0, "queued started retrying started retrying started failed"},
		{"is cancelled while it runs", `{"seconds": 50}`, 10 * time.Second, "queued started cancelling cancelled"},
		{"is cancelled while it waits for a retry", `{"fails": 3}`, time.Second, "queued started retrying cancelled"},
	} {
		t.Run(c.name, func(t *testing.T) {
			virtual(t, func(w *world) {
				w.begin()
				id := w.start("test.work", c.params)
				if c.cancelAfter > 0 {
					go func() {
						time.Sleep(c.cancelAfter)
						if status := w.cancel(id); status != "cancelling" && status != "cancelled" {
							t.Errorf("after the request it is %s", status)
						}
						if again := w.cancel(id); again == "running" {
							t.Error("the request was forgotten")
						}
					}()
				}
				got := kinds(w.stream(id, ""))
				if c.name == "is cancelled while it runs" { // a step that stops at once leaves little time to see it
					got = slices.DeleteFunc(got, func(s string) bool { return s == "cancelling" })
					c.want = strings.Replace(c.want, "cancelling ", "", 1)
				}
				if strings.Join(got, " ") != c.want {
					t.Errorf("%v\nwant %s", got, c.want)
				}
				last := got[len(got)-1]
				j := w.is(id, last)
				if w.instant(j, "finishedAt").IsZero() || j["heartbeatAt"] != nil {
					t.Errorf("%v", j)
				}
				if last == "cancelled" {
					w.cancel(id) // succeeds again
					if j["attempts"] != 1.0 {
						t.Errorf("%v", j)
					}
				} else {
					w.problem("POST", "/v1/jobs/"+id+"/cancel", "", http.StatusConflict, "transition")
					w.is(id, last)
				}
			})
		})
	}
	t.Run("is cancelled while queued", func(t *testing.T) {
		virtual(t, func(w *world) {
			id := w.start("test.work", "")
			if status := w.cancel(id); status != "cancelled" {
				t.Errorf("it is %s", status)
			}
			w.begin()
			time.Sleep(time.Minute)
			if j := w.is(id, "cancelled"); j["attempts"] != 0.0 || j["startedAt"] != nil {
				t.Errorf("%v", j)
			}
		})
	})
}

// A job that does not hear the signal is cancelling until the grace ends, and then cancelled.
func TestCancellationWaitsForTheGrace(t *testing.T) {
	virtual(t, func(w *world) {
		w.begin()
		id := w.start("test.work", `{"seconds": 60, "deaf": true}`)
		synctest.Wait()
		asked := time.Now()
		if status := w.cancel(id); status != "cancelling" {
			t.Errorf("it is %s", status)
		}
		time.Sleep(9 * time.Second)
		if j := w.is(id, "cancelling"); !w.instant(j, "cancelRequestedAt").Equal(asked) {
			t.Errorf("%v", j)
		}
		if n := w.count("cancelling"); n != 1 || w.count("running") != 0 {
			t.Errorf("%d are listed as cancelling", n)
		}
		time.Sleep(2 * time.Second)
		if j := w.is(id, "cancelled"); w.instant(j, "finishedAt").Sub(asked) != 10*time.Second {
			t.Errorf("%v", j)
		}
		time.Sleep(time.Minute)
	})
}

// The delay before a retry is min(maxBackoff, base * 2^attempt + randomJitter).
func TestBackoffIsExponentialWithAddedJitter(t *testing.T) {
	virtual(t, func(w *world) {
		w.begin()
		different := make(map[time.Duration]bool)
		for range 5 {
			id := w.start("test.work", `{"fails": 99}`, `"maxAttempts": 12`)
			var failed time.Time
			attempt := 0
			for _, e := range w.stream(id, "") {
				at := w.instant(e.data, "at")
				switch {
				case e.kind == "retrying":
					failed = at
				case e.kind == "started" && !failed.IsZero():
					attempt++
					least := min(base<<attempt, maxBackoff)
					if d := at.Sub(failed); d < least || d > min(least+2*base, maxBackoff)+time.Second {
						t.Errorf("after attempt %d the delay is %v", attempt, d)
					} else if attempt == 1 {
						different[d] = true
					}
				}
			}
			if j := w.is(id, "failed"); attempt != 11 || j["attempts"] != 12.0 || j["maxAttempts"] != 12.0 || !strings.Contains(j["errorSummary"].(string), "attempt 12 is to fail") {
				t.Errorf("%d retries, %v", attempt, j)
			}
		}
		if len(different) < 4 {
			t.Errorf("the delays are %v", different)
		}
	})
}

// The stream has what becomes of a job, with what its function has emitted, and goes on behind
// the last event that a client has.
func TestEventsStreamAndResume(t *testing.T) {
	virtual(t, func(w *world) {
		w.begin()
		id := w.start("test.work", `{"seconds": 30, "emit": 2, "fails": 1}`)
		list := w.stream(id, "")
		if got := strings.Join(kinds(list), " "); got != "queued started retrying started progress progress succeeded" { // the first attempt's were dropped
			t.Errorf("%s", got)
		}
		beats := 0
		for i, e := range list {
			switch e.kind {
			case "heartbeat":
				beats++
			case "retrying":
				if e.data["payload"].(object)["error"] != "attempt 1 is to fail" {
					t.Errorf("%v", e)
				}
			case "progress":
				if n := e.data["payload"].(object)["n"]; n != 1.0 && n != 2.0 {
					t.Errorf("%v", e)
				}
			}
			if e.id != "" {
				if rest := w.stream(id, e.id); fmt.Sprint(kinds(rest)) != fmt.Sprint(kinds(list[i+1:])) {
					t.Errorf("after %s %s: %v, want %v", e.kind, e.id, kinds(rest), kinds(list[i+1:]))
				}
			}
		}
		if beats < 5 {
			t.Errorf("%d heartbeats in 30 seconds, of one each 5", beats)
		}
	})
}

// A client that watches is told while the job runs.
func TestEventsComeAsTheyHappen(t *testing.T) {
	virtual(t, func(w *world) {
		id := w.start("test.work", `{"seconds": 100}`)
		var list []event
		done := make(chan struct{})
		go func() {
			defer close(done)
			list = w.stream(id, "")
		}()
		time.Sleep(40 * time.Second) // comments keep the connection
		w.begin()
		<-done
		if got := strings.Join(kinds(list), " "); got != "queued started succeeded" {
			t.Errorf("%s", got)
		}
	})
}

// Jobs are claimed by priority, higher ones first, and within one by the time they were queued.
func TestPriorityAndThenAge(t *testing.T) {
	virtual(t, func(w *world) {
		var want [5]string
		for _, c := range []struct{ priority, place int }{{0, 2}, {-3, 4}, {5, 0}, {0, 3}, {5, 1}} {
			want[c.place] = w.start("test.work", `{"seconds": 10}`, fmt.Sprintf(`"priority": %d`, c.priority))
			time.Sleep(time.Second)
		}
		w.begin()
		time.Sleep(5 * time.Minute)
		var before time.Time
		for i, id := range want {
			at := w.instant(w.is(id, "succeeded"), "startedAt")
			if i > 0 && at.Sub(before) < 10*time.Second {
				t.Errorf("job %d began %v after the one before", i, at.Sub(before))
			}
			before = at
		}
	}, "-max-concurrent", "1")
}

// A definition's limit holds over all servers, and that of a server for itself.
func TestLimitsOfDefinitionAndServer(t *testing.T) {
	for _, c := range []struct {
		key  string
		want int
	}{{"test.limited", 2}, {"test.work", 6}} {
		virtual(t, func(w *world) {
			w.add("-max-concurrent", "3")
			w.begin()
			for range 9 {
				w.start(c.key, `{"seconds": 30}`)
			}
			time.Sleep(2 * time.Second)
			for range 20 {
				time.Sleep(5 * time.Second)
				if n := w.count("running"); n > c.want {
					t.Fatalf("%d of %s run at once", n, c.key)
				} else if w.count("queued") > 0 && n < c.want {
					t.Errorf("%d of %s run, and others wait", n, c.key)
				}
			}
			time.Sleep(time.Hour)
			if n := w.count("succeeded"); n != 9 {
				t.Errorf("%d have succeeded", n)
			}
		}, "-max-concurrent", "3")
	}
}

// The hooks of a definition are called for what they are named for; onEnd after each end.
func TestHooksOfADefinition(t *testing.T) {
	hooked.Lock()
	hooked.calls = make(map[string][]string)
	hooked.Unlock()
	virtual(t, func(w *world) {
		w.begin()
		want := map[string]string{
			w.start("test.hooked", ""):                                 "onEnd onStart onSuccess",
			w.start("test.hooked", `{"fails": 1}`):                     "onEnd: attempt 1 is to fail onFail: attempt 1 is to fail onStart",
			w.start("test.hooked", `{"fails": 1}`, `"maxAttempts": 2`): "onEnd onStart onSuccess", // a retry is no failure
		}
		id := w.start("test.hooked", `{"seconds": 60}`)
		want[id] = "onEnd onStart"
		time.Sleep(time.Second)
		w.cancel(id)
		time.Sleep(time.Minute)
		hooked.Lock()
		defer hooked.Unlock()
		for id, want := range want {
			slices.Sort(hooked.calls[id])
			if got := strings.Join(hooked.calls[id], " "); got != want {
				t.Errorf("%v: %s, want %s", w.get(id), got, want)
			}
		}
	})
}

// A schedule has five fields and a time zone, fires once on any number of servers, and starts
// what was missed if it is to catch up.
func TestSchedulesFireByCronAndCatchUp(t *testing.T) {
	defer func(was []Schedule) { schedules = was }(schedules)
	for catchUp, missed := range map[bool]int{true: 5, false: 0} {
		schedules = []Schedule{
			{Name: "hourly", Definition: "test.work@2", Cron: "30 * * * *", Zone: "Europe/Berlin", CatchUp: catchUp, Priority: 3, Params: map[string]any{"seconds": 1}},
			{Name: "weekdays", Definition: "test.limited@1", Cron: "0 3 * * 1-5", Zone: "Europe/Berlin"}, // the bubble's time begins on Saturday, 2000-01-01
			{Name: "off", Definition: "test.limited@1", Cron: "* * * * *", Disabled: true},
		}
		virtual(t, func(w *world) {
			w.add()
			time.Sleep(5 * time.Hour) // nobody is there
			w.begin()
			time.Sleep(10 * time.Minute)
			if n := w.count("succeeded"); n != missed {
				t.Errorf("catch up is %v, and %d were started", catchUp, n)
			}
			time.Sleep(2 * time.Hour)
			list := w.list()
			if len(list) != missed+2 {
				t.Fatalf("catch up is %v, and there are %d", catchUp, len(list))
			}
			last, err := w.servers[0].engine.Executions().Get(t.Context(), list[len(list)-1].ID)
			if err != nil || last.Job != "test.work@2" || last.Priority != 3 || !strings.Contains(string(last.Params), `"seconds":1`) || last.CreatedAt.UTC().Format("04:05") != "30:00" {
				t.Errorf("%+v", last)
			}
			weekdays, err := w.servers[0].engine.Schedules().Get(t.Context(), "weekdays")
			if err != nil || weekdays.NextFire.UTC().Format(time.RFC3339) != "2000-01-03T02:00:00Z" {
				t.Errorf("%+v, %v", weekdays.NextFire, err)
			}
			hourly, err := w.servers[0].engine.Schedules().Get(t.Context(), "hourly")
			if err != nil || hourly.LastFire.IsZero() || hourly.Misfire != map[bool]schedule.Misfire{true: schedule.MisfireAll, false: schedule.MisfireSkip}[catchUp] {
				t.Errorf("%+v, %v", hourly, err)
			}
		})
	}
}

// The settings of the contract have their names in the environment.
func TestSettingsOfTheEnvironment(t *testing.T) {
	t.Setenv("MAX_CONCURRENT_EXECUTIONS", "3")
	t.Setenv("CANCEL_GRACE_MS", "700")
	s, err := parse(nil)
	if err != nil || s.running != 3 || s.grace != 700 {
		t.Errorf("%+v, %v", s, err)
	}
	for _, args := range [][]string{{"more"}, {"-max-concurrent", "0"}, {"-cancel-grace", "-1"}, {"-lease", "long"}} {
		if err := run(args, nil); err == nil {
			t.Errorf("run %v: no error", args)
		}
	}
}

// A definition's job has the numbers that it says.
func TestDefinitionBecomesAJob(t *testing.T) {
	d := Definition{Key: "a.b", Version: 7, Timeout: time.Minute, DefaultMaxAttempts: 5, ConcurrencyLimit: 4}
	j := d.job()
	if p := j.FailurePolicy; j.Name != "a.b@7" || j.Limit != 4 || *p.MaxRetries != 4 || *j.Steps[0].Timeout != time.Minute || j.Steps[0].Type != "a.b.v7" || p.Jitter != courier.JitterAdded {
		t.Errorf("%+v", j)
	}
}
