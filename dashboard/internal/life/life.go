// Package life draws past executions: the figures of the last hours for the first page, and the
// last runs of a job. It does not read from the store.
package life

import (
	"fmt"
	"html/template"
	"strings"
	"time"

	"github.com/courierhq/courier/dashboard/internal/format"
	"github.com/courierhq/courier/store"
)

// Hours is the number of hours of figures that [StripOf] needs: from now back to the same day of
// the previous week.
const Hours = 8 * 24

// drawn is the number of hours that are drawn.
const drawn = 24

// A Strip has the figures of a day, beside the figures of the same weekday of the week before.
type Strip struct {
	Counted time.Time // the figures include everything before it; zero if nothing was counted
	Weekday string    // of the day
	Figures []Figure
	Rows    []Row // the counted hours of the last 24, the latest first
}

// A Figure is one of the figures of a day.
type Figure struct {
	Name   string
	Class  string // its class of colour, as in [format.Look]
	Today  template.HTML
	Before template.HTML // a week before, until the end of the same hour; empty if none of its hours was counted
	Spark  template.HTML // the last 24 hours
}

// A Row has the figures of an hour, in the order of [Strip].Figures.
type Row struct {
	Hour  time.Time
	Cells []template.HTML
}

// kinds are the figures, in their order.
var kinds = []struct {
	name, class string
	of          func(*store.HourFigures) int64
	write       func(int64) template.HTML
	most        bool // the figure of a day is the largest of its hours, not their sum
}{
	{"Completed", "good", func(h *store.HourFigures) int64 { return h.Completed }, count, false},
	{"Failed", "bad", func(h *store.HourFigures) int64 { return h.Failed }, count, false},
	{"Files in", "run", func(h *store.HourFigures) int64 { return h.FilesIn }, count, false},
	{"Bytes in", "run", func(h *store.HourFigures) int64 { return h.BytesIn }, format.Size, false},
	{"Files out", "run", func(h *store.HourFigures) int64 { return h.FilesOut }, count, false},
	{"Bytes out", "run", func(h *store.HourFigures) int64 { return h.BytesOut }, format.Size, false},
	{"Failed items", "bad", func(h *store.HourFigures) int64 { return h.FailedItems }, count, false},
	{"Rescued items", "wait", func(h *store.HourFigures) int64 { return h.RescuedItems }, count, false},
	{"Peak running", "run", func(h *store.HourFigures) int64 { return h.Running }, count, true},
	{"Peak queued", "wait", func(h *store.HourFigures) int64 { return h.Queued }, count, true},
}

func count(n int64) template.HTML { return template.HTML(format.Count(n)) }

// StripOf returns the strip of the day of an instant, in UTC. Hours are in order of time.
func StripOf(at time.Time, hours []store.HourFigures) Strip {
	at = at.UTC()
	hour, day := at.Truncate(time.Hour), at.Truncate(24*time.Hour)
	const week = 7 * 24 * time.Hour
	s := Strip{Weekday: at.Weekday().String()}
	known := make(map[time.Time]*store.HourFigures, len(hours))
	for i := range hours {
		h := &hours[i]
		if known[h.Hour.UTC()] = h; h.CountedAt.After(s.Counted) {
			s.Counted = h.CountedAt
		}
	}
	for _, k := range kinds {
		f := Figure{Name: k.name, Class: k.class}
		of := func(from, until time.Time) (n int64, counted bool) {
			for ; !from.After(until); from = from.Add(time.Hour) {
				switch h := known[from]; {
				case h == nil:
					continue
				case k.most:
					n = max(n, k.of(h))
				default:
					n += k.of(h)
				}
				counted = true
			}
			return n, counted
		}
		today, _ := of(day, hour)
		f.Today = k.write(today)
		if n, counted := of(day.Add(-week), hour.Add(-week)); counted {
			f.Before = k.write(n)
		}
		values := make([]int64, drawn)
		for i := range values {
			if values[i] = -1; known[hour.Add(time.Duration(i-drawn+1)*time.Hour)] != nil {
				values[i] = k.of(known[hour.Add(time.Duration(i-drawn+1)*time.Hour)])
			}
		}
		f.Spark = spark(k.class, values)
		s.Figures = append(s.Figures, f)
	}
	for i := range drawn {
		h := known[hour.Add(-time.Duration(i)*time.Hour)]
		if h == nil {
			continue
		}
		r := Row{Hour: h.Hour}
		for _, k := range kinds {
			r.Cells = append(r.Cells, k.write(k.of(h)))
		}
		s.Rows = append(s.Rows, r)
	}
	return s
}

// spark draws a bar for each value. The largest value has the full height. A value below 0 is
// unknown and has no bar; 0 has a line. The drawing has no text, because the figures are in a table
// beside it.
func spark(class string, values []int64) template.HTML {
	var most int64 = 1
	for _, v := range values {
		most = max(most, v)
	}
	const high = 24
	var path strings.Builder
	for i, v := range values {
		if v >= 0 {
			fmt.Fprintf(&path, "M%d %dV%.1f", 4*i+2, high, high-1-(high-2)*float64(v)/float64(most))
		}
	}
	return template.HTML(fmt.Sprintf(`<svg class="spark %s" viewBox="0 0 %d %d" preserveAspectRatio="none" aria-hidden="true"><path d="%s"/></svg>`, class, 4*len(values), high, path.String()))
}
