package desk

import (
	"slices"
	"testing"

	"github.com/courierhq/courier/access"
)

// What each role may do is a set. The first role of a line has it, and each role that
// includes it; no other one.
func TestRoles(t *testing.T) {
	const own = true
	for _, c := range []struct {
		op  string
		own bool
		may []string
	}{
		{"getExecution", !own, []string{"viewer", "starter", "operator", "editor", "admin"}},
		{"getExecution", own, []string{"client", "viewer", "starter", "operator", "editor", "admin"}},
		{"explainExecution", !own, []string{"viewer", "starter", "operator", "editor", "admin"}},
		{"explainExecution", own, []string{"client", "viewer", "starter", "operator", "editor", "admin"}},
		{"getResults", own, []string{"client", "viewer", "starter", "operator", "editor", "admin"}},
		{"startExecution", !own, []string{"client", "starter", "operator", "editor", "admin"}},
		{"startChain", !own, []string{"client", "starter", "operator", "editor", "admin"}},
		{"dryRunJob", !own, []string{"starter", "operator", "editor", "admin"}},
		{"dryRunSentJob", !own, []string{"editor", "admin"}},
		{"cancelExecution", !own, []string{"operator", "editor", "admin"}},
		{"cancelExecution", own, []string{"client", "operator", "editor", "admin"}},
		{"cancelChain", own, []string{"client", "operator", "editor", "admin"}},
		{"pauseExecution", own, []string{"operator", "editor", "admin"}},
		{"rerunExecution", own, []string{"operator", "editor", "admin"}},
		{"listAudit", own, []string{"viewer", "starter", "operator", "editor", "admin"}},
		{"getValues", own, []string{"viewer", "starter", "operator", "editor", "admin"}},
		{"putJob", !own, []string{"editor", "admin"}},
		{"setLimit", !own, []string{"admin"}},
		{"listJournal", !own, []string{"admin"}},
	} {
		var may []string
		for _, r := range access.Roles() {
			if NeedOf(c.op).Granted(r.Role, c.own) {
				may = append(may, r.Name)
			}
		}
		if !slices.Equal(may, c.may) {
			t.Errorf("%s, own %v: %q; want %q", c.op, c.own, may, c.may)
		}
	}
	if access.Viewer.Has(access.Client) || access.Client.Has(access.Viewer) {
		t.Error("clients and viewers can be compared")
	}
	if r := access.Viewer &^ access.RightValues; NeedOf("getValues").Granted(r, false) || !NeedOf("listAudit").Granted(r, false) || r.String() != "see" {
		t.Errorf("%v", r)
	}
	for _, op := range Operations() {
		if n := NeedOf(op); n.Granted(access.None, true) != (n.Rights == 0) || !n.Granted(access.Admin, false) {
			t.Errorf("%s: %v", op, n)
		}
	}
}
