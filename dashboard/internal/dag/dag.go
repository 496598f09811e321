// Package dag draws the members of a chain, whose dependencies have no cycle, from the left to the
// right with few crossings. It computes places and paths; a template makes the SVG of them.
package dag

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/dashboard/internal/format"
)

// A Drawing has each member to the right of all members on which it depends.
type Drawing struct {
	Width, Height int
	Least         int // the width below which its names can't be read
	Nodes         []Node
	Edges         []Edge
}

// A Member is a member of a chain, or of one of its executions.
type Member struct {
	Name, Job string
	Status    string // of an execution; empty for a chain
	Href      string // of its page
	DependsOn []chain.Dependency
}

// A Node is a member in the drawing.
type Node struct {
	X, Y, Width, Height int
	TextWidth           int
	Member              *Member
	Class, Mark         string // of the status: colour and shape
	Name, Word          string // clipped to the width
}

// An Edge leads from a member to a member that depends on it.
type Edge struct {
	Path   string // of SVG
	Class  string
	Text   string // the condition of the dependency; empty for success
	TX, TY int
}

// The measures of a drawing, and its limits.
const (
	nodeWidth, nodeHeight = 192, 48
	gap, rowGap, margin   = 96, 20, 8
	maxMembers            = 300
	maxSlots              = 2000
)

// A slot is a place in a column of the drawing, for a member or for an edge that passes.
type slot struct {
	member   int // -1 for an edge that passes
	ins      []*slot
	outs     []*slot
	at       int // in its column
	x, y     int // of the middle
	priority float64
}

// Draw returns the drawing. It is nil if the drawing would be too large to be readable, or if the
// dependencies have a cycle, which no saved chain has.
func Draw(members []Member) *Drawing {
	columns, routes := layers(members)
	if columns == nil {
		return nil
	}
	for range 2 {
		for _, c := range columns {
			order(c, func(s *slot) []*slot { return s.ins })
		}
		for _, c := range slices.Backward(columns) {
			order(c, func(s *slot) []*slot { return s.outs })
		}
	}
	d := &Drawing{Width: len(columns)*(nodeWidth+gap) - gap + 2*margin}
	d.Least = d.Width * 3 / 5
	for _, c := range columns {
		d.Height = max(d.Height, heightOf(c)+2*margin)
	}
	for i, c := range columns {
		y := (d.Height - heightOf(c)) / 2
		for _, s := range c {
			s.x, s.y = margin+i*(nodeWidth+gap)+nodeWidth/2, y+s.height()/2
			y += s.height() + rowGap
			if s.member >= 0 {
				d.Nodes = append(d.Nodes, nodeOf(&members[s.member], s))
			}
		}
	}
	for _, e := range routes {
		d.Edges = append(d.Edges, edgeOf(e))
	}
	return d
}

// A route is an edge with the slots on its way.
type route struct {
	path []*slot // from the member on which the other one depends
	on   chain.Dependency
}

// layers puts each member into the column after the last of the members on which it depends, and
// adds a place for each edge to the columns that it passes.
func layers(members []Member) (columns [][]*slot, routes []route) {
	index, layer := make(map[string]int), make([]int, len(members))
	for i := range members {
		index[members[i].Name] = i
	}
	if len(members) == 0 || len(members) > maxMembers {
		return nil, nil
	}
	left := len(members)
	for done := make([]bool, len(members)); left > 0; {
		before := left
		for i := range members {
			ready := !done[i] && !slices.ContainsFunc(members[i].DependsOn, func(d chain.Dependency) bool { return !done[index[d.Member]] })
			if !ready {
				continue
			}
			for _, d := range members[i].DependsOn {
				layer[i] = max(layer[i], layer[index[d.Member]]+1)
			}
			done[i] = true
			left--
		}
		if left == before {
			return nil, nil
		}
	}
	columns = make([][]*slot, slices.Max(layer)+1)
	slots, places := make([]*slot, len(members)), len(members)
	add := func(column, member int) *slot {
		s := &slot{member: member, at: len(columns[column])}
		columns[column] = append(columns[column], s)
		return s
	}
	for i := range members {
		slots[i] = add(layer[i], i)
	}
	for i := range members {
		for _, d := range members[i].DependsOn {
			from := index[d.Member]
			path := []*slot{slots[from]}
			for l := layer[from] + 1; l < layer[i]; l++ {
				if places++; places > maxSlots {
					return nil, nil
				}
				path = append(path, add(l, -1))
			}
			path = append(path, slots[i])
			for k := range len(path) - 1 {
				path[k].outs = append(path[k].outs, path[k+1])
				path[k+1].ins = append(path[k+1].ins, path[k])
			}
			routes = append(routes, route{path, d})
		}
	}
	return columns, routes
}

// order sorts a column by the average position of the neighbours on one side. A member without
// neighbours stays at its place.
func order(column []*slot, neighbours func(*slot) []*slot) {
	for _, s := range column {
		s.priority = float64(s.at)
		if list := neighbours(s); len(list) > 0 {
			sum := 0
			for _, n := range list {
				sum += n.at
			}
			s.priority = float64(sum) / float64(len(list))
		}
	}
	slices.SortStableFunc(column, func(a, b *slot) int { return cmp.Compare(a.priority, b.priority) })
	for i, s := range column {
		s.at = i
	}
}

func (s *slot) height() int {
	if s.member < 0 {
		return nodeHeight / 4
	}
	return nodeHeight
}

func heightOf(column []*slot) int {
	h := -rowGap
	for _, s := range column {
		h += s.height() + rowGap
	}
	return h
}

func nodeOf(m *Member, s *slot) Node {
	word := m.Status
	if word == "" {
		word = m.Job
	}
	l := format.LookOf(m.Status)
	return Node{
		X: s.x - nodeWidth/2, Y: s.y - nodeHeight/2, Width: nodeWidth, Height: nodeHeight, TextWidth: nodeWidth - 36, Member: m, Class: l.Class, Mark: l.Path,
		Name: fit(18, m.Name), Word: fit(22, strings.ReplaceAll(word, "_", " ")),
	}
}

// edgeOf draws an edge: level through the columns that it passes, and curved in between.
func edgeOf(e route) Edge {
	from := e.path[0]
	x, y := from.x+nodeWidth/2, from.y
	var b strings.Builder
	fmt.Fprintf(&b, "M%d %d", x, y)
	d := Edge{Class: Condition(e.on)}
	for i, s := range e.path[1:] {
		left, half := s.x-nodeWidth/2, gap/2
		if i == len(e.path)-2 {
			left -= 6 // the arrow's head
		}
		fmt.Fprintf(&b, "C%d %d %d %d %d %d", x+half, y, left-half, s.y, left, s.y)
		if i == 0 && d.Class != "success" {
			d.Text, d.TX, d.TY = d.Class, x+half, (y+s.y)/2-5
		}
		if x, y = s.x+nodeWidth/2, s.y; i < len(e.path)-2 {
			fmt.Fprintf(&b, "H%d", x)
		}
	}
	d.Path = b.String()
	return d
}

// Condition returns the condition of a dependency in a word: "success", "failure" or "any".
func Condition(d chain.Dependency) string {
	switch {
	case d.RequiredStatus == courier.RequireAny:
		return "any"
	case d.RunOnFailure:
		return "failure"
	}
	return "success"
}

// fit returns the beginning of a text that fits the width of n letters.
func fit(n int, s string) string {
	width := 0
	for i, r := range s {
		if width++; r >= 0x1100 {
			width++
		}
		if width > n {
			return s[:i] + "…"
		}
	}
	return s
}
