package engine_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/notify"
	"github.com/courierhq/courier/schedule"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/memstore"
	"github.com/courierhq/courier/store/storewrap"
)

// TestJournal changes what is no execution, and reads who did it. What is set as it is already,
// or disabled again, changes nothing, and is not in the journal: a program that sets all its
// definitions at each start fills no journal.
func TestJournal(t *testing.T) {
	h := couriertest.New(t, nil)
	h.Stub("demo.a", nil)
	e, ctx := h.Engine, t.Context()
	by := courier.By{Actor: "ann", Reason: "the partner asked for it"}
	if _, err := e.Jobs().Define(ctx, courier.Job{Name: "job", Steps: []courier.StepSpec{{Type: "demo.a"}}}, nil); err != nil {
		t.Fatal(err)
	}
	daily := schedule.Schedule{Name: "daily", Job: "job", Every: time.Hour}
	_, err1 := e.Schedules().Set(ctx, daily, by)
	_, err2 := e.Schedules().Set(ctx, daily, by)
	_, err3 := e.Schedules().Disable(ctx, "daily", by)
	_, err5 := e.Schedules().Disable(ctx, "daily", by)
	hook := notify.Subscription{Name: "hook", Kind: notify.KindFunc, Func: "f", Events: []courier.EventType{courier.EventJobFailed}}
	_, err4 := e.Subscriptions().Set(ctx, hook, courier.By{Actor: "bob"})
	_, err6 := e.Subscriptions().Set(ctx, hook, courier.By{Actor: "deploy"})
	hook.Disabled = true
	_, err7 := e.Subscriptions().Set(ctx, hook, by)
	_, err8 := e.Subscriptions().Set(ctx, hook, courier.By{Actor: "deploy"})
	err := errors.Join(err6, err7, err8, e.Limits().Set(ctx, "key:acme", 1, by), e.Limits().Set(ctx, "key:acme", 1, courier.By{Actor: "deploy"}), err1, err2, err3, err4, err5, e.Limits().Set(ctx, "key:acme", 2, by), e.Subscriptions().Remove(ctx, "hook", by), e.Schedules().Remove(ctx, "daily", by))
	if err != nil {
		t.Fatal(err)
	}
	list, err := e.Journal(ctx, store.ActionFilter{})
	var got []string
	for _, a := range list {
		got = append(got, fmt.Sprintf("%s %s %s %s by %s (%s) %t", a.Kind, a.Name, a.Verb, a.Outcome, a.By, a.Reason, a.Now != nil))
	}
	want := []string{
		"schedule daily removed done by ann (the partner asked for it) false",
		"subscription hook removed done by ann (the partner asked for it) false",
		"limit key:acme set done by ann (the partner asked for it) true",
		"limit key:acme set done by ann (the partner asked for it) true",
		"subscription hook set done by ann (the partner asked for it) true",
		"subscription hook set done by bob () true",
		"schedule daily disabled done by ann (the partner asked for it) false",
		"schedule daily set done by ann (the partner asked for it) true",
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v\n%s\nwant\n%s", err, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if list, err := e.Journal(ctx, store.ActionFilter{By: "bob"}); err != nil || len(list) != 1 {
		t.Errorf("by bob: %d, %v", len(list), err)
	}
	without := engine.New(struct{ store.Store }{h.Store}, nil, nil)
	if _, err := without.Journal(ctx, store.ActionFilter{}); !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "store.Journal") {
		t.Errorf("without the role: %v", err)
	}
	if err := without.Limits().Set(ctx, "global", 3, by); err != nil {
		t.Errorf("a limit without the role: %v", err)
	}
}

// A fullJournal can't be written.
type fullJournal struct{ *memstore.Store }

func (fullJournal) Note(context.Context, store.Action) (store.Action, error) {
	return store.Action{}, errors.New("no space")
}

// TestJournalThatCannotBeWritten makes a change all the same, and says so.
func TestJournalThatCannotBeWritten(t *testing.T) {
	log := new(logbook)
	e := engine.New(fullJournal{memstore.New()}, nil, &engine.Options{Log: slog.New(slog.NewTextHandler(log, nil))})
	if err := e.Limits().Set(t.Context(), "global", 3, courier.By{Actor: "ann"}); err != nil {
		t.Fatal(err)
	}
	log.count(t, 1, "level=ERROR", "it is missing from the journal", "kind=limit", "name=global", "no space")
}

// TestJournalWithoutTheCaller ends the context of a call as soon as the store has made the
// change: the journal has it all the same.
func TestJournalWithoutTheCaller(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := storewrap.Intercept(memstore.New(), func(ctx context.Context, c *storewrap.Call, do func(context.Context) error) error {
		err := do(ctx)
		if c.Method == "Set" {
			cancel()
		}
		return err
	})
	e := engine.New(s, nil, nil)
	if err := e.Limits().Set(ctx, "global", 3, courier.By{Actor: "ann"}); err != nil {
		t.Fatal(err)
	}
	list, err := e.Journal(t.Context(), store.ActionFilter{})
	if err != nil || len(list) != 1 || list[0].By != "ann" {
		t.Errorf("the journal has %+v, %v", list, err)
	}
}
