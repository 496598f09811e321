package dashboard

import (
	"fmt"
	"html/template"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/advice"
	"github.com/courierhq/courier/dashboard/internal/format"
)

// funcs are the functions of templates. The HTML that they return contains no text from outside.
var funcs = template.FuncMap{
	"time":  format.Time,
	"took":  format.Took,
	"size":  format.Size,
	"count": format.Count,
	"badge": format.Badge,
	"chip":  format.Chip,
	"clip":  format.Clip,
	"id":    format.ID,
	"words": format.Reason,
	"said":  format.Said,
	"event": format.Event[courier.EventType],
	"long":  format.Long,
	"part":  part,
	"turns": turnsOf,

	"plural":  format.Plural,
	"instant": instantOf,
}

// A causeInstant is a cause that ends with an instant. The page shows the instant after the text.
type causeInstant struct {
	Text string
	At   time.Time
}

// instantOf returns a cause in other words if its text contains an instant, or repeats other parts
// of the page. For other causes the text is empty.
func instantOf(c advice.Cause) causeInstant {
	switch {
	case c.Kind == advice.Backoff:
		return causeInstant{"The next attempt starts at", c.Until}
	case c.Kind == advice.Due:
		return causeInstant{"It is due at", c.Until}
	case c.Kind == advice.Files && c.Until.IsZero():
		return causeInstant{"Its files in the depot expired and were removed at", c.Since}
	case c.Kind == advice.Files:
		return causeInstant{"Its files in the depot are kept until", c.Until}
	}
	return causeInstant{}
}

// part returns the data of a template of parts.html that needs several values: {{template "x" part
// "Name" .Name "Href" .Href}}.
func part(pairs ...any) (map[string]any, error) {
	m := make(map[string]any, len(pairs)/2)
	for i := 0; i+1 < len(pairs); i += 2 {
		name, ok := pairs[i].(string)
		if !ok {
			return nil, fmt.Errorf("part: argument %d is not a name", i)
		}
		m[name] = pairs[i+1]
	}
	return m, nil
}

// A turnButton is a button that changes the state of something.
type turnButton struct{ Verb, Label string }

// turnsOf returns buttons. Pairs are their verbs and labels in turn.
func turnsOf(pairs ...string) (list []turnButton) {
	for i := 0; i+1 < len(pairs); i += 2 {
		list = append(list, turnButton{pairs[i], pairs[i+1]})
	}
	return list
}
