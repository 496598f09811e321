package flow

import (
	"cmp"
	"strings"
)

// A decimal is a number in plain decimal notation, by its digits: it is
// compared exactly, and its exponent costs nothing.
type decimal struct {
	sign  int    // -1, 0 or 1
	point int64  // the value is 0.DIGITS * 10^point
	whole string // DIGITS without leading and trailing zeros are whole and frac
	frac  string
}

// maxExponent is how many digits an exponent may have, so that sums with it
// fit an int64. A text with a longer one is no number.
const maxExponent = 17

// parseDecimal reads a number: an optional sign, digits with an optional
// point, and an optional exponent.
func parseDecimal(s string) (decimal, bool) {
	d := decimal{sign: 1}
	if s != "" && (s[0] == '+' || s[0] == '-') {
		if s[0] == '-' {
			d.sign = -1
		}
		s = s[1:]
	}
	d.whole, s = cutDigits(s)
	if rest, ok := strings.CutPrefix(s, "."); ok {
		d.frac, s = cutDigits(rest)
	}
	if d.whole == "" && d.frac == "" {
		return d, false
	}
	exp, ok := parseExponent(s)
	if !ok {
		return d, false
	}
	d.trim(exp)
	return d, true
}

// parseExponent reads what may follow the digits of a number.
func parseExponent(s string) (exp int64, ok bool) {
	if s == "" {
		return 0, true
	}
	if s[0]|0x20 != 'e' {
		return 0, false
	}
	s = s[1:]
	negative := strings.HasPrefix(s, "-")
	if negative || strings.HasPrefix(s, "+") {
		s = s[1:]
	}
	digits, rest := cutDigits(s)
	if digits == "" || rest != "" {
		return 0, false
	}
	digits = strings.TrimLeft(digits, "0")
	if len(digits) > maxExponent {
		return 0, false
	}
	for i := range len(digits) {
		exp = exp*10 + int64(digits[i]-'0')
	}
	if negative {
		exp = -exp
	}
	return exp, true
}

func cutDigits(s string) (digits, rest string) {
	i := 0
	for i < len(s) && s[i] >= '0' && s[i] <= '9' {
		i++
	}
	return s[:i], s[i:]
}

// trim takes away the zeros that do not count, and sets the point.
func (d *decimal) trim(exp int64) {
	d.whole = strings.TrimLeft(d.whole, "0")
	d.frac = strings.TrimRight(d.frac, "0")
	d.point = int64(len(d.whole)) + exp
	switch {
	case d.whole == "":
		n := len(d.frac)
		d.frac = strings.TrimLeft(d.frac, "0")
		d.point -= int64(n - len(d.frac))
	case d.frac == "":
		d.whole = strings.TrimRight(d.whole, "0")
	}
	if d.whole == "" && d.frac == "" {
		*d = decimal{}
	}
}

// compare returns -1, 0 or 1.
func (d decimal) compare(e decimal) int {
	switch {
	case d.sign != e.sign:
		return cmp.Compare(d.sign, e.sign)
	case d.point != e.point:
		return d.sign * cmp.Compare(d.point, e.point)
	}
	for i := range min(d.len(), e.len()) {
		if a, b := d.at(i), e.at(i); a != b {
			return d.sign * cmp.Compare(a, b)
		}
	}
	return d.sign * cmp.Compare(d.len(), e.len())
}

func (d *decimal) len() int { return len(d.whole) + len(d.frac) }

func (d *decimal) at(i int) byte {
	if i < len(d.whole) {
		return d.whole[i]
	}
	return d.frac[i-len(d.whole)]
}
