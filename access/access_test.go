package access_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/courierhq/courier/access"
)

func TestRoles(t *testing.T) {
	for role, want := range map[access.Role]string{
		access.None: "none", access.Viewer: "viewer", access.Admin: "admin",
		access.RightSee | access.RightOperate: "see and operate",
		access.Viewer &^ access.RightValues:   "see",
		access.Client | access.Viewer:         "start and own and see and values",
	} {
		if role.String() != want {
			t.Errorf("%q, want %q", role, want)
		}
	}
	if access.Viewer.Has(access.Client) || access.Client.Has(access.Viewer) {
		t.Error("clients and viewers can be compared")
	}
	for i, n := range access.Roles() {
		if n.Role.String() != n.Name || n.Role.Least() != n.Role || n.Does == "" {
			t.Errorf("%d: %+v", i, n)
		}
	}
	var all access.Role
	for _, n := range access.Rights() {
		if n.Role&all != 0 || n.Role.Rights() != n.Name || n.Does == "" {
			t.Errorf("%+v", n)
		}
		all |= n.Role
	}
	if all != access.Admin|access.RightOwn { // an admin sees all, its own too
		t.Errorf("all rights are %v", all)
	}
	if r := access.RightOwn | access.RightOperate; r.Least() != access.Admin {
		t.Errorf("%v is had by %v", r, r.Least()) // no role but that has both
	}
	if r := access.RightOperate; r.Least() != access.Operator {
		t.Errorf("%v is had by %v", r, r.Least())
	}
}

// What is returned is the caller's.
func TestListsAreCopies(t *testing.T) {
	access.Roles()[0].Name, access.Rights()[0].Name, access.Settings()[0] = "x", "x", "x"
	if access.None.String() != "none" || access.RightStart.String() != "start" || access.Settings()[0] != "priority" {
		t.Error("who changes a list changes what holds")
	}
}

func ExamplePolicy() {
	policy := access.Policy{
		Who: func(r *http.Request) (access.Principal, error) {
			user, _, ok := r.BasicAuth() // whose password somebody else has checked
			if !ok {
				return access.Principal{}, &access.Error{Unknown: true, Text: "sign in at https://sso.example.com"}
			}
			return access.Principal{ID: user}, nil
		},
		Role: func(_ context.Context, p access.Principal, job string) access.Role {
			switch {
			case p.ID == "ops":
				return access.Admin
			case job == "invoices":
				return access.Viewer &^ access.RightValues
			}
			return access.None
		},
	}
	fmt.Println(policy.Role(context.Background(), access.Principal{ID: "ann"}, "invoices"))
	fmt.Println(policy.Role(context.Background(), access.Principal{ID: "ops"}, ""))
	// Output:
	// see
	// admin
}
