package coordination

import (
	"fmt"
	"slices"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

func hasTrail(s store.Store) bool {
	_, ok := s.(store.Trail)
	return ok
}

var trailCases = []testCase{
	// A file is found by its name, in whatever directory or on whatever server it was, newest
	// first.
	{"finds_by_file", func(k *kit) {
		k.Limit("", "0")
		a, b := k.Start(), k.Start()
		first := k.report(a, courier.File{Path: "in/INV-0423.csv"}, courier.File{Path: "/srv/out/inv-0423.csv", Size: 3}, courier.File{Path: "other"})
		second := k.report(a, courier.File{Path: "inv-0423.csv", Removed: true})
		k.report(a)
		third := k.report(b, courier.File{Path: "/out/Inv-0423.CSV", Connection: "acme"})
		want := []store.TrailEntry{{Value: "inv-0423.csv", Execution: b.ID(), Seq: third}, {Value: "inv-0423.csv", Execution: a.ID(), Seq: second}, {Value: "inv-0423.csv", Execution: a.ID(), Seq: first}}
		if a.ID() > b.ID() {
			want = append(want[1:], want[0])
		}
		k.Same("by name", k.find(store.TrailFilter{Key: store.TrailFile, Value: "inv-0423.csv"}), want)
		k.Same("of none", k.find(store.TrailFilter{Key: store.TrailFile, Value: "inv-0423"}), nil)
		k.Same("of another key", k.find(store.TrailFilter{Key: "partner", Value: "inv-0423.csv"}), nil)
		r := k.Records(a.ID())
		k.Same("files of the record", r[0].Files[1], courier.File{Path: "/srv/out/inv-0423.csv", Size: 3})
		k.Same("file on a server", k.Records(b.ID())[0].Files[0], courier.File{Path: "/out/Inv-0423.CSV", Connection: "acme"})
	}},
	{"finds_by_beginning_and_part", func(k *kit) {
		h := k.Start()
		var names []string
		for _, name := range []string{"a-1", "b-1", "b-2", "b", "c-1", "b\U0010FFFEz", "ab"} {
			k.report(h, courier.File{Path: "dir/" + name})
			names = append(names, name)
		}
		begin := k.find(store.TrailFilter{Key: store.TrailFile, Value: "b", Prefix: true})
		k.Same("beginning", values(begin), []string{"b\U0010FFFEz", "b-2", "b-1", "b"})
		k.Same("part", values(k.find(store.TrailFilter{Key: store.TrailFile, Value: "-1", Part: true})), []string{"c-1", "b-1", "a-1"})
		k.Same("a part with special characters", values(k.find(store.TrailFilter{Key: store.TrailFile, Value: "%", Part: true})), nil)
		slices.Sort(names)
		slices.Reverse(names)
		var paged []string
		f := store.TrailFilter{Key: store.TrailFile, Prefix: true, Limit: 2}
		for page := k.find(f); len(page) > 0; page = k.find(f) {
			paged = append(paged, values(page)...)
			f.Before = &page[len(page)-1]
		}
		k.Same("all, by pages", paged, names)
	}},
	// Under the name that TrailName gives, whatever characters the path has.
	{"names_follow_from_paths", func(k *kit) {
		h := k.Start()
		for _, path := range []string{"A/B", "dir/", "Ä/ÄÖ-Z", strings.Repeat("ü", 300), "x\\Y", "a\nb/C\nD", "%_'\"", "\u202eabc"} {
			seq := k.report(h, courier.File{Path: path})
			want := []store.TrailEntry{{Value: store.TrailName(path), Execution: h.ID(), Seq: seq}}
			if want[0].Value == "" {
				want = nil
			}
			k.Same(fmt.Sprintf("%q", path), k.find(store.TrailFilter{Key: store.TrailFile, Value: store.TrailName(path)}), want)
		}
	}},
	// If the attempt failed; each record that names it has an entry.
	{"finds_failed_and_several_attempts", func(k *kit) {
		h := k.Start()
		t := h.To(courier.Failed)
		for i := range 3 {
			s := courier.StepExecution{Step: i, Type: "a", Attempt: 1, State: courier.StepFailed, Files: []courier.File{{Path: fmt.Sprint("file", i)}, {Path: "same"}}}
			t.Ended = append(t.Ended, s)
		}
		h.Must(t)
		k.Same("entries", len(k.find(store.TrailFilter{Key: store.TrailFile, Value: "same"})), 3)
		k.Same("entries", len(k.find(store.TrailFilter{Key: store.TrailFile, Value: "file2"})), 1)
	}},
	// The label of an item in which an attempt has failed is found as the name of a file is.
	{"finds_by_item", func(k *kit) {
		h := k.Start()
		fail := func(loop *int, labels ...string) int64 {
			h.Must(h.Begin(0))
			t := h.Finish(0)
			s := &t.Ended[0]
			s.State, s.Error, s.FailedLoop, s.ItemLabels = courier.StepFailed, "why", loop, labels
			if loop != nil {
				s.Files = []courier.File{{Path: "in/inv-7.csv"}, {Path: "other"}}
			}
			h.Must(t)
			return t.Seq
		}
		seq := fail(new(2), "acme", "Inv-7.CSV", "a/b", "c/")
		entry := func(name string, seq int64) []store.TrailEntry {
			return []store.TrailEntry{{Value: name, Execution: h.ID(), Seq: seq}}
		}
		k.Same("by the label", k.find(store.TrailFilter{Key: store.TrailFile, Value: "acme"}), entry("acme", seq))
		k.Same("of an item and a file, once", k.find(store.TrailFilter{Key: store.TrailFile, Value: "inv-7.csv"}), entry("inv-7.csv", seq))
		k.Same("by the last part", k.find(store.TrailFilter{Key: store.TrailFile, Value: "b"}), entry("b", seq))
		k.Same("by a part", values(k.find(store.TrailFilter{Key: store.TrailFile, Value: "cm", Part: true})), []string{"acme"})
		k.Same("the record", k.reports(k.find(store.TrailFilter{Key: store.TrailFile, Value: "acme"}))[0].ItemLabels, []string{"acme", "Inv-7.CSV", "a/b", "c/"})
		seq = fail(nil, "of the execution")
		k.Same("of one with which the execution fails, and without files", k.find(store.TrailFilter{Key: store.TrailFile, Value: "of the execution"}), entry("of the execution", seq))
	}},
	// Of the first 1,000 records with a FailedLoop; the others have their labels, and entries of
	// their files.
	{"only_the_first_items_leave_entries", func(k *kit) {
		h := k.Start()
		h.Must(h.Begin(0))
		t := h.Next(0, 0)
		for i := range store.MaxTrailItems + 2 {
			t.Ended = append(t.Ended, courier.StepExecution{
				Step: 1, Type: "a", Attempt: 1, Iteration: []int{i}, State: courier.StepFailed, Error: "why", FailedLoop: new(0),
				ItemLabels: []string{fmt.Sprint("item-", i)}, Files: []courier.File{{Path: fmt.Sprint("file-", i)}},
			})
		}
		h.Must(t)
		last := store.MaxTrailItems - 1
		k.Same("the last of them", len(k.find(store.TrailFilter{Key: store.TrailFile, Value: fmt.Sprint("item-", last)})), 1)
		k.Same("the next one", k.find(store.TrailFilter{Key: store.TrailFile, Value: fmt.Sprint("item-", last+1)}), nil)
		k.Same("its file", len(k.find(store.TrailFilter{Key: store.TrailFile, Value: fmt.Sprint("file-", last+2)})), 1)
		list, err := k.Steps(k.Ctx(), store.StepFilter{Execution: h.ID(), FailedItems: true, After: t.Seq + int64(last)})
		k.OK(err)
		k.Same("its record", list[len(list)-1].ItemLabels, []string{fmt.Sprint("item-", last+2)})
	}},
	// The records that entries refer to are read with one call, in the order of the entries,
	// without those that are not there.
	{"reports_are_the_records_of_entries", func(k *kit) {
		k.Limit("", "0")
		a, b := k.Start(), k.Start()
		for range 3 {
			k.report(a, courier.File{Path: "one/same", Size: 1}, courier.File{Path: "other"})
			k.report(b, courier.File{Path: "two/same", Size: 2})
		}
		h := k.Start()
		h.Must(h.Begin(0))
		t := h.Finish(0)
		t.Ended[0].Files, t.Ended[0].Log = []courier.File{{Path: "same"}}, "what it says"
		h.Must(t)
		entries := append(k.find(store.TrailFilter{Key: store.TrailFile, Value: "same"}), k.find(store.TrailFilter{Key: store.TrailFile, Value: "other"})...)
		k.Same("entries", len(entries), 10)
		var want []courier.StepExecution
		for _, e := range entries {
			list, err := k.Steps(k.Ctx(), store.StepFilter{Execution: e.Execution, After: e.Seq - 1, Limit: 1})
			k.OK(err)
			want = append(want, list...)
		}
		k.Same("records", k.reports(entries), want)
		none := store.TrailEntry{Value: "same", Execution: "00000000-0000-7000-8000-000000000000", Seq: entries[0].Seq}
		start := store.TrailEntry{Value: "same", Execution: entries[0].Execution, Seq: 1}
		k.Same("but not of what isn't there", k.reports([]store.TrailEntry{none, entries[1], start, entries[0]}), []courier.StepExecution{want[1], want[0]})
		k.Same("none", k.reports(nil), nil)
	}},
	// With the version of the job that wrote each, if the execution had several.
	{"reports_have_versions", func(k *kit) {
		k.SaveAll(store.Job, "job", `"one"`, `"two"`)
		n := k.New() // saves a third
		n.Version = 1
		h := k.Hold(k.Add(n)[0].ID, long)
		k.report(h, courier.File{Path: "same"})
		h.Must(h.To(courier.Paused))
		k.Same("versions", versions(k.reports(k.find(store.TrailFilter{Key: store.TrailFile, Value: "same"}))), []int{0})
		c := k.Change(n.ID)
		c.Version = &store.PinnedVersion{Version: 2, StepTypes: n.StepTypes}
		c.Repairs = &courier.Repairs{Versions: []courier.VersionChange{{Seq: c.Seq, From: 1, To: 2}}}
		k.Changed(n.ID, c)
		k.report(k.Hold(n.ID, long), courier.File{Path: "same"})
		k.Same("versions, newest first", versions(k.reports(k.find(store.TrailFilter{Key: store.TrailFile, Value: "same"}))), []int{2, 1})
	}},
	{"refused_transition_leaves_none", func(k *kit) {
		h := k.Start()
		h.Must(h.Begin(0))
		t := h.Finish(0)
		t.Lease, t.Ended[0].Files = "00000000-0000-4000-8000-000000000000", []courier.File{{Path: "file"}}
		k.Is("error", k.Apply(k.Ctx(), t), courier.ErrLeaseLost)
		k.Same("entries", k.find(store.TrailFilter{Key: store.TrailFile, Value: "file"}), nil)
	}},
	// Executions are found by their labels, whole values, and by several with a filter.
	{"finds_by_label", func(k *kit) {
		labels := func(list ...string) map[string]string {
			m := make(map[string]string)
			for i := 0; i < len(list); i += 2 {
				m[list[i]] = list[i+1]
			}
			return m
		}
		with := func(m map[string]string) store.NewExecution {
			return k.With(func(n *store.NewExecution) { n.Labels = m })
		}
		a := k.Add(with(labels("partner", "acme", "day", "Monday")))[0]
		list := k.Add(with(labels("partner", "acme")), with(labels("partner", "ACME")), k.New(), with(labels("partner", "it's \"odd\" %")))
		k.Same("labels", a.Labels, labels("partner", "acme", "day", "Monday"))
		k.Same("as stored", k.Get(a.ID), a)
		k.Same("none", k.Get(list[2].ID).Labels, map[string]string(nil))
		k.Same("by label", len(k.find(store.TrailFilter{Key: "partner", Value: "acme"})), 2)
		k.Same("by an odd label", k.find(store.TrailFilter{Key: "partner", Value: "it's \"odd\" %"}), []store.TrailEntry{{Value: "it's \"odd\" %", Execution: list[3].ID}})
		k.Same("by no file", k.find(store.TrailFilter{Key: store.TrailFile, Value: "acme"}), nil)
		in := func(f store.Filter) (ids []courier.ExecutionID) {
			list, err := k.Executions(k.Ctx(), f)
			k.OK(err)
			for _, x := range list {
				ids = append(ids, x.ID)
			}
			return ids
		}
		k.Same("filter", len(in(store.Filter{Labels: labels("partner", "acme")})), 2)
		k.Same("filter by two", in(store.Filter{Labels: labels("partner", "acme", "day", "Monday")}), []courier.ExecutionID{a.ID})
		k.Same("filter by two of which one is missing", in(store.Filter{Labels: labels("partner", "acme", "day", "x")}), nil)
		n := with(labels("partner", "acme"))
		n.ID = a.ID
		k.Existing(n)
		k.Same("after a repetition", len(k.find(store.TrailFilter{Key: "partner", Value: "acme"})), 2)
	}},
	// The number of retries and the trace context of an execution are kept.
	{"options_are_kept", func(k *kit) {
		none := 0
		n := k.With(func(n *store.NewExecution) {
			n.MaxRetries, n.Trace = &none, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
		})
		x := k.Add(n)[0]
		k.Same("returned", []any{x.MaxRetries, x.Trace}, []any{0, n.Trace})
		k.Same("stored", k.Get(n.ID), x)
		h := k.Hold(n.ID, long)
		k.Same("claimed", []any{h.Execution.MaxRetries, h.Execution.Trace}, []any{0, n.Trace})
	}},
	{"filter_by_several_jobs", func(k *kit) {
		k.Job("other")
		k.Job("third")
		for _, job := range []string{"job", "other", "third", "other"} {
			k.Add(k.With(func(n *store.NewExecution) { n.Job = job }))
		}
		list, err := k.Executions(k.Ctx(), store.Filter{Jobs: []string{"other", "third", "none"}})
		k.OK(err)
		k.Same("found", len(list), 3)
	}},
}

// report ends an attempt of a step that reports files, and returns the number of its
// record.
func (k *kit) report(h *holder, files ...courier.File) int64 {
	k.Helper()
	t := h.Begin(0)
	h.Must(t)
	t = h.Finish(0)
	t.Ended[0].Files, t.Position.Step = files, 0
	h.Must(t)
	return t.Seq
}

func (k *kit) find(f store.TrailFilter) []store.TrailEntry {
	k.Helper()
	list, err := k.Store.(store.Trail).Find(k.Ctx(), f)
	k.OK(err)
	return list
}

func (k *kit) reports(entries []store.TrailEntry) []courier.StepExecution {
	k.Helper()
	list, err := k.Store.(store.Trail).Reports(k.Ctx(), entries)
	k.OK(err)
	return list
}

func values(list []store.TrailEntry) []string {
	var values []string
	for _, e := range list {
		values = append(values, e.Value)
	}
	return values
}

func versions(list []courier.StepExecution) []int {
	var versions []int
	for i := range list {
		versions = append(versions, list[i].Version)
	}
	return versions
}
