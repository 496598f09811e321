package problem

import (
	"strings"

	"github.com/courierhq/courier"
)

// A Placed is a problem with the line of the text where it is.
type Placed struct {
	Text         string
	Line, Column int
	Before, At   string // the parts of the line before and after the place
}

// Place returns problems with the lines of a text where they are.
func Place(text string, list []courier.Problem) (all []Placed) {
	lines := strings.Split(text, "\n")
	for _, p := range list {
		at := Placed{Line: p.Line, Column: p.Column}
		if n := p.Line - 1; n >= 0 && n < len(lines) {
			runes := []rune(lines[n])
			col := min(max(p.Column-1, 0), len(runes))
			at.Before, at.At = string(runes[max(0, col-60):col]), string(runes[col:min(len(runes), col+100)])
		}
		p.Line, p.Column = 0, 0
		at.Text = p.String()
		all = append(all, at)
	}
	return all
}
