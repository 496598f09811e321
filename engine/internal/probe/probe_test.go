package probe_test

import (
	"context"
	"log/slog"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/probe"
	"github.com/courierhq/courier/internal/metrics"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/memstore"
)

type calls []string

func (*calls) Claimed(int, time.Duration)                    {}
func (*calls) Began(*courier.Execution, time.Duration)       {}
func (*calls) Step(*courier.StepExecution, time.Duration)    {}
func (*calls) Ended(*courier.Execution, time.Duration)       {}
func (c *calls) Store(call string, _ time.Duration, _ error) { *c = append(*c, call) }

// TestRoles calls each method of a store that has all roles: the probe is told of it, under
// its name.
func TestRoles(t *testing.T) {
	var told calls
	behind := memstore.New()
	s := probe.To(&probe.Recorder{Sink: metrics.NewRegistry(slog.New(slog.DiscardHandler))}, &told, slog.New(slog.DiscardHandler)).Around(behind)
	if probe.Behind(s) != store.Store(behind) || probe.Behind(behind) != store.Store(behind) {
		t.Error("another store is behind")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	var want []string
	ctxType := reflect.TypeFor[context.Context]()
	for m := range reflect.TypeOf(behind).Methods() {
		if m.Type.NumIn() < 2 || m.Type.In(1) != ctxType {
			continue
		}
		f := reflect.ValueOf(s).MethodByName(m.Name)
		if !f.IsValid() {
			t.Errorf("%s is missing", m.Name)
			continue
		}
		args := []reflect.Value{reflect.ValueOf(ended)}
		for i := 1; i < f.Type().NumIn(); i++ {
			args = append(args, reflect.Zero(f.Type().In(i)))
		}
		f.Call(args)
		want = append(want, m.Name)
	}
	if !slices.Equal(told, calls(want)) || len(want) < 40 {
		t.Errorf("told of %q\nwant %q", told, want)
	}
}
