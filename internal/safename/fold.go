package safename

import (
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// Fold returns a text that is the same for all names that a file system of
// Windows or macOS takes for one: it disregards letter case, and in which of the
// forms of Unicode, such as NFC or NFD, a character is written. It may be the same
// for a few names more. It is a key, and no name.
func Fold(name string) string {
	if isASCII(name) {
		return strings.ToLower(name)
	}
	runes := make([]rune, 0, len(name))
	for _, r := range name {
		runes = decompose(runes, r)
	}
	for i := range runes {
		runes[i] = least(runes[i])
	}
	sortMarks(runes)
	return string(runes)
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// least returns the character that stands for all those that differ from r only
// in letter case. In ASCII it is the small letter.
func least(r rune) rune {
	first := r
	for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
		first = min(first, f)
	}
	return unicode.ToLower(first)
}

// sortMarks puts the marks behind each character, the accents and the like, into
// one order, whatever the order in which they are written.
func sortMarks(runes []rune) {
	for i := 0; i < len(runes); i++ {
		end := i
		for end < len(runes) && unicode.Is(unicode.M, runes[end]) {
			end++
		}
		slices.Sort(runes[i:end])
		i = max(i, end-1)
	}
}

// decompose appends what a character consists of.
func decompose(dst []rune, r rune) []rune {
	const hangul, medials, finals = 0xac00, 21, 28
	if n := r - hangul; n >= 0 && n < 19*medials*finals {
		dst = append(dst, 0x1100+n/(medials*finals), 0x1161+n/finals%medials)
		if last := n % finals; last > 0 {
			dst = append(dst, 0x11a7+last)
		}
		return dst
	}
	parts, ok := composed()[r]
	if !ok {
		return append(dst, r)
	}
	dst = decompose(dst, parts[0])
	if parts[1] != ' ' {
		dst = append(dst, parts[1])
	}
	return dst
}

// composed returns the list of decompositions as a map.
var composed = sync.OnceValue(func() map[rune][2]rune {
	all := make(map[rune][2]rune)
	list := []rune(decompositions)
	for i := 0; i+2 < len(list); i += 3 {
		all[list[i]] = [2]rune{list[i+1], list[i+2]}
	}
	return all
})
