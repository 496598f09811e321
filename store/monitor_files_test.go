package store

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
)

var dawn = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// A watch plans looks at one directory, a second each, and keeps what they lead
// to as a store does.
type watch struct {
	rule  FileRule
	files map[string]SeenFile
	now   time.Time
	plan  FilePlan
}

func newWatch(r FileRule) *watch {
	if r.Selects == nil {
		r.Selects = func(name string) bool { return r.DoneFile == "" || !strings.HasSuffix(name, r.DoneFile) }
	}
	if r.Events == nil {
		r.Events = []courier.MonitorEvent{courier.FileCreated}
	}
	if r.Max == 0 {
		r.Max = 1000
	}
	if r.Keep == 0 {
		r.Keep = time.Hour
	}
	return &watch{rule: r, files: make(map[string]SeenFile), now: dawn}
}

// look lists files such as "a:5" (name and size), and returns what is handed
// over.
func (w *watch) look(files ...string) string {
	var list []courier.ListedFile
	for _, f := range files {
		name, size, _ := strings.Cut(f, ":")
		l := courier.ListedFile{Name: name, Modified: dawn}
		fmt.Sscan(size, &l.Size)
		list = append(list, l)
	}
	began, ended := w.now, w.now.Add(time.Second)
	w.now = ended
	w.plan = PlanFiles(w.files, list, w.rule, began, ended)
	var got []string
	for i, r := range w.plan.Ready {
		w.plan.Hand(i, "x", ended)
		got = append(got, fmt.Sprintf("%s %s:%d", r.Event, r.File.Name, r.File.Size))
	}
	for _, f := range w.plan.Changed {
		w.files[f.Name] = f
	}
	for _, name := range w.plan.Removed {
		delete(w.files, name)
	}
	return strings.Join(got, ", ")
}

// TestPlanFiles goes through what happens to one directory, look by look.
func TestPlanFiles(t *testing.T) {
	created, modified, exists := courier.FileCreated, courier.FileModified, courier.FileExists
	type step struct{ there, want string } // what is there, separated by blanks; "+10" lets seconds pass
	for _, tt := range []struct {
		name  string
		rule  FileRule
		steps []step
	}{
		{"stable from the end of a look to the beginning of another", FileRule{Stable: 3 * time.Second}, []step{{"a:1", ""}, {"a:1", ""}, {"a:1", ""}, {"a:1", ""}, {"a:1", "created a:1"}, {"a:1", ""}}},
		{"two looks at least", FileRule{Stable: 1}, []step{{"a:1", ""}, {"+1", ""}, {"a:1", "created a:1"}}},
		{"a change begins anew", FileRule{Stable: time.Second}, []step{{"a:1", ""}, {"+1", ""}, {"a:2", ""}, {"+1", ""}, {"a:3", ""}, {"+1", ""}, {"a:3", "created a:3"}}},
		{"gone before it was ready", FileRule{Stable: time.Second}, []step{{"a:1", ""}, {"", ""}, {"a:1", ""}, {"a:1", ""}, {"a:1", "created a:1"}}},
		{"gone and back", FileRule{Stable: 1}, []step{{"a:1", ""}, {"+1", ""}, {"a:1", "created a:1"}, {"", ""}, {"a:1", ""}, {"+1", ""}, {"a:1", "created a:1"}}},
		{"gone and forgotten", FileRule{Stable: 1, Keep: 10 * time.Second}, []step{{"a:1", ""}, {"+1", ""}, {"a:1", "created a:1"}, {"", ""}, {"+20", ""}, {"", ""}}},
		{"there for long", FileRule{Stable: 1, Keep: 10 * time.Second}, []step{{"a:1", ""}, {"+1", ""}, {"a:1", "created a:1"}, {"+999", ""}, {"a:1", ""}, {"+999", ""}, {"a:1", ""}, {"+1", ""}, {"a:1", ""}, {"+1", ""}, {"a:1", ""}}},
		{"done file at two looks", FileRule{DoneFile: ".d"}, []step{{"a:1", ""}, {"a:1 a.d", ""}, {"a:1 a.d", "created a:1"}, {"a:1 a.d", ""}}},
		{"done file of a file that still changes", FileRule{DoneFile: ".d"}, []step{{"a:1 a.d", ""}, {"a:2 a.d", ""}, {"a:2 a.d", "created a:2"}}},
		{"done file that goes away", FileRule{DoneFile: ".d"}, []step{{"a:1 a.d", ""}, {"a:1", ""}, {"a:1 a.d", ""}, {"a:1 a.d", "created a:1"}}},
		{"done file of another", FileRule{DoneFile: ".d"}, []step{{"a:1 b.d", ""}, {"a:1 b.d", ""}}},
		{"modified only", FileRule{Stable: 1, Events: []courier.MonitorEvent{modified}}, []step{{"a:1", ""}, {"+1", ""}, {"a:1", ""}, {"a:2", ""}, {"+1", ""}, {"a:2", "modified a:2"}, {"a:2", ""}}},
		{"modified while it was away", FileRule{Stable: 1, Events: []courier.MonitorEvent{modified}}, []step{{"a:1", ""}, {"+1", ""}, {"a:1", ""}, {"", ""}, {"a:3", ""}, {"+1", ""}, {"a:3", "modified a:3"}}},
		{"changed back before it was ready", FileRule{Stable: time.Second, Events: []courier.MonitorEvent{modified}}, []step{{"a:1", ""}, {"+1", ""}, {"a:1", ""}, {"a:2", ""}, {"a:1", ""}, {"+1", ""}, {"a:1", ""}}},
		{"created, then modified", FileRule{Stable: 1, Events: []courier.MonitorEvent{modified, created}}, []step{{"a:1", ""}, {"+1", ""}, {"a:1", "created a:1"}, {"a:2", ""}, {"+1", ""}, {"a:2", "modified a:2"}}},
		{"exists", FileRule{Stable: 1, Events: []courier.MonitorEvent{exists, created}}, []step{{"a:1", ""}, {"+1", ""}, {"a:1", "created a:1"}, {"a:1", "exists a:1"}, {"a:1 b:1", "exists a:1"}}},
		{"no more than are wanted", FileRule{Stable: 1, Max: 2}, []step{{"a:1 b:1 c:1", ""}, {"+1", ""}, {"c:1 b:1 a:1", "created a:1, created b:1"}, {"a:1 b:1 c:1", "created c:1"}}},
		{"in turns", FileRule{Stable: 1, Max: 2, Events: []courier.MonitorEvent{exists}}, []step{{"a:1 b:1 c:1", ""}, {"+1", ""}, {"a:1 b:1 c:1", "exists a:1, exists b:1"}, {"a:1 b:1 c:1", "exists a:1, exists c:1"}, {"a:1 b:1 c:1", "exists a:1, exists b:1"}}},
		// A file called a has a name of a byte, and no path here.
		{"no more bytes than are wanted", FileRule{Stable: 1, MaxBytes: 202}, []step{{"a:1 b:1 c:1", ""}, {"+1", ""}, {"a:1 b:1 c:1", "created a:1, created b:1"}, {"a:1 b:1 c:1", "created c:1"}}},
		{"one in any case", FileRule{Stable: 1, MaxBytes: 1}, []step{{"a:1 b:1", ""}, {"+1", ""}, {"a:1 b:1", "created a:1"}, {"a:1 b:1", "created b:1"}}},
		{"listed twice", FileRule{Stable: 1}, []step{{"a:1 a:1", ""}, {"+1", ""}, {"a:1 a:1", "created a:1"}}},
	} {
		w := newWatch(tt.rule)
		for i, s := range tt.steps {
			if strings.HasPrefix(s.there, "+") {
				var n int
				fmt.Sscan(s.there[1:], &n)
				w.now = w.now.Add(time.Duration(n) * time.Second)
				continue
			}
			if got := w.look(strings.Fields(s.there)...); got != s.want {
				t.Errorf("%s: look %d at %q hands %q over, want %q", tt.name, i, s.there, got, s.want)
			}
		}
		if tt.name == "gone and forgotten" && len(w.files) != 0 {
			t.Errorf("%s: %v", tt.name, w.files)
		}
	}
}

// TestPlanFilesCounts checks the counts of files and the time until the next poll.
func TestPlanFilesCounts(t *testing.T) {
	w := newWatch(FileRule{Stable: 10 * time.Second, Max: 1, Selects: func(name string) bool { return name != "no" }})
	w.look("a:1", "no:1")
	if p := w.plan; p.Files != 1 || p.Waiting != 1 || p.Wait != 10*time.Second || len(p.Changed) != 1 {
		t.Errorf("first look: %+v", p)
	}
	w.now = w.now.Add(3 * time.Second)
	w.look("a:1", "b:1")
	if p := w.plan; p.Files != 2 || p.Waiting != 2 || p.Wait != 7*time.Second || len(p.Changed) != 1 {
		t.Errorf("second look: %+v", p)
	}
	w.now = w.now.Add(time.Minute)
	w.look("a:1", "b:1")
	if p := w.plan; p.Waiting != 0 || p.Wait != 0 || !p.More || len(p.Changed) != 1 {
		t.Errorf("third look: %+v", p)
	}
	w.look("a:1", "b:1")
	if p := w.plan; p.More || len(p.Changed) != 1 {
		t.Errorf("fourth look: %+v", p)
	}
	if w.look("a:1", "b:1"); len(w.plan.Changed) != 0 {
		t.Errorf("a look at which nothing happened changes %+v", w.plan.Changed)
	}
}

// TestPlanFilesAtRandom writes, removes and brings back files: every one that
// stays for long is handed over once for each appearance, complete.
func TestPlanFilesAtRandom(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		w := newWatch(FileRule{Stable: 2 * time.Second})
		there, calm, appeared, handed := make(map[string]int), make(map[string]int), make(map[string]int), make(map[string]int)
		for range 200 {
			for _, name := range []string{"a", "b", "c"} {
				switch size, ok := there[name]; {
				case !ok && r.IntN(4) == 0:
					there[name] = 1
					calm[name] = 0
					appeared[name]++
				case ok && calm[name] > 8 && r.IntN(4) == 0:
					delete(there, name) // long after it was complete
				case ok && calm[name] < 2 && r.IntN(2) == 0:
					there[name], calm[name] = size+1, 0
				default:
					calm[name]++
				}
			}
			var list []string
			for name, size := range there {
				list = append(list, fmt.Sprintf("%s:%d", name, size))
			}
			w.look(list...)
			for _, f := range w.plan.Ready {
				name := f.File.Name
				if handed[name]++; handed[name] != appeared[name] || int(f.File.Size) != there[name] || calm[name] < 2 {
					t.Fatalf("seed %d: %s handed over %d times in %d appearances, with %d of %d bytes after %d quiet looks",
						seed, name, handed[name], appeared[name], f.File.Size, there[name], calm[name])
				}
			}
			for name := range there {
				if calm[name] > 8 && handed[name] != appeared[name] {
					t.Fatalf("seed %d: %s is not handed over", seed, name)
				}
			}
		}
	}
}

// TestFileKey gives different events different keys, and the same ones the same.
func TestFileKey(t *testing.T) {
	base := ReadyFile{File: courier.ListedFile{Name: "a", Size: 1, Modified: dawn}, Event: courier.FileCreated, Appeared: 1, Look: dawn}
	at := courier.Directory{Connection: "c", Path: "/in"}
	var keys []string
	add := func(monitor string, t courier.Directory, list ...ReadyFile) {
		keys = append(keys, FileKey(monitor, t, list))
	}
	with := func(change func(*ReadyFile)) ReadyFile {
		f := base
		change(&f)
		return f
	}
	add("m", at, base)
	add("n", at, base)
	add("m", courier.Directory{Path: "/in"}, base)
	add("m", courier.Directory{Connection: "c", Path: "/out"}, base)
	add("m", at, base, base)
	add("m", at, with(func(f *ReadyFile) { f.File.Name = "b" }))
	add("m", at, with(func(f *ReadyFile) { f.File.Size = 2 }))
	add("m", at, with(func(f *ReadyFile) { f.File.Modified = dawn.Add(time.Microsecond) }))
	add("m", at, with(func(f *ReadyFile) { f.Event = courier.FileModified }))
	add("m", at, with(func(f *ReadyFile) { f.Appeared = 2 }))
	add("m", at, with(func(f *ReadyFile) { f.Event = courier.FileExists }))
	add("m", at, with(func(f *ReadyFile) { f.Event, f.Look = courier.FileExists, dawn.Add(time.Second) }))
	for i, key := range keys {
		if slices.Contains(keys[:i], key) || !strings.HasPrefix(key, "monitor:") || len(key) > 100 {
			t.Errorf("key %d: %q", i, key)
		}
	}
	later := with(func(f *ReadyFile) { f.Look = dawn.Add(time.Hour) })
	if again := FileKey("m", at, []ReadyFile{later}); again != keys[0] {
		t.Errorf("at another look: %q, was %q", again, keys[0])
	}
}
