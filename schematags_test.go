package courier_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/courierhq/courier"
)

type (
	emptyEnum struct {
		F string `enum:""`
	}
	gapEnum struct {
		F string `enum:"a,,b"`
	}
	blankEnum struct {
		F string `enum:"a, b"`
	}
	twiceEnum struct {
		F string `enum:"a,b,a"`
	}
	numberEnum struct {
		F int `enum:"1,2"`
	}
	listEnum struct {
		F []int `enum:"1,2"`
	}
	wordMin struct {
		F int `min:"one"`
	}
	partMin struct {
		F int `min:"1/2"`
	}
	hexMax struct {
		F int `max:"0x10"`
	}
	emptyMax struct {
		F int `max:""`
	}
	textMin struct {
		F string `min:"1"`
	}
	boolMax struct {
		F bool `max:"1"`
	}
	crossed struct {
		F int `min:"2" max:"1"`
	}
	otherWord struct {
		F string `courier:"requird"`
	}
	nameless struct {
		F string `courier:"one_of="`
	}
	otherDef struct {
		F string `default:"c" enum:"a,b"`
	}
	listDef struct {
		F []string `default:"[\"c\"]" enum:"a,b"`
	}
	lowDef struct {
		F int `default:"0" min:"1"`
	}
	highDef struct {
		F *float64 `default:"2.5" max:"2"`
	}
	pathNumber struct {
		F int `courier:"path"`
	}
	groupOfOne struct {
		F string `courier:"one_of=x"`
	}
	twoGroups   struct{ F, G string }
	groupWithTo struct {
		F string `courier:"one_of=x"`
		G string `courier:"any_of=x"`
	}
	neededInGroup struct {
		F string `courier:"required,any_of=x"`
		G string `courier:"any_of=x"`
	}
	groupDefault struct {
		G string `courier:"at_most_one=x"`
		F string `courier:"at_most_one=x" default:"a"`
	}
	embeds  struct{ numberEnum }
	deep    struct{ L []map[string]*wordMin }
	deepOne struct{ L []groupOfOne }
)

// refused returns what Register panics with for a configuration of type C.
func refused[C any]() (message string) {
	defer func() {
		if p := recover(); p != nil {
			message = fmt.Sprint(p)
		}
	}()
	courier.RegisterFunc(new(courier.Registry), "demo.bad", func(context.Context, *courier.Context, C) (struct{}, error) { return struct{}{}, nil }, nil)
	return ""
}

// Each tag that means nothing, or contradicts another one, is refused when the type
// is registered, with the struct and the field.
func TestMalformedTags(t *testing.T) {
	for _, c := range []struct{ name, got, want string }{
		{"emptyEnum", refused[emptyEnum](), "empty value"},
		{"gapEnum", refused[gapEnum](), "empty value"},
		{"blankEnum", refused[blankEnum](), "blank"},
		{"twiceEnum", refused[twiceEnum](), "twice"},
		{"numberEnum", refused[numberEnum](), "enum is for strings and lists of strings, not for int"},
		{"listEnum", refused[listEnum](), "enum is for strings"},
		{"wordMin", refused[wordMin](), `min:"one" is not a number`},
		{"partMin", refused[partMin](), `min:"1/2" is not a number`},
		{"hexMax", refused[hexMax](), `max:"0x10" is not a number`},
		{"emptyMax", refused[emptyMax](), `max:"" is not a number`},
		{"textMin", refused[textMin](), "min is for numbers and lists of numbers, not for string"},
		{"boolMax", refused[boolMax](), "max is for numbers"},
		{"crossed", refused[crossed](), `min:"2" is more than max:"1"`},
		{"otherWord", refused[otherWord](), `courier:"requird" is unknown`},
		{"nameless", refused[nameless](), `courier:"one_of=" is unknown`},
		{"otherDef", refused[otherDef](), `the default "c"`},
		{"listDef", refused[listDef](), `the default "[\"c\"]"`},
		{"lowDef", refused[lowDef](), `the default "0": must be at least 1`},
		{"highDef", refused[highDef](), `the default "2.5": must be at most 2`},
		{"pathNumber", refused[pathNumber](), "is for strings"},
		{"groupOfOne", refused[groupOfOne](), "alone in the group one_of=x"},
		{"groupWithTo", refused[groupWithTo](), "alone in the group"},
		{"neededInGroup", refused[neededInGroup](), "neither required nor has a default"},
		{"groupDefault", refused[groupDefault](), "neither required nor has a default"},
		{"numberEnum", refused[embeds](), "enum is for strings"},
		{"wordMin", refused[deep](), "is not a number"},
		{"deepOne", refused[deepOne](), "alone in the group one_of=x"},
	} {
		if !strings.Contains(c.got, c.want) || !strings.Contains(c.got, "courier_test."+c.name) || !strings.Contains(c.got, "field F:") {
			t.Errorf("%s: %q doesn't say %q with struct and field", c.name, c.got, c.want)
		}
	}
	if got := refused[twoGroups]() + refused[valued](); got != "" {
		t.Errorf("sound tags were refused: %s", got)
	}
}
