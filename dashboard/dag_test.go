package dashboard_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/courierhq/courier/dashboard"
)

// Members stand to the right of what they depend on, none covers another, and the same
// chain always gives the same drawing.
func TestDrawing(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		var names []string
		on := make(map[string][]string)
		edges := 0
		for i := range 1 + r.IntN(40) {
			name := fmt.Sprint("m", i)
			for _, other := range names {
				if r.IntN(8) == 0 {
					on[name] = append(on[name], other)
					edges++
				}
			}
			names = append(names, name)
		}
		r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		d := dashboard.Draw(names, on)
		if d == nil || len(d.Boxes) != len(names) || len(d.Edges) != edges {
			t.Fatalf("seed %d: %+v", seed, d)
		}
		if again := dashboard.Draw(names, on); !reflect.DeepEqual(d, again) {
			t.Fatalf("seed %d: two drawings differ", seed)
		}
		for a, x := range d.Boxes {
			if x[0] < 0 || x[1] < 0 || x[2] > d.Width || x[3] > d.Height {
				t.Errorf("seed %d: %s stands outside", seed, a)
			}
			for _, b := range on[a] {
				if d.Boxes[b][2] >= x[0] {
					t.Errorf("seed %d: %s does not stand to the right of %s", seed, a, b)
				}
			}
			for b, y := range d.Boxes {
				if a != b && x[0] < y[2] && y[0] < x[2] && x[1] < y[3] && y[1] < x[3] {
					t.Errorf("seed %d: %s covers %s", seed, a, b)
				}
			}
		}
	}
}

// Members of two rows that need not cross do not.
func TestDrawingUntangles(t *testing.T) {
	d := dashboard.Draw([]string{"a", "b", "c", "x", "y", "z"}, map[string][]string{"x": {"c"}, "y": {"b"}, "z": {"a"}})
	for one, other := range map[string]string{"a": "z", "b": "y", "c": "x"} {
		if d.Boxes[one][1] != d.Boxes[other][1] {
			t.Errorf("%s and %s stand at %d and %d, and not beside each other", one, other, d.Boxes[one][1], d.Boxes[other][1])
		}
	}
}

// What nobody could look at is not drawn; its table is there.
func TestDrawingTooLarge(t *testing.T) {
	var names []string
	on := make(map[string][]string)
	for i := range 301 {
		names = append(names, fmt.Sprint("m", i))
	}
	if dashboard.Draw(names, nil) != nil {
		t.Error("301 members are drawn")
	}
	for i, name := range names[1:100] {
		on[name] = names[:i+1]
	}
	if dashboard.Draw(names[:100], on) != nil {
		t.Error("edges through 161,700 places are drawn")
	}
	if dashboard.Draw([]string{"a", "b"}, map[string][]string{"a": {"b"}, "b": {"a"}}) != nil {
		t.Error("a circle is drawn")
	}
	if dashboard.Draw(nil, nil) != nil {
		t.Error("nothing is drawn")
	}
}
