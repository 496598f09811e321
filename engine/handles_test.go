package engine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/notify"
	"github.com/courierhq/courier/schedule"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/memstore"
)

// TestEngineHasFewMethods holds the limit of methods: what belongs to a subject
// belongs to its handle. Check and Apply are about definitions of all kinds, so they have none.
func TestEngineHasFewMethods(t *testing.T) {
	const most = 33
	if n := reflect.TypeFor[*engine.Engine]().NumMethod(); n > most {
		t.Errorf("Engine has %d methods, more than %d", n, most)
	}
}

// TestListsOfDefinitions lists jobs and chains and their versions, page by page.
func TestListsOfDefinitions(t *testing.T) {
	h := couriertest.New(t, nil)
	h.Stub("demo.a", func(ctx, *courier.Context, map[string]any) (map[string]any, error) { return nil, nil })
	define := func(name, text string) {
		t.Helper()
		job := courier.Job{Name: name, Queue: text, Steps: []courier.StepSpec{{Type: "demo.a"}}}
		if _, err := h.Engine.Jobs().Define(t.Context(), job, &courier.DefineOptions{By: courier.By{Actor: "ann"}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, text := range []string{"one", "two", "three"} {
		define("b", text)
	}
	define("a", "one")
	for _, members := range []int{1, 2} {
		c := chain.Chain{Name: "c"}
		for _, name := range []string{"a", "b"}[:members] {
			c.Members = append(c.Members, chain.Member{Job: name})
		}
		if _, err := h.Engine.Chains().Define(t.Context(), c, nil); err != nil {
			t.Fatal(err)
		}
	}
	jobs, err := h.Engine.Jobs().List(t.Context(), store.DefinitionFilter{})
	if err != nil || len(jobs) != 2 || jobs[0].Job.Name != "a" || jobs[1].Job.Version != 3 || jobs[1].SavedBy != "ann" {
		t.Errorf("jobs %+v, %v", jobs, err)
	}
	if jobs, err := h.Engine.Jobs().List(t.Context(), store.DefinitionFilter{After: "a", Limit: 1}); err != nil || len(jobs) != 1 || jobs[0].Job.Name != "b" {
		t.Errorf("the second page: %+v, %v", jobs, err)
	}
	var got []string
	for before := 0; ; {
		page, err := h.Engine.Jobs().Versions(t.Context(), "b", store.VersionFilter{Before: before, Limit: 2})
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		for i := range page {
			got, before = append(got, page[i].Job.Queue), page[i].Job.Version
		}
		if before == 1 {
			break
		}
	}
	if want := []string{"three", "two", "one"}; !slices.Equal(got, want) {
		t.Errorf("versions %q, want %q", got, want)
	}
	if chains, err := h.Engine.Chains().List(t.Context(), store.DefinitionFilter{}); err != nil || len(chains) != 1 || len(chains[0].Chain.Members) != 2 {
		t.Errorf("chains %+v, %v", chains, err)
	}
	if chains, err := h.Engine.Chains().Versions(t.Context(), "c", store.VersionFilter{}); err != nil || len(chains) != 2 || chains[1].Chain.Version != 1 {
		t.Errorf("versions of the chain %+v, %v", chains, err)
	}
	if _, err := h.Engine.Jobs().Versions(t.Context(), "bb", store.VersionFilter{}); err == nil || !strings.Contains(err.Error(), `did you mean "b"?`) {
		t.Errorf("versions of no job: %v", err)
	}
}

// TestListOfLimits lists the limits that were set, at once and in pages of one.
func TestListOfLimits(t *testing.T) {
	h := couriertest.New(t, nil)
	for scope, n := range map[string]int{"global": 7, "job:a": 1, "key:sftp": 0} {
		if err := h.Engine.Limits().Set(t.Context(), scope, n, courier.By{Actor: "ann"}); err != nil {
			t.Fatal(err)
		}
	}
	got, err := h.Engine.Limits().List(t.Context(), engine.LimitFilter{})
	if want := []engine.Limit{{Scope: "global", Limit: 7}, {Scope: "job:a", Limit: 1}, {Scope: "key:sftp"}}; err != nil || !slices.Equal(got, want) {
		t.Errorf("limits %+v, %v, want %+v", got, err, want)
	}
	var pages []string // the scope of each page of one
	for after := ""; len(pages) < 5; {
		page, err := h.Engine.Limits().List(t.Context(), engine.LimitFilter{After: after, Limit: 1})
		if err != nil || len(page) > 1 {
			t.Fatalf("after %q: %+v, %v", after, page, err)
		}
		if len(page) == 0 {
			break
		}
		after = page[0].Scope
		pages = append(pages, after)
	}
	if want := []string{"global", "job:a", "key:sftp"}; !slices.Equal(pages, want) {
		t.Errorf("pages %q, want %q", pages, want)
	}
}

// TestRemoveLimit takes back a limit, and no other whose scope begins like it.
func TestRemoveLimit(t *testing.T) {
	h := couriertest.New(t, nil)
	limits, by := h.Engine.Limits(), courier.By{Actor: "ann", Reason: "it is quiet"}
	for _, scope := range []string{"global", "job:aa"} {
		if err := limits.Set(t.Context(), scope, 1, by); err != nil {
			t.Fatal(err)
		}
	}
	for scope, want := range map[string]error{"job:a": courier.ErrNotFound, "key:x": courier.ErrNotFound, "jobs:a": courier.ErrInvalid, "global": nil} {
		if err := limits.Remove(t.Context(), scope, by); !errors.Is(err, want) || want == nil && err != nil {
			t.Errorf("%s: %v, not %v", scope, err, want)
		}
	}
	if err := limits.Remove(t.Context(), "", by); !errors.Is(err, courier.ErrNotFound) {
		t.Errorf("again: %v", err)
	}
	if got, err := limits.List(t.Context(), engine.LimitFilter{}); err != nil || len(got) != 1 || got[0].Scope != "job:aa" {
		t.Errorf("%+v, %v", got, err)
	}
	list, err := h.Engine.Journal(t.Context(), store.ActionFilter{Kind: "limit", Name: "global"})
	if err != nil || len(list) != 2 || list[0].Verb != "removed" || list[0].By != "ann" || list[0].Reason != "it is quiet" {
		t.Errorf("%+v, %v", list, err)
	}
}

// TestGetSubscription finds one among more than a page of them.
func TestGetSubscription(t *testing.T) {
	h := couriertest.New(t, nil)
	for i := range 1100 {
		s := notify.Subscription{Name: fmt.Sprintf("s%04d", i), Kind: notify.KindFunc, Func: "f", Events: []courier.EventType{courier.EventJobFailed}}
		if _, err := h.Engine.Subscriptions().Set(t.Context(), s, courier.By{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"s0000", "s1050"} {
		if s, err := h.Engine.Subscriptions().Get(t.Context(), name); err != nil || s.Name != name || s.Window == nil {
			t.Errorf("%+v, %v", s, err)
		}
	}
	for _, name := range []string{"s", "s0000a", "t"} {
		if _, err := h.Engine.Subscriptions().Get(t.Context(), name); !errors.Is(err, courier.ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestWhoAndWhy makes requests and finds who made them, and why, where they are
// kept: in what the request returns, in the audit, and in a schedule's reason.
func TestWhoAndWhy(t *testing.T) {
	h := couriertest.New(t, nil)
	h.Stub("demo.a", func(ctx, *courier.Context, map[string]any) (map[string]any, error) { return nil, nil })
	by := courier.By{Actor: "ann", Reason: "the partner moves"}
	job := courier.Job{Name: "a", Steps: []courier.StepSpec{{Type: "demo.a"}}}
	if _, err := h.Engine.Jobs().Define(t.Context(), job, nil); err != nil {
		t.Fatal(err)
	}
	def := chain.Chain{Name: "c", Members: []chain.Member{{Job: "a"}}}
	if _, err := h.Engine.Chains().Define(t.Context(), def, nil); err != nil {
		t.Fatal(err)
	}
	x, err := h.Engine.Enqueue(t.Context(), "a", nil)
	if err != nil {
		t.Fatal(err)
	}
	if x, err = h.Engine.Pause(t.Context(), x.ID, by); err != nil || x.State != courier.Paused {
		t.Errorf("Pause returned an execution that is %s, %v", x.State, err)
	}
	asked := func(id courier.ExecutionID) {
		t.Helper()
		list, err := h.Engine.Executions().Audit(t.Context(), id)
		if err != nil || len(list) == 0 {
			t.Fatal(err)
		}
		if last := list[len(list)-1]; last.By != by.Actor || last.Error != by.Reason || last.To != string(courier.Paused) {
			t.Errorf("the last entry of %s is %+v", id, last)
		}
	}
	asked(x.ID)
	c, err := h.Engine.Chains().Start(t.Context(), "c", nil)
	if err != nil {
		t.Fatal(err)
	}
	if c, err = h.Engine.Chains().Pause(t.Context(), c.ID, by); err != nil || c.State != chain.Paused {
		t.Errorf("Pause returned a chain execution that is %s, %v", c.State, err)
	}
	asked(c.Members[0].Execution)
	s := schedule.Schedule{Name: "s", Job: "a", Every: time.Hour}
	if _, err := h.Engine.Schedules().Set(t.Context(), s, by); err != nil {
		t.Fatal(err)
	}
	if s, err = h.Engine.Schedules().Disable(t.Context(), "s", by); err != nil || s.Reason != "it was disabled by ann: the partner moves" {
		t.Errorf("the reason is %q, %v", s.Reason, err)
	}
	if _, err := h.Engine.Schedules().Enable(t.Context(), "s", courier.By{Reason: strings.Repeat("x", 1001)}); err == nil || !strings.Contains(err.Error(), "By.Reason: has 1001 bytes") {
		t.Errorf("a long reason: %v", err)
	}
}

// TestReasonsAreLogged gives reasons where the store keeps the actor alone.
func TestReasonsAreLogged(t *testing.T) {
	var reg courier.Registry
	courier.RegisterFunc(&reg, "demo.a", func(context.Context, *courier.Context, struct{}) (struct{}, error) { return struct{}{}, nil }, nil)
	var log bytes.Buffer
	e := engine.New(memstore.New(), &reg, &engine.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	by := courier.By{Actor: "ann", Reason: "the partner moves"}
	check := func(err error, want string) {
		t.Helper()
		if got := log.String(); err != nil || !strings.Contains(got, want) || !strings.Contains(got, `by.actor=ann by.reason="the partner moves"`) {
			t.Errorf("%v, and the log has %q, want %q", err, got, want)
		}
		log.Reset()
	}
	_, err := e.Jobs().Define(t.Context(), courier.Job{Name: "a", Steps: []courier.StepSpec{{Type: "demo.a"}}}, &courier.DefineOptions{By: by})
	check(err, "job defined")
	_, err = e.Chains().Define(t.Context(), chain.Chain{Name: "c", Members: []chain.Member{{Job: "a"}}}, &courier.DefineOptions{By: by})
	check(err, "chain defined")
	_, err = e.Enqueue(t.Context(), "a", &courier.EnqueueOptions{By: by})
	check(err, "execution enqueued")
	_, err = e.Chains().Start(t.Context(), "c", &chain.StartOptions{By: by})
	check(err, "chain execution started")
	if _, err = e.Enqueue(t.Context(), "a", &courier.EnqueueOptions{By: courier.By{Actor: "ann"}}); err != nil || strings.Contains(log.String(), "enqueued") {
		t.Errorf("%v; without a reason: %q", err, log.String())
	}
}
