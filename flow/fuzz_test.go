package flow_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/flow"
	"github.com/courierhq/courier/internal/reference"
)

// FuzzParse makes a list of steps of a text: one step for each byte.
func FuzzParse(f *testing.F) {
	f.Add("f.i.e.d.d.", "")
	f.Add("F.I.ED.D", "[1,2]")
	f.Add("ffffd.ddd", "[[1],[2,3]]")
	f.Add("iiieeedddxX", "context:0.x")
	f.Add("c.c.d.d.", "1")
	f.Add("cc.dd.C.d", "50%")
	f.Add("c.C.d.d", "continue")
	f.Add("fI.dd", "${context:loop.current_item}")
	f.Fuzz(func(t *testing.T, program, text string) {
		if len(program) > 200 {
			program = program[:200]
		}
		var steps []courier.StepSpec
		for _, c := range program {
			switch c {
			case 'f':
				steps = append(steps, forEach([]any{text, "y"}))
			case 'F':
				steps = append(steps, forEach(text))
			case 'c':
				steps = append(steps, each([]any{text, "y", "z"}, m{"max_failures": len(text) % 3}))
			case 'C':
				steps = append(steps, with("flow.foreach", m{"source": "[1]", "on_item_failure": text, "max_failures": text, "then": text, "continue_on": []any{text}, "after_repair": text}))
			case 'i':
				steps = append(steps, when(text, "exists", nil))
			case 'I':
				steps = append(steps, when(1, text, text))
			case 'e':
				steps = append(steps, otherwise)
			case 'd':
				steps = append(steps, end)
			default:
				steps = append(steps, courier.StepSpec{Type: string(c) + "." + text, ID: text, Name: text, Config: m{text: text}})
			}
		}
		tree, err := flow.Parse(steps)
		problems, _ := flow.Check(tree, &courier.Job{Name: "fuzz", Steps: steps}, registry())
		if err != nil {
			if !errors.Is(err, courier.ErrInvalid) || err.Error() == "" || len(problems) == 0 {
				t.Errorf("Parse() = %v; Check finds %v", err, problems)
			}
			return
		}
		if s := tree.String(); strings.Count(s, "\n") > 2*len(steps)+1 {
			t.Errorf("String() =\n%s", s)
		}
		w := walk(t, tree, courier.Position{}, values{})
		for range 10_000 {
			step, err := w.Next()
			p := w.Position()
			if err == nil && step == tree.Len() {
				if !p.Equal(courier.Position{Step: step}) {
					t.Errorf("the end is %v", p)
				}
				return
			}
			if err == nil && !tree.Works(step) || err != nil && tree.Works(step) {
				t.Errorf("Next() = %d, %v, which is a %s", step, err, tree.Spec(step).Type)
			}
			if _, err := tree.Walk(p, values{}); err != nil {
				t.Errorf("Walk(%v) = %v at a position of a walk", p, err)
			}
			if e, ok := errors.AsType[*flow.LoopError](err); ok {
				loop, ok := continuingLoop(tree, e.Step, courier.ReasonItems)
				if !ok {
					return
				}
				w.FailItem(loop)
				continue
			}
			if loop, ok := continuingLoop(tree, step, courier.ReasonInvalid); ok && (step+len(p.Loops))%3 == 0 {
				w.FailItem(loop)
				if p := w.Position(); !p.Loops[len(p.Loops)-1].ItemFailed || p.Step != tree.End(loop) {
					t.Errorf("after the failure of an item of loop %d, the walk stands at %+v", loop, p)
				}
				continue
			}
			w.Advance()
		}
	})
}

// FuzzReference checks that references are read as they are written, and that
// the text of a value is no reference.
func FuzzReference(f *testing.F) {
	for _, s := range []string{"0.file", "get.file_list[2].name", `a.b["c.d"].2`, "loop.0.current_item", "0.", ".x", "0.x[", `0.x["\u0041"]`, "0.x[007]", "context:0.x"} {
		f.Add(s, "context:0.x")
	}
	f.Fuzz(func(t *testing.T, key, value string) {
		ref, err := reference.Parse(key)
		if err != nil {
			return
		}
		if ref.String() != key {
			t.Errorf("String() of %q is %q", key, ref.String())
		}
		again, err := reference.Parse(ref.String())
		if err != nil || !reflect.DeepEqual(ref, again) {
			t.Errorf("%q is %+v, then %+v, %v", key, ref, again, err)
		}
		// A value that is found by following the path is put in as it is.
		var v any = value
		for i := len(ref.Path) - 1; i >= 0; i-- {
			if seg := ref.Path[i]; seg.Name == "" && seg.Index >= 0 {
				if seg.Index > 100 {
					return
				}
				list := make([]any, seg.Index+1)
				list[seg.Index] = v
				v = list
			} else {
				v = m{seg.Name: v}
			}
		}
		scope := courier.Values{ref.Head + "." + ref.Name: v}
		got, err := ref.Resolve(scope)
		if err != nil || got != value {
			t.Errorf("Resolve(%q) = %q, %v, want %q", key, got, err, value)
		}
		text, err := flow.Expand("context:"+key, scope)
		if err != nil || text != value {
			t.Errorf("Expand(%q) = %q, %v, want %q", key, text, err, value)
		}
		// Resolving what came out, taken for a literal, changes nothing.
		if twice, err := flow.Expand(flow.Escape(text), scope); err != nil || twice != text {
			t.Errorf("the second time %q is %q, %v", text, twice, err)
		}
	})
}

// FuzzTemplate checks that what is rendered is valid JSON with the values as
// they are.
func FuzzTemplate(f *testing.F) {
	for _, s := range []string{"x", "context:0.v", "a${context:0.v}b", "secret:s", "$${context:0.v}", "$context:x", `${context:0["v"]}`, "\u2028<&>\x7f", "${context:0.v}${context:0.v}", "$$$${${"} {
		f.Add(s, "${context:0.v}")
		f.Add(s, "secret:s")
		f.Add(s, `"\ `)
	}
	f.Fuzz(func(t *testing.T, text, value string) {
		tmpl, problems := flow.Compile(m{"f": text, "list": []any{m{"x": text}}, "e": flow.Escape(text)})
		scope := courier.Values{"0.v": value}
		raw, err := tmpl.Render(nil, scope, func(_, _ string) (string, error) { return value, nil })
		storable := utf8.ValidString(value) && !strings.Contains(value, "\x00")
		if len(problems) > 0 || err != nil {
			if len(problems) == 0 && storable && !errors.Is(err, courier.ErrNotFound) {
				t.Errorf("Render(%q) = %v", text, err)
			}
			return
		}
		var got struct {
			F    string
			E    string
			List []struct{ X string }
		}
		if err := json.Unmarshal(raw, &got); err != nil {
			t.Fatalf("Render(%q) = %s: %v", text, raw, err)
		}
		want, err := flow.Expand(text, scope)
		if len(tmpl.Secrets()) > 0 {
			want, err = value, nil
		}
		if err != nil || got.F != want || got.List[0].X != want || got.E != text {
			t.Errorf("Render(%q) with %q = %s, Expand = %q, %v", text, value, raw, want, err)
		}
		// A reference is not made by what surrounds it and the value together.
		if !strings.Contains(text, "context:") && !strings.HasPrefix(text, "secret:") && !tmpl.Static() {
			t.Errorf("%q is not static", text)
		}
		marked, err := flow.Expand(text, courier.Values{"0.v": "\ue000"})
		if err == nil && !strings.Contains(text, "\ue000") && len(tmpl.Secrets()) == 0 && strings.ReplaceAll(marked, "\ue000", value) != want {
			t.Errorf("%q with %q is %q, but the places are %q", text, value, want, marked)
		}
	})
}
