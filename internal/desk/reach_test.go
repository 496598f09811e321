package desk

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/internal/filter"
	"github.com/courierhq/courier/internal/uuid7"
	"github.com/courierhq/courier/internal/watch"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/memstore"
	"github.com/courierhq/courier/store/storewrap"
)

// What somebody may see is selected by the store: a client among ten thousand executions of
// others reads its own alone, in whatever way it asks.
func TestStoreSelectsWhatOneMaySee(t *testing.T) {
	read := 0
	s := storewrap.Intercept(memstore.New(), func(ctx context.Context, call *storewrap.Call, next func(context.Context) error) error {
		err := next(ctx)
		if list, ok := call.Result.([]courier.Execution); ok && call.Method == "Executions" {
			read += len(list)
		}
		return err
	})
	e := engine.New(s, new(courier.Registry), nil)
	for _, job := range []string{"report", "other", "mine"} {
		if _, err := s.Save(t.Context(), store.Definition{Kind: store.Job, Name: job, Body: []byte(`{"name":"` + job + `","steps":[]}`)}); err != nil {
			t.Fatal(err)
		}
	}
	var ids uuid7.Source
	add := func(job, by string, n int) (added []courier.ExecutionID) {
		for range n {
			x := store.NewExecution{ID: courier.ExecutionID(ids.New()), Job: job, Version: 1, Queue: "q", Labels: map[string]string{courier.LabelBy: by}}
			if _, err := s.Enqueue(t.Context(), []store.NewExecution{x}); err != nil {
				t.Fatal(err)
			}
			added = append(added, x.ID)
		}
		return added
	}
	var anns []courier.ExecutionID
	for range 3 {
		add("report", "ben", 800)
		add("other", "ben", 200)
		anns = append(anns, add("report", "ann", 2)...)
		anns = append(anns, add("mine", "ben", 1)...)
	}
	add("report", "ben", 500)
	roles := map[string]access.Role{"ann report": access.Client, "ann other": access.Client, "ann mine": access.Viewer, "ben report": access.Client, "none report": access.Client}
	d := New(e, &Options{Examined: 2000, StreamsOf: 2, Access: access.Policy{Role: func(_ context.Context, p access.Principal, job string) access.Role { return roles[p.ID+" "+job] }}})
	ann, none := d.Visitor(access.Principal{ID: "ann"}), d.Visitor(access.Principal{ID: "none"})
	for _, c := range []struct {
		v     *Visit
		where string
		limit int
		found []courier.ExecutionID
		most  int // that are read
	}{
		{ann, "", 100, anns, 2 * len(anns)},
		{ann, "", 2, anns[len(anns)-2:], 8},
		{ann, "job:report", 100, append(append(append([]courier.ExecutionID{}, anns[:2]...), anns[3:5]...), anns[6:8]...), 12},
		{ann, "job:rep* state:queued", 100, append(append(append([]courier.ExecutionID{}, anns[:2]...), anns[3:5]...), anns[6:8]...), 12},
		{none, "", 1, nil, 0},
		{none, "job:report", 1, nil, 0},
	} {
		w, err := filter.Parse(c.where, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		read = 0
		p, err := c.v.Executions(t.Context(), w, "", c.limit)
		if err != nil || len(p.Items) != len(c.found) {
			t.Fatalf("%s %q: %d executions, %v; want %d", c.v.ID, c.where, len(p.Items), err, len(c.found))
		}
		for i, x := range p.Items {
			if x.ID != c.found[len(c.found)-1-i] {
				t.Errorf("%s %q: %d is %s of %s", c.v.ID, c.where, i, x.ID, x.Job)
			}
		}
		if read > c.most {
			t.Errorf("%s %q: %d executions were read, more than %d", c.v.ID, c.where, read, c.most)
		}
	}
	// Pages meet each of them once.
	var paged []courier.ExecutionID
	for cursor := ""; ; {
		p, err := ann.Executions(t.Context(), filter.Filter{}, cursor, 2)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range p.Items {
			paged = append(paged, x.ID)
		}
		if cursor = p.Next; cursor == "" {
			break
		}
	}
	if len(paged) != len(anns) {
		t.Errorf("%d in pages; want %d", len(paged), len(anns))
	}
	// What has to be examined has a limit for each, and so have streams.
	all := d.Visitor(access.Principal{ID: "vera"})
	roles["vera "] = access.Viewer
	var err error
	for i := 0; i < 3 && err == nil; i++ {
		_, err = all.Executions(t.Context(), filter.Filter{By: "nobody"}, "", 1)
	}
	if busy, ok := errors.AsType[*BusyError](err); !ok || !strings.Contains(busy.Text, "Options.MaxExamined") {
		t.Errorf("too much work: %v", err)
	}
	if _, err := ann.Executions(t.Context(), filter.Filter{}, "", 1); err != nil {
		t.Errorf("another one: %v", err)
	}
	for i := range 3 {
		_, err := ann.Look()
		if busy := errors.Is(err, watch.ErrBusy); busy != (i == 2) || busy && !strings.Contains(err.Error(), "Options.MaxStreamsOf") {
			t.Errorf("stream %d: %v", i, err)
		}
	}
}
