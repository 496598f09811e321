package attention_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/attention"
	"github.com/courierhq/courier/store"
)

// Failures are grouped by job, step and reason; the entry has the newest message and the
// earliest instant.
func TestFailed(t *testing.T) {
	in(t, func(s *service) {
		at := func(step int, message string) *courier.Failure {
			return &courier.Failure{Step: step, ID: "get", Type: "demo.a", Message: message}
		}
		s.incidents = []store.Incident{
			{Kind: store.IncidentFailed, Execution: "x2", Job: "j", Since: ago(time.Minute), Reason: courier.ReasonTimeout, Failure: at(1, "the newest"), Version: 2, Latest: 2},
			{Kind: store.IncidentFailed, Execution: "x1", Job: "j", Since: ago(time.Hour), Reason: courier.ReasonTimeout, Failure: at(0, "older"), Version: 1, Latest: 2},
		}
		e := s.only()
		if e.Title != `Job "j": 2 executions failed at step 1 "get" (demo.a): it took too long.` || e.Message != "the newest" || !e.Since.Equal(ago(time.Hour)) || *e.Step != 1 || e.Call != "Engine.Resume" {
			t.Errorf("%+v", e)
		}
		if len(e.Executions) != 2 || e.Executions[0] != "x2" || e.Version != 0 {
			t.Errorf("%v, version %d", e.Executions, e.Version)
		}
		s.says(e.Do, "resume them: completed steps are not run again")
		s.incidents[1].Reason = courier.ReasonItems
		if got := s.list(); len(got.Entries) != 2 {
			t.Errorf("of two reasons: %q", lines(got))
		}
	})
}

// Failed executions of a job that was edited since are led to the newer version, which a plain
// resume does not take.
func TestNewerVersion(t *testing.T) {
	in(t, func(s *service) {
		s.incidents = []store.Incident{{Kind: store.IncidentFailed, Job: "j", Version: 1, Latest: 2}}
		e := s.only()
		if e.Version != 2 {
			t.Errorf("the newer version is %d", e.Version)
		}
		s.says(e.Do, "has version 2 now, and it has version 1", "resume it with that")
		s.incidents = append(s.incidents, s.incidents[0])
		s.says(s.only().Do, "has version 2 now, and they have an older one", "resume them with it")
		s.incidents[1].Version = 2
		if e := s.only(); e.Version != 0 || strings.Contains(e.Do, "version") {
			t.Errorf("where one has the newest version: %+v", e)
		}
	})
}

// Superseded failures are an entry of their own, with all that were read.
func TestSuperseded(t *testing.T) {
	in(t, func(s *service) {
		for range 7 {
			s.incidents = append(s.incidents, store.Incident{Kind: store.IncidentFailed, Execution: "x", Job: "j", SupersededBy: "y"})
		}
		if e := s.only(); e.Kind != attention.Superseded || e.Count != 7 || len(e.Executions) != 7 || e.Call != "Engine.Cancel" {
			t.Errorf("%+v", e)
		}
	})
}

// A pause that was not carried out can still be cancelled; after a cancel there is the worker.
func TestStopping(t *testing.T) {
	in(t, func(s *service) {
		x := store.Incident{Kind: store.IncidentPausing, Execution: "x", Job: "j", Worker: "w", Since: ago(time.Hour), Text: "wrong day"}
		s.incidents = []store.Incident{x}
		e := s.only()
		s.says(e.Title, "the pause of 1 execution was requested")
		if e.Call != "Engine.Cancel" || e.Message != "wrong day" || e.Name != "w" {
			t.Errorf("%+v", e)
		}
		x.Kind = store.IncidentCancelling
		s.incidents = []store.Incident{x}
		e = s.only()
		s.says(e.Title, "the cancel of 1 execution was requested")
		if s.says(e.Do, `the log of the worker "w"`); e.Call != "" {
			t.Errorf("%+v", e)
		}
	})
}

// An overdue execution whose step does not move says since when.
func TestStuckStep(t *testing.T) {
	in(t, func(s *service) {
		still := ago(5*time.Minute - 1)
		step := &store.CurrentStep{ID: "weigh", Type: "demo.a", Still: still}
		s.incidents = []store.Incident{{Kind: store.IncidentOverdue, Job: "j", Reason: "max_duration", Current: step}}
		e := s.only()
		s.says(e.Title, "1 execution is overdue (max duration)")
		s.says(e.Message, `step 0 "weigh" (demo.a) has reported no progress since `+still.UTC().Format("2006-01-02 15:04:05 UTC"))
		if strings.Contains(e.Do, "hangs") {
			t.Errorf("too early: %s", e.Do)
		}
		step.Still = ago(5 * time.Minute)
		s.says(s.only().Do, "If the step hangs, cancel")
		s.incidents = append(s.incidents, s.incidents[0])
		s.says(s.only().Message, "The first of them: step 0")
	})
}

// Failures for which a partner is to blame are one entry for each reason and connection, whichever
// jobs have met them.
func TestSameTrouble(t *testing.T) {
	in(t, func(s *service) {
		at := func(id, job, step, connection string, reason courier.Reason, age time.Duration) {
			s.incidents = append(s.incidents, store.Incident{
				Kind: store.IncidentFailed, Execution: courier.ExecutionID(id), Job: job, Queue: "default", Since: ago(age), Reason: reason, Version: 1, Latest: 2,
				Failure: &courier.Failure{ID: step, Type: "sftp.list", Reason: reason, Message: "of " + id, Connection: connection},
			})
		}
		at("6", "a", "get", "bank", courier.ReasonLogin, time.Minute)
		at("5", "b", "put", "bank", courier.ReasonLogin, time.Hour)
		at("4", "a", "get", "bank", courier.ReasonConnection, time.Hour)
		at("3", "c", "get", "bank", courier.ReasonLogin, 2*time.Hour)
		at("2", "c", "get", "shop", courier.ReasonLogin, time.Hour)
		at("1", "c", "get", "bank", courier.ReasonNotFound, time.Hour)
		at("8", "a", "get", "bank", courier.ReasonSpace, time.Hour) // of the worker's disk, not of the bank
		at("7", "c", "put", "", courier.ReasonSpace, time.Hour)
		got := s.list()
		var titles []string
		for _, e := range got.Entries {
			titles = append(titles, e.Title)
		}
		want := []string{
			`3 jobs: login failed at "bank", 3 executions failed.`, `2 jobs: the disk is full, 2 executions failed.`, `Job "a": 1 execution failed at step 0 "get" (sftp.list): no connection to "bank".`,
			`Job "c": 1 execution failed at step 0 "get" (sftp.list): login failed at "shop".`, `Job "c": 1 execution failed at step 0 "get" (sftp.list): not found.`,
		}
		if !slices.Equal(titles, want) {
			t.Fatalf("%s\nwant\n%s", strings.Join(titles, "\n"), strings.Join(want, "\n"))
		}
		e := got.Entries[0]
		if !slices.Equal(e.All, []courier.ExecutionID{"6", "5", "3"}) || !slices.Equal(e.Jobs, []string{"a", "b", "c"}) || e.Job != "" || e.Connection != "bank" || e.Version != 0 || e.Step != nil || e.Message != "of 6" || !e.Since.Equal(ago(2*time.Hour)) {
			t.Errorf("%+v", e)
		}
		if e := got.Entries[1]; e.Owner() != "" || !slices.Equal(e.All, []courier.ExecutionID{"8", "7"}) || e.Connection != "" || e.Step != nil {
			t.Errorf("of a full disk: %+v", e)
		}
		if e := got.Entries[2]; e.Job != "a" || e.Jobs != nil || e.Version != 2 || e.StepID != "get" || e.Owner() != "" || got.Entries[4].Owner() != "c" {
			t.Errorf("of one job: %+v", e)
		}
		for job, all := range map[string]bool{"a": false, "abc": true} {
			if e.Of(func(j string) bool { return strings.Contains(job, j) }) != all {
				t.Errorf("of %s", job)
			}
		}
		s.sees = []string{"a", "b"}
		if e := s.list().Entries[0]; !slices.Equal(e.All, []courier.ExecutionID{"6", "5"}) || e.Title != `2 jobs: login failed at "bank", 2 executions failed.` {
			t.Errorf("of who sees two jobs: %+v", e)
		}
		s.sees = []string{"c"}
		s.incidents[0].Job = "c" // another step of the same job
		s.incidents[0].Failure.ID = "put"
		if e := s.list().Entries[0]; e.Title != `Job "c": 2 executions failed: login failed at "bank".` || e.Step != nil || e.Job != "c" {
			t.Errorf("of two steps: %+v", e)
		}
	})
}
