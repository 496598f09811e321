package flow_test

import (
	"errors"
	"fmt"
	"regexp/syntax"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/flow"
	"github.com/courierhq/courier/internal/test/raced"
)

// hostile are patterns that are short and take long; the first are the slowest.
var hostile = []string{
	`(a{0,31}){0,31}b`, `[^\d]{0,1000}Z`, `\pL{0,1000}Z`,
	`(a{1,30}){1,30}b`, `((a|b|c|d|e|f){0,100}){0,9}Z`, `((((a*)*)*)*){0,100}b`, `(a|a|a|a|a|a|a|a){0,300}Z`, `(.*a){1,500}Z`,
	`(x+x+)+y`, `(a*)*(a*)*x`, `(a|aa)+x`, `(a?){500}a{500}x`, `(\b|\B|^|$|){0,900}Z`, `(?i:ſ{0,1000})Z`, `(\pL|\PL){0,400}Z`,
	strings.Repeat(`a?`, 500) + "Z", strings.Repeat(`(a?){1000}`, 100), strings.Repeat(`.{0,1000}`, 100), strings.Repeat(`\pL{0,1000}`, 80), strings.Repeat(`(?i)k{0,1000}`, 70),
	strings.Repeat("(a{0,31}){0,31}", 60), "(" + strings.Repeat("|", 900) + "){0,1000}",
}

// slow is how many of them are matched against the longest text that they may be.
const slow = 3

// No pattern of the permitted length takes much longer than a second on a text
// of the permitted length: it is matched in that time, or refused.
func TestHostilePatterns(t *testing.T) {
	matched, tried := 0, 0
	for i := 0; i < len(hostile); i += raced.Or(4, 1) {
		p := hostile[i]
		tried++
		for n := 64 << 10; n >= 64; n /= 8 {
			v := values{"params.text": strings.Repeat("a", n), "params.pattern": p}
			if i >= slow && n < 64<<10 {
				break // enough of the kind
			}
			began := time.Now()
			_, err := holds(t, "context:params.text", "regex", "context:params.pattern", v)
			if took := time.Since(began); took > 20*time.Second { // of a processor that is shared
				t.Errorf("%.30q on %d bytes took %v", p, n, took)
			}
			if err == nil {
				matched++
				break // it takes the less with shorter ones
			}
			if !strings.Contains(err.Error(), "elements, as x{1,30} counts for thirty") || !strings.Contains(err.Error(), " at most; lower its counts") {
				t.Errorf("%.30q: %v", p, err)
			}
		}
	}
	if matched == 0 || matched == tried {
		t.Errorf("%d patterns were matched", matched)
	}
}

// Patterns as they are in use are matched against texts of any length.
func TestUsualPatterns(t *testing.T) {
	text := strings.Repeat("INV_20240131_00017.csv.gz ", 2520) // of almost 64 KiB
	for _, p := range []string{
		`^INV_\d{8}_\d{5}\.csv(\.gz)?`, `(?i)^(inv|cre|adj)_[0-9]{4}(0[1-9]|1[0-2])[0-3][0-9]_.{1,64}$`, `[\w.+-]{1,64}@[\w-]{1,63}(\.[\w-]{1,63}){1,3}`,
		`^.{0,255}$`, `\b(error|warning|fatal)\b.*\n?`,
	} {
		if _, err := holds(t, "context:params.text", "regex", p, values{"params.text": text}); err != nil {
			t.Errorf("%s: %v", p, err)
		}
	}
}

func TestRegexBounds(t *testing.T) {
	v := values{"params.long": strings.Repeat("a", 1025), "params.subject": strings.Repeat("a", 64<<10+1), "params.some": strings.Repeat("a", 8<<10)}
	for _, c := range []struct{ left, right, want string }{
		{"x", "context:params.long", "flow.if: right: is 1025 bytes long"},
		{"context:params.subject", "x", "flow.if: left: is 65537 bytes long; a regular expression is matched against 65536 at most"},
		{"context:params.some", strings.Repeat(".{0,900}", 4), "flow.if: left: is 8192 bytes long; the regular expression amounts to 7209 elements, as x{1,30} counts for thirty, and one of that size is matched against 6981 bytes at most"},
		{"context:params.some", strings.Repeat(".{0,900}", 5), "step 0 (flow.if): config.right: amounts to 9011 elements, as x{1,30} counts for thirty; a regular expression has 8192 at most"},
		{strings.Repeat("a", 8<<10), strings.Repeat(".{0,900}", 4), "step 0 (flow.if): config.left: is 8192 bytes long; the regular expression amounts to 7209 elements"},
	} {
		_, err := holds(t, c.left, "regex", c.right, v)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.30q: the error is %v, want %q", c.right, err, c.want)
		}
	}
}

// A cancel need not wait until a thousand markers are evaluated, if each is much
// work.
func TestHeavyConditionsAreWatched(t *testing.T) {
	items := make([]any, 1000)
	heavy := map[string][]courier.StepSpec{
		"patterns":     {when("context:params.text", "regex", strings.Repeat("a?", 200)+"Z"), do("a.b"), end},
		"long texts":   {when("context:params.long", "contains", "Z"), do("a.b"), end},
		"texts":        {when("context:params.long", "equals", "context:params.other"), do("a.b"), end},
		"large lists":  {when("context:params.list", "contains", "Z"), do("a.b"), end},
		"many sources": {forEach("context:params.source"), when(1, "equals", 2), do("a.b"), end, end},
	}
	for name, body := range heavy {
		tree := parse(t, append(append([]courier.StepSpec{forEach(items)}, body...), end)...)
		w := walk(t, tree, courier.Position{}, values{
			"params.text": strings.Repeat("a", 16<<10), "params.long": strings.Repeat("a", 2<<20), "params.other": strings.Repeat("a", 2<<20) + "b",
			"params.list": make([]any, 10000), "params.source": "[" + strings.Repeat(" ", 500<<10) + "]",
		})
		asked := 0
		stop := errors.New("stop")
		w.Watch(func() error {
			if asked++; asked == 3 {
				return stop
			}
			return nil
		})
		if _, err := w.Next(); err != stop {
			t.Errorf("%s: Next() = %v", name, err)
		}
		if p := w.Position(); len(p.Loops) == 0 || p.Loops[0].Index > 12 {
			t.Errorf("%s: the walk came to %v before it was asked to stop", name, p)
		}
	}
}

// The size that is counted is never less than that of the program.
func FuzzPatternSize(f *testing.F) {
	for _, p := range hostile {
		f.Add(p)
	}
	for _, p := range []string{"", "a", "(a)", "a*", "(a*)*", "(a?)?", "a+?", "a{0}", "a{0,0}", "a{3,}", "(a*){3,}", "(a*){0,}", "(|a)*", "(?i)straße", "[^a]", "^$", `\b`, "(((a)))", "a||b", "(?s).|a"} {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, p string) {
		tree, err := syntax.Parse(p, syntax.Perl)
		if err != nil || len(p) > 64 && flow.SizeOf(tree) > 1<<16 {
			return
		}
		size := flow.SizeOf(tree)
		if size < 1 || size > 1<<20 {
			return // far above the bound
		}
		program, err := syntax.Compile(tree.Simplify())
		if err != nil {
			t.Fatal(err)
		}
		const more = 3 // to fail, to match, and for the capture of the whole
		if len(program.Inst) > size+more {
			t.Errorf("%q is compiled to %d instructions, %d are counted", p, len(program.Inst), size)
		}
	})
}

func TestInvalidPattern(t *testing.T) {
	_, err := holds(t, "x", "regex", "a(", nil)
	if want := "is not a valid regular expression: missing closing )"; err == nil || !strings.Contains(fmt.Sprint(err), want) {
		t.Errorf("the error is %v, want %q", err, want)
	}
}
