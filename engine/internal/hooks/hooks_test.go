package hooks_test

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/hooks"
)

type key struct{}

// TestAround checks that an execution is driven once, whatever the function of the host does,
// and with the values that it adds.
func TestAround(t *testing.T) {
	for name, c := range map[string]struct {
		around func(context.Context, *courier.Execution, func(context.Context))
		value  any
		log    string
	}{
		"calls it": {func(ctx context.Context, _ *courier.Execution, next func(context.Context)) {
			next(context.WithValue(ctx, key{}, "trace"))
		}, "trace", ""},
		"does not call it": {func(context.Context, *courier.Execution, func(context.Context)) {}, nil, "did not call next"},
		"calls it twice": {func(ctx context.Context, _ *courier.Execution, next func(context.Context)) {
			next(ctx)
			next(ctx)
		}, nil, ""},
		"panics before": {func(context.Context, *courier.Execution, func(context.Context)) { panic("no tracer") }, nil, "no tracer"},
		"panics after": {func(ctx context.Context, _ *courier.Execution, next func(context.Context)) {
			next(ctx)
			panic("no tracer")
		}, nil, "no tracer"},
	} {
		t.Run(name, func(t *testing.T) {
			var text bytes.Buffer
			driven := 0
			hooks.Around(t.Context(), courier.Execution{ID: "x"}, slog.New(slog.NewTextHandler(&text, nil)), c.around, func(ctx context.Context) {
				if driven++; ctx.Value(key{}) != c.value {
					t.Errorf("driven with the value %v", ctx.Value(key{}))
				}
			})
			if driven != 1 || !strings.Contains(text.String(), c.log) || c.log == "" && text.Len() > 0 {
				t.Errorf("driven %d times, log %q", driven, text.String())
			}
		})
	}
}

// TestCall checks that a function of the host can neither end the process nor hold its caller
// up for long.
func TestCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		log := slog.New(slog.NewTextHandler(&text, nil))
		hooks.Call(log, "stuck-step hook", func() { panic("broken") })
		if !strings.Contains(text.String(), "stuck-step hook") || !strings.Contains(text.String(), "broken") {
			t.Errorf("log %q", text.String())
		}
		release := make(chan struct{})
		began := time.Now()
		hooks.Call(log, "stuck-step hook", func() { <-release })
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("its caller waited %v", took)
		}
		close(release)
	})
}

// TestObservers checks that observers are told all events in order, that one which panics harms
// no other, and that one which was removed is told nothing more.
func TestObservers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var first, second []int64
		o := hooks.NewObservers([]func(courier.Event){func(e courier.Event) { first = append(first, e.Bytes) }, func(courier.Event) { panic("broken") }}, slog.New(slog.DiscardHandler))
		if !o.Wanted() {
			t.Error("nobody wants events")
		}
		remove := o.Add(func(e courier.Event) { second = append(second, e.Bytes) })
		for i := range 3 {
			o.Emit(courier.Event{Bytes: int64(i)})
		}
		o.Flush(time.Second)
		remove()
		o.Emit(courier.Event{Bytes: 3})
		o.Flush(time.Second)
		if !slices.Equal(first, []int64{0, 1, 2, 3}) || !slices.Equal(second, []int64{0, 1, 2}) || o.Dropped() != 0 {
			t.Errorf("told %v and %v, %d dropped", first, second, o.Dropped())
		}
		if none := hooks.NewObservers(nil, slog.New(slog.DiscardHandler)); none.Wanted() {
			t.Error("events are wanted where there are no observers")
		}
	})
}
