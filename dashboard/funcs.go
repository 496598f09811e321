package dashboard

import (
	"fmt"
	"html/template"

	"github.com/courierhq/courier/dashboard/internal/format"
)

// funcs are the functions of templates. What they return as HTML has nothing in it that came
// from outside.
var funcs = template.FuncMap{
	"time":  format.Time,
	"took":  format.Took,
	"size":  format.Size,
	"count": format.Count,
	"badge": format.Badge,
	"clip":  format.Clip,
	"long":  format.Long,
	"part":  part,
	"turns": turnsOf,
}

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
