package cron

import (
	"slices"
	"strings"
)

// nearestNames returns the names that somebody who wrote s most likely meant,
// the nearest first, at most so many, without those that are clearly farther than
// the nearest. Letter case does not count.
func nearestNames(s string, names []string, most int) []string {
	const longest = 60 // what is longer is no typing mistake
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
		if d := distance(s, strings.ToLower(n)); d <= limit {
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

// distance is the number of insertions, deletions, replacements and swaps of
// neighbours that turn a into b.
func distance(a, b string) int {
	before, above, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range above {
		above[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			row[j] = min(above[j]+1, row[j-1]+1, above[j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, above, row = above, row, before
	}
	return above[len(b)]
}
