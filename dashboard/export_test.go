package dashboard

import (
	"github.com/courierhq/courier"
)

// AssetSizes returns the compressed sizes of the assets, by their names.
func AssetSizes(h *Handler) map[string]int {
	sizes := make(map[string]int)
	for name, f := range h.assets.files {
		sizes[name] = len(f.zip)
	}
	return sizes
}

// A Drawn is a drawing of members that depend on each other: where each stands, and the
// paths of the edges.
type Drawn struct {
	Width, Height int
	Boxes         map[string][4]int // left, top, right, bottom
	Edges         []string
}

// Draw draws members, each with the names of those it depends on; nil if it draws nothing.
func Draw(names []string, on map[string][]string) *Drawn {
	rows := make([]memberRow, len(names))
	for i, name := range names {
		rows[i].Name = name
		for _, d := range on[name] {
			rows[i].DependsOn = append(rows[i].DependsOn, dependencyRow{Dependency: courier.Dependency{Member: d}})
		}
	}
	d := drawDag(rows)
	if d == nil {
		return nil
	}
	drawn := &Drawn{d.Width, d.Height, make(map[string][4]int), nil}
	for _, n := range d.Nodes {
		drawn.Boxes[n.Member.Name] = [4]int{n.X, n.Y, n.X + n.Width, n.Y + n.Height}
	}
	for _, e := range d.Edges {
		drawn.Edges = append(drawn.Edges, e.Path)
	}
	return drawn
}
