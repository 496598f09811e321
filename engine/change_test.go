package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/store"
)

// mendJob reads, changes and sends; what is sent shows which values were used.
const mendJob = `{"name": "mend", "params": {"day": "monday", "partner": "acme"}, "limit_keys": ["${context:params.partner}"], "steps": [
	{"id": "read", "type": "demo.read", "config": {"day": "context:params.day"}},
	{"id": "change", "type": "demo.change", "config": {"text": "context:read.text"}},
	{"id": "send", "type": "demo.send", "config": {"text": "context:change.text", "day": "context:params.day"}},
	{"id": "end", "type": "demo.end", "config": {"sent": "context:send.text"}}]}`

type textConfig struct {
	Text any    `json:"text,omitempty"`
	Day  string `json:"day,omitempty"`
	Sent any    `json:"sent,omitempty"`
}

type textOutput struct {
	Text string `json:"text"`
}

// mendSteps registers the steps of mendJob. Send fails while broken is true.
func mendSteps(h *couriertest.Harness, broken *bool, sent *[]string) {
	step := func(name string) func(context.Context, *courier.Context, textConfig) (textOutput, error) {
		return func(_ context.Context, job *courier.Context, cfg textConfig) (textOutput, error) {
			if name == "send" && *broken {
				return textOutput{}, errors.New("the partner refuses")
			}
			text := fmt.Sprintf("%s(%v%s)", name, cfg.Text, cfg.Day)
			if name == "end" {
				text = fmt.Sprintf("end(%v)", cfg.Sent)
			}
			*sent = append(*sent, fmt.Sprintf("%s #%d", text, job.Attempt()))
			return textOutput{text}, nil
		}
	}
	for _, name := range []string{"read", "change", "send", "end"} {
		courier.RegisterFunc(h.Registry, "demo."+name, step(name), nil)
	}
}

// TestResumeWithChanges mends an execution that failed in each of the ways that there
// are.
func TestResumeWithChanges(t *testing.T) {
	for _, test := range []struct {
		name   string
		opt    courier.ResumeOptions
		broken bool // send goes on failing
		want   string
		note   string // in the audit
	}{
		{"nothing", courier.ResumeOptions{}, false, "send(change(read(<nil>monday))monday) #2, end(send(change(read(<nil>monday))monday)) #1", ""},
		{"from the step before", courier.ResumeOptions{From: "change"}, false,
			"change(read(<nil>monday)) #2, send(change(read(<nil>monday))monday) #2, end(send(change(read(<nil>monday))monday)) #1", `from step 1 "change"`},
		{"from the first step, by index", courier.ResumeOptions{From: "0"}, false,
			"read(<nil>monday) #2, change(read(<nil>monday)) #2, send(change(read(<nil>monday))monday) #2, end(send(change(read(<nil>monday))monday)) #1", `from step 0 "read"`},
		{"another parameter", courier.ResumeOptions{Set: m{"params.day": "friday"}}, false,
			"send(change(read(<nil>monday))friday) #2, end(send(change(read(<nil>monday))friday)) #1", `params.day from "monday" to "friday"`},
		{"another output", courier.ResumeOptions{Set: m{"change.text": "X"}}, false, "send(Xmonday) #2, end(send(Xmonday)) #1", `change.text from "change(read(<nil>monday))" to "X"`},
		{"another output, which is made anew", courier.ResumeOptions{Set: m{"read.text": "X"}, From: "change"}, false,
			"change(X) #2, send(change(X)monday) #2, end(send(change(X)monday)) #1", "read.text from"},
		{"skip", courier.ResumeOptions{Skip: true, By: courier.By{Actor: "ann", Reason: "sent by hand"}}, true, "end(<nil>) #1", `sent by hand (step 2 "send" (demo.send) was skipped)`},
		{"skip with outputs", courier.ResumeOptions{Skip: true, Outputs: m{"text": "by hand"}, By: courier.By{Reason: "sent by hand"}}, true, "end(by hand) #1", "was skipped"},
		{"another version", courier.ResumeOptions{Version: 2}, false,
			"end(X) #2", "version 2 in place of 1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
				broken, sent := true, []string(nil)
				mendSteps(h, &broken, &sent)
				job := h.Job(mendJob)
				r := h.Run(job, nil).RequireState(courier.Failed)
				if test.opt.Version != 0 { // it goes on with a step before, and another one behind
					mended := strings.Replace(mendJob, `"steps": [`, `"steps": [{"id": "first", "type": "demo.read"},`, 1)
					mended = strings.Replace(mended, `"type": "demo.send", "config": {"text": "context:change.text", "day": "context:params.day"}`, `"type": "demo.end", "config": {"sent": "X"}`, 1)
					mended = strings.Replace(mended, `,
	{"id": "end", "type": "demo.end", "config": {"sent": "context:send.text"}}`, "", 1)
					if _, err := h.Engine.Jobs().Define(t.Context(), h.Job(mended), nil); err != nil {
						t.Fatal(err)
					}
				}
				before, _ := json.Marshal(r.Params)
				report, err := h.Engine.DryRunResume(t.Context(), r.ID, &test.opt)
				if err != nil || test.opt.By.Reason == "" && !strings.Contains(report.Note, test.note) {
					t.Fatalf("dry run %+v, %v", report, err)
				}
				h.Start()
				broken, sent = test.broken, nil
				x, err := h.Engine.Resume(t.Context(), r.ID, &test.opt)
				if err != nil {
					t.Fatal(err)
				}
				r = h.Wait(x.ID).RequireState(courier.Completed)
				if got := strings.Join(sent, ", "); got != test.want {
					t.Errorf("steps were given\n%s, want\n%s", got, test.want)
				}
				if after, _ := json.Marshal(r.Params); string(after) != string(before) {
					t.Errorf("the parameters were %s and are %s", before, after)
				}
				found := false
				for _, a := range r.Audit {
					found = found || a.Step == nil && a.To == string(courier.Queued) && a.From == string(courier.Failed) && strings.Contains(a.Error, test.note)
				}
				if !found {
					t.Errorf("no audit entry with %q: %+v", test.note, r.Audit)
				}
				if test.opt.Version == 2 && (r.Version != 2 || r.Steps[0].Step != 0 || r.Steps[0].Version != 1 || r.Steps[len(r.Steps)-1].Version != 2) {
					t.Errorf("version %d, records %+v", r.Version, r.Steps)
				}
				requireAudit(t, r)
			})
		})
	}
}

// TestResumeRefusesChanges asks for changes that don't fit: all reasons are named, and
// nothing changes.
func TestResumeRefusesChanges(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		broken, sent := true, []string(nil)
		mendSteps(h, &broken, &sent)
		r := h.Run(h.Job(mendJob), nil).RequireState(courier.Failed)
		for _, test := range []struct {
			opt  courier.ResumeOptions
			want []string
		}{
			{courier.ResumeOptions{Set: m{"params.dey": 1, "params.partner": "x", "rad.text": 1, "read.txt": "a", "read.text": 7, "end.text": "x", "params.day": "secret:x", "x": 1}}, []string{
				`declares no parameter "dey"; did you mean "day"?`, `limit key`, `there is no step "rad"`, `has no output "txt"; did you mean "text"?`,
				`Set "read.text": text`, `Set "end.text"`, "a secret can't be set", `Set "x": a key is`}},
			{courier.ResumeOptions{From: "end"}, []string{`From "end"`}},
			{courier.ResumeOptions{From: "nobody"}, []string{`there is no step "nobody"`}},
			{courier.ResumeOptions{Skip: true}, []string{"By.Reason is required"}},
			{courier.ResumeOptions{Skip: true, From: "read"}, []string{"exclude each other"}},
			{courier.ResumeOptions{Outputs: m{"a": 1}}, []string{"set Skip too"}},
			{courier.ResumeOptions{Skip: true, Outputs: m{"text": 1}, By: courier.By{Reason: "x"}}, []string{"text"}},
		} {
			_, err := h.Engine.Resume(t.Context(), r.ID, &test.opt)
			for _, part := range test.want {
				if err == nil || !strings.Contains(err.Error(), part) || !errors.Is(err, courier.ErrInvalid) {
					t.Errorf("%+v: error %v, want one with %q", test.opt, err, part)
				}
			}
			if x, _ := h.Engine.Executions().Get(t.Context(), r.ID); len(test.want) > 0 && (x.State != courier.Failed || x.Seq != r.Seq) {
				t.Fatalf("%+v: the execution is %s", test.opt, x.State)
			}
		}
		if _, err := h.Engine.Resume(t.Context(), r.ID, &courier.ResumeOptions{Version: 7}); !errors.Is(err, courier.ErrNotFound) || !strings.Contains(err.Error(), `job "mend" has no version 7; the latest is 1`) {
			t.Errorf("an unknown version: %v", err)
		}
	})
}

// TestResumeOfWhatWasSeen has two operators look at the same failure. The first one skips
// the step, and another step fails. What the second one sends then was meant for the first step:
// it skips nothing, and its outputs are nobody's.
func TestResumeOfWhatWasSeen(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		for _, name := range []string{"demo.pull", "demo.push"} {
			h.Stub(name, func(context.Context, *courier.Context, map[string]any) (map[string]any, error) { return nil, errBoom })
		}
		r := h.Run(h.Job(`{"name": "two", "steps": [{"id": "pull", "type": "demo.pull"}, {"id": "push", "type": "demo.push"}]}`), nil).RequireState(courier.Failed)
		h.Start()
		skip := &courier.ResumeOptions{Seq: r.Seq, Skip: true, Outputs: m{"text": "by hand"}, By: courier.By{Actor: "ann", Reason: "pulled by hand"}}
		if _, err := h.Engine.Resume(t.Context(), r.ID, skip); err != nil {
			t.Fatal(err)
		}
		if x := h.Wait(r.ID).RequireState(courier.Failed); x.Failure.ID != "push" {
			t.Fatalf("it failed at %q", x.Failure.ID)
		}
		before := h.Wait(r.ID)
		skip.By.Actor = "ben"
		_, dry := h.Engine.DryRunResume(t.Context(), r.ID, skip)
		_, err := h.Engine.Resume(t.Context(), r.ID, skip)
		_, plain := h.Engine.Resume(t.Context(), r.ID, &courier.ResumeOptions{Seq: r.Seq})
		for what, err := range map[string]error{"a dry run": dry, "a skip": err, "a plain one": plain} {
			if !errors.Is(err, courier.ErrConflict) || !strings.Contains(err.Error(), "it has changed since it was read: it is failed") {
				t.Errorf("%s of what was seen before: %v", what, err)
			}
		}
		if x := h.Wait(r.ID); x.State != courier.Failed || x.Seq != before.Seq {
			t.Errorf("it is %s, with %d entries and not %d", x.State, x.Seq, before.Seq)
		}
		skip.Seq = before.Seq
		if _, err := h.Engine.Resume(t.Context(), r.ID, skip); err != nil {
			t.Error(err)
		}
		h.Wait(r.ID).RequireState(courier.Completed)
	})
}

// TestResumeWithDelay resumes what has failed, and what is paused before it has begun, at a later
// time; a resume without a delay makes it due at once.
func TestResumeWithDelay(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		fails := true
		h.Stub("demo.pull", func(context.Context, *courier.Context, map[string]any) (map[string]any, error) {
			if fails {
				return nil, errBoom
			}
			return nil, nil
		})
		job := h.Job(`{"name": "one", "steps": [{"id": "pull", "type": "demo.pull"}]}`)
		r := h.Run(job, nil).RequireState(courier.Failed)
		held, err := h.Engine.Enqueue(t.Context(), "one", &courier.EnqueueOptions{Delay: time.Minute})
		if err == nil {
			_, err = h.Engine.Pause(t.Context(), held.ID, courier.By{})
		}
		if err != nil {
			t.Fatal(err)
		}
		fails = false
		h.Start()
		for _, id := range []courier.ExecutionID{r.ID, held.ID} {
			if _, err := h.Engine.Resume(t.Context(), id, &courier.ResumeOptions{Delay: -1}); !errors.Is(err, courier.ErrInvalid) {
				t.Errorf("a negative delay: %v", err)
			}
			if _, err := h.Engine.Resume(t.Context(), id, &courier.ResumeOptions{Delay: time.Hour, Elsewhere: true}); err == nil {
				t.Error("with Elsewhere: no error")
			}
			begun := time.Now()
			x, err := h.Engine.Resume(t.Context(), id, &courier.ResumeOptions{Delay: time.Hour})
			if err != nil || x.Status(time.Now()) != "scheduled" || !x.DueAt.Equal(begun.Add(time.Hour)) {
				t.Errorf("%s, due at %v, %v", x.Status(time.Now()), x.DueAt, err)
			}
			if end := h.Wait(id).RequireState(courier.Completed); end.EndedAt.Sub(begun) != time.Hour {
				t.Errorf("it took %v", end.EndedAt.Sub(begun))
			}
		}
	})
}

// TestRerun starts an execution again, with its parameters and another one.
func TestRerun(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		broken, sent := true, []string(nil)
		mendSteps(h, &broken, &sent)
		r := h.Run(h.Job(mendJob), m{"day": "sunday"}).RequireState(courier.Failed)
		h.Start()
		broken, sent = false, nil
		x, err := h.Engine.Rerun(t.Context(), r.ID, &engine.RerunOptions{Params: m{"partner": "other"}, By: courier.By{Actor: "ann"}})
		if err != nil || x.RerunOf != r.ID {
			t.Fatalf("%+v, %v", x, err)
		}
		again := h.Wait(x.ID).RequireState(courier.Completed)
		if string(again.Params) != `{"day":"sunday","partner":"other"}` || len(sent) != 4 {
			t.Errorf("params %s, steps %v", again.Params, sent)
		}
		list, err := h.Engine.Executions().List(t.Context(), store.Filter{RerunOf: r.ID})
		if err != nil || len(list) != 1 || list[0].ID != x.ID {
			t.Errorf("reruns %+v, %v", list, err)
		}
		if _, err := h.Engine.Rerun(t.Context(), "nobody", nil); !errors.Is(err, courier.ErrNotFound) {
			t.Errorf("error %v", err)
		}
	})
}
