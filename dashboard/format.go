package dashboard

import (
	"fmt"
	"html/template"
	"strings"
	"time"
	"unicode/utf8"
)

// funcs are the functions of templates. What they return as HTML has nothing in it that came
// from outside.
var funcs = template.FuncMap{
	"time":  timeOf,
	"took":  took,
	"size":  size,
	"count": count,
	"badge": badge,
	"clip":  clip,
	"long":  long,
	"part":  part,
	"turns": turnsOf,
}

// timeOf returns an instant in UTC, or a dash. Scripts add the zone of the visitor and how
// long ago it is.
func timeOf(t time.Time) template.HTML {
	if t.IsZero() {
		return `<span class="none">–</span>`
	}
	t = t.UTC()
	return template.HTML(`<time datetime="` + t.Format("2006-01-02T15:04:05.000Z") + `">` + t.Format("2006-01-02 15:04:05") + ` UTC</time>`)
}

// took returns a duration in words, such as "1 m 22 s".
func took(d time.Duration) string {
	switch {
	case d < 0:
		return "–"
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%d m %d s", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %d m", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%d days %d h", int(d.Hours())/24, int(d.Hours())%24)
}

// size returns a number of bytes, rounded, with the exact one as its title.
func size(n int64) template.HTML {
	units := []string{"B", "kB", "MB", "GB", "TB", "PB", "EB"}
	f, i := float64(n), 0
	for f >= 999.5 && i < len(units)-1 {
		f, i = f/1000, i+1
	}
	if i == 0 {
		return template.HTML(fmt.Sprintf("%d B", n))
	}
	digits := 1
	if f >= 99.95 {
		digits = 0
	}
	return template.HTML(fmt.Sprintf(`<span title="%s bytes">%.*f %s</span>`, count(n), digits, f, units[i]))
}

// count returns a whole number with commas between thousands.
func count(n any) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// A look is how a status is shown: by a shape and a class of colour, beside its word.
type look struct{ class, path string }

// Shapes on a field of 12 by 12.
const (
	shapeCheck  = "M2 6.5 5 9.5 10 3"
	shapeCross  = "M3 3l6 6M9 3l-6 6"
	shapePlay   = "M3.5 2.5v7l6-3.5z"
	shapeBars   = "M4 3v6M8 3v6"
	shapeRing   = "M6 2.5a3.5 3.5 0 1 0 .01 0z"
	shapeClock  = "M6 1.5a4.5 4.5 0 1 0 .01 0zM6 3.5V6l2 1.5"
	shapeWarn   = "M6 2l4.5 8h-9zM6 5v2.2"
	shapeStop   = "M3 3h6v6h-6z"
	shapeDash   = "M2.5 6h7"
	shapePlus   = "M6 2.5v7M2.5 6h7"
	shapeMove   = "M6 2v8M4 4l2-2 2 2M4 8l2 2 2-2"
	shapeChange = "M2 4h6l-2-2M10 8H4l2 2"
)

// looks are those of all words for a status.
var looks = map[string]look{
	"created": {"idle", shapeRing}, "queued": {"idle", shapeRing}, "scheduled": {"idle", shapeClock}, "waiting": {"wait", shapeClock},
	"running": {"run", shapePlay}, "lost": {"bad", shapeWarn}, "pausing": {"wait", shapeBars}, "cancelling": {"wait", shapeStop},
	"paused": {"wait", shapeBars}, "completed": {"good", shapeCheck}, "failed": {"bad", shapeCross}, "cancelled": {"off", shapeStop},
	// Of steps, iterations and branches.
	"pending": {"idle", shapeRing}, "retrying": {"wait", shapeClock}, "skipped": {"off", shapeDash}, "interrupted": {"wait", shapeChange}, "not_taken": {"off", shapeDash},
	// Of schedules, monitors, subscriptions and deliveries.
	"active": {"good", shapePlay}, "enabled": {"good", shapeCheck}, "disabled": {"off", shapeStop}, "degraded": {"wait", shapeWarn}, "late": {"bad", shapeClock},
	"delivered": {"good", shapeCheck}, "error": {"bad", shapeCross},
	// Of entries in the journal.
	"asked": {"idle", shapeRing}, "done": {"good", shapeCheck}, "unchanged": {"off", shapeDash}, "refused": {"bad", shapeCross},
	// Of differences.
	"added": {"good", shapePlus}, "removed": {"bad", shapeDash}, "changed": {"run", shapeChange}, "moved": {"wait", shapeMove},
	// Of what needs attention.
	"stopping": {"wait", shapeStop}, "due": {"wait", shapeClock}, "overdue": {"bad", shapeClock}, "schedule": {"wait", shapeClock}, "monitor": {"wait", shapeWarn},
	"delivery": {"bad", shapeCross}, "subscription": {"off", shapeStop}, "stranded": {"bad", shapeWarn}, "refusal": {"bad", shapeWarn}, "superseded": {"off", shapeCheck},
	// Of limits and workers.
	"full": {"wait", shapeStop}, "free": {"good", shapeCheck}, "draining": {"wait", shapeClock},
	// Of checks.
	"problem": {"bad", shapeCross}, "not_checked": {"off", shapeDash},
	"ok": {"good", shapeCheck}, "warning": {"wait", shapeWarn}, "unknown": {"off", shapeRing},
	// Of files.
	"complete": {"good", shapeCheck}, "gone": {"off", shapeDash},
}

// badge returns the mark of a status, which is a text of any type: shape, word and colour. One that has no look is shown
// as a word.
func badge(status any) template.HTML {
	word := fmt.Sprint(status)
	l, ok := looks[word]
	if !ok {
		l = look{"off", shapeRing}
	}
	word = template.HTMLEscapeString(strings.ReplaceAll(word, "_", " "))
	return template.HTML(`<span class="badge ` + l.class + `"><svg viewBox="0 0 12 12" aria-hidden="true"><path d="` + l.path + `"/></svg>` + word + `</span>`)
}

// clip returns the first n characters of a text, and "…" if it has more.
func clip(n int, s string) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	i := 0
	for at := range s {
		if i == n {
			return s[:at] + "…"
		}
		i++
	}
	return s
}

// long reports whether a text has more than n characters.
func long(n int, s string) bool { return utf8.RuneCountInString(s) > n }

// part is what a template of parts.html is executed with, when it needs several values:
// {{template "x" part "Name" .Name "Href" .Href}}.
func part(pairs ...any) (map[string]any, error) {
	m := make(map[string]any, len(pairs)/2)
	for i := 0; i+1 < len(pairs); i += 2 {
		name, ok := pairs[i].(string)
		if !ok {
			return nil, fmt.Errorf("part: argument %d is no name", i)
		}
		m[name] = pairs[i+1]
	}
	return m, nil
}

// A turnButton is a button that switches something.
type turnButton struct{ Verb, Label string }

// turnsOf returns buttons, of verbs and labels in turn.
func turnsOf(pairs ...string) (list []turnButton) {
	for i := 0; i+1 < len(pairs); i += 2 {
		list = append(list, turnButton{pairs[i], pairs[i+1]})
	}
	return list
}
