package flow

import (
	"math/big"
	"regexp"
	"strings"
	"testing"
)

// decimalForm is what parseDecimal takes for a number, written down once more.
var decimalForm = regexp.MustCompile(`^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?0*[0-9]{1,17})?$`)

// FuzzDecimal checks what is a number, and the order of numbers against
// math/big, where the exponents are small enough for it.
func FuzzDecimal(f *testing.F) {
	for _, s := range []string{"0", "-0.00", "1", "+1.50", "00012.300", ".5", "5.", ".", "", "-", "1e5", "10e4", "1e-0000000000000000000003", "1e99999999999999999", "-1e-99999999999999999", "1e100000000000000000", "0e99999999999999999", "1_0", "0x1", "1e", "١", "NaN", "1e+", " 1"} {
		f.Add(s, "1")
		f.Add("-7.25e1", s)
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		x, okX := parseDecimal(a)
		y, okY := parseDecimal(b)
		if want := decimalForm.MatchString(a); okX != want {
			t.Errorf("%q is a number: %t, want %t", a, okX, want)
		}
		if !okX || !okY {
			return
		}
		c := x.compare(y)
		if x.compare(x) != 0 || y.compare(x) != -c {
			t.Errorf("%q, %q: compare is %d, the other way round %d, of the first with itself %d", a, b, c, y.compare(x), x.compare(x))
		}
		// The same number, with its point one digit further.
		mantissa, exp, _ := strings.Cut(strings.ToLower(a), "e")
		if exp == "" && !strings.Contains(mantissa, ".") {
			for _, same := range []string{mantissa + ".", mantissa + "0e-1", mantissa + ".000e0"} {
				if z, ok := parseDecimal(same); !ok || z.compare(x) != 0 || z.compare(y) != c {
					t.Errorf("%q and %q differ", a, same)
				}
			}
		}
		r, s := smallRat(a), smallRat(b)
		if r != nil && s != nil && r.Cmp(s) != c {
			t.Errorf("%q, %q: compare is %d, Cmp is %d", a, b, c, r.Cmp(s))
		}
	})
}

// smallRat reads a number whose exponent has few digits, or returns nil.
func smallRat(s string) *big.Rat {
	_, exp, _ := strings.Cut(strings.ToLower(s), "e")
	if len(strings.TrimLeft(exp, "+-0")) > 3 {
		return nil
	}
	r, _ := new(big.Rat).SetString(s)
	return r
}
