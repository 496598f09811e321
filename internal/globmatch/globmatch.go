// Package globmatch checks the patterns that package glob splits and walks for, and
// compares paths with them. It is a package of its own because it needs a library, which
// the root, flow and depot do not link.
package globmatch

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/glob"
	"github.com/courierhq/courier/internal/safename"
)

// Check refuses malformed patterns, those that lead upwards behind a wildcard, and
// those whose braces stand for very many alternatives.
func Check(p courier.Pattern) error {
	_, rest := glob.Split(p)
	if rest == "" || !doublestar.ValidatePattern(rest) || slices.Contains(strings.Split(rest, "/"), "..") {
		return courier.Permanent(fmt.Errorf("pattern %q is malformed: check that its brackets and braces are closed and no .. follows a wildcard", p))
	}
	if err := safename.CheckPattern(rest); err != nil {
		return courier.Permanent(err)
	}
	return nil
}

// Match reports whether the rest of a valid pattern stands for a path below its
// fixed part.
func Match(rest, below string) bool { return doublestar.MatchUnvalidated(rest, below) }
