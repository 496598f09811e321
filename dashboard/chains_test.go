package dashboard_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/dashboard"
	"github.com/courierhq/courier/internal/test/raced"
	"github.com/courierhq/courier/store/memstore"
)

// daily is a chain of four members, of which two have conditions.
func daily() chain.Chain {
	given := func(fail string, seconds float64) map[string]any {
		return map[string]any{"fail": fail, "seconds": seconds}
	}
	return chain.Chain{
		Name: "daily", Description: "Every night", Params: map[string]any{"fail": map[string]any{"type": "text", "default": "", "doc": "With what it fails."}, "seconds": 0},
		Members: []chain.Member{
			{Name: "fetch", Job: "report", Params: given("", 1)},
			{Name: "check", Job: "other", Params: map[string]any{"fail": "context:params.fail", "seconds": "context:params.seconds"}, DependsOn: []chain.Dependency{{Member: "fetch"}}},
			{Name: "mend", Job: "report", Params: given("", 0), DependsOn: []chain.Dependency{{Member: "check", RunOnFailure: true}}},
			{Name: "tidy", Job: "other", Params: given("", 0), DependsOn: []chain.Dependency{{Member: "check", RequiredStatus: courier.RequireAny}, {Member: "fetch"}}},
		},
	}
}

func (w *world) defineChain(chain chain.Chain) {
	w.Helper()
	if _, err := w.engine.Chains().Define(w.Context(), chain, &courier.DefineOptions{By: courier.By{Actor: "editor"}}); err != nil {
		w.Fatal(err)
	}
}

func (w *world) startChain(by string, params map[string]any) chain.Execution {
	w.Helper()
	x, err := w.engine.Chains().Start(w.Context(), "daily", &chain.StartOptions{Params: params, By: courier.By{Actor: by}, Labels: map[string]string{"by": by}})
	if err != nil {
		w.Fatal(err)
	}
	return x
}

// chain returns an execution of a chain as it is.
func (w *world) chain(id courier.ChainExecutionID) chain.Execution {
	w.Helper()
	x, err := w.engine.Chains().Execution(w.Context(), id)
	if err != nil {
		w.Fatal(err)
	}
	return x
}

// The list of chains, and the page of one: members as a drawing and as a table, versions,
// executions.
func TestChains(t *testing.T) {
	virtual(t, nil, func(w *world) {
		w.get("chains").has("There are no chains yet.").has("Chains().Define")
		w.defineChain(daily())
		second := daily()
		second.Description = "Each night"
		w.defineChain(second)
		w.get("chains").has("daily @2").has("Each night").has("none recently").has("editor")
		page := w.get("chains/daily").has("4 members, 4 dependencies").has("The chain has not run yet.").has("Parameters of an execution").has("With what it fails.").has("Run or dry run")
		svg := page.tree.one(t, ".dagbox")
		nodes, edges := svg.all("a"), svg.all("g[aria-hidden=true]")
		if len(nodes) != 4 || len(edges) != 4 {
			t.Fatalf("the drawing has %d members and %d edges", len(nodes), len(edges))
		}
		for i, want := range []string{"fetch report", "check other"} {
			if nodes[i].text() != want || nodes[i].attrs["href"] != "../jobs/"+strings.Fields(want)[1] {
				t.Errorf("member %d is %q and leads to %q", i, nodes[i].text(), nodes[i].attrs["href"])
			}
		}
		classes := ""
		for _, e := range edges {
			classes += e.attrs["class"] + e.text() + " "
		}
		if classes != "edge success edge failurefailure edge anyany edge success " {
			t.Errorf("the edges are %q", classes)
		}
		for i, want := range []string{"the chain starts", "fetch has completed", "check has completed or failed", "check has ended in any way fetch has completed"} {
			if row := page.tree.all("tr[data-row]")[i].text(); !strings.HasSuffix(row, want) {
				t.Errorf("row %d of the table is %q, and does not end in %q", i, row, want)
			}
		}
		page.has("Version 2, saved").has("What changed").lacks(`name="do"`)
		w.get("chains/daily?version=1").has("This is version 1. Version 2 is the latest.").has("Every night").has("Edit from this version")
		w.fails("chains/dialy", http.StatusNotFound).has("daily")
		w.fails("chains/daily?version=9", http.StatusNotFound)
		w.fails("chains/daily?version=x", http.StatusBadRequest)
	})
}

// A chain is started by its form, and its execution says how its members stand.
func TestChainStart(t *testing.T) {
	virtual(t, nil, func(w *world) {
		w.defineChain(daily())
		w.user = "operator"
		form := map[string]string{"do": "start", "param.fail": "no such partner", "reason": "by hand", "key": "k"}
		a := w.post("chains/daily/run", form)
		at := strings.TrimPrefix(a.Header().Get("Location"), "../../")
		if a.Code != http.StatusSeeOther || !strings.HasPrefix(at, "chain-executions/") {
			t.Fatalf("%d to %q: %s", a.Code, at, a.Body)
		}
		time.Sleep(100 * time.Millisecond)
		page := w.get(at).has("done start daily").has("running").has("0 of 4 members have ended.")
		if words := page.tree.one(t, ".dagbox").all("a"); words[0].text() != "fetch running" || words[1].text() != "check pending" {
			t.Errorf("the drawing begins with %q and %q", words[0].text(), words[1].text())
		}
		time.Sleep(time.Minute)
		other := dashboard.New(w.engine, &dashboard.Options{Access: policy()}) // as another process
		w.mux.Handle("/other/courier/", other)
		for _, path := range []string{"/courier/", "/other/courier/"} {
			r := httptest.NewRequest("POST", path+"chains/daily/run", strings.NewReader(url.Values{"do": {form["do"]}, "param.fail": {form["param.fail"]}, "reason": {form["reason"]}, "key": {"k"}}.Encode()))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			if b := w.send(r); b.Code != http.StatusSeeOther || !strings.HasPrefix(b.Header().Get("Location"), "../../"+strings.SplitN(at, "?", 2)[0]+"?") {
				t.Errorf("sent again to %s: %d to %q", path, b.Code, b.Header().Get("Location"))
			}
		}
		other.Close()
		page = w.get(at).has("failed").has("4 of 4 members have ended.").has("check: ").has("no such partner").has("Show the member that failed").has("Started by operator")
		row := page.tree.one(t, "#members").all("tr[data-failed]")
		if len(row) != 1 || !strings.Contains(row[0].all("a")[0].attrs["href"], "../executions/") {
			t.Errorf("%d failed members", len(row))
		}
		w.get("chains/daily").has("4 of 4").has("All executions of the chain")
		if runs := w.get("chains").has("failed").tree.one(t, ".outcomes").all("a"); len(runs) != 1 || runs[0].text() != "failed" || !strings.HasPrefix(runs[0].attrs["href"], "./chain-executions/") {
			t.Errorf("the list has %d outcomes", len(runs))
		}
		w.get("chain-executions").has("daily @1").has("no such partner")
		w.get("chain-executions?state=completed").has("No execution matches.")
		w.get("chain-executions?chain=daily&state=failed").has("show those of all chains")
		w.fails("chain-executions?state=none", http.StatusBadRequest)
		w.fails("chain-executions?cursor=none", http.StatusBadRequest)
	})
}

// Each button is there in the states that permit it, and does what it says.
func TestChainVerbs(t *testing.T) {
	virtual(t, nil, func(w *world) {
		w.defineChain(daily())
		held, err := w.engine.Chains().Start(w.Context(), "daily", &chain.StartOptions{Hold: true, Params: map[string]any{"seconds": 5, "fail": "broken"}})
		if err != nil {
			t.Fatal(err)
		}
		at := "chain-executions/" + string(held.ID)
		for _, step := range []struct {
			buttons string // before
			do      string
			state   chain.State // afterwards
		}{
			{"release cancel", "release", chain.Running},
			{"pause cancel", "pause", chain.Paused},
			{"resume cancel", "resume", chain.Failed},
			{"retry cancel rerun", "retry", chain.Failed},
			{"retry cancel rerun", "cancel", chain.Cancelled},
			{"rerun", "rerun", chain.Cancelled},
		} {
			var buttons []string
			for _, b := range w.get(at).tree.one(t, "[data-actions]").all("button") {
				buttons = append(buttons, b.attrs["value"])
			}
			if got := strings.Join(buttons, " "); got != step.buttons {
				t.Errorf("before %s the buttons are %q, and not %q", step.do, got, step.buttons)
			}
			a := w.post(at, map[string]string{"do": step.do, "reason": "to see"})
			if a.Code != http.StatusSeeOther {
				t.Fatalf("%s: %d %s", step.do, a.Code, a.Body)
			}
			if time.Sleep(100 * time.Millisecond); step.do != "release" {
				time.Sleep(time.Minute)
			}
			if x := w.chain(held.ID); x.State != step.state {
				t.Errorf("after %s it is %s, and not %s", step.do, x.State, step.state)
			}
			if to := a.Header().Get("Location"); step.do == "rerun" {
				w.get("chain-executions/" + strings.TrimPrefix(to, "../chain-executions/")).has("repeats this one").has("done rerun daily")
			} else {
				w.get(at + to).has("done " + step.do + " daily")
			}
		}
		refused := w.post(at, map[string]string{"do": "pause"})
		if refused.Code != http.StatusConflict {
			t.Errorf("pause of a cancelled one: %d", refused.Code)
		}
		refused.has("Its state does not permit this").has("its state is final")
	})
}

// A chain is started again with other parameters and the version of the former execution.
func TestChainRerun(t *testing.T) {
	virtual(t, nil, func(w *world) {
		w.defineChain(daily())
		former := w.startChain("ann", map[string]any{"fail": "broken"}).ID
		time.Sleep(time.Minute)
		w.get("chain-executions/" + string(former)).has("Start again with changes…")
		again := daily()
		again.Description = "changed"
		w.defineChain(again)
		at := "chain-executions/" + string(former) + "/rerun"
		w.get(at).has("Start daily again").has(`"fail": "broken"`).has("2, the latest").has("1, as the original")
		for _, bad := range []map[string]string{{"params": "{"}, {"version": "x"}, {"params": `{"none": 1}`}} {
			bad["do"], bad["key"] = "rerun", "k"
			if a := w.post(at, bad); a.Code != http.StatusBadRequest && a.Code != http.StatusUnprocessableEntity {
				t.Errorf("%v: %d", bad, a.Code)
			}
		}
		w.act(at, map[string]string{"do": "rerun", "key": "k", "version": "1", "params": `{"fail": ""}`}).has("repeats this one").has("version 1")
		list, err := w.engine.Chains().Executions(w.Context(), chain.Filter{Chain: "daily"})
		if err != nil || len(list) != 2 || list[0].RerunOf != former || !strings.Contains(string(w.chain(list[0].ID).Params), `"fail":""`) || list[0].Version != 1 {
			t.Errorf("%+v, %v", list, err)
		}
		w.user = "watcher"
		w.fails(at, http.StatusForbidden)
	})
}

// Who may do what with chains.
func TestChainRoles(t *testing.T) {
	people["chainclient"] = map[string]access.Role{"": access.Client}
	t.Cleanup(func() { delete(people, "chainclient") })
	virtual(t, options(), func(w *world) {
		w.defineChain(daily())
		foreign := w.startChain("ann", map[string]any{"fail": canary})
		own := w.startChain("chainclient", map[string]any{"fail": canary})
		time.Sleep(time.Minute)
		for user, want := range map[string]struct{ list, run, own, retry int }{
			"nobody":      {403, 403, 403, 403},
			"otto":        {403, 403, 403, 403}, // an operator of one job
			"chainclient": {403, 404, 200, 403},
			"watcher":     {200, 200, 200, 403},
			"operator":    {200, 200, 200, 303},
			"admin":       {200, 200, 200, 303},
		} {
			w.user = user
			for at, status := range map[string]int{"chains": want.list, "chains/daily": want.list, "chain-executions": want.list, "chain-executions/" + string(foreign.ID): want.run, "chain-executions/" + string(own.ID): want.own} {
				a := w.send(httptest.NewRequest("GET", "/courier/"+at, nil))
				if a.Code != status {
					t.Errorf("%s gets %s: %d, and not %d", user, at, a.Code, status)
				}
				if user != "admin" {
					a.lacks(canary)
				}
				if buttons := a.tree.all("button[value=retry]"); a.Code == 200 && strings.HasPrefix(at, "chain-executions/") && (len(buttons) > 0) != (want.retry == 303) {
					t.Errorf("%s has %d buttons at %s", user, len(buttons), at)
				}
			}
			if a := w.post("chain-executions/"+string(foreign.ID), map[string]string{"do": "retry"}); a.Code != want.retry {
				t.Errorf("%s retries: %d, and not %d", user, a.Code, want.retry)
			}
			time.Sleep(time.Minute)
		}
		w.user = "chainclient"
		w.get("chain-executions/" + string(own.ID)).has("failed").lacks("fetch").lacks("daily/")
		w.user = "admin"
		w.get("chain-executions/" + string(own.ID)).has(canary)
		w.fails("chain-executions/none", http.StatusNotFound)
	})
}

// Chains with hostile names are drawn, and pages of many stay pages.
func TestChainsHostile(t *testing.T) {
	w := newWorld(t, memstore.New(), nil)
	for i, evil := range hostile {
		job := jobs()[0]
		job.Name = jobName(evil)
		w.define(job)
		w.defineChain(chain.Chain{Name: fmt.Sprintf("%02d", i) + jobName(evil), Description: evil, Members: []chain.Member{{Name: "a", Job: job.Name}}})
	}
	page := w.get("chains").lacks("\u202e").lacks("<img")
	if n := len(page.tree.all("tr[data-row]")); n != len(hostile) {
		t.Errorf("%d rows", n)
	}
	for _, a := range page.tree.one(t, "tbody").all("a") {
		w.get(strings.TrimPrefix(a.attrs["href"], "./")).lacks("\u202e").lacks("<img")
	}
	for i := range 120 {
		w.defineChain(chain.Chain{Name: fmt.Sprintf("many-%03d", i), Members: []chain.Member{{Job: "report"}}})
	}
	seen, at := 0, "chains"
	for at != "" {
		page := w.get(at)
		seen += len(page.tree.all("tr[data-row]"))
		at = ""
		for _, next := range page.tree.all("a[rel=next]") {
			at = "chains" + next.attrs["href"]
		}
	}
	if seen != 120+len(hostile) {
		t.Errorf("the pages have %d chains", seen)
	}
}

// A chain of 10,000 members is a page all the same.
func TestChainOfMany(t *testing.T) {
	if raced.On {
		return // it takes long, one request after the other; the run without the race detector has it
	}
	w := newWorld(t, memstore.New(), nil)
	many := chain.Chain{Name: "many"}
	for i := range 10_000 {
		many.Members = append(many.Members, chain.Member{Name: fmt.Sprintf("m%d", i), Job: "report"})
	}
	w.defineChain(many)
	begin := time.Now()
	page := w.get("chains/many").has("would be too large to read").has("those from 1 to 500")
	t.Logf("%d bytes in %v", page.Body.Len(), time.Since(begin))
	next := w.get("chains/many" + page.tree.one(t, "a[rel=next]").attrs["href"]).has("those from 501 to 1,000").has("First members")
	if n := len(next.tree.all("tr[data-row]")); n != 500 {
		t.Errorf("%d rows", n)
	}
	w.get("chains/many?from=99999").has("those from 10,000 to 10,000")
	for version := 2; version <= 4; version++ {
		many.Members[version*1000].Priority = int16(version)
		many.Members = slices.Delete(many.Members, version*2000, version*2000+1)
		w.defineChain(many)
	}
	w.get("chains/many").has("9,997 members")
	// Of so many members two versions are read.
	page = w.get("chains/many?tab=versions").has("9997 what changed").has("Older versions")
	if n := len(page.tree.all("tr[data-row]")); n != 2 {
		t.Errorf("%d versions are listed", n)
	}
	w.get("chains/many" + page.tree.one(t, "a[rel=next]").attrs["href"]).has("9999 what changed").has("first version")
	page = w.get("chains/many/diff").has("priority absent 4")
	if changed, removed := page.tree.one(t, "li[class=changed]").text(), page.tree.one(t, "li[class=removed]").text(); !strings.Contains(changed, `"m4001"`) || !strings.Contains(removed, `"m8002"`) {
		t.Errorf("%s and %s", changed, removed)
	}
	for _, other := range []string{"m3000", "m6001", "m4000", "m8001", "m8003"} {
		if strings.Contains(page.tree.text(), fmt.Sprintf("%q", other)) {
			t.Errorf("the page says that version 4 has changed %s", other)
		}
	}
	w.get("chains/many?version=2").has("This is version 2. Version 4 is the latest.").has("9,999 members")
	w.fails("chains/many?from=-1", http.StatusBadRequest)
}

// An open page of an execution of a chain is told what has changed, and nothing else.
func TestChainLive(t *testing.T) {
	virtual(t, nil, func(w *world) {
		w.defineChain(daily())
		at := "chain-executions/" + string(w.startChain("ann", map[string]any{"seconds": 600}).ID)
		time.Sleep(100 * time.Millisecond)
		page := w.get(at)
		have := func() string {
			var list []string
			for _, id := range []string{"summary", "members"} {
				list = append(list, id+":"+page.tree.one(t, "#"+id).attrs["data-hash"])
			}
			return strings.Join(list, ",")
		}
		ask := func() string {
			r := httptest.NewRequest("GET", "/courier/"+at+"?live="+page.tree.one(t, "main").attrs["data-live"]+"&have="+have(), nil)
			r.Header.Set("Accept", "application/json")
			a := w.send(r)
			if a.Code != http.StatusOK {
				t.Fatalf("%d: %s", a.Code, a.Body)
			}
			return a.Body.String()
		}
		if got := ask(); got != `{"patches":[]}` {
			t.Errorf("nothing has changed, and the page is told %s", got)
		}
		time.Sleep(2 * time.Second)
		if got := ask(); !strings.Contains(got, `"id":"summary"`) || !strings.Contains(got, `"id":"members"`) || !strings.Contains(got, "1 of 4 members have ended") {
			t.Errorf("a member has ended, and the page is told %s", got)
		}
	})
}
