package named_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/named"
	"github.com/courierhq/courier/store"
)

// A lamp is a record.
type lamp struct {
	name string
	lit  bool
}

// lamps is a store of lamps. It refuses the first writes, as many as conflicts.
type lamps struct {
	list              []lamp
	conflicts, writes int
}

func (s *lamps) write(_ context.Context, l lamp) (lamp, error) {
	s.writes++
	if s.writes <= s.conflicts {
		return lamp{}, courier.ErrConflict
	}
	s.list = append(slices.DeleteFunc(s.list, func(have lamp) bool { return have.name == l.name }), l)
	return l, nil
}

func (s *lamps) remove(_ context.Context, name string) error {
	n := len(s.list)
	s.list = slices.DeleteFunc(s.list, func(l lamp) bool { return l.name == name })
	if len(s.list) == n {
		return courier.ErrNotFound
	}
	return nil
}

// newRecords returns the records of a store, and the entries that the journal gets.
func newRecords(s *lamps) (r *named.Records[*lamps, lamp, lamp], journal *[]store.Action) {
	journal = new([]store.Action)
	return &named.Records[*lamps, lamp, lamp]{
		Kind:  "lamp",
		Store: func() (*lamps, error) { return s, nil },
		List: func(_ context.Context, s *lamps, name, after string) (list []lamp, now time.Time, err error) {
			for _, l := range s.list {
				if l.name > after && len(list) < 1000 && (name == "" || l.name == name) {
					list = append(list, l)
				}
			}
			return list, time.Unix(1, 0), nil
		},
		Name: func(l *lamp) string { return l.name }, Write: (*lamps).write, Delete: (*lamps).remove,
		Changed: func(_ context.Context, by courier.By, a store.Action, _ ...slog.Attr) {
			a.By = by.Actor
			*journal = append(*journal, a)
		},
	}, journal
}

// TestChange checks how often a change is tried and saved, what is in the journal, and the
// errors.
func TestChange(t *testing.T) {
	other := errors.New("the bulb is broken")
	light := func(old *lamp, now time.Time) (lamp, error) {
		switch {
		case now.IsZero():
			return lamp{}, errors.New("the time is missing")
		case old == nil:
			return lamp{}, courier.ErrNotFound
		case old.name == "broken":
			return lamp{}, other
		case old.lit:
			return lamp{}, named.ErrUnchanged
		}
		return lamp{old.name, true}, nil
	}
	for _, c := range []struct {
		name, lamp        string
		conflicts, writes int
		actor, want       string // the error; empty means none
		is                error
	}{
		{name: "saved", lamp: "hall", writes: 1},
		{name: "conflicts", lamp: "hall", conflicts: 19, writes: 20},
		{name: "too many conflicts", lamp: "hall", conflicts: 20, writes: 20, want: `light lamp "hall": `, is: courier.ErrConflict},
		{name: "unchanged", lamp: "lit"},
		{name: "refused", lamp: "broken", want: `light lamp "broken": the bulb is broken`, is: other},
		{name: "unknown", lamp: "hal", want: `light lamp "hal": there is no lamp "hal"; did you mean "hall"?`, is: courier.ErrNotFound},
		{name: "no name", want: `light lamp "": there is no lamp ""; known are hall, lit, broken`, is: courier.ErrNotFound},
		{name: "wrong actor", lamp: "hall", actor: "\x00", want: `light lamp "hall": `, is: courier.ErrInvalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &lamps{list: []lamp{{"hall", false}, {"lit", true}, {"broken", false}}, conflicts: c.conflicts}
			r, journal := newRecords(s)
			got, err := r.Change(t.Context(), "light", store.Action{Name: c.lamp, Verb: "lit"}, courier.By{Actor: c.actor}, light)
			if c.want == "" && (err != nil || !got.lit || got.name != c.lamp) || c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), c.want) || !errors.Is(err, c.is)) {
				t.Errorf("it is %v, with the error %v, not %q", got, err, c.want)
			}
			if s.writes != c.writes {
				t.Errorf("there were %d writes, not %d", s.writes, c.writes)
			}
			if saved := c.want == "" && c.writes > 0; len(*journal) == 1 != saved || saved && ((*journal)[0].Kind != "lamp" || (*journal)[0].Verb != "lit") {
				t.Errorf("the journal has %v", *journal)
			}
		})
	}
}

// TestGetAndRemove checks what is found, and that a record is removed once.
func TestGetAndRemove(t *testing.T) {
	r, journal := newRecords(&lamps{list: []lamp{{"hall", true}}})
	if l, err := r.Get(t.Context(), "hall"); err != nil || !l.lit {
		t.Errorf("the record is %v, with the error %v", l, err)
	}
	if err := r.Remove(t.Context(), "hall", courier.By{Actor: "ann"}); err != nil {
		t.Error(err)
	}
	_, got := r.Get(t.Context(), "hall")
	again := r.Remove(t.Context(), "hall", courier.By{})
	for _, e := range []struct {
		err  error
		want string
	}{
		{got, `lamp: there is no lamp "hall"; there are none`},
		{again, `remove lamp "hall": there is no lamp "hall"; there are none`},
	} {
		if !errors.Is(e.err, courier.ErrNotFound) || !strings.HasPrefix(e.err.Error(), e.want) {
			t.Errorf("the error is %v, not %q", e.err, e.want)
		}
	}
	if len(*journal) != 1 || (*journal)[0].By != "ann" || (*journal)[0].Verb != "removed" {
		t.Errorf("the journal has %v", *journal)
	}
}
