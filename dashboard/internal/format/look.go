package format

import (
	"fmt"
	"html/template"
	"strings"
	"unicode"

	"github.com/courierhq/courier"
)

// A Look is the appearance of a status: a shape and a class of colour, beside its word.
type Look struct{ Class, Path string }

// The shapes, on a field of 12 by 12.
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

// looks are the looks of all words for a status.
var looks = map[string]Look{
	"created": {"idle", shapeRing}, "queued": {"idle", shapeRing}, "scheduled": {"idle", shapeClock}, "waiting": {"wait", shapeClock},
	"running": {"run", shapePlay}, "lost": {"bad", shapeWarn}, "pausing": {"wait", shapeBars}, "cancelling": {"wait", shapeStop}, "finishing": {"run", shapeDash},
	"paused": {"wait", shapeBars}, "completed": {"good", shapeCheck}, "failed": {"bad", shapeCross}, "cancelled": {"off", shapeStop},
	// Of steps, iterations and branches.
	"pending": {"idle", shapeRing}, "not_run": {"off", shapeDash}, "items_failed": {"wait", shapeWarn}, "retrying": {"wait", shapeClock}, "skipped": {"off", shapeDash}, "interrupted": {"wait", shapeChange}, "not_taken": {"off", shapeDash},
	// Of schedules, monitors, subscriptions and deliveries.
	"active": {"good", shapePlay}, "enabled": {"good", shapeCheck}, "disabled": {"off", shapeStop}, "degraded": {"wait", shapeWarn}, "late": {"bad", shapeClock},
	"delivered": {"good", shapeCheck}, "error": {"bad", shapeCross},
	// Of days of expectations.
	"upcoming": {"idle", shapeRing}, "due_soon": {"wait", shapeClock}, "arrived": {"good", shapeCheck}, "incomplete": {"bad", shapeWarn}, "missing": {"bad", shapeCross},
	"excused": {"off", shapeDash},
	// Of entries in the journal.
	"asked": {"idle", shapeRing}, "done": {"good", shapeCheck}, "unchanged": {"off", shapeDash}, "refused": {"bad", shapeCross},
	// Of differences.
	"added": {"good", shapePlus}, "removed": {"bad", shapeDash}, "changed": {"run", shapeChange}, "moved": {"wait", shapeMove},
	// Of entries that need attention.
	"stopping": {"wait", shapeStop}, "due": {"wait", shapeClock}, "overdue": {"bad", shapeClock}, "schedule": {"wait", shapeClock}, "missing_file": {"bad", shapeCross}, "due_file": {"wait", shapeClock}, "expectation": {"wait", shapeWarn}, "monitor": {"wait", shapeWarn},
	"delivery": {"bad", shapeCross}, "subscription": {"off", shapeStop}, "stranded": {"bad", shapeWarn}, "refusal": {"bad", shapeWarn}, "superseded": {"off", shapeCheck}, "put_away": {"off", shapeStop},
	// Of limits and workers.
	"full": {"wait", shapeStop}, "free": {"good", shapeCheck}, "draining": {"wait", shapeClock},
	// Of checks.
	"problem": {"bad", shapeCross}, "not_checked": {"off", shapeDash},
	"ok": {"good", shapeCheck}, "warning": {"wait", shapeWarn}, "unknown": {"off", shapeRing},
	// Of files.
	"complete": {"good", shapeCheck}, "gone": {"off", shapeDash},
}

// LookOf returns the look of a status. Without a look of its own, a status has the look of "off".
func LookOf(status string) Look {
	if l, ok := looks[status]; ok {
		return l
	}
	return Look{"off", shapeRing}
}

// Words returns the name of a state or a reason in words: "items failed" for "items_failed".
func Words[T ~string](name T) string { return strings.ReplaceAll(string(name), "_", " ") }

// Reason returns a reason in words, with its name in the engine as the title.
func Reason(r courier.Reason) template.HTML { return titled(string(r), r.Words()) }

// Said returns a word of the engine in the form for people, with the word itself as the title:
// "queue one" for "queue_one".
func Said(word any) template.HTML {
	name := fmt.Sprint(word)
	return titled(name, Words(name))
}

// Event returns the type of an event in words: "job failed" for "JobFailed".
func Event[T ~string](name T) string {
	var b strings.Builder
	lower := false // the previous character is a small letter
	for _, r := range string(name) {
		if lower && unicode.IsUpper(r) {
			b.WriteByte(' ')
		}
		lower = unicode.IsLower(r)
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// titled returns a text with a title, unless the title is the text itself.
func titled(title, text string) template.HTML {
	if title == text {
		return template.HTML(template.HTMLEscapeString(text))
	}
	return template.HTML(`<span title="` + template.HTMLEscapeString(title) + `">` + template.HTMLEscapeString(text) + `</span>`)
}

// Badge returns the mark of a status: shape, word and colour. Status may have any type of text. The
// word is the status itself, unless another one is given.
func Badge(status any, words ...string) template.HTML {
	name := fmt.Sprint(status)
	word := strings.Join(words, " ")
	if word == "" {
		word = Words(name)
	}
	return symbol(name, "", template.HTMLEscapeString(word))
}

// Chip returns the mark of a status without a visible word. Screen readers still read the word.
func Chip(status any) template.HTML {
	name := fmt.Sprint(status)
	word := template.HTMLEscapeString(Words(name))
	return symbol(name, " chip", `<span class="hidden">`+word+`</span>`)
}

// symbol returns the mark of a status, with additional classes and the text after the shape.
func symbol(status, classes, after string) template.HTML {
	l := LookOf(status)
	return template.HTML(`<span class="badge ` + l.Class + classes + `"><svg viewBox="0 0 12 12" aria-hidden="true"><path d="` + l.Path + `"/></svg>` + after + `</span>`)
}
