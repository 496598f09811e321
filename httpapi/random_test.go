package httpapi_test

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/calendar"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/expectation"
	"github.com/courierhq/courier/httpapi"
	"github.com/courierhq/courier/internal/test/raced"
	"github.com/courierhq/courier/monitor"
	"github.com/courierhq/courier/notify"
	"github.com/courierhq/courier/schedule"
)

// randomValues makes random values of types, the same ones each time.
type randomValues struct {
	*rand.Rand
	depth int
}

// definitions are values of types whose schemas say more than what their Go types hold: those
// that fit the schemas for editors.
var definitions = sync.OnceValue(func() map[reflect.Type][]reflect.Value {
	kinds := map[string]reflect.Type{
		"job": reflect.TypeFor[courier.Job](), "chain": reflect.TypeFor[chain.Chain](), "schedule": reflect.TypeFor[schedule.Schedule](),
		"monitor": reflect.TypeFor[monitor.Monitor](), "subscription": reflect.TypeFor[notify.Subscription](), "calendar": reflect.TypeFor[calendar.Calendar](),
		"expectation": reflect.TypeFor[expectation.Expectation](),
	}
	found := map[reflect.Type][]reflect.Value{
		reflect.TypeFor[chain.Dependency](): {reflect.ValueOf(chain.Dependency{Member: "a", RequiredStatus: courier.RequireAny})},
	}
	text, err := os.ReadFile("../jsonschema/testdata/verdicts.jsonl")
	if err != nil {
		panic(err)
	}
	for line := range strings.Lines(string(text)) {
		var verdict struct {
			Kind       string
			Definition json.RawMessage
			Fits       bool
		}
		if err := json.Unmarshal([]byte(line), &verdict); err != nil {
			panic(err)
		}
		v := reflect.New(kinds[verdict.Kind])
		if verdict.Fits && json.Unmarshal(verdict.Definition, v.Interface()) == nil {
			found[v.Type().Elem()] = append(found[v.Type().Elem()], v.Elem())
		}
	}
	return found
})

func newRandomValues() *randomValues {
	return &randomValues{Rand: rand.New(rand.NewPCG(1, 2))}
}

// runs is how many values of a type are tried: many of those with a form, whose schema is
// written by hand.
func (g *randomValues) runs(t reflect.Type) int {
	if slices.Contains(httpapi.Forms(), t) {
		return raced.Or(500, 10_000)
	}
	return raced.Or(50, 500)
}

// value returns a value of a type.
func (g *randomValues) value(t reflect.Type) any {
	v := reflect.New(t).Elem()
	g.fill(v, false)
	return v.Interface()
}

// fill fills a value; with full, those are not left empty that JSON does not permit to be.
func (g *randomValues) fill(v reflect.Value, full bool) {
	switch v.Type() {
	case reflect.TypeFor[time.Time]():
		if g.some() {
			v.Set(reflect.ValueOf(time.Unix(g.Int64N(1<<33), g.Int64N(1e9)).UTC()))
		}
		return
	case reflect.TypeFor[json.RawMessage]():
		if g.some() || full {
			v.SetBytes([]byte([]string{`null`, `{"a": [1, "x"]}`, `"text"`, `1e3`, `false`}[g.IntN(5)]))
		}
		return
	}
	if v.Type() == reflect.TypeFor[json.Number]() {
		v.SetString([]string{"0", "-1.50", "1e400"}[g.IntN(3)])
		return
	}
	if words := httpapi.Enums()[v.Type()]; words != nil {
		v.SetString(words[g.IntN(len(words))])
		return
	}
	if list := definitions()[v.Type()]; list != nil {
		v.Set(list[g.IntN(len(list))])
		return
	}
	g.depth++
	defer func() { g.depth-- }()
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				g.fill(v.Field(i), httpapi.IsPage(v.Type()))
			}
		}
	case reflect.Pointer:
		if g.some() {
			v.Set(reflect.New(v.Type().Elem()))
			g.fill(v.Elem(), false)
		}
	case reflect.Slice:
		if g.some() || full {
			v.Set(reflect.MakeSlice(v.Type(), g.IntN(3), 3))
			for i := range v.Len() {
				g.fill(v.Index(i), v.Type().Elem().Kind() == reflect.Interface)
			}
		}
	case reflect.Map:
		if g.some() {
			v.Set(reflect.MakeMap(v.Type()))
			for range g.IntN(3) {
				key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
				g.fill(key, false)
				g.fill(value, false)
				v.SetMapIndex(key, value)
			}
		}
	default:
		g.plain(v)
	}
}

// plain fills a value without parts.
func (g *randomValues) plain(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString([]string{"", "text", "ä <&> \n", "0", "null"}[g.IntN(5)])
	case reflect.Bool:
		v.SetBool(g.IntN(2) == 0)
	case reflect.Float32, reflect.Float64:
		v.SetFloat([]float64{0, 1, -1.5, 1e300, 1e-9}[g.IntN(5)])
	case reflect.Interface:
		any := []any{nil, true, 1, 2.5, "text", []any{"a"}, map[string]any{"a": nil}}[g.IntN(7)]
		if any != nil && v.NumMethod() == 0 {
			v.Set(reflect.ValueOf(any))
		}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt([]int64{0, 1, 7, -1, 32767, 1_500_000_001}[g.IntN(6)] % (1 << min(62, v.Type().Bits()-1)))
	default:
		v.SetUint(uint64(g.IntN(200)))
	}
}

// some reports whether something is there; deep inside nothing is.
func (g *randomValues) some() bool { return g.depth < 8 && g.IntN(3) > 0 }
