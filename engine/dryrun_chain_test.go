package engine_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/engine/dryrun"
	"github.com/courierhq/courier/schedule"
	"github.com/courierhq/courier/store"
)

// defineMembers defines the jobs of the chains of these tests.
func defineMembers(t *testing.T, h *couriertest.Harness) {
	t.Helper()
	for _, text := range []string{
		`{"name": "download", "params": {"partner": null, "dir": "in"}, "steps": [
			{"id": "get", "type": "demo.probe", "config": {"connection_id": "context:params.partner", "path": "${context:params.dir}"}}]}`,
		`{"name": "decrypt", "params": {"partner": null}, "steps": [
			{"type": "demo.probe", "config": {"connection_id": "${context:params.partner}-keys", "path": "context:chain.fetch.file_list[0].name"}},
			{"type": "demo.probe", "config": {"path": "early"}}]}`,
		`{"name": "tidy", "steps": [{"type": "demo.probe", "config": {"path": "early"}}]}`,
	} {
		if _, err := h.Engine.Jobs().Define(t.Context(), h.Job(text), nil); err != nil {
			t.Fatal(err)
		}
	}
}

const goldenChain = `{"name": "daily", "params": {"partner": "acme", "day": null}, "members": [
	{"name": "tidy", "job": "tidy", "depends_on": [{"member": "decrypt", "required_status": "any"}, {"member": "again", "run_on_failure": true}]},
	{"name": "decrypt", "job": "decrypt", "depends_on": ["fetch"]},
	{"name": "fetch", "job": "download", "params": {"dir": "${context:params.partner}/${context:params.day}"}},
	{"name": "again", "job": "download", "params": {"partner": "globex", "dir": "bad"}}]}`

func TestDryRunOfAChain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, p := probing(t, nil)
		defineMembers(t, h)
		chain := readChain(t, goldenChain)
		r, err := h.Engine.DryRunChain(t.Context(), chain, &dryrun.Options{Parallel: 1})
		if err != nil {
			t.Fatal(err)
		}
		if list, err := h.Store.List(t.Context(), store.DefinitionFilter{Kind: store.Chain}); err != nil || len(list) > 0 {
			t.Errorf("chains: %v, %v", list, err)
		}
		requireGolden(t, "dryrun-chain", &r)

		p.seen = nil
		r, err = h.Engine.DryRunChain(t.Context(), chain, &dryrun.Options{Params: m{"partner": "initech", "day": "monday"}, Parallel: 1})
		if err != nil || r.Unknown != nil {
			t.Errorf("%v\n%s", err, &r)
		}
		for _, want := range []probeConfig{{Connection: "initech", Path: "initech/monday"}, {Connection: "globex", Path: "bad"}, {Connection: "initech-keys"}} {
			found := false
			for _, got := range p.seen {
				found = found || got == want
			}
			if !found {
				t.Errorf("no step was asked about %+v: %+v", want, p.seen)
			}
		}
	})
}

func TestDryRunOfASavedChainTellsItsSchedules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _ := probing(t, nil)
		defineMembers(t, h)
		chain, err := h.Engine.Chains().Define(t.Context(), readChain(t, goldenChain), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range []schedule.Schedule{
			{Name: "a", Chain: "daily", Cron: "0 30 2 * * ?", Zone: "Europe/Berlin"},
			{Name: "b", Job: "tidy", Cron: "0 30 2 * * ?"},
		} {
			if _, err := h.Engine.Schedules().Set(t.Context(), s, courier.By{}); err != nil {
				t.Fatal(err)
			}
		}
		r, err := h.Engine.DryRunChain(t.Context(), chain.Chain, nil)
		if err != nil || r.Version != 1 || len(r.Schedules) != 1 || len(r.Schedules[0].Next) != 5 || len(r.Schedules[0].Notes) == 0 {
			t.Errorf("%v\n%s", err, &r)
		}
		if got := r.Schedules[0].Next[0].Format("15:04 MST"); got != "02:30 CET" {
			t.Errorf("next at %s", got)
		}
	})
}

func TestDryRunOfABadChain(t *testing.T) {
	h, p := probing(t, nil)
	defineMembers(t, h)
	for name, c := range map[string]struct {
		chain  string
		params m
		want   []string
	}{
		"members": {chain: `"members": [{"job": "downlod"}, {"name": "a", "job": "tidy", "depends_on": ["b"]}, {"name": "b", "job": "tidy", "depends_on": ["a"]}]`,
			want: []string{`did you mean "download"?`, "a -> b -> a"}},
		"params": {chain: `"params": {"day": null}, "members": [{"job": "tidy"}]`, params: m{"dya": 1}, want: []string{`unknown parameter "dya"; did you mean "day"?`}},
	} {
		r, err := h.Engine.DryRunChain(t.Context(), readChain(t, `{"name": "c", `+c.chain+`}`), &dryrun.Options{Params: c.params})
		if err != nil || r.OK() || p.calls > 0 {
			t.Errorf("%s: %v, %d calls\n%s", name, err, p.calls, &r)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(r.Err().Error(), want) || !strings.Contains(r.String(), want) {
				t.Errorf("%s: there is no %q in\n%s", name, want, &r)
			}
		}
	}
}
