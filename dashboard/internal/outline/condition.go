package outline

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/dashboard/internal/format"
	"github.com/courierhq/courier/flow"
	"github.com/courierhq/courier/internal/jsontext"
)

// decide records the result of a condition, and the values that decided it.
func (b *builder) decide(r *Row) {
	if r.State == string(flow.OutlinePending) || r.Dim {
		return
	}
	end, then, otherwise := b.tree.End(r.Step), "", ""
	for i := r.Step + 1; i < end; i++ {
		switch k := b.rows[i]; {
		case k == nil || k.parent != r.Step:
		case strings.EqualFold(k.Type, flow.TypeElse):
			otherwise = k.State
		case otherwise == "" && (then == "" || then == string(flow.OutlineNotTaken)):
			then = k.State
		}
	}
	holds := "true"
	if then == string(flow.OutlineNotTaken) || then == "" && otherwise != string(flow.OutlineNotTaken) {
		holds = "false"
	}
	r.Decided = "is " + holds
	if text, ok := b.evaluated(r); ok {
		r.Decided = text + " is " + holds
	}
}

// evaluated returns the condition with its references replaced by values.
func (b *builder) evaluated(r *Row) (string, bool) {
	if b.values == nil {
		return "", false
	}
	t, problems := flow.Compile(r.config(b.tree))
	if len(problems) > 0 {
		return "", false
	}
	text, err := t.Render(nil, b.scope(r), nil)
	if err != nil {
		return "", false // the values are no longer in scope
	}
	var c map[string]json.RawMessage
	if json.Unmarshal(text, &c) != nil {
		return "", false
	}
	parts := []string{format.Clip(80, string(c["left"]))}
	var op string
	if json.Unmarshal(c["operator"], &op) == nil {
		parts = append(parts, operatorText(op))
	}
	if right, ok := c["right"]; ok {
		parts = append(parts, format.Clip(80, string(right)))
	}
	return strings.Join(parts, " "), true
}

// scope returns the values that a condition used, as far as they still exist. For another item than
// the present one these are the outputs of the item's own records, and the item itself.
func (b *builder) scope(r *Row) courier.Values {
	loops := b.tree.Loops(r.Step)
	path := b.shownPath(loops)
	if len(loops) == 0 || b.isPresent(path) {
		return b.values
	}
	s := make(courier.Values, len(b.values))
	for key, v := range b.values {
		if !strings.HasPrefix(key, "loop.") {
			s[key] = v
		}
	}
	for step, list := range b.shown {
		for i := range list {
			if !within(path, list[i].Iteration) {
				continue // the record belongs to an item that does not contain the condition
			}
			outputs, err := decodeObject(list[i].Outputs)
			if err != nil {
				continue
			}
			for name, v := range outputs {
				s[strconv.Itoa(step)+"."+name] = v
				if id := list[i].ID; id != "" {
					s[id+"."+name] = v
				}
			}
		}
	}
	at := path[len(path)-1]
	s["loop.index"] = json.Number(strconv.Itoa(at))
	if list := b.source(loops[len(loops)-1]); at < len(list) {
		s["loop.current_item"] = list[at]
	}
	return s
}

// source returns the list of a loop that is not nested, if it is still known.
func (b *builder) source(loop int) []any {
	if list, known := b.sources[loop]; known {
		return list
	}
	if b.sources == nil {
		b.sources = make(map[int][]any)
	}
	b.sources[loop] = nil
	if len(b.tree.Loops(loop)) > 0 {
		return nil // the list may differ in each item of the loop around it
	}
	t, problems := flow.Compile(map[string]any{"source": b.tree.Spec(loop).Config["source"]})
	text, err := t.Render(nil, b.values, nil)
	if len(problems) > 0 || err != nil {
		return nil
	}
	if m, err := decodeObject(text); err == nil {
		b.sources[loop], _ = m["source"].([]any)
	}
	return b.sources[loop]
}

// decodeObject returns the values of a JSON object. Numbers keep their digits.
func decodeObject(raw json.RawMessage) (map[string]any, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	var m map[string]any
	err := jsontext.DecodeStrict(raw, &m)
	return m, err
}

// config returns the configuration of the row's entry.
func (r *Row) config(t *flow.Tree) map[string]any { return t.Spec(r.Step).Config }

// conditionText returns a condition as it is written in the definition.
func conditionText(config map[string]any) string {
	text := operandText(config["left"]) + " " + operatorText(fmt.Sprint(config["operator"]))
	if right, ok := config["right"]; ok {
		text += " " + operandText(right)
	}
	return text
}

// operatorText returns an operator in words.
func operatorText(op string) string { return strings.ReplaceAll(op, "_", " ") }

// operandText returns an operand as it is written in the definition, without the marker of a
// reference.
func operandText(v any) string {
	if s, ok := v.(string); ok {
		if key, ok := strings.CutPrefix(s, "context:"); ok {
			return format.Clip(120, key)
		}
	}
	if list, ok := v.([]any); ok {
		return fmt.Sprintf("a list of %s", format.Count(len(list)))
	}
	text, err := json.Marshal(v)
	if err != nil {
		return "?"
	}
	return format.Clip(120, string(text))
}
