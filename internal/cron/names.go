package cron

import (
	"math"
	"slices"
	"strings"

	"github.com/courierhq/courier/internal/nearest"
)

// nearestNames returns the names that the writer of s most likely meant, the nearest first, at
// most most of them. It leaves out names that are clearly farther than the nearest. Letter case
// is ignored.
func nearestNames(s string, names []string, most int) []string {
	const longest = 60 // longer texts are not typing mistakes
	if len(s) > longest {
		return nil
	}
	type near struct {
		name     string
		distance int
	}
	s = strings.ToLower(s)
	limit := min(max(len(s)/3, 1), 3)
	var found []near
	for _, n := range names {
		if d := nearest.Distance(s, strings.ToLower(n), math.MaxInt); d <= limit {
			found = append(found, near{n, d})
		}
	}
	slices.SortStableFunc(found, func(a, b near) int { return a.distance - b.distance })
	var result []string
	for _, f := range found[:min(most, len(found))] {
		if f.distance <= found[0].distance+1 {
			result = append(result, f.name)
		}
	}
	return result
}
