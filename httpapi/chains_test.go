package httpapi_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/engine/dryrun"
	"github.com/courierhq/courier/httpapi"
	"github.com/courierhq/courier/internal/definitiondiff"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/memstore"
)

// people with the roles of clients and of viewers of all jobs, besides those of other tests.
func chainAccess() access.Policy {
	a := policy()
	role := a.Role
	a.Role = func(ctx context.Context, p access.Principal, job string) access.Role {
		if strings.HasPrefix(p.ID, "client") {
			return access.Client
		}
		return role(ctx, p, job)
	}
	who := a.Who
	a.Who = func(r *http.Request) (access.Principal, error) {
		if user := r.Header.Get("X-User"); strings.HasPrefix(user, "client") {
			return access.Principal{ID: user}, nil
		}
		return who(r)
	}
	return a
}

const daily = `{"params": {"seconds": 1, "fail": "", "text": ""}, "members": [{"job": "report"}, {"job": "other", "depends_on": ["report"]}]}`

// withChain runs f in a world that has the chain daily.
func withChain(t *testing.T, f func(w *world)) {
	t.Helper()
	virtual(t, &httpapi.Options{Access: chainAccess()}, func(w *world) {
		w.as("editor").put("v1/chains/daily", daily, "If-None-Match", "*").want(http.StatusCreated, nil)
		f(w)
	})
}

func (w *world) startChain(body string) string {
	w.Helper()
	var got httpapi.StartedChain
	w.post("v1/chains/daily/executions", body).want(http.StatusAccepted, &got)
	return string(got.ID)
}

// Chains are defined, listed, read, compared and tried as jobs are.
func TestChainDefinitions(t *testing.T) {
	withChain(t, func(w *world) {
		editor := w.as("editor")
		editor.put("v1/chains/daily", daily).problem(http.StatusPreconditionRequired, "precondition_required")
		editor.put("v1/chains/daily", daily, "If-Match", `"v1"`).want(http.StatusOK, nil)
		changed := strings.Replace(daily, `{"job": "report"}`, `{"job": "report", "priority": 5}`, 1)
		var v httpapi.DefinitionView
		a := editor.put("v1/chains/daily", changed, "If-Match", `"v1"`).want(http.StatusCreated, &v)
		if v.Chain == nil || v.Chain.Version != 2 || v.Job != nil || v.SavedBy != "editor" || a.Header().Get("ETag") != `"v2"` {
			t.Errorf("%s", a.Body)
		}
		editor.put("v1/chains/daily", daily, "If-Match", `"v1"`).problem(http.StatusPreconditionFailed, "precondition_failed")
		editor.put("v1/chains/new", `{"members": [{"job": "reprot"}]}`, "If-None-Match", "*").problem(http.StatusUnprocessableEntity, "definition", "report")
		for user, status := range map[string]int{"edna": 403, "operator": 403, "watcher": 403, "nobody": 403} {
			w.as(user).put("v1/chains/daily", daily, "If-Match", `"v2"`).want(status, nil)
		}

		watcher := w.as("watcher")
		if names, versions, _ := watcher.get("v1/chains").entries(); !slices.Equal(names, []string{"daily"}) || versions[0] != 2 {
			t.Errorf("%v %v", names, versions)
		}
		if _, versions, _ := watcher.get("v1/chains/daily/versions").entries(); !slices.Equal(versions, []int{2, 1}) {
			t.Errorf("%v", versions)
		}
		watcher.get("v1/chains/daily?version=1").want(http.StatusOK, &v)
		if v.Chain.Version != 1 || len(v.Chain.Members) != 2 {
			t.Errorf("%+v", v.Chain)
		}
		var d definitiondiff.Diff
		watcher.get("v1/chains/daily/diff").want(http.StatusOK, &d)
		if got := d.String(); got != "changed report 0>0 /priority >5" {
			t.Errorf("%s", got)
		}
		watcher.get("v1/chains/dialy").problem(http.StatusNotFound, "not_found", "daily")
		for _, path := range []string{"v1/chains", "v1/chains/daily", "v1/chains/daily/versions", "v1/chains/daily/diff"} {
			w.as("vera").get(path).problem(http.StatusForbidden, "forbidden")
			w.as("client").get(path).problem(http.StatusForbidden, "forbidden")
		}

		var r dryrun.ChainReport
		w.as("operator").post("v1/chains/daily/dry-run", `{"params": {"text": "x"}}`).want(http.StatusOK, &r)
		if r.Chain != "daily" || r.Version != 2 || len(r.Members) != 2 || r.Err() != nil {
			t.Errorf("%+v", r)
		}
		body := `{"definition": {"members": [{"job": "reprot"}]}}`
		w.as("operator").post("v1/chains/daily/dry-run", body).problem(http.StatusForbidden, "forbidden", "editor")
		editor.post("v1/chains/daily/dry-run", body).want(http.StatusOK, &r)
		if r.Err() == nil {
			t.Errorf("%+v", r)
		}
		watcher.post("v1/chains/daily/dry-run", "").problem(http.StatusForbidden, "forbidden")
	})
}

// A client starts a chain, and sees how its own execution stands, and no others.
func TestStartChain(t *testing.T) {
	withChain(t, func(w *world) {
		client := w.as("client")
		var got, again httpapi.StartedChain
		a := client.post("v1/chains/daily/executions", `{"params": {"text": "a"}}`, "Idempotency-Key", "k").want(http.StatusAccepted, &got)
		if got.Chain != "daily" || got.Status != "running" || a.Header().Get("Location") != "../../../v1/chain-executions/"+string(got.ID) {
			t.Errorf("%s at %s", a.Body, a.Header().Get("Location"))
		}
		client.post("v1/chains/daily/executions", `{"params": {"text": "a"}, "idempotency_key": "k"}`).want(http.StatusAccepted, &again)
		if again != got {
			t.Errorf("%+v and then %+v", got, again)
		}
		client.post("v1/chains/daily/executions", `{"params": {"text": "b"}}`, "Idempotency-Key", "k").problem(http.StatusUnprocessableEntity, "idempotency_key_reused")
		w.as("client2").post("v1/chains/daily/executions", `{"params": {"text": "b"}}`, "Idempotency-Key", "k").want(http.StatusAccepted, nil)

		if x, err := w.engine.Chains().Wait(w.Context(), got.ID); err != nil || x.State != chain.Completed {
			t.Fatalf("%+v, %v", x, err)
		}
		at := "v1/chain-executions/" + string(got.ID)
		a = client.get(at).want(http.StatusOK, &got)
		if got.Status != "completed" || got.EndedAt.IsZero() || strings.Contains(a.Body.String(), "members") || strings.Contains(a.Body.String(), "params") {
			t.Errorf("%s", a.Body)
		}
		client.get(at, "If-None-Match", a.Header().Get("ETag")).want(http.StatusNotModified, nil)
		// Labels are values.
		if a := w.as("operator").get(at).want(http.StatusOK, nil); !strings.Contains(a.Body.String(), `"labels"`) {
			t.Errorf("who sees values sees no labels: %s", a.Body)
		}
		if a := w.as("blind").get(at).want(http.StatusOK, nil); strings.Contains(a.Body.String(), `"labels"`) {
			t.Errorf("who may not see values sees labels: %s", a.Body)
		}
		// What the members have done is the client's own as well; a rerun is of who asks for it.
		members, err := w.engine.Executions().List(w.Context(), store.Filter{Labels: map[string]string{"by": "client"}})
		if err != nil || len(members) == 0 {
			t.Fatalf("%+v, %v", members, err)
		}
		client.get("v1/executions/"+string(members[0].ID)).want(http.StatusOK, nil)
		w.as("client2").get("v1/executions/"+string(members[0].ID)).problem(http.StatusNotFound, "not_found")
		var rerun httpapi.StartedChain
		w.as("operator").post(at+"/rerun", "").want(http.StatusAccepted, &rerun)
		client.get("v1/chain-executions/"+string(rerun.ID)).problem(http.StatusNotFound, "not_found")
		byGo, err := w.engine.Chains().Start(w.Context(), "daily", &chain.StartOptions{By: courier.By{Actor: "client"}})
		if err != nil {
			t.Fatal(err)
		}
		client.get("v1/chain-executions/"+string(byGo.ID)).problem(http.StatusNotFound, "not_found")
		foreign := w.as("client2").get(at)
		foreign.problem(http.StatusNotFound, "not_found")
		for _, id := range []string{"x", "00000000-0000-7000-8000-000000000000", string(got.ID) + "0"} {
			if a := client.get("v1/chain-executions/" + id); a.Code != http.StatusNotFound || a.Body.String() != foreign.Body.String() {
				t.Errorf("%s: %s", id, a.Body)
			}
		}
		client.get("v1/chain-executions").problem(http.StatusForbidden, "forbidden")
		w.as("ann").post("v1/chains/daily/executions", "").problem(http.StatusForbidden, "forbidden")
		for _, c := range []struct {
			path, body, code string
			status           int
		}{
			{"dialy", "", "not_found", 404},
			{"daily", `{"params": {"txet": 1}}`, "invalid", 400},
			{"daily", `{"version": -1}`, "invalid", 400},
			{"daily", `{"version": 9}`, "forbidden", 403},
			{"daily", `{"priority": 1}`, "invalid", 400},
		} {
			client.post("v1/chains/"+c.path+"/executions", c.body).problem(c.status, c.code)
		}
	})
}

// Prefer: wait waits for the end of all members.
func TestWaitForChain(t *testing.T) {
	withChain(t, func(w *world) {
		var x httpapi.ChainExecutionView
		a := w.post("v1/chains/daily/executions", "", "Prefer", "wait=10").want(http.StatusOK, &x)
		if x.Status != "completed" || len(x.Members) != 2 || a.Header().Get("Preference-Applied") != "wait=10" || a.Header().Get("Location") == "" {
			t.Errorf("%s with %s", a.Body, a.Header())
		}
		a = w.post("v1/chains/daily/executions", `{"params": {"seconds": 20}}`, "Prefer", "wait=10").want(http.StatusAccepted, nil)
		if a.Header().Get("Preference-Applied") != "wait=10" {
			t.Errorf("%s", a.Header())
		}
	})
}

// A request succeeds again when its goal is reached or pending, and is refused when it
// can't be any more.
func TestChainRequests(t *testing.T) {
	withChain(t, func(w *world) {
		w = w.as("operator")
		var x httpapi.ChainExecutionView
		ask := func(id, verb, status string) {
			t.Helper()
			for range 2 {
				x = httpapi.ChainExecutionView{}
				w.post("v1/chain-executions/"+id+"/"+verb, `{"reason": "why"}`).want(http.StatusAccepted, &x)
				if x.Status != status && !(status == "cancelling" && x.Status == "cancelled") { // its worker may have done it by now
					t.Errorf("after %s: %s, want %s", verb, x.Status, status)
				}
			}
		}
		id := w.startChain(`{"hold": true, "params": {"seconds": 100}}`)
		w.post("v1/chain-executions/"+id+"/retry", "").problem(http.StatusConflict, "transition", "released")
		ask(id, "release", "running")
		time.Sleep(time.Second)
		ask(id, "pause", "pausing")
		ask(id, "resume", "running")
		time.Sleep(time.Second)
		ask(id, "cancel", "cancelling")
		w.post("v1/chain-executions/"+id+"/pause", "").problem(http.StatusConflict, "transition", "cancelled")
		if _, err := w.engine.Chains().Wait(w.Context(), courier.ChainExecutionID(id)); err != nil {
			t.Fatal(err)
		}
		ask(id, "cancel", "cancelled")
		for _, verb := range []string{"pause", "resume", "release", "retry"} {
			w.post("v1/chain-executions/"+id+"/"+verb, "").problem(http.StatusConflict, "transition", "final")
		}

		id = w.startChain(`{"params": {"fail": "wrong"}}`)
		if x, err := w.engine.Chains().Wait(w.Context(), courier.ChainExecutionID(id)); err != nil || x.State != chain.Failed {
			t.Fatalf("%+v, %v", x, err)
		}
		ask(id, "retry", "running")
		var again httpapi.StartedChain
		w.post("v1/chain-executions/"+id+"/rerun", `{"params": {"fail": ""}, "reason": "typo"}`, "Idempotency-Key", "r").want(http.StatusAccepted, &again)
		w.post("v1/chain-executions/"+id+"/rerun", `{"params": {"fail": "x"}}`, "Idempotency-Key", "r").problem(http.StatusUnprocessableEntity, "idempotency_key_reused")
		if x, err := w.engine.Chains().Wait(w.Context(), again.ID); err != nil || x.State != chain.Completed || string(x.RerunOf) != id {
			t.Errorf("%+v, %v", x, err)
		}

		list, err := w.engine.Journal(w.Context(), store.ActionFilter{Kind: "chain execution", Limit: 1000})
		if err != nil || len(list) != 2*(12+1+1+4+2) || list[len(list)-1].Outcome != "asked" || list[len(list)-1].Name != "daily" || list[0].Execution == "" {
			t.Errorf("%d entries, %v", len(list), err)
		}
		for user, status := range map[string]int{"watcher": http.StatusForbidden, "client": http.StatusNotFound, "otto": http.StatusForbidden} {
			w.as(user).post("v1/chain-executions/"+id+"/cancel", "").want(status, nil)
			w.as(user).post("v1/chain-executions/"+id+"/pause", "").problem(http.StatusForbidden, "forbidden")
		}
		w.post("v1/chain-executions/x/cancel", "").problem(http.StatusNotFound, "not_found")
	})
}

// The list is filtered, and comes page by page.
func TestListChainExecutions(t *testing.T) {
	withChain(t, func(w *world) {
		var want []string
		for range 5 {
			want = append([]string{w.startChain(`{"hold": true}`)}, want...)
			time.Sleep(time.Millisecond)
		}
		w.as("editor").put("v1/chains/second", daily, "If-None-Match", "*").want(http.StatusCreated, nil)
		w.post("v1/chains/second/executions", "").want(http.StatusAccepted, nil)
		var got []string
		for cursor := ""; ; {
			var p struct {
				Items []httpapi.ChainExecutionView
				Next  string
			}
			w.as("watcher").get("v1/chain-executions?chain=daily&state=pending,failed&limit=2&cursor="+cursor).want(http.StatusOK, &p)
			for _, x := range p.Items {
				got = append(got, string(x.ID))
			}
			if p.Next != "" {
				w.get("v1/chain-executions?chain=daily&state=failed&state=pending,failed&cursor="+p.Next).want(http.StatusOK, nil)
				for _, other := range []string{"", "chain=daily&", "state=pending,failed&", "chain=daily&state=pending&"} {
					w.get("v1/chain-executions?"+other+"cursor="+p.Next).problem(http.StatusBadRequest, "invalid", "cursor")
				}
				w.get("v1/chain-executions?cursor="+string(p.Items[0].ID)).problem(http.StatusBadRequest, "invalid", "cursor")
			}
			if cursor = p.Next; cursor == "" {
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
		var p struct{ Items []httpapi.ChainExecutionView }
		w.get("v1/chain-executions?state=running").want(http.StatusOK, &p)
		if len(p.Items) != 1 || p.Items[0].Chain != "second" {
			t.Errorf("%+v", p.Items)
		}
		w.get("v1/chain-executions?state=lost").problem(http.StatusBadRequest, "invalid", "pending")
		w.get("v1/chain-executions?chain=dialy").problem(http.StatusNotFound, "not_found")
		w.get("v1/chain-executions?cursor=x").problem(http.StatusBadRequest, "invalid")
	})
}

// Values of an execution of a chain are for those who see values.
func TestChainValues(t *testing.T) {
	a := valuesFor(access.Operator)
	virtual(t, &httpapi.Options{Access: a}, func(w *world) {
		w.put("v1/chains/daily", daily, "If-None-Match", "*").want(http.StatusCreated, nil)
		var got httpapi.StartedChain
		w.post("v1/chains/daily/executions", `{"params": {"fail": "`+canaryParam+`"}}`, "Idempotency-Key", canaryParam).want(http.StatusAccepted, &got)
		if x, err := w.engine.Chains().Wait(w.Context(), got.ID); err != nil || x.Failure == nil {
			t.Fatalf("%+v, %v", x, err)
		}
		for _, path := range []string{"v1/chain-executions", "v1/chain-executions/" + string(got.ID)} {
			if a := w.as("watcher").get(path).want(http.StatusOK, nil); strings.Contains(a.Body.String(), canaryParam) {
				t.Errorf("a viewer sees %s", a.Body)
			}
			if a := w.as("operator").get(path).want(http.StatusOK, nil); strings.Count(a.Body.String(), canaryParam) < 2 {
				t.Errorf("an operator sees %s", a.Body)
			}
		}
	})
}

// A store without chains says so.
func TestNoChains(t *testing.T) {
	w := newWorld(t, memstore.New(), nil)
	e := engine.New(struct{ store.Store }{w.store}, nil, nil)
	w.api = httpapi.New(e, &httpapi.Options{Access: policy()})
	w.get("v1/chain-executions").problem(http.StatusNotImplemented, "not_supported")
	w.put("v1/chains/daily", daily, "If-None-Match", "*").problem(http.StatusNotImplemented, "not_supported")
}
