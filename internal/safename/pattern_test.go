package safename

import (
	"strings"
	"testing"
)

func TestCheckPattern(t *testing.T) {
	for pattern, want := range map[string]string{
		"":                                      "",
		"*.csv":                                 "",
		"*.{csv,txt,xml}":                       "",
		"**/**/{a,b}/{c,{d,e}}/*":               "",
		"{" + strings.Repeat("a,", 999) + "b}":  "",
		strings.Repeat("a,", 5000):              "",
		strings.Repeat("{a}", 5000):             "",
		strings.Repeat(`\{a,b\}`, 100):          "",
		strings.Repeat("{a,b}", 9):              "",
		"}}}}{,}":                               "",
		`x\`:                                    "",
		strings.Repeat("{a,b}", 10):             "more than 1000 alternatives",
		strings.Repeat("{a,b}", 100000):         "more than 1000 alternatives",
		"{" + strings.Repeat("a,", 1000) + "b}": "more than 1000 alternatives",
		"{" + strings.Repeat("a,", 1000) + "b":  "more than 1000 alternatives", // not closed
		strings.Repeat("{a,{b,{c,d}}}", 5):      "more than 1000 alternatives",
		"{" + strings.Repeat("{a,b}", 10) + "}": "more than 1000 alternatives",
		strings.Repeat("{", 11) + strings.Repeat("}", 11):          "nested more than 10 times",
		strings.Repeat("{", 1000000) + strings.Repeat("}", 100000): "nested more than 10 times",
	} {
		err := CheckPattern(pattern)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %.200v, want %q", pattern, err, want)
		}
	}
}
