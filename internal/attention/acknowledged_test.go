package attention_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/attention"
	"github.com/courierhq/courier/store"
)

// Each trouble has a key of its own, which stays while it grows and its words change.
func TestKeys(t *testing.T) {
	in(t, func(s *service) {
		s.full()
		key := func() (keys []string) {
			for _, e := range s.list().Entries {
				if keys = append(keys, e.Key); (e.Key == "") != (e.Kind == attention.PutAway) || e.Key != "" && !strings.HasPrefix(e.Key, string(e.Kind)+".") {
					t.Errorf("the key of %s is %q", e.Title, e.Key)
				}
			}
			return keys
		}
		before := key()
		if n := len(slices.Compact(slices.Sorted(slices.Values(before)))); n != len(before) {
			t.Errorf("%d keys of %d entries: %q", n, len(before), before)
		}
		for i := range s.incidents {
			x := s.incidents[i]
			x.Execution, x.Since = "more-"+x.Execution, x.Since.Add(time.Minute)
			s.incidents = append(s.incidents, x)
		}
		s.queues[0].Queued, s.queues[0].Oldest = 7, "r"
		s.stranded[0].Count = 9
		s.kept = append(s.kept, s.kept[0])
		s.monitors[0].Health.Failures = 8
		if after := key(); !slices.Equal(after, before) {
			t.Errorf("%q\nwas\n%q", after, before)
		}
	})
}

// What somebody has acknowledged is out of sight until a time, or until something of it is younger,
// unless it is snoozed. What comes back says so.
func TestAcknowledged(t *testing.T) {
	for _, snoozed := range []bool{false, true} {
		in(t, func(s *service) {
			failed := store.Incident{Kind: store.IncidentFailed, Execution: "x", Job: "j", Since: ago(time.Minute), Reason: courier.ReasonTimeout}
			s.incidents = []store.Incident{failed, {Kind: store.IncidentFailed, Execution: "y", Job: "k", Since: ago(time.Minute)}}
			key := s.list().Entries[0].Key
			s.acknowledged = []store.Acknowledgement{{Key: "failed.other", At: time.Now(), Until: time.Now().Add(time.Hour)}, {Key: key, By: "ann", At: time.Now(), Until: time.Now().Add(time.Hour), Snoozed: snoozed}}
			is := func(what string, hidden, back bool) {
				t.Helper()
				list := s.list()
				e := list.Entries[0]
				if (e.Acknowledged != nil) != hidden || (e.Returned != nil) != back || e.Acknowledged != nil && e.Acknowledged.By != "ann" || !list.Acknowledges {
					t.Errorf("snoozed %t, %s: %+v", snoozed, what, e)
				}
				if e := list.Entries[1]; e.Acknowledged != nil || e.Returned != nil {
					t.Errorf("another one: %+v", e)
				}
			}
			is("at first", true, false)
			time.Sleep(time.Minute)
			failed.Execution, failed.Since = "z", time.Now()
			s.incidents = append([]store.Incident{failed}, s.incidents...)
			is("something is younger", snoozed, !snoozed)
			s.incidents = s.incidents[1:]
			time.Sleep(59*time.Minute - 1)
			is("before the end", true, false)
			time.Sleep(time.Nanosecond)
			is("at the end", false, true)
			s.fails["acknowledgements"] = fmt.Errorf("it has none: %w", errors.ErrUnsupported)
			if list := s.list(); list.Acknowledges || len(list.Missing) != 0 || list.Entries[0].Returned != nil {
				t.Errorf("of a store that keeps none: %+v", list)
			}
			s.fails["acknowledgements"] = errors.New("the server is down")
			if _, err := s.read(); !errors.Is(err, s.fails["acknowledgements"]) {
				t.Errorf("%v", err)
			}
		})
	}
}
