package safename

import "testing"

// Names that a file system of Windows or macOS takes for one have the same key.
func TestFold(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"A.csv", "a.CSV", true},
		{"caf\u00e9", "cafe\u0301", true},
		{"CAF\u00c9", "cafe\u0301", true},
		{"\u1ed9", "o\u0323\u0302", true},
		{"\u1ed9", "o\u0302\u0323", true},
		{"\u1e9b\u0323", "\u017f\u0323\u0307", true},
		{"\ud55c", "\u1112\u1161\u11ab", true},
		{"\uac00", "\u1100\u1161", true},
		{"\u212b", "\u00e5", true},
		{"\u0130", "i\u0307", true},
		{"\uf900", "\u8c48", true},
		{"\u304c", "\u304b\u3099", true},
		{"k", "\u212a", true},
		{"\u01c5", "\u01c4", true},
		{"\u017f", "s", true},
		{"\u03c2x", "\u03c3x", true},

		{"cafe", "caf\u00e9", false},
		{"a", "b", false},
		{"\uac00", "\uac01", false},
		{"x\u0301y", "xy\u0301", false},
	} {
		if got := Fold(c.a) == Fold(c.b); got != c.same {
			t.Errorf("%+q and %+q: the same is %t: %+q, %+q", c.a, c.b, got, Fold(c.a), Fold(c.b))
		}
	}
}
