package dag_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/dashboard/internal/dag"
)

// A drawn is a drawing: where each member stands, and the paths of the edges.
type drawn struct {
	width, height int
	boxes         map[string][4]int // left, top, right, bottom
	edges         []string
}

// draw draws members, each with the names of those it depends on; nil if nothing is drawn.
func draw(names []string, on map[string][]string) *drawn {
	members := make([]dag.Member, len(names))
	for i, name := range names {
		members[i].Name = name
		for _, d := range on[name] {
			members[i].DependsOn = append(members[i].DependsOn, chain.Dependency{Member: d})
		}
	}
	d := dag.Draw(members)
	if d == nil {
		return nil
	}
	out := &drawn{d.Width, d.Height, make(map[string][4]int), nil}
	for _, n := range d.Nodes {
		out.boxes[n.Member.Name] = [4]int{n.X, n.Y, n.X + n.Width, n.Y + n.Height}
	}
	for _, e := range d.Edges {
		out.edges = append(out.edges, e.Path)
	}
	return out
}

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
		d := draw(names, on)
		if d == nil || len(d.boxes) != len(names) || len(d.edges) != edges {
			t.Fatalf("seed %d: %+v", seed, d)
		}
		if again := draw(names, on); !reflect.DeepEqual(d, again) {
			t.Fatalf("seed %d: two drawings differ", seed)
		}
		for a, x := range d.boxes {
			if x[0] < 0 || x[1] < 0 || x[2] > d.width || x[3] > d.height {
				t.Errorf("seed %d: %s stands outside", seed, a)
			}
			for _, b := range on[a] {
				if d.boxes[b][2] >= x[0] {
					t.Errorf("seed %d: %s does not stand to the right of %s", seed, a, b)
				}
			}
			for b, y := range d.boxes {
				if a != b && x[0] < y[2] && y[0] < x[2] && x[1] < y[3] && y[1] < x[3] {
					t.Errorf("seed %d: %s covers %s", seed, a, b)
				}
			}
		}
	}
}

// Members of two rows that need not cross do not.
func TestDrawingUntangles(t *testing.T) {
	d := draw([]string{"a", "b", "c", "x", "y", "z"}, map[string][]string{"x": {"c"}, "y": {"b"}, "z": {"a"}})
	for one, other := range map[string]string{"a": "z", "b": "y", "c": "x"} {
		if d.boxes[one][1] != d.boxes[other][1] {
			t.Errorf("%s and %s stand at %d and %d, and not beside each other", one, other, d.boxes[one][1], d.boxes[other][1])
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
	if draw(names, nil) != nil {
		t.Error("301 members are drawn")
	}
	for i, name := range names[1:100] {
		on[name] = names[:i+1]
	}
	if draw(names[:100], on) != nil {
		t.Error("edges through 161,700 places are drawn")
	}
	if draw([]string{"a", "b"}, map[string][]string{"a": {"b"}, "b": {"a"}}) != nil {
		t.Error("a circle is drawn")
	}
	if draw(nil, nil) != nil {
		t.Error("nothing is drawn")
	}
}
