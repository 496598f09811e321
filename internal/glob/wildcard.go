package glob

// MatchWildcards reports whether a pattern stands for a whole list of items, such as the
// characters of a name. Any says that an element of the pattern stands for any number of items,
// and one that it stands for an item. After a mismatch, MatchWildcards goes back to the last
// element of the first kind and lets it stand for one item more; an earlier one need not stand
// for more. So the time is in proportion to the product of the lengths at most.
func MatchWildcards[P, E any](pattern []P, items []E, any func(P) bool, one func(P, E) bool) bool {
	p, i := 0, 0
	last, from := -1, 0 // the last element for any number, and where the items after it begin
	for i < len(items) {
		switch {
		case p < len(pattern) && any(pattern[p]):
			last, from = p, i
			p++
		case p < len(pattern) && one(pattern[p], items[i]):
			p++
			i++
		case last >= 0:
			from++
			p, i = last+1, from
		default:
			return false
		}
	}
	for p < len(pattern) && any(pattern[p]) {
		p++
	}
	return p == len(pattern)
}

// MatchCharacters is MatchWildcards for a pattern in which * stands for any number of
// characters, and ? for one. Characters are bytes or runes.
func MatchCharacters[C byte | rune](pattern, text []C) bool {
	return MatchWildcards(pattern, text, func(p C) bool { return p == '*' }, func(p, c C) bool { return p == '?' || p == c })
}
