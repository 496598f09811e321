package metrics

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// MediaType is the media type of the text format of Prometheus.
const MediaType = "text/plain; version=0.0.4; charset=utf-8"

// A Figure is the value of a gauge, or of a counter that is kept elsewhere.
type Figure struct {
	*Metric
	Labels Values
	Value  float64
}

// AppendText appends all metrics in the text format of Prometheus: the values of a registry,
// which may be nil, and figures. They are in the order of [All] and, within a metric, of the
// label values.
func AppendText(b []byte, r *Registry, figures []Figure) []byte {
	by := make(map[*Metric][]Figure)
	for _, f := range figures {
		by[f.Metric] = append(by[f.Metric], f)
	}
	w := writer{b}
	for _, m := range All {
		list := by[m]
		if r != nil && r.sets[m.index] != nil {
			list = append(list, w.recorded(m, r)...)
		}
		if len(list) == 0 {
			continue
		}
		w.head(m)
		slices.SortFunc(list, func(a, b Figure) int { return slices.Compare(a.Labels[:], b.Labels[:]) })
		for _, f := range list[:min(len(list), MaxSeries)] {
			if m.Kind == Histogram {
				w.histogram(m, f.Labels, r.sets[m.index].Get(f.Labels))
			} else {
				w.line(m, "", f.Labels, "", f.Value)
			}
		}
	}
	return w.b
}

type writer struct{ b []byte }

// recorded returns the values of a metric in a registry; for a histogram only the labels.
func (w *writer) recorded(m *Metric, r *Registry) (list []Figure) {
	r.sets[m.index].Each(func(v Values, s *series) {
		list = append(list, Figure{m, v, math.Float64frombits(s.sum.Load())})
	})
	return list
}

func (w *writer) head(m *Metric) {
	name := m.prom
	w.b = append(append(append(append(w.b, "# HELP "...), name...), ' '), escapeHelp.Replace(m.Help)...)
	w.b = append(append(append(append(w.b, "\n# TYPE "...), name...), ' '), m.Kind...)
	w.b = append(w.b, '\n')
}

// histogram writes the buckets, each with the sum of the counts up to it. The count of the
// histogram is the count of the last bucket, so that they agree even if other values are recorded
// at the same time.
func (w *writer) histogram(m *Metric, labels Values, s *series) {
	sum, count := math.Float64frombits(s.sum.Load()), uint64(0)
	for i := range s.counts {
		le := "+Inf"
		if i < len(s.bounds) {
			le = number(s.bounds[i])
		}
		count += s.counts[i].Load()
		w.line(m, "_bucket", labels, le, float64(count))
	}
	w.line(m, "_sum", labels, "", sum)
	w.line(m, "_count", labels, "", float64(count))
}

// line writes a sample. Le is the bound of a bucket; empty for other samples.
func (w *writer) line(m *Metric, suffix string, labels Values, le string, value float64) {
	w.b = append(append(w.b, m.prom...), suffix...)
	sep := byte('{')
	label := func(name, value string) {
		w.b = append(append(append(w.b, sep), name...), `="`...)
		w.b = append(append(w.b, escapeValue.Replace(strings.ToValidUTF8(value, "\uFFFD"))...), '"')
		sep = ','
	}
	for i, name := range m.labels {
		if labels[i] != "" { // an empty label is the same as no label
			label(name, labels[i])
		}
	}
	if le != "" {
		label("le", le)
	}
	if sep == ',' {
		w.b = append(w.b, '}')
	}
	w.b = append(strconv.AppendFloat(append(w.b, ' '), value, 'g', -1, 64), '\n')
}

// number returns a number in the text format.
func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

var (
	escapeHelp  = strings.NewReplacer(`\`, `\\`, "\n", `\n`)
	escapeValue = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)
)
