package safename

import "fmt"

// Bounds of a pattern's braces. Comparing a name takes time in proportion to the
// texts that they stand for: a microsecond for each.
const (
	maxAlternatives = 1000
	maxNested       = 10
)

// CheckPattern returns an error if comparing a name with a pattern would take
// long, because its braces multiply to very many alternatives, as
// {a,b}{a,b}{a,b} does to eight. Whether it is well-formed is for others to say.
func CheckPattern(pattern string) error {
	type group struct{ sum, product int } // of the parts before, and of the present one
	open := []group{{product: 1}}
	for i := 0; i < len(pattern); i++ {
		top := &open[len(open)-1]
		switch c := pattern[i]; {
		case c == '\\':
			i++
		case c == '{':
			open = append(open, group{product: 1})
		case c == ',':
			top.sum, top.product = top.sum+top.product, 1
		case c == '}' && len(open) > 1:
			open = open[:len(open)-1]
			open[len(open)-1].product *= top.sum + top.product
		}
		if top := open[len(open)-1]; top.sum+top.product > maxAlternatives && len(open) > 1 || top.product > maxAlternatives {
			return fmt.Errorf("the braces of %s stand for more than %d alternatives; use several steps, or *", Quote(pattern), maxAlternatives)
		}
		if len(open) > maxNested+1 {
			return fmt.Errorf("the braces of %s are nested more than %d times", Quote(pattern), maxNested)
		}
	}
	return nil
}
