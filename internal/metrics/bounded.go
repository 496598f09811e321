package metrics

import (
	"sync"
	"sync/atomic"
)

// Bounded keeps a value for each set of label values of a metric, up to the limit of [MaxSeries].
// Its methods may be called by several goroutines.
type Bounded[T any] struct {
	m    *Metric
	make func(Values) T
	over func() // there is no room

	recent [16]atomic.Pointer[entry[T]] // some of kept, for faster lookup

	mu   sync.RWMutex
	kept map[Values]T
}

type entry[T any] struct {
	v Values
	t T
}

// NewBounded returns a Bounded for a metric. Make is called once for each set of label values
// that is kept. Over is called whenever a set has to be recorded as another one.
func NewBounded[T any](m *Metric, make func(Values) T, over func()) *Bounded[T] {
	return &Bounded[T]{m: m, make: make, over: over, kept: map[Values]T{}}
}

// Get returns the value for a set of label values.
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

// place returns the index in recent for a set of label values.
func place(v *Values) (n int) {
	for i := range 2 {
		if s := v[i]; s != "" {
			n = n*5 + len(s) + int(s[len(s)-1])
		}
	}
	return n & 15
}

// add adds a set, or returns the value that stands for all further sets. The last places are
// reserved for these: closed labels have only a handful of values each.
func (b *Bounded[T]) add(v Values) T {
	b.mu.Lock()
	defer b.mu.Unlock()
	most := b.m.most()
	if o := b.m.over(v); len(b.kept) >= most-most/8 && o != v {
		v = o
		b.over()
	} else if len(b.kept) >= most-1 { // closed labels have too many values, which would be a programming error
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

// Each calls f with each set of label values and its value.
func (b *Bounded[T]) Each(f func(Values, T)) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	for v, t := range b.kept {
		f(v, t)
	}
}
