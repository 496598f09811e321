package courier_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
)

func TestJobDependencyJSON(t *testing.T) {
	text := `{"name": "report", "depends_on": ["import", {"job": "clean up", "run_on_failure": true, "required_status": "any", "on_unmet": "refuse"}], "steps": []}`
	var job, again courier.Job
	if err := json.Unmarshal([]byte(text), &job); err != nil {
		t.Fatal(err)
	}
	want := []courier.JobDependency{{Job: "import"}, {Job: "clean up", RunOnFailure: true, RequiredStatus: courier.RequireAny, OnUnmet: courier.RefuseUnmet}}
	if !reflect.DeepEqual(job.DependsOn, want) {
		t.Errorf("read %+v", job.DependsOn)
	}
	if err := json.Unmarshal(mustAppend(t, job), &again); err != nil || !reflect.DeepEqual(again, job) {
		t.Errorf("written and read again: %+v, %v", again, err)
	}
	err := json.Unmarshal([]byte(`{"depends_on": [{"jbo": "a"}, 7, {"job": 1}, {"job": "a", "job": "b"}], "name": 1}`), &job)
	for _, want := range []string{`depends_on[0]: unknown field "jbo"; did you mean "job"?`, "depends_on[1]: must be an object", "depends_on[2].job: must be", "depends_on[3].job: given twice", "name: must be"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v lacks %q", err, want)
		}
	}
	if !reflect.DeepEqual(job.DependsOn, want) {
		t.Error("a text that is refused changed the job")
	}
}

func TestJobDependencyMetBy(t *testing.T) {
	for _, d := range []struct {
		on  courier.JobDependency
		met string
	}{
		{courier.JobDependency{Job: "u"}, "completed"},
		{courier.JobDependency{Job: "u", RequiredStatus: courier.RequireCompleted}, "completed"},
		{courier.JobDependency{Job: "u", RunOnFailure: true}, "completed failed"},
		{courier.JobDependency{Job: "u", RequiredStatus: courier.RequireAny}, "completed failed cancelled"},
		{courier.JobDependency{Job: "u", RequiredStatus: courier.RequireAny, RunOnFailure: true}, "completed failed cancelled"},
	} {
		var met []string
		for _, s := range []courier.State{"", courier.Created, courier.Queued, courier.Running, courier.Paused, courier.Completed, courier.Failed, courier.Cancelled} {
			if d.on.MetBy(s) {
				met = append(met, string(s))
			}
		}
		if got := strings.Join(met, " "); got != d.met {
			t.Errorf("%+v is met by %q, want %q", d.on, got, d.met)
		}
	}
}

func TestWaits(t *testing.T) {
	on := courier.JobDependency{Job: "u"}
	lenient := courier.JobDependency{Job: "u", RunOnFailure: true}
	for _, w := range []struct {
		wait courier.UnmetDependency
		want string
	}{
		{on.Unmet("", ""), `job "u" has no execution yet`},
		{on.Unmet("7", courier.Running), `execution 7 of job "u" is running`},
		{on.Unmet("7", courier.Failed), `execution 7 of job "u" failed, and has to complete`},
		{on.Unmet("7", courier.Cancelled), `execution 7 of job "u" was cancelled; one has to complete`},
		{lenient.Unmet("7", courier.Cancelled), `execution 7 of job "u" was cancelled; one has to complete or fail`},
	} {
		if w.wait.Reason != w.want || w.wait.Job != "u" {
			t.Errorf("%+v, want %q", w.wait, w.want)
		}
	}
	err := error(&courier.DependencyError{Job: "d", Waits: []courier.UnmetDependency{on.Unmet("", ""), on.Unmet("7", courier.Paused)}})
	want := `job "d" depends on others: job "u" has no execution yet; execution 7 of job "u" is paused; nothing was created; enqueue it again`
	if !errors.Is(err, courier.ErrConflict) || errors.Is(err, courier.ErrInvalid) || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
	err = &courier.CycleError{Path: []string{"a", "b", "a"}}
	if !errors.Is(err, courier.ErrInvalid) || errors.Is(err, courier.ErrConflict) || err.Error() != "depends on itself: a -> b -> a; each would wait for the next" {
		t.Error(err)
	}
	x := courier.Execution{State: courier.Queued, Waits: []courier.UnmetDependency{on.Unmet("", "")}, DueAt: time.Now().Add(time.Hour)}
	if got := x.Status(time.Now()); got != "waiting" {
		t.Errorf("shown as %q", got)
	}
}
