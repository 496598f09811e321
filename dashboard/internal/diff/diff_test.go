package diff_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/dashboard/internal/diff"
	"github.com/courierhq/courier/internal/definitiondiff"
	"github.com/courierhq/courier/internal/jsontext"
)

// step is a step with a path.
func step(id, path string) courier.StepSpec {
	return courier.StepSpec{ID: id, Type: "demo.get", Config: map[string]any{"path": path}}
}

// job is a job with a limit and some steps.
func job(limit int, steps ...courier.StepSpec) *courier.Job {
	return &courier.Job{Name: "a", Limit: limit, Steps: steps}
}

// TestOf: a step that was changed, moved, added or removed is named as it is called now, with its
// former place, and a value that was not there is told from an empty one.
func TestOf(t *testing.T) {
	v, err := diff.Of(job(1, step("one", "/a"), step("two", "/b"), step("three", "<c>")), job(0, step("two", "/b"), step("one", ""), step("new", "/d")), "version 1", "this text")
	if err != nil || v.From != "version 1" || v.To != "this text" || v.Same() {
		t.Fatalf("%+v, %v", v, err)
	}
	var got []string
	for _, f := range v.Fields {
		got = append(got, fmt.Sprint(f.Name, " ", f.From, " ", f.To, " ", f.IsNew, f.IsOld))
	}
	for _, p := range v.Parts {
		got = append(got, fmt.Sprint(p.Change, " ", p.Label, " ", p.Place, " ", p.Fields, " ", strings.Join(strings.Fields(p.Whole), "")))
	}
	want := []string{
		"limit 1  false true",
		`moved step 0 "two" (demo.get) was step 1 [] `,
		`changed step 1 "one" (demo.get) was step 0 [{config/path "/a" "" false false}] `,
		`added step 2 "new" (demo.get)  [] {"id":"new","type":"demo.get","config":{"path":"/d"}}`,
		`removed step 2 "three" (demo.get)  [] {"id":"three","type":"demo.get","config":{"path":"<c>"}}`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
	if v, err := diff.Of(job(1, step("a", "")), job(1, step("a", "")), "", ""); err != nil || !v.Same() {
		t.Errorf("the same job differs: %+v, %v", v, err)
	}
	members := func(names ...string) *chain.Chain {
		c := &chain.Chain{Name: "c"}
		for _, n := range names {
			c.Members = append(c.Members, chain.Member{Name: n, Job: "a"})
		}
		return c
	}
	c, err := diff.Of(members("x"), members("x", "y"), "", "")
	if err != nil || len(c.Parts) != 1 || c.Parts[0].Label != `member 1 "y"` || !strings.HasPrefix(c.Parts[0].Whole, "{") {
		t.Errorf("%+v, %v", c, err)
	}
}

// TestMany: a difference of more than 500 steps says how many are left out.
func TestMany(t *testing.T) {
	var steps []courier.StepSpec
	for i := range 700 {
		steps = append(steps, step(fmt.Sprint("s", i), "/a"))
	}
	if v, err := diff.Of(job(1), job(1, steps...), "", ""); err != nil || len(v.Parts) != 500 || v.Cut != 200 {
		t.Errorf("%d parts, %d are cut, %v", len(v.Parts), v.Cut, err)
	}
}

// TestChanges: a difference is a list of values, with the step that each belongs to.
func TestChanges(t *testing.T) {
	was, err1 := jsontext.Append(nil, job(1, step("one", "/a"), step("", "/b")))
	is, err2 := jsontext.Append(nil, job(2, step("one", "/x"), step("", "/b"), step("new", "/d")))
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	var got []string
	for _, c := range diff.Changes(definitiondiff.Of(was, is)) {
		got = append(got, fmt.Sprint(c.Place, "|", c.Was, "|", len(c.Now) > 0))
	}
	if want := []string{"/limit|1|true", `step one /config/path|"/a"|true`, "step new, added ||true"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
