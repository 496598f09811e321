package flow

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"

	"github.com/courierhq/courier/internal/jsontext"
)

// Bounds of a regular expression and of the text that it is matched against.
// Matching takes time in proportion to the product of the text's length and the
// size of the pattern, in which x{1,30} counts for thirty: 18 ns for a byte and
// an element where it is slowest, so within these bounds less than a second.
const (
	maxPattern = 1 << 10  // bytes
	maxSubject = 64 << 10 // bytes
	maxSize    = 1 << 13  // elements
	maxProduct = 3 << 24  // bytes times elements
)

// maxSpent is after how much work, in the unit of maxProduct, a walk asks
// whether it has to stop.
const maxSpent = 1 << 22

// A pattern is a regular expression.
type pattern struct {
	text string
	re   *regexp.Regexp
	size int // see sizeOf
}

// A matcher keeps the pattern that was compiled last from a value, for the case
// that the next one is the same, and counts the work of conditions.
type matcher struct {
	last  pattern
	spent int
}

// compilePattern compiles a pattern, if it is not larger than it may be.
func compilePattern(s string) (pattern, error) {
	if len(s) > maxPattern {
		return pattern{}, fmt.Errorf("is %d bytes long; a regular expression has %d at most", len(s), maxPattern)
	}
	tree, err := syntax.Parse(s, syntax.Perl)
	if err != nil {
		return pattern{}, badPattern(err)
	}
	size := sizeOf(tree)
	if size > maxSize {
		return pattern{}, fmt.Errorf("amounts to %d elements, as x{1,30} counts for thirty; a regular expression has %d at most; lower its counts, or use * or +", size, maxSize)
	}
	re, err := regexp.Compile(s)
	if err != nil {
		return pattern{}, badPattern(err)
	}
	return pattern{s, re, size}, nil
}

func badPattern(err error) error {
	return fmt.Errorf("is not a valid regular expression: %s", strings.TrimPrefix(err.Error(), "error parsing regexp: "))
}

// check returns an error if matching against a text of n bytes would take long.
func (p *pattern) check(n int) error {
	if n > maxSubject {
		return fmt.Errorf("is %d bytes long; a regular expression is matched against %d at most", n, maxSubject)
	}
	if n*p.size > maxProduct {
		return fmt.Errorf("is %d bytes long; the regular expression amounts to %d elements, as x{1,30} counts for thirty, and one of that size is matched against %d bytes at most; lower its counts, or use * or +", n, p.size, maxProduct/p.size)
	}
	return nil
}

// match evaluates the operator regex.
func (c *condition) match(left, right any, m *matcher) (holds bool, field string, err error) {
	if right == nil {
		return false, "", nil
	}
	p := c.pattern
	if p == nil {
		if text := jsontext.Text(right); m.last.re == nil || m.last.text != text {
			compiled, err := compilePattern(text)
			if err != nil {
				return false, fieldRight, err
			}
			m.last = compiled
			m.spent += 100 * compiled.size
		}
		p = &m.last
	}
	subject := jsontext.Text(left)
	if err := p.check(len(subject)); err != nil {
		return false, fieldLeft, err
	}
	m.spent += p.size * len(subject)
	return p.re.MatchString(subject), "", nil
}

// sizeOf returns how many instructions a regular expression is compiled to, at
// most: what counts for the time that a step of the match takes. Classes of many
// ranges, such as \pL, count twice.
func sizeOf(re *syntax.Regexp) int {
	const few = 2 * 8 // bounds of ranges
	switch re.Op {
	case syntax.OpLiteral:
		return max(1, len(re.Rune))
	case syntax.OpCharClass:
		if len(re.Rune) > few {
			return 2
		}
		return 1
	case syntax.OpCapture, syntax.OpStar, syntax.OpPlus, syntax.OpQuest:
		return sizeOf(re.Sub[0]) + 2
	case syntax.OpRepeat:
		sub := sizeOf(re.Sub[0])
		if re.Max < 0 {
			return max(1, re.Min)*sub + 2
		}
		return 1 + re.Min*sub + (re.Max-re.Min)*(sub+1)
	case syntax.OpConcat, syntax.OpAlternate:
		n := 1
		for _, sub := range re.Sub {
			n += sizeOf(sub) + 1
		}
		return n
	}
	return 1
}
