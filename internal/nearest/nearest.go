// Package nearest finds what somebody who wrote an unknown name most likely meant.
package nearest

import (
	"fmt"
	"slices"
	"strings"
)

// Name returns the name that somebody who wrote s most likely meant, or ""
// if none of names comes close. Letter case does not count.
func Name[S ~string](s string, names []S) S {
	const maxLength = 100 // longer ones are no typing mistakes
	var best S
	if len(s) > maxLength {
		return best
	}
	s = strings.ToLower(s)
	least := max(len(s)/3, 1) + 1
	for _, n := range names {
		if d := Distance(s, strings.ToLower(string(n)), least); d < least {
			best, least = n, d
		}
	}
	return best
}

// DidYouMean ends a message about an unknown name s: with the nearest of names,
// or with a list of them where none comes close.
func DidYouMean[S ~string](s string, names []S) string {
	if n := Name(s, names); n != "" {
		return fmt.Sprintf("did you mean %q?", string(n))
	}
	const few = 12
	if len(names) == 0 {
		return "there are none"
	}
	shown := slices.Clone(names[:min(few, len(names))])
	list := make([]string, len(shown))
	for i, n := range shown {
		list[i] = string(n)
	}
	if len(names) > few {
		return fmt.Sprintf("known are %s and %d more", strings.Join(list, ", "), len(names)-few)
	}
	return "known are " + strings.Join(list, ", ")
}

// Distance is the number of insertions, deletions, replacements and swaps of
// neighbours that turn a into b, or most if it is no smaller than that.
func Distance(a, b string, most int) int {
	if len(a)-len(b) >= most || len(b)-len(a) >= most {
		return most
	}
	before, prev, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(prev[j]+1, row[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, prev, row = prev, row, before
	}
	return min(prev[len(b)], most)
}
