package flow

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/jsontext"
)

// maxLabel is how many bytes a label has at most.
const maxLabel = 200

// configLabel is where the references of a label stand.
const configLabel = "config." + fieldLabel

// label reads the label that a flow.foreach gives its items.
func (p *parser) label(i int, t *Template, b *block) {
	o, given := p.operand(i, t, fieldLabel)
	if _, isText := t.config[fieldLabel].(string); given && t.config[fieldLabel] != nil && !isText {
		p.problem(i, configLabel, `must be a text, such as "${context:loop.current_item.path}"`)
	} else if given && isText {
		b.label = &o
	}
}

// ofLabel reports whether the reference stands in the label of a loop, which is made inside
// of it.
func (u *use) ofLabel() bool {
	return u.Field == configLabel && !u.ofJob() && u.tree.entries[u.step].kind == openForEach
}

// checkLabel checks the references in the label of the loop at entry i. A label is made
// whenever it is needed, so it has only values that an iteration has from its beginning.
func (c *checker) checkLabel(i int) {
	for _, ref := range c.tree.Template(i).refs {
		u := use{checker: c, step: i, FieldReference: ref, mayMiss: true}
		switch {
		case !u.ofLabel():
		case ref.Ref.Head != headLoop && ref.Ref.Head != headParams:
			u.problem("can't be used in a label; use loop.current_item, loop.index or params.*")
		default:
			u.schema()
		}
	}
}

// Labels returns the labels of the current items of the open loops, outermost first; nil
// outside loops. Clean removes from a label what must not be shown, before it is cut to 200
// bytes; nil leaves it as it is.
//
// The label of an item is that of its flow.foreach, or by default: its name, or else the
// last part of its path, or the item itself if it is a text or a number, or its index. A
// label that can't be made is the index too; the error says why.
func (w *Walk) Labels(clean func(string) string) ([]string, error) {
	if len(w.loops) == 0 {
		return nil, nil
	}
	list := make([]string, len(w.loops))
	var errs []error
	for i := range list {
		text, err := w.label(i)
		if err != nil {
			errs = append(errs, &EvalError{Step: w.loops[i].block.open, Field: fieldLabel, Err: err, typ: TypeForEach})
		}
		if clean != nil {
			text = clean(text)
		}
		if list[i] = cutLabel(text); list[i] == "" {
			list[i] = number(w.loops[i].index).String()
		}
	}
	return list, errors.Join(errs...)
}

// shownLabel is the label of the item of an open loop, as references get it.
func (w *Walk) shownLabel(depth int) string {
	text, _ := w.label(depth)
	if text = cutLabel(text); text == "" {
		text = number(w.loops[depth].index).String()
	}
	return text
}

// LabelOf returns the label of an item of the list of a loop outside of other loops, given the
// values in scope somewhere behind its flow.foreach; see [Walk.Labels].
func (t *Tree) LabelOf(marker int, list []any, index int, values courier.Scope) string {
	b := t.loopAt(marker)
	if b == nil || b.depth != 1 || index < 0 || index >= len(list) {
		return ""
	}
	w := Walk{tree: t, values: scoped{values}, step: marker + 1, loops: []frame{{block: b, items: list, index: index}}}
	return w.shownLabel(0)
}

// scoped are values that nothing changes.
type scoped struct{ courier.Scope }

func (scoped) Forget(int, int)                     {}
func (scoped) SetNull(int, int)                    {}
func (scoped) LoopEnded(int, []int, int, int, int) {}

// label makes the label of the item of an open loop. It is empty if there is none but the
// index.
func (w *Walk) label(depth int) (string, error) {
	f := &w.loops[depth]
	item := f.items[f.index]
	if f.block.label == nil {
		return itemName(item), nil
	}
	inside := Walk{tree: w.tree, values: w.values, step: f.block.open + 1, loops: w.loops[: depth+1 : depth+1]}
	v, err := f.block.label.eval(&inside)
	if err != nil {
		return "", fmt.Errorf("%w; the item is named by its index", err)
	}
	return jsontext.Text(v), nil
}

// itemName is the name that an item has of itself; empty if it has none.
func itemName(item any) string {
	switch v := item.(type) {
	case string:
		return v
	case json.Number:
		return v.String()
	case map[string]any:
		if name, ok := v["name"].(string); ok && name != "" {
			return name
		}
		if path, ok := v["path"].(string); ok {
			path = strings.TrimRight(path, `/\`)
			return path[strings.LastIndexAny(path, `/\`)+1:]
		}
	}
	return ""
}

// cutLabel cuts a label to its greatest length, between characters.
func cutLabel(s string) string {
	if len(s) > maxLabel {
		n := maxLabel
		for n > maxLabel-utf8.UTFMax && !utf8.RuneStart(s[n]) {
			n--
		}
		s = s[:n]
	}
	return s
}

// NameOf returns the label and the index of the item of the loop with a marker, given those
// of all loops around an entry in it. Labels are nil if they are not known.
func (t *Tree) NameOf(marker int, labels []string, iteration []int) (label string, index int) {
	d := len(t.Loops(marker))
	if d >= len(iteration) {
		return "", -1
	}
	if d < len(labels) {
		label = labels[d]
	}
	return label, iteration[d]
}
