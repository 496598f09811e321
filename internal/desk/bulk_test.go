package desk_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/internal/bulk"
	"github.com/courierhq/courier/internal/desk"
	"github.com/courierhq/courier/internal/filter"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/memstore"
)

// A watched is a memory store that calls a function before each request.
type watched struct {
	*memstore.Store
	before func(r store.Request) error
}

func (s *watched) Request(ctx context.Context, r store.Request) (courier.Execution, error) {
	if s.before != nil {
		if err := s.before(r); err != nil {
			return courier.Execution{}, err
		}
	}
	return s.Store.Request(ctx, r)
}

// watch puts a watched store between the desk and its store.
func (w *world) watch() *watched {
	s := &watched{Store: w.Store}
	w.desk = desk.New(engine.New(s, nil, nil), nil)
	return s
}

// What is selected for a name in quotes has that name, whatever the name has in it; only an
// asterisk outside of quotes stands for the rest of a name. That holds for who sees all jobs, and
// for who sees some.
func TestQuotedNamesAreLiteral(t *testing.T) {
	in(t, func(w *world) {
		of := make(map[string]courier.ExecutionID)
		for _, job := range []string{"ab", "ab*", "abc", "ab*d", `a"b`, "a,b", "a:b c"} {
			w.define(courier.Job{Name: job, Steps: []courier.StepSpec{{Type: "demo.a"}}})
			of[job] = w.add(job, courier.EnqueueOptions{})
		}
		w.desk = desk.New(w.Engine, &desk.Options{Access: access.Policy{Role: func(_ context.Context, p access.Principal, job string) access.Role {
			if job == "" && p.ID == "ben" {
				return access.None
			}
			return access.Admin
		}}})
		all, some := w.desk.Visitor(access.Principal{ID: "ann"}), w.desk.Visitor(access.Principal{ID: "ben"})
		for text, want := range map[string][]string{
			`job:"ab*"`: {"ab*"}, "job:ab*": {"ab", "ab*", "ab*d", "abc"}, `job:"ab*"*`: {"ab*", "ab*d"}, `job:ab job:"ab*"`: {"ab", "ab*"}, "job:ab": {"ab"},
			filter.Filter{Jobs: []string{"ab*"}}.String(): {"ab*"}, filter.Filter{Jobs: []string{`a"b`, "a,b"}}.String(): {`a"b`, "a,b"}, `job:"a:b c"`: {"a:b c"},
		} {
			var ids []courier.ExecutionID
			for _, job := range want {
				ids = append(ids, of[job])
			}
			same := func(what string, got []courier.ExecutionID) {
				slices.Sort(got)
				if slices.Sort(ids); !slices.Equal(got, ids) {
					t.Errorf("%s: %s selects %d executions, and not those of %q", text, what, len(got), want)
				}
			}
			for who, v := range map[string]*desk.Visit{"all": all, "some": some} {
				p, err := v.Executions(t.Context(), w.where(text), "", 0)
				w.ok(err)
				var got []courier.ExecutionID
				for i := range p.Items {
					got = append(got, p.Items[i].ID)
				}
				same("a list for who sees "+who, got)
				out, err := v.Bulk(t.Context(), bulk.Request{Action: bulk.Cancel, Where: w.where(text), DryRun: true})
				w.ok(err)
				same("a bulk action of who sees "+who, out.Sample)
			}
		}
		out, err := all.Bulk(t.Context(), bulk.Request{Action: bulk.Cancel, Where: w.where(`job:"ab*"`)})
		if err != nil || out.Done != 1 || w.state(of["abc"]) != courier.Queued || w.state(of["ab*"]) != courier.Cancelled {
			t.Errorf("%+v, %v; abc is %s", out, err, w.state(of["abc"]))
		}
	})
}

// TestBulkOfAStorm resumes 1,500 failed executions. One changes its state meanwhile, and
// others fail meanwhile that were created after the first page was read.
func TestBulkOfAStorm(t *testing.T) {
	in(t, func(w *world) {
		storm := w.many(1500, "other", courier.EnqueueOptions{})
		w.end(courier.Failed, courier.ReasonConnection, storm...)
		paused := w.add("other", courier.EnqueueOptions{})
		_, err := w.Engine.Pause(w.Context(), paused, courier.By{})
		w.ok(err)
		b := bulk.Request{Action: bulk.Resume, Where: w.where("state:failed job:other"), By: courier.By{Actor: "ann", Reason: "the server is back"}}

		b.DryRun = true
		dry, err := w.ann().Bulk(w.Context(), b)
		w.ok(err)
		if dry.Matched != 1500 || dry.More || len(dry.Sample) != 10 || len(dry.Results) != 0 || dry.Next == "" || w.state(storm[0]) != courier.Failed {
			t.Errorf("dry run: %+v", dry)
		}
		late := w.add("other", courier.EnqueueOptions{})
		w.end(courier.Failed, courier.ReasonConnection, late)

		s := w.watch()
		var later []courier.ExecutionID
		s.before = func(r store.Request) error {
			if r.Execution == storm[1499] { // the first of the first page
				later = w.many(3, "other", courier.EnqueueOptions{})
				w.end(courier.Failed, courier.ReasonConnection, later...)
				_, err := w.Engine.Cancel(w.Context(), storm[1400], &courier.CancelOptions{By: courier.By{}})
				w.ok(err)
			}
			return nil
		}
		b.DryRun, b.Cursor = false, dry.Next
		done := 0
		for page := range 4 {
			out, err := w.ann().Bulk(w.Context(), b)
			w.ok(err)
			done += out.Done
			if page < 2 && (out.Matched != 500 || len(out.Results) != 500) {
				t.Errorf("page %d: %d matched, %d results", page, out.Matched, len(out.Results))
			}
			if skipped := withResult(out.Results, bulk.Skipped); page == 0 && !slices.Equal(skipped, []courier.ExecutionID{storm[1400]}) || out.Refused > 0 || page > 0 && len(skipped) > 0 {
				t.Errorf("page %d: skipped %v, refused %d", page, skipped, out.Refused)
			}
			if page == 0 {
				again, err := w.ann().Bulk(w.Context(), b) // as if the answer was lost
				if err != nil || again.Done > 500 {
					t.Errorf("repeated: %d done, %v", again.Done, err)
				}
				done += again.Done
			}
			if b.Cursor = out.Next; b.Cursor == "" {
				break
			}
		}
		// The repetition has treated the next 500, because the first ones are failed no more.
		if b.Cursor != "" || done != 1499 {
			t.Errorf("%d done, next %q", done, b.Cursor)
		}
		for _, id := range append(later, late) {
			if got := w.state(id); got != courier.Failed {
				t.Errorf("one that came meanwhile is %s", got)
			}
		}
		if w.state(paused) != courier.Paused || w.state(storm[0]) != courier.Queued || w.state(storm[1499]) != courier.Queued {
			t.Error("not the failed ones were resumed")
		}
		audit, err := w.Engine.Executions().Audit(w.Context(), storm[7])
		w.ok(err)
		if last := audit[len(audit)-1]; last.By != "ann" || last.Error != "the server is back" {
			t.Errorf("audit: %+v", last)
		}
	})
}

// TestBulkRerun starts executions again, once however often it is repeated.
func TestBulkRerun(t *testing.T) {
	in(t, func(w *world) {
		ids := w.many(3, "other", courier.EnqueueOptions{Params: map[string]any{"day": "1"}})
		w.end(courier.Completed, "", ids...)
		w.add("other", courier.EnqueueOptions{})
		b := bulk.Request{Action: bulk.Rerun, Where: w.where("job:other"), By: courier.By{Actor: "ann", Reason: "the partner has lost them"}, Key: "k"}
		first, err := desk.New(w.Engine, nil).Visitor(access.Principal{ID: "ann"}).Bulk(w.Context(), b)
		w.ok(err)
		second, err := w.ann().Bulk(w.Context(), b)
		w.ok(err)
		b.Key = "another"
		third, err := w.ann().Bulk(w.Context(), b)
		w.ok(err)
		if first.Done != 3 || second.Done != 3 || third.Done != 3 {
			t.Fatalf("%+v\n%+v", first, second)
		}
		for i, r := range first.Results {
			if !strings.Contains(w.Log(), fmt.Sprintf("msg=\"execution started again\" execution=%s by.actor=ann by.reason=\"the partner has lost them\" job=other", r.Started)) {
				t.Errorf("the reason is not in the log: %s", w.Log())
			}
			if r.Started == "" || r.Started != second.Results[i].Started || r.Started == third.Results[i].Started {
				t.Errorf("%s: started %s and %s; with another key %s", r.Execution, r.Started, second.Results[i].Started, third.Results[i].Started)
			}
			x, err := w.Engine.Executions().Get(w.Context(), r.Started)
			if err != nil || x.By != "ann" || x.RerunOf != r.Execution || string(x.Params) != `{"day":"1"}` {
				t.Errorf("%+v, %v", x, err)
			}
		}
	})
}
