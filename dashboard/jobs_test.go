package dashboard_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/test/raced"
	"github.com/courierhq/courier/schedule"
	"github.com/courierhq/courier/store/memstore"
)

// The list has jobs with the outcomes of their newest executions and their next ticks.
func TestJobs(t *testing.T) {
	virtual(t, nil, func(w *world) {
		w.ended("report", "ann", nil)
		w.ended("report", "ann", map[string]any{"fail": "no"})
		at := time.Now().Add(time.Hour).Truncate(time.Second)
		for _, s := range []schedule.Schedule{{Name: "later", Job: "report", At: at.Add(time.Hour)}, {Name: "sooner", Job: "report", At: at}, {Name: "off", Job: "report", At: at, Disabled: true}} {
			if _, err := w.engine.Schedules().Set(w.Context(), s, courier.By{Actor: "eve"}); err != nil {
				t.Fatal(err)
			}
		}
		page := w.get("jobs")
		rows := page.tree.all("tr[data-row]")
		if len(rows) != 4 {
			t.Fatalf("%d rows", len(rows))
		}
		text := rows[3].text()
		for _, want := range []string{"report @1", "1 entry", "failed completed", "sooner", "1 disabled or paused", at.UTC().Format("2006-01-02 15:04:05")} {
			if !strings.Contains(text, want) {
				t.Errorf("the row is %q, without %q", text, want)
			}
		}
		for i, href := range []string{"./jobs/report", "./executions/", "./executions/", "./executions?where=job%3Areport", "./jobs/report/run"} {
			if got := rows[3].all("a")[i].attrs["href"]; !strings.HasPrefix(got, href) {
				t.Errorf("link %d leads to %q", i, got)
			}
		}
		if !strings.Contains(rows[0].text(), "none yet") {
			t.Errorf("a job that never ran is %q", rows[0].text())
		}
		if n := len(w.get("jobs?q=re").tree.all("tr[data-row]")); n != 1 {
			t.Errorf("%d jobs begin with re", n)
		}
		w.get("jobs/report").has("Newest executions failed completed").has("Next tick " + at.UTC().Format("2006-01-02 15:04:05") + " UTC , sooner")
		w.get("jobs?q=none").has("No job matches.").has("Show all jobs")
	})
}

// A job that a chain starts has the next tick of the chain's schedule, unless its own is sooner.
func TestJobsOfChains(t *testing.T) {
	virtual(t, nil, func(w *world) {
		w.defineChain(daily())
		w.schedule(schedule.Schedule{Name: "every five minutes", Chain: "daily", Every: 5 * time.Minute})
		w.schedule(schedule.Schedule{Name: "own", Job: "other", Every: time.Minute})
		w.schedule(schedule.Schedule{Name: "nowhere", Job: "flaky", Every: time.Minute, Disabled: true})
		rows := w.get("jobs").tree.all("tr[data-row]")
		for i, want := range map[int]string{3: "every five minutes , by the chain daily", 2: "own", 0: "– 1 disabled or paused", 1: "–"} {
			if text := rows[i].text(); !strings.Contains(text, want) || i != 3 && strings.Contains(text, "by the chain") {
				t.Errorf("row %d is %q, without %q", i, text, want)
			}
		}
		w.get("jobs/report").has("every five minutes , by the chain daily")
		w.user = "vera"
		if text := w.get("jobs").tree.text(); strings.Contains(text, "by the chain") {
			t.Errorf("who does not see all jobs sees chains: %s", text)
		}
	})
}

// A job whose executions are older than many of another's has as many outcomes as it.
func TestJobsOutcomes(t *testing.T) {
	virtual(t, nil, func(w *world) {
		for range 4 {
			w.ended("report", "ann", nil)
		}
		for range 38 { // of the 40 newest of four jobs two are left
			w.ended("other", "ann", nil)
		}
		rows := w.get("jobs").tree.all("tr[data-row]")
		if other, report := len(rows[2].all(".chip")), len(rows[3].all(".chip")); other != 5 || report != 4 {
			t.Errorf("%d and %d outcomes", other, report)
		}
	})
}

// Visitors see the jobs for which they have a role; a client what it may start.
func TestJobsRoles(t *testing.T) {
	virtual(t, options(), func(w *world) {
		w.ended("report", "vera", map[string]any{"fail": canary})
		for user, want := range map[string][2]int{"nobody": {0, 0}, "ann": {1, 0}, "vera": {1, 1}, "otto": {1, 1}, "watcher": {4, 4}, "editor": {4, 4}} {
			w.user = user
			page := w.get("jobs").lacks(canary)
			links := 0
			for _, row := range page.tree.all("tr[data-row]") {
				links += len(row.one(t, "th").all("a"))
			}
			if n := len(page.tree.all("tr[data-row]")); n != want[0] || links != want[1] {
				t.Errorf("%s sees %d rows and %d links, and not %v", user, n, links, want)
			}
			if got := strings.Contains(page.tree.text(), "New job"); got != (user == "editor") {
				t.Errorf("%s has a link to make one: %v", user, got)
			}
		}
		w.user = "nobody"
		w.get("jobs").has("There are no jobs yet.")
		w.fails("jobs/report", http.StatusNotFound)
		w.user = "ann"
		w.fails("jobs/report", http.StatusForbidden)
	})
}

// A list of 10,000 jobs is a list of pages.
func TestJobsPages(t *testing.T) {
	w := newWorld(t, memstore.New(), nil)
	job := jobs()[0]
	for i := range raced.Or(1000, 10_000) {
		job.Name = fmt.Sprintf("many-%05d", i)
		w.define(job)
	}
	page := w.get("jobs?q=many")
	if n := len(page.tree.all("tr[data-row]")); n != 50 || page.Body.Len() > 150_000 {
		t.Errorf("%d rows, %d bytes", n, page.Body.Len())
	}
	next := w.get("jobs" + page.tree.one(t, "a[rel=next]").attrs["href"])
	if text := next.tree.all("tr[data-row]")[0].text(); !strings.HasPrefix(text, "many-00050") {
		t.Errorf("the next page begins with %q", text)
	}
	next.has("First page")
}

// nested is a job with all kinds of blocks.
func nested() courier.Job {
	seconds := 90 * time.Second
	return courier.Job{
		Name: "nested", Queue: "night", Limit: 2, Timeout: time.Hour,
		Params: map[string]any{
			"day":  map[string]any{"type": "date", "required": true, "doc": "The day to report."},
			"mode": map[string]any{"type": "text", "enum": []any{"full", "short"}, "default": "full"}, "list": []any{},
		},
		DependsOn: []courier.JobDependency{{Job: "other"}},
		Steps: []courier.StepSpec{
			{Type: "flow.if", Config: map[string]any{"left": "context:params.mode", "operator": "not_equals", "right": "short"}},
			{Type: "flow.foreach", Config: map[string]any{"source": "context:params.list", "on_item_failure": "continue"}},
			{ID: "inner", Type: "test.work", Name: "One file", Timeout: &seconds, Config: map[string]any{"text": "context:loop.current_item"}, FailurePolicy: courier.FailurePolicy{Type: courier.RetryStep}},
			{Type: "flow.end"},
			{Type: "flow.else"},
			{ID: "rest", Type: "test.work", Config: map[string]any{"text": "secret:partner-key", "seconds": 1}},
			{Type: "flow.end"},
		},
	}
}

// The page of a job shows its flow as nested blocks.
func TestJobFlow(t *testing.T) {
	virtual(t, nil, func(w *world) {
		w.define(nested())
		page := w.get("jobs/nested")
		outer := page.tree.one(t, "#step-0")
		loop := outer.one(t, "#step-1")
		inner := loop.one(t, "#step-2")
		for _, c := range []struct {
			n    *node
			want []string
		}{
			{outer, []string{"if context:params.mode not equals short", "then", "else"}},
			{loop, []string{"for each item of context:params.list", "on_item_failure"}},
			{inner, []string{"inner One file test.work", "context:loop.current_item", "Timeout of an attempt: 1 min 30 s", "A failure retries the step, at most 3 times, after 1 s at first and at most 1 min"}},
			{outer.one(t, "#step-5"), []string{"rest", "secret partner-key"}},
		} {
			for _, want := range c.want {
				if !strings.Contains(c.n.text(), want) {
					t.Errorf("a block is %q, without %q", c.n.text(), want)
				}
			}
		}
		if len(loop.all("#step-5")) != 0 {
			t.Error("the else is in the loop")
		}
		page.has("The day to report.").has("one of full, short").has("night").has("2 executions at once").has("other , which must have completed").has("1 h for the whole execution")
		w.get("jobs/nested?tab=text").has(`"type": "flow.foreach"`)
		w.get("jobs/nested?tab=schedules").has("No schedule starts this job.")
		w.fails("jobs/nestd", http.StatusNotFound).has("nested")
		w.fails("jobs/nested?version=2", http.StatusNotFound)
		w.fails("jobs/nested?version=x", http.StatusBadRequest)
	})
}

// A version is shown as it was, and says that it is not the latest.
func TestJobVersions(t *testing.T) {
	virtual(t, nil, func(w *world) {
		job := nested()
		for i := range 120 {
			job.Limit = i + 1
			if _, err := w.engine.Jobs().Define(w.Context(), job, &courier.DefineOptions{By: courier.By{Actor: fmt.Sprint("editor-", i)}}); err != nil {
				t.Fatal(err)
			}
		}
		w.get("jobs/nested").has("Version 120, saved").has("by editor-119")
		w.get("jobs/nested?version=7").has("This is version 7.").has("Version 120 is the latest.").has("7 executions at once").has("Edit from this version")
		page := w.get("jobs/nested?tab=versions")
		for n := 0; ; n++ {
			if rows := len(page.tree.all("tr[data-row]")); rows != []int{50, 50, 20}[n] {
				t.Fatalf("page %d has %d rows", n, rows)
			}
			next := page.tree.all("a[rel=next]")
			if len(next) == 0 {
				break
			}
			page = w.get("jobs/nested" + next[0].attrs["href"])
		}
		page.has("first version")
	})
}

// Hostile names of jobs, steps and parameters break nothing.
func TestJobsHostile(t *testing.T) {
	virtual(t, nil, func(w *world) {
		for _, evil := range hostile {
			job := courier.Job{Name: jobName(evil), Params: map[string]any{jobName(evil): evil}, Queue: jobName(evil), Result: "$${" + evil,
				Steps: []courier.StepSpec{{Type: "test.work", Name: jobName(evil), Config: map[string]any{"text": evil}}}}
			if _, err := w.engine.Jobs().Define(w.Context(), job, &courier.DefineOptions{By: courier.By{Actor: jobName(evil)}}); err != nil {
				t.Logf("%q: %v", jobName(evil), err)
				job.Result = ""
				w.define(job)
			}
		}
		page := w.get("jobs").lacks("\u202e").lacks("<img")
		for _, row := range page.tree.all("tr[data-row]") {
			href := strings.TrimPrefix(row.one(t, "th").one(t, "a").attrs["href"], "./")
			for _, tab := range []string{"", "?tab=text", "?tab=versions", "?tab=schedules"} {
				w.get(href + tab).lacks("\u202e").lacks("\x1b").lacks("<img").lacks("<script>")
			}
		}
	})
}

// Pages of a job with thousands of steps stay pages.
func TestJobLarge(t *testing.T) {
	if raced.On {
		return // it takes long, one request after the other; the run without the race detector has it
	}
	virtual(t, nil, func(w *world) {
		job := courier.Job{Name: "large", Params: map[string]any{}}
		deep := 0
		for i := range 6000 {
			if i%100 == 0 && deep < 60 {
				job.Steps = append(job.Steps, courier.StepSpec{Type: "flow.if", Config: map[string]any{"left": "context:params.p0", "operator": "exists"}})
				deep++
			}
			job.Steps = append(job.Steps, courier.StepSpec{ID: fmt.Sprint("s", i), Type: "test.work", Config: map[string]any{"text": fmt.Sprint("value ", i)}})
		}
		for range deep {
			job.Steps = append(job.Steps, courier.StepSpec{Type: "flow.end"})
		}
		for i := range 100 {
			job.Params[fmt.Sprint("p", i)] = i
		}
		w.define(job)
		for i := range job.Steps {
			if job.Steps[i].Type == "test.work" {
				job.Steps[i].Config = map[string]any{"text": "changed"}
			}
		}
		w.define(job)
		for at, most := range map[string]int{"jobs/large": 40 << 10, "jobs/large?tab=versions": 8 << 10, "jobs/large/diff": 40 << 10, "jobs/large/run": 16 << 10} {
			start := time.Now()
			page := w.get(at)
			if n := zipped(page.Body.Bytes()); n > most {
				t.Errorf("%s has %d bytes compressed, %d at most", at, n, most)
			} else {
				t.Logf("%s: %d bytes, %d compressed, %v", at, page.Body.Len(), n, time.Since(start))
			}
		}
		w.get("jobs/large").has("more entries are not shown here")
		w.get("jobs/large/diff").has("5500 more entries differ.")
	})
}

// Blocks that lie deeper than a browser can show are left out, and counted.
func TestJobDeep(t *testing.T) {
	virtual(t, nil, func(w *world) {
		job := courier.Job{Name: "deep", Params: map[string]any{"a": 1}}
		for range 300 {
			job.Steps = append(job.Steps, courier.StepSpec{Type: "flow.if", Config: map[string]any{"left": "context:params.a", "operator": "exists"}})
		}
		job.Steps = append(job.Steps, courier.StepSpec{Type: "test.work"})
		for range 300 {
			job.Steps = append(job.Steps, courier.StepSpec{Type: "flow.end"})
		}
		w.define(job)
		page := w.get("jobs/deep").has("521 more entries are not shown here")
		if n := len(page.tree.all("li[class=if]")); n != 40 {
			t.Errorf("%d blocks", n)
		}
	})
}

// zipped is how many bytes a text has when it is compressed.
func zipped(text []byte) int {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write(text) // it writes into memory
	_ = z.Close()
	return b.Len()
}

// The list of jobs is kept up to date with what becomes of executions.
func TestJobsLive(t *testing.T) {
	virtual(t, nil, func(w *world) {
		w.user = "vera"
		page := w.get("jobs")
		list := page.tree.one(t, "#list")
		patches := func() string {
			r := get("jobs?live=abc&have=list:" + list.attrs["data-hash"])
			return w.send(r).Body.String()
		}
		if got := patches(); strings.Contains(got, `"id"`) {
			t.Errorf("nothing has changed, and the answer is %s", got)
		}
		w.ended("hidden", "admin", nil)
		if got := patches(); strings.Contains(got, `"id"`) {
			t.Errorf("what vera can't see has led to %s", got)
		}
		w.ended("report", "ann", nil)
		if got := patches(); !strings.Contains(got, `"id":"list"`) || !strings.Contains(got, "completed") {
			t.Errorf("the answer is %s", got)
		}
	})
}

// A job that ran long ago has its outcomes beside one that has run often since, and one read
// for each job finds the schedules if there are very many.
func TestJobsMany(t *testing.T) {
	virtual(t, nil, func(w *world) {
		w.ended("other", "ann", nil)
		for range 100 {
			w.ended("report", "ann", nil)
		}
		for i := range 1100 {
			job := "report"
			if i == 1099 {
				job = "other"
			}
			s := schedule.Schedule{Name: fmt.Sprintf("s-%04d", i), Job: job, At: time.Now().Add(time.Hour)}
			if _, err := w.engine.Schedules().Set(w.Context(), s, courier.By{}); err != nil {
				t.Fatal(err)
			}
		}
		for _, row := range w.get("jobs").tree.all("tr[data-row]") {
			if text := row.text(); strings.HasPrefix(text, "other") && (!strings.Contains(text, "completed") || !strings.Contains(text, "s-1099")) {
				t.Errorf("the row is %q", text)
			}
		}
	})
}
