package engine_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/internal/stepcontext"
)

// A namedAttempt is an attempt of a step with the names of files that it was given.
type namedAttempt struct {
	id       string
	attempt  int
	repeated bool
	dir      string
	notes    string
	side     string
}

// placedSteps registers a step that notes its names, and fails while fail has its id.
func placedSteps(h *couriertest.Harness, fail map[string]bool) *[]namedAttempt {
	list := new([]namedAttempt)
	courier.RegisterFunc(h.Registry, "demo.place", func(_ context.Context, job *courier.Context, _ struct{}) (struct{}, error) {
		*list = append(*list, namedAttempt{job.ID(), job.Attempt(), job.Repeated(), job.Files().Dir(), stepcontext.Of(job).NoteDir(), stepcontext.Of(job).SideName("a")})
		if fail[job.ID()] {
			return struct{}{}, errors.New("the partner refuses")
		}
		return struct{}{}, nil
	}, nil)
	return list
}

// placedJob is a job with steps of these ids.
func placedJob(ids string) string {
	var steps []string
	for id := range strings.FieldsSeq(ids) {
		steps = append(steps, fmt.Sprintf(`{"id": %q, "type": "demo.place"}`, id))
	}
	return `{"name": "placed", "steps": [` + strings.Join(steps, ", ") + `]}`
}

// TestVersionsShareNoNames has an execution go on with versions in which its steps have
// other indexes. No two attempts may have the same directory or the same name of an
// unfinished file, no two steps the same notes, and each step keeps its notes: what a step
// finds there tells it what it has done already.
func TestVersionsShareNoNames(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		fail := map[string]bool{"a": true}
		list := placedSteps(h, fail)
		x := h.Run(h.Job(placedJob("a b c")), nil).RequireState(courier.Failed)
		h.Start()
		for _, next := range []struct {
			version     string
			fails       string
			then        courier.State
			wantVersion int
		}{
			{"first a b c", "b", courier.Failed, 2}, // b has index 2
			{"a b c d", "", courier.Completed, 3},   // c has index 2
		} {
			d, err := h.Engine.Jobs().Define(t.Context(), h.Job(placedJob(next.version)), nil)
			if err != nil {
				t.Fatal(err)
			}
			clear(fail)
			maps.Copy(fail, map[string]bool{next.fails: true})
			if _, err := h.Engine.Resume(t.Context(), x.ID, &courier.ResumeOptions{Version: d.Job.Version}); err != nil {
				t.Fatal(err)
			}
			if r := h.Wait(x.ID).RequireState(next.then); r.Version != next.wantVersion {
				t.Fatalf("version %d, want %d", r.Version, next.wantVersion)
			}
		}
		owners, notes := make(map[string]string), make(map[string]string)
		for _, p := range *list {
			own := fmt.Sprintf("attempt %d of %s", p.attempt, p.id)
			for _, name := range []string{p.dir, p.side} {
				if other := owners[name]; other != "" {
					t.Errorf("%s and %s have the name %s", other, own, name)
				}
				owners[name] = own
			}
			if other := owners[p.notes]; other != "" && other != p.id {
				t.Errorf("%s and %s have the notes %s", other, p.id, p.notes)
			}
			owners[p.notes] = p.id
			if before := notes[p.id]; before != "" && before != p.notes {
				t.Errorf("the notes of %s were %s and are %s", p.id, before, p.notes)
			}
			notes[p.id] = p.notes
		}
		if len(*list) != 6 {
			t.Errorf("attempts %+v, want 6", *list)
		}
	})
}

// TestAddedStepIsNotRepeated goes back in a version with an added step, at the index of a
// step that was started before: the added step was not.
func TestAddedStepIsNotRepeated(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		fail := map[string]bool{"c": true}
		list := placedSteps(h, fail)
		x := h.Run(h.Job(placedJob("a b c")), nil).RequireState(courier.Failed)
		d, err := h.Engine.Jobs().Define(t.Context(), h.Job(placedJob("a b added c")), nil)
		if err != nil {
			t.Fatal(err)
		}
		h.Start()
		clear(fail)
		if _, err := h.Engine.Resume(t.Context(), x.ID, &courier.ResumeOptions{Version: d.Job.Version, From: "b"}); err != nil {
			t.Fatal(err)
		}
		h.Wait(x.ID).RequireState(courier.Completed)
		for _, p := range (*list)[3:] {
			if want := p.id != "added"; p.repeated != want {
				t.Errorf("%s, attempt %d: repeated %t, want %t", p.id, p.attempt, p.repeated, want)
			}
		}
	})
}
