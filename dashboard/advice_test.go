package dashboard_test

import (
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/notify"
)

// links returns what the links of a page are called, and lead to.
func (a answer) links() map[string]string {
	found := make(map[string]string)
	for _, n := range a.tree.all("a") {
		found[n.text()] = n.attrs["href"]
	}
	return found
}

// A subscription that is off is saved and switched on at once, in the form and as a text; who
// only saves it leaves it off. The form of one that is on has no such button.
func TestSaveAndEnable(t *testing.T) {
	virtual(t, nil, func(w *world) {
		w.subscribe(notify.Subscription{Name: "told", Kind: notify.KindFunc, Func: "tell", Events: []courier.EventType{courier.EventJobFailed}, Disabled: true})
		const at = "notifications/told?tab="
		isOff := func(want bool) {
			t.Helper()
			if s, err := w.engine.Subscriptions().Get(t.Context(), "told"); err != nil || s.Disabled != want {
				t.Errorf("it is disabled: %v (%v)", s.Disabled, err)
			}
		}
		sent := w.get(at + "edit").has("Save and enable").fields("set")
		sent["f.events"] = "JobCompleted"
		w.post(at+"edit", sent).done("set")
		isOff(true)
		sent = w.get(at + "edit").fields("set")
		sent["do"] = "set and enable"
		sent["f.events"] = "JobComplete"
		bad := w.post(at+"edit", sent)
		if fields := bad.fields("set"); fields["f.events"] != "JobComplete" {
			t.Errorf("a mistake has thrown away what was written: %v", fields)
		}
		isOff(true)
		sent["f.events"] = "JobFailed"
		w.post(at+"edit", sent).done("set")
		isOff(false)
		if strings.Contains(w.get(at+"edit").text(), "Save and enable") {
			t.Error("one that is on can be enabled")
		}
		w.subscribe(notify.Subscription{Name: "told", Kind: notify.KindFunc, Func: "tell", Events: []courier.EventType{courier.EventJobFailed}, Disabled: true})
		sent = w.get(at + "text").fields("set")
		sent["do"] = "set and enable"
		w.post(at+"text", sent).done("set")
		isOff(false)
	})
}

// A failure of a job that was changed since leads to a resume with the newer version, from the
// first page, from its own and from that of the job; the form has that version chosen, and says
// at once what that would do, or why it can't be.
func TestNewerVersion(t *testing.T) {
	virtual(t, nil, func(w *world) {
		x := w.ended("other", "ann", map[string]any{"fail": "no"})
		at := "executions/" + string(x.ID)
		if _, ok := w.get(at).links()["Resume with version 2…"]; ok {
			t.Error("there is no version 2")
		}
		job := jobs()[1]
		job.Params["more"] = 1
		w.define(job)
		for _, page := range []answer{w.get("").has("has version 2 now"), w.get(at).has("a plain resume continues with version 1, and the latest is 2"), w.get("jobs/other").has("has version 1.")} {
			to, ok := page.links()["Resume with version 2…"]
			if !ok {
				t.Fatalf("%s does not lead to version 2: %v", page.at, page.links())
			}
			form := w.follow(page, to).has("What this would do").has("with version 2").has("Resume like this")
			for _, o := range form.tree.one(t, "#version").all("option") {
				if _, chosen := o.attrs["selected"]; chosen != (o.text() == "2") {
					t.Errorf("%s: version %q is chosen: %v", to, o.text(), chosen)
				}
			}
		}
		w.get(at + "/resume?version=9").has("version 9").has("Preview")
		if form := w.get(at + "/resume"); strings.Contains(form.text(), "What this would do") {
			t.Error("a form that nothing is chosen in says what that would do")
		}
		w.get(at).lacks("Only operators")
		w.user = "watcher"
		w.get(at).has("Only operators can act on this execution.")
		if _, ok := w.get("jobs/other").has("has version 1.").links()["Resume with version 2…"]; ok {
			t.Error("the job leads a viewer to what only operators do")
		}
		if _, ok := w.get(at).links()["Resume with version 2…"]; ok {
			t.Error("a viewer is led to what only operators do")
		}
	})
}

// What came of an action, what was wrong with it and what a resume would do have the focus, so
// that keys go on there, and software for the blind reads it.
func TestOutcomeHasFocus(t *testing.T) {
	virtual(t, nil, func(w *world) {
		focused := func(a answer, what string) {
			t.Helper()
			n := a.tree.all("[autofocus]")
			if len(n) != 1 || n[0].attrs["tabindex"] != "-1" || !strings.Contains(n[0].text(), what) {
				t.Errorf("%s: the focus is not on what says %q", a.at, what)
			}
		}
		x := w.ended("other", "ann", map[string]any{"fail": "no"})
		at := "executions/" + string(x.ID)
		focused(w.post(at+"/resume", map[string]string{"do": "try", "key": "k1"}), "What this would do")
		focused(w.post(at+"/resume", map[string]string{"do": "try", "key": "k2", "set": "{"}), "The form has errors")
		focused(w.act(at, map[string]string{"do": "resume", "key": "k3"}), "resume")
		time.Sleep(time.Second)
		if n := w.get(at).tree.all("[autofocus]"); len(n) != 0 {
			t.Error("a page without an outcome takes the focus")
		}
	})
}
