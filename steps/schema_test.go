package steps_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/courierhq/courier/engine/dryrun"
	"github.com/courierhq/courier/internal/jsontext"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/couriertest"
)

// A violation is a configuration with values that a type's schema does not permit.
type violation struct {
	what   string
	set    map[string]any // fields to set; a nil value leaves the field out
	field  string         // what a definition's problem is about
	naming []string       // what the message says besides
}

// violations returns a violation for each permitted list of values, bound and group
// of s, which is at the path of names above.
func violations(s *courier.Schema) (all []violation) {
	for _, p := range s.Properties {
		for field, v := range wrong(p.Schema, p.Name) {
			all = append(all, violation{"value of " + field, map[string]any{p.Name: v}, "config." + field, nil})
		}
	}
	for _, g := range s.Groups {
		full, none := map[string]any{}, map[string]any{}
		for _, name := range g.Fields {
			p, _ := s.Property(name)
			full[name], none[name] = some(p.Schema), nil
		}
		if g.Kind != "any_of" {
			all = append(all, violation{"all of " + g.Name, full, "config", append(slices.Clone(g.Fields), "only one")})
		}
		if g.Kind != "at_most_one" {
			all = append(all, violation{"none of " + g.Name, none, "config", append(slices.Clone(g.Fields), "one of")})
		}
	}
	return all
}

// wrong returns values that s does not permit, by the fields that they have inside.
// The keys end with marks that tell several for one field.
func wrong(s *courier.Schema, name string) map[string]any {
	all := make(map[string]any)
	add := func(field string, v any) {
		for all[field] != nil {
			field += " "
		}
		all[field] = v
	}
	if len(s.Enum) > 0 {
		add(name, "nonsense")
	}
	for bound, by := range map[json.Number]int64{s.Min: -1, s.Max: 1} {
		if r, ok := new(big.Rat).SetString(bound.String()); ok {
			r.Add(r, big.NewRat(by, 1))
			text := r.FloatString(3)
			if r.IsInt() {
				text = r.Num().String()
			}
			add(name, json.Number(text))
		}
	}
	if s.Items != nil {
		for field, v := range wrong(s.Items, name+"[0]") {
			add(field, []any{v})
		}
	}
	for _, p := range s.Properties {
		for field, v := range wrong(p.Schema, name+"."+p.Name) {
			add(field, map[string]any{p.Name: v})
		}
	}
	return all
}

// some returns a value that s permits.
func some(s *courier.Schema) any {
	switch {
	case len(s.Enum) > 0:
		return s.Enum[0]
	case s.Type == "array":
		return []any{some(s.Items)}
	case s.Type == "boolean":
		return true
	case s.Type == "integer" || s.Type == "number":
		return json.Number("1")
	}
	return "x"
}

// sound returns the example of a type's configuration without references.
func sound(t *testing.T, typ *courier.StepType, example json.RawMessage) map[string]any {
	t.Helper()
	v, err := jsontext.Parse(example)
	if err != nil {
		t.Fatal(err)
	}
	config := v.(map[string]any)
	for name, v := range config {
		if p, _ := typ.Config().Property(name); strings.Contains(fmt.Sprint(v), "context:") || strings.Contains(fmt.Sprint(v), "secret:") {
			config[name] = some(p.Schema)
		}
	}
	return config
}

// withFields returns a configuration with other fields.
func withFields(config, set map[string]any) map[string]any {
	config = maps.Clone(config)
	maps.Copy(config, set)
	maps.DeleteFunc(config, func(_ string, v any) bool { return v == nil })
	return config
}

// Each value that a type's schema does not permit, and each group with too few or
// too many fields, is reported with the field's name when a job is defined, also
// where another field is a reference; and by a dry run and an execution, for good,
// where references bring it.
func TestSchemaIsCheckedEverywhere(t *testing.T) {
	h := couriertest.New(t, nil)
	registerAll(h.Registry)
	shown, count := examples(t), 0
	for _, key := range h.Registry.Keys() {
		typ, _ := h.Registry.Lookup(key)
		if typ.Key() != key {
			continue
		}
		base := sound(t, typ, shown[key])
		if p := typ.Check(base, true); len(p) > 0 {
			t.Errorf("%s: %v", key, p)
			continue
		}
		for _, v := range violations(typ.Config()) {
			count++
			t.Run(key+"/"+v.what, func(t *testing.T) {
				checkDefined(t, h, typ, base, v)
				checkRendered(t, h, typ, base, v)
			})
		}
	}
	if count < 100 {
		t.Errorf("only %d configurations were tried", count)
	}
}

// checkDefined has a job with a literal violation checked, alone and beside a
// reference.
func checkDefined(t *testing.T, h *couriertest.Harness, typ *courier.StepType, base map[string]any, v violation) {
	t.Helper()
	bad := withFields(base, v.set)
	if p := typ.Check(bad, true); !names(p, v) {
		t.Errorf("Check reports %v", p)
	}
	for _, p := range typ.Config().Properties {
		if _, taken := v.set[p.Name]; taken || p.Schema.Type != "string" || slices.ContainsFunc(typ.Config().Groups, func(g courier.Group) bool { return slices.Contains(g.Fields, p.Name) }) {
			continue
		}
		bad[p.Name] = "context:params.other"
		_, err := h.Engine.Jobs().Define(t.Context(), courier.Job{Name: "bad", Params: map[string]any{"other": "y"}, Steps: []courier.StepSpec{{Type: typ.Key(), Config: bad}}}, nil)
		if def, ok := errors.AsType[*courier.DefinitionError](err); !ok || !names(def.Problems, v) {
			t.Errorf("Define beside a reference in %s: %v", p.Name, err)
		}
		return
	}
	t.Error("there is no field for a reference")
}

// names reports whether one of the problems is about the violation.
func names(list []courier.Problem, v violation) bool {
	return slices.ContainsFunc(list, func(p courier.Problem) bool {
		return p.Field == strings.TrimSpace(v.field) && says(p.Message, v.naming)
	})
}

func says(message string, all []string) bool {
	return !slices.ContainsFunc(all, func(s string) bool { return !strings.Contains(message, s) })
}

// checkRendered has a dry run and an execution meet a violation that references
// bring.
func checkRendered(t *testing.T, h *couriertest.Harness, typ *courier.StepType, base map[string]any, v violation) {
	t.Helper()
	set, params := map[string]any{}, map[string]any{}
	for name, x := range v.set {
		set[name] = "context:params." + name
		if params[name] = x; x == nil {
			params[name] = ""
			if p, _ := typ.Config().Property(name); p.Schema.Type == "array" {
				params[name] = []any{}
			}
		}
	}
	job := courier.Job{Name: "late", Params: params, Steps: []courier.StepSpec{{Type: typ.Key(), Config: withFields(base, set)}}}
	want := append([]string{"config: "}, v.naming...)
	if v.field != "config" {
		want = append(want, strings.TrimPrefix(strings.TrimSpace(v.field), "config.")+": ")
	}
	report, err := h.Engine.Jobs().DryRun(t.Context(), job, &dryrun.Options{Params: params})
	if err != nil || report.OK() || !says(report.String(), want[1:]) {
		t.Errorf("a dry run says %v, %v; want %q", report, err, want)
	}
	got := h.Run(job, params)
	if got.State != courier.Failed || !courier.IsPermanent(got.Err) || !says(got.Err.Error(), want) {
		t.Errorf("the execution is %s: %v; want %q", got.State, got.Err, want)
	}
}
