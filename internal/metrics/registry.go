package metrics

import (
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
)

// A Registry keeps the values that were recorded since it was made. Its methods may be called by
// several goroutines.
type Registry struct {
	sets []*Bounded[*series] // by the index of the metric; nil for a gauge
	once sync.Once
}

// NewRegistry returns an empty registry. The first metric that has more series than
// [MaxSeries] is written to the log, once.
func NewRegistry(log *slog.Logger) *Registry {
	r := &Registry{sets: make([]*Bounded[*series], len(All))}
	for _, m := range All {
		if m.Kind != Gauge {
			r.sets[m.index] = NewBounded(m, func(Values) *series { return newSeries(m) }, func() { Overflow(&r.once, log, m) })
		}
	}
	for _, m := range FromZero {
		r.Record(m, 0, Values{})
	}
	return r
}

// Overflow writes to a log, once, that a metric has more series than are kept.
func Overflow(once *sync.Once, log *slog.Logger, m *Metric) {
	once.Do(func() {
		log.Warn("a metric has too many series: further ones get the label value "+Other, "metric", m.Name, "series", MaxSeries)
	})
}

// Record adds a value to a counter or a histogram.
func (r *Registry) Record(m *Metric, value float64, labels Values) {
	r.sets[m.index].Get(labels).add(value)
}

// A series is a counter or a histogram with its labels.
type series struct {
	bounds []float64
	counts []atomic.Uint64 // by bucket; the last one counts the values above all bounds
	sum    atomic.Uint64   // the bits of a float64
}

func newSeries(m *Metric) *series {
	s := &series{bounds: m.Buckets}
	if m.Kind == Histogram {
		s.counts = make([]atomic.Uint64, len(m.Buckets)+1)
	}
	return s
}

func (s *series) add(value float64) {
	if s.counts != nil {
		i := 0
		for i < len(s.bounds) && value > s.bounds[i] {
			i++
		}
		s.counts[i].Add(1)
	}
	for {
		old := s.sum.Load()
		if s.sum.CompareAndSwap(old, math.Float64bits(math.Float64frombits(old)+value)) {
			return
		}
	}
}
