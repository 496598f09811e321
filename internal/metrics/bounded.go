package metrics

import (
	"sync"
	"sync/atomic"
)

// Bounded keeps something for each set of label values of a metric, and nothing more than
// [MaxSeries] allows. Its methods may be called by several goroutines.
type Bounded[T any] struct {
	m    *Metric
	make func(Values) T
	over func() // there is no room

	recent [16]atomic.Pointer[entry[T]] // some of kept, found sooner

	mu   sync.RWMutex
	kept map[Values]T
}

type entry[T any] struct {
	v Values
	t T
}

// NewBounded returns one for a metric. Make is called once for each set of values that is
// kept, and over whenever a set has to be recorded as another one.
func NewBounded[T any](m *Metric, make func(Values) T, over func()) *Bounded[T] {
	return &Bounded[T]{m: m, make: make, over: over, kept: map[Values]T{}}
}

// Get returns what is kept for a set of values.
func (b *Bounded[T]) Get(v Values) T {
	place := &b.recent[place(&v)]
	e := place.Load()
	if e != nil && e.v == v {
		return e.t
	}
	b.mu.RLock()
	t, ok := b.kept[v]
	b.mu.RUnlock()
	if !ok {
		t = b.add(v)
	}
	if e == nil {
		place.Store(&entry[T]{v, t})
	}
	return t
}

// place is where something with these values is found soon.
func place(v *Values) (n int) {
	for i := range 2 {
		if s := v[i]; s != "" {
			n = n*5 + len(s) + int(s[len(s)-1])
		}
	}
	return n & 15
}

// add makes room for a set, or returns the one of all others. The last places are for those:
// closed labels have a handful of values each.
func (b *Bounded[T]) add(v Values) T {
	b.mu.Lock()
	defer b.mu.Unlock()
	most := b.m.most()
	if o := b.m.over(v); len(b.kept) >= most-most/8 && o != v {
		v = o
		b.over()
	} else if len(b.kept) >= most-1 { // closed labels have too many values: that would be a mistake here
		v = Values{}
		for i := range b.m.Labels {
			v[i] = Other
		}
	}
	t, ok := b.kept[v]
	if !ok {
		t = b.make(v)
		b.kept[v] = t
	}
	return t
}

// Each calls f with all that is kept.
func (b *Bounded[T]) Each(f func(Values, T)) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	for v, t := range b.kept {
		f(v, t)
	}
}
