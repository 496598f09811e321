package desk_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier/advice"
	"github.com/courierhq/courier/internal/desk"
)

// TestNewFieldsAreHidden fills values of all types whose values are hidden, with something
// in every field, also of what they refer to, and hides the values. What is left are fields
// that the literal of their type in hide.go names. A field that is not copied as it is has
// lost its value. So a field that a type gets is hidden, or named there.
func TestNewFieldsAreHidden(t *testing.T) {
	seen, functions := literals(t)
	met := make(map[string]bool)
	for name, hide := range map[string]any{
		"HideValues": desk.HideValues, "HideStep": desk.HideStep, "HideEvents": desk.HideEvents, "HideEntry": desk.HideEntry,
		"HideChain": desk.HideChain, "HideCause": desk.HideCause, "HideSchedule": desk.HideSchedule, "HideMonitor": desk.HideMonitor,
		"HideSubscription": desk.HideSubscription, "HideDelivery": desk.HideDelivery, "HideAttention": desk.HideAttention,
		"HideExpectation": desk.HideExpectation, "HideArrival": desk.HideArrival, "HideKept": desk.HideKept, "HideItem": desk.HideItem, "HideRefused": desk.HideRefused, "HideMaintenance": desk.HideMaintenance,
	} {
		delete(functions, name)
		f := reflect.ValueOf(hide)
		full, rest := reflect.New(f.Type().In(0)).Elem(), reflect.New(f.Type().In(0)).Elem()
		fill(t, full, name)
		fill(t, rest, name)
		if rest.Kind() == reflect.Pointer {
			before, shallow := text(t, rest), reflect.New(rest.Type().Elem())
			shallow.Elem().Set(rest.Elem())
			if f.Call([]reflect.Value{shallow}); text(t, rest) != before {
				t.Errorf("%s changes more than the value that it is given: what others refer to as well", name)
			}
		}
		f.Call([]reflect.Value{rest})
		compare(t, seen, met, name, full, rest)
	}
	for name := range functions {
		t.Errorf("hide.go has %s, which the test does not call", name)
	}
	for name := range seen {
		if !met[name] {
			t.Errorf("hide.go has a literal of %s, of which nothing is left in any value", name)
		}
	}
}

// literals returns the fields that the literals in hide.go name, by type, and whether each
// is copied as it is; and the names of the functions that hide values.
func literals(t *testing.T) (seen map[string]map[string]bool, functions map[string]bool) {
	file, err := parser.ParseFile(token.NewFileSet(), "hide.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	seen, functions = make(map[string]map[string]bool), make(map[string]bool)
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if strings.HasPrefix(n.Name.Name, "Hide") && n.Type.Results == nil {
				functions[n.Name.Name] = true
			}
		case *ast.CompositeLit:
			name := ""
			switch typ := n.Type.(type) {
			case *ast.Ident:
				name = "desk." + typ.Name
			case *ast.SelectorExpr:
				name = typ.X.(*ast.Ident).Name + "." + typ.Sel.Name
			default: // of a list or map
				return true
			}
			if seen[name] != nil {
				t.Errorf("hide.go has two literals of %s: what is seen of it is to be written once", name)
			}
			seen[name] = make(map[string]bool)
			for _, e := range n.Elts {
				pair, named := e.(*ast.KeyValueExpr)
				if !named {
					t.Fatalf("hide.go has a literal of %s without names of fields", name)
				}
				key := pair.Key.(*ast.Ident).Name
				from, is := pair.Value.(*ast.SelectorExpr)
				seen[name][key] = is && from.Sel.Name == key
			}
		}
		return true
	})
	return seen, functions
}

// ours reports whether t is a struct of the project, whose fields count one by one.
func ours(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && strings.HasPrefix(t.PkgPath(), "github.com/courierhq/courier")
}

// holdsOurs reports whether values of a type refer to structs of the project.
func holdsOurs(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return holdsOurs(t.Elem())
	}
	return ours(t)
}

const filled = "something filled in"

// fill puts something into a value, and into all that it can refer to.
func fill(t *testing.T, v reflect.Value, at string) {
	t.Helper()
	if len(at) > 300 {
		t.Fatalf("%s: a type refers to itself: bound what the test fills in", at)
	}
	switch {
	case v.Type() == reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(time.Unix(1, 0)))
		return
	case v.Type() == reflect.TypeFor[json.RawMessage]():
		v.SetBytes([]byte(`"` + filled + `"`))
		return
	case ours(v.Type()):
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if !f.IsExported() {
				t.Fatalf("%s.%s is not exported: the test can't fill it", at, f.Name)
			}
			fill(t, v.Field(i), at+"."+f.Name)
		}
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(filled)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(1)
	case reflect.Float32, reflect.Float64:
		v.SetFloat(1)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem(), at)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(t, v.Index(0), at)
		fill(t, v.Index(1), at)
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(t, key, at)
		fill(t, value, at)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Interface:
		if v.NumMethod() > 0 {
			t.Fatalf("%s is a %s: say here what to fill in", at, v.Type())
		}
		v.Set(reflect.ValueOf(filled))
	default:
		t.Fatalf("%s is a %s: say here what to fill in", at, v.Type())
	}
}

// compare looks for what is left, in rest, of what was in full.
func compare(t *testing.T, seen map[string]map[string]bool, met map[string]bool, at string, full, rest reflect.Value) {
	t.Helper()
	if rest.IsZero() {
		return
	}
	switch rest.Kind() {
	case reflect.Pointer:
		compare(t, seen, met, at, full.Elem(), rest.Elem())
		return
	case reflect.Slice:
		for i := range rest.Len() {
			compare(t, seen, met, at, full.Index(i), rest.Index(i))
		}
		return
	case reflect.Map:
		for _, key := range rest.MapKeys() {
			compare(t, seen, met, at, full.MapIndex(key), rest.MapIndex(key))
		}
		return
	}
	fields := seen[rest.Type().String()]
	met[rest.Type().String()] = true
	if fields == nil {
		t.Errorf("%s is seen whole: hide.go has no literal of %s that says which of its fields are seen", at, rest.Type())
		return
	}
	for i := range rest.NumField() {
		f := rest.Type().Field(i)
		name, was, is := at+"."+f.Name, full.Field(i), rest.Field(i)
		copied, named := fields[f.Name]
		switch {
		case holdsOurs(f.Type) && (named || is.IsZero()):
			compare(t, seen, met, name, was, is)
		case copied && !reflect.DeepEqual(was.Interface(), is.Interface()):
			t.Errorf("%s is %v, and not the %v that hide.go copies", name, is, was)
		case !named && !is.IsZero():
			t.Errorf("%s is seen, and hide.go does not name the field of %s: its literal names what is seen", name, rest.Type())
		case named && !copied && hasValue(t, is):
			t.Errorf("%s has its value, which hide.go is to take away: %v", name, is)
		}
	}
}

// hasValue reports whether what was filled in is in v. The keys of a map don't count.
func hasValue(t *testing.T, v reflect.Value) bool {
	t.Helper()
	if v.Kind() != reflect.Map {
		return strings.Contains(text(t, v), filled)
	}
	return slices.ContainsFunc(v.MapKeys(), func(key reflect.Value) bool { return hasValue(t, v.MapIndex(key)) })
}

func text(t *testing.T, v reflect.Value) string {
	t.Helper()
	b, err := json.Marshal(v.Interface())
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// A cause that tells nothing of a person, a step or a key of a limit stays as it is.
func TestCausesThatStay(t *testing.T) {
	c := advice.Cause{Kind: advice.Limit, Text: `The limit of "job:a" is full.`, Scope: "job:a", Limit: 1, Running: 1, Do: "Wait."}
	was := c
	if desk.HideCause(&c); c != was {
		t.Errorf("got %+v, want %+v", c, was)
	}
}
