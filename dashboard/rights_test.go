package dashboard_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/dashboard"
	"github.com/courierhq/courier/internal/desk"
	"github.com/courierhq/courier/store/memstore"
)

// Each page and each action asks for the rights of an operation of the API: a page that is about
// all jobs is shown to exactly those who have them, and nobody else
// may carry out its actions.
func TestRights(t *testing.T) {
	w := newWorld(t, memstore.New(), nil)
	fill := strings.NewReplacer("{name}", "daily", "{id}", "x")
	operations := desk.Operations()
	cases := 0
	for _, p := range dashboard.Table(w.pages) {
		for verb, op := range p.Actions {
			if !slices.Contains(operations, op) {
				t.Errorf("%s, %s: there is no operation %q", p.Path, verb, op)
			}
		}
		if !slices.Contains(operations, p.Op) {
			t.Errorf("%s: there is no operation %q", p.Path, p.Op)
		} else if !p.All {
			continue // the tests of these pages have the rest
		}
		for user, roles := range people {
			w.user = user
			role := access.Role(roles[""])
			cases++
			need := desk.NeedOf(p.Op)
			if a := w.send(get(fill.Replace(p.Path))); (a.Code == 403) == need.Granted(role, true) {
				t.Errorf("%s as %s: %d", p.Path, user, a.Code)
			}
			for verb, op := range p.Actions {
				cases++
				a := w.post(fill.Replace(p.Path), map[string]string{"do": verb, "key": user + verb})
				if need := desk.NeedOf(op); (a.Code == 403) == need.Granted(role, true) {
					t.Errorf("%s, %s as %s: %d", p.Path, verb, user, a.Code)
				}
			}
		}
	}
	t.Logf("%d cases", cases)
}
