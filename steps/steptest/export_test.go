package steptest

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/courierhq/courier"
)

// Breaches runs a case as Run does and returns what that would report.
func Breaches(t *testing.T, c Case) string {
	t.Helper()
	r := &recorder{TB: t}
	if c.Packages == nil {
		c.Packages = []string{"github.com/courierhq/courier/steps/steptest"}
	}
	check(c, func(name string, f func(testing.TB, worlds)) {
		r.name = name
		f(r, func(use func(testing.TB)) {
			if !c.Virtual {
				use(r)
				return
			}
			synctest.Test(t, func(t *testing.T) { use(r) })
		})
	})
	return r.text.String()
}

// Uncovered returns what Cover would report.
func Uncovered(t *testing.T, reg *courier.Registry, keys ...string) string {
	r := &recorder{TB: t}
	Cover(r, reg, keys...)
	return r.text.String()
}

// A recorder keeps what a test reports.
type recorder struct {
	testing.TB
	name string
	text strings.Builder
}

func (r *recorder) Errorf(format string, args ...any) {
	if r.name != "" {
		r.text.WriteString(r.name + ": ")
	}
	fmt.Fprintf(&r.text, format+"\n", args...)
}

func (r *recorder) Error(args ...any) { r.Errorf("%s", fmt.Sprint(args...)) }
