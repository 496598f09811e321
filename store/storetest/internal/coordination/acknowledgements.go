package coordination

import (
	"errors"
	"fmt"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

func hasAcknowledgements(s store.Store) bool {
	_, ok := s.(store.Acknowledgements)
	return ok
}

var acknowledgementCases = []testCase{
	// An acknowledgement is kept with every field, one for each key, until it is withdrawn.
	{"acknowledgement_is_kept_until_withdrawn", func(k *kit) {
		k.Same("at first", k.acknowledged(), []store.Acknowledgement(nil))
		a := store.Acknowledgement{Key: "failed.É", Title: `Job "a": 3 executions failed.`, By: "ann", Reason: "it's \\ % known", Until: soon(time.Hour), Snoozed: true}
		a = k.acknowledge(a)
		if a.At.IsZero() || !a.Until.After(a.At) {
			k.Errorf("at %v until %v", a.At, a.Until)
		}
		b := k.acknowledge(store.Acknowledgement{Key: "due.1", Until: soon(time.Minute)})
		k.Same("listed", k.acknowledged(), []store.Acknowledgement{b, a})
		a.Reason, a.Snoozed, a.Until = "", false, a.Until.Add(time.Hour)
		a = k.acknowledge(a)
		k.Same("replaced", k.acknowledged(), []store.Acknowledgement{b, a})
		s := k.Store.(store.Acknowledgements)
		k.OK(s.Withdraw(k.Ctx(), a.Key))
		k.Same("withdrawn", k.acknowledged(), []store.Acknowledgement{b})
		if err := s.Withdraw(k.Ctx(), a.Key); !errors.Is(err, courier.ErrNotFound) {
			k.Errorf("withdrawn twice: %v", err)
		}
	}},
	// One that has ended is known for a time, and then removed.
	{"acknowledgement_ends", func(k *kit) {
		if !k.Virtual {
			return
		}
		a := k.acknowledge(store.Acknowledgement{Key: "a", Until: soon(time.Hour)})
		k.Pass(time.Hour + store.AcknowledgementsKept - time.Second)
		k.Same("shortly after", k.acknowledged(), []store.Acknowledgement{a})
		k.Pass(2 * time.Second)
		k.Same("later", k.acknowledged(), []store.Acknowledgement(nil))
		k.acknowledge(store.Acknowledgement{Key: "b", Until: soon(time.Hour)})
		if err := k.Store.(store.Acknowledgements).Withdraw(k.Ctx(), "a"); !errors.Is(err, courier.ErrNotFound) {
			k.Errorf("it was not removed: %v", err)
		}
	}},
	// So many hold at once; those that have ended do not count.
	{"acknowledgements_have_a_bound", func(k *kit) {
		past, until := soon(-time.Minute), soon(time.Hour)
		for i := range store.MaxAcknowledgements {
			k.acknowledge(store.Acknowledgement{Key: fmt.Sprint(i), Until: until})
		}
		_, err := k.Store.(store.Acknowledgements).Acknowledge(k.Ctx(), store.Acknowledgement{Key: "more", Until: until})
		if !errors.Is(err, courier.ErrConflict) {
			k.Errorf("one more: %v", err)
		}
		k.acknowledge(store.Acknowledgement{Key: "7", Until: past})
		k.acknowledge(store.Acknowledgement{Key: "more", Until: until})
		k.Same("those that are known", len(k.acknowledged()), store.MaxAcknowledgements+1)
	}},
}

// soon is an instant that each store keeps exactly.
func soon(d time.Duration) time.Time { return time.Now().Add(d).Truncate(time.Microsecond) }

func (k *kit) acknowledge(a store.Acknowledgement) store.Acknowledgement {
	k.Helper()
	got, err := k.Store.(store.Acknowledgements).Acknowledge(k.Ctx(), a)
	k.OK(err)
	a.At, a.Until = got.At, a.Until.UTC()
	k.Same("returned", got, a)
	return got
}

func (k *kit) acknowledged() []store.Acknowledgement {
	k.Helper()
	list, err := k.Store.(store.Acknowledgements).Acknowledgements(k.Ctx())
	k.OK(err)
	return list
}
