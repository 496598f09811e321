package monitor

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

// A watch plans polls of one directory, a second each, and keeps what they lead to as a
// store does.
type watch struct {
	m     Monitor
	most  handLimits
	files map[string]SeenFile
	now   time.Time
	plan  filePlan
}

func newWatch(m Monitor, most handLimits) *watch {
	if m.Events == nil {
		m.Events = []Event{Created}
	}
	if most.files == 0 {
		most.files = 1000
	}
	return &watch{m: m, most: most, files: make(map[string]SeenFile), now: dawn}
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
	w.plan = planFiles(&w.m, w.files, list, w.most, began, ended)
	var got []string
	for i, r := range w.plan.ready {
		w.plan.hand(i, "x", ended)
		got = append(got, fmt.Sprintf("%s %s:%d", r.event, r.file.Name, r.file.Size))
	}
	for _, f := range w.plan.changed {
		w.files[f.Name] = f
	}
	for _, name := range w.plan.removed {
		delete(w.files, name)
	}
	return strings.Join(got, ", ")
}

// TestPlanFiles goes through what happens to one directory, look by look.
func TestPlanFiles(t *testing.T) {
	created, modified, exists := Created, Modified, Exists
	type step struct{ there, want string } // what is there, separated by blanks; "+10" lets seconds pass
	for _, tt := range []struct {
		name  string
		m     Monitor
		most  handLimits
		steps []step
	}{
		{"stable from the end of a look to the beginning of another", Monitor{Stable: 3 * time.Second}, handLimits{}, []step{{"a:1", ""}, {"a:1", ""}, {"a:1", ""}, {"a:1", ""}, {"a:1", "created a:1"}, {"a:1", ""}}},
		{"two looks at least", Monitor{Stable: 1}, handLimits{}, []step{{"a:1", ""}, {"+1", ""}, {"a:1", "created a:1"}}},
		{"a change begins anew", Monitor{Stable: time.Second}, handLimits{}, []step{{"a:1", ""}, {"+1", ""}, {"a:2", ""}, {"+1", ""}, {"a:3", ""}, {"+1", ""}, {"a:3", "created a:3"}}},
		{"gone before it was ready", Monitor{Stable: time.Second}, handLimits{}, []step{{"a:1", ""}, {"", ""}, {"a:1", ""}, {"a:1", ""}, {"a:1", "created a:1"}}},
		{"gone and back", Monitor{Stable: 1}, handLimits{}, []step{{"a:1", ""}, {"+1", ""}, {"a:1", "created a:1"}, {"", ""}, {"a:1", ""}, {"+1", ""}, {"a:1", "created a:1"}}},
		{"gone and forgotten", Monitor{Stable: 1}, handLimits{}, []step{{"a:1", ""}, {"+1", ""}, {"a:1", "created a:1"}, {"", ""}, {"+2592000", ""}, {"", ""}}},
		{"there for long", Monitor{Stable: 1}, handLimits{}, []step{{"a:1", ""}, {"+1", ""}, {"a:1", "created a:1"}, {"+2592000", ""}, {"a:1", ""}, {"+2592000", ""}, {"a:1", ""}, {"+1", ""}, {"a:1", ""}, {"+1", ""}, {"a:1", ""}}},
		{"done file at two looks", Monitor{DoneFile: ".d"}, handLimits{}, []step{{"a:1", ""}, {"a:1 a.d", ""}, {"a:1 a.d", "created a:1"}, {"a:1 a.d", ""}}},
		{"done file of a file that still changes", Monitor{DoneFile: ".d"}, handLimits{}, []step{{"a:1 a.d", ""}, {"a:2 a.d", ""}, {"a:2 a.d", "created a:2"}}},
		{"done file that goes away", Monitor{DoneFile: ".d"}, handLimits{}, []step{{"a:1 a.d", ""}, {"a:1", ""}, {"a:1 a.d", ""}, {"a:1 a.d", "created a:1"}}},
		{"done file of another", Monitor{DoneFile: ".d"}, handLimits{}, []step{{"a:1 b.d", ""}, {"a:1 b.d", ""}}},
		{"modified only", Monitor{Stable: 1, Events: []Event{modified}}, handLimits{}, []step{{"a:1", ""}, {"+1", ""}, {"a:1", ""}, {"a:2", ""}, {"+1", ""}, {"a:2", "modified a:2"}, {"a:2", ""}}},
		{"modified while it was away", Monitor{Stable: 1, Events: []Event{modified}}, handLimits{}, []step{{"a:1", ""}, {"+1", ""}, {"a:1", ""}, {"", ""}, {"a:3", ""}, {"+1", ""}, {"a:3", "modified a:3"}}},
		{"changed back before it was ready", Monitor{Stable: time.Second, Events: []Event{modified}}, handLimits{}, []step{{"a:1", ""}, {"+1", ""}, {"a:1", ""}, {"a:2", ""}, {"a:1", ""}, {"+1", ""}, {"a:1", ""}}},
		{"created, then modified", Monitor{Stable: 1, Events: []Event{modified, created}}, handLimits{}, []step{{"a:1", ""}, {"+1", ""}, {"a:1", "created a:1"}, {"a:2", ""}, {"+1", ""}, {"a:2", "modified a:2"}}},
		{"exists", Monitor{Stable: 1, Events: []Event{exists, created}}, handLimits{}, []step{{"a:1", ""}, {"+1", ""}, {"a:1", "created a:1"}, {"a:1", "exists a:1"}, {"a:1 b:1", "exists a:1"}}},
		{"no more than are wanted", Monitor{Stable: 1}, handLimits{files: 2}, []step{{"a:1 b:1 c:1", ""}, {"+1", ""}, {"c:1 b:1 a:1", "created a:1, created b:1"}, {"a:1 b:1 c:1", "created c:1"}}},
		{"in turns", Monitor{Stable: 1, Events: []Event{exists}}, handLimits{files: 2}, []step{{"a:1 b:1 c:1", ""}, {"+1", ""}, {"a:1 b:1 c:1", "exists a:1, exists b:1"}, {"a:1 b:1 c:1", "exists a:1, exists c:1"}, {"a:1 b:1 c:1", "exists a:1, exists b:1"}}},
		// A file called a has a name of a byte, and no path here.
		{"no more bytes than are wanted", Monitor{Stable: 1}, handLimits{bytes: 202}, []step{{"a:1 b:1 c:1", ""}, {"+1", ""}, {"a:1 b:1 c:1", "created a:1, created b:1"}, {"a:1 b:1 c:1", "created c:1"}}},
		{"one in any case", Monitor{Stable: 1}, handLimits{bytes: 1}, []step{{"a:1 b:1", ""}, {"+1", ""}, {"a:1 b:1", "created a:1"}, {"a:1 b:1", "created b:1"}}},
		{"listed twice", Monitor{Stable: 1}, handLimits{}, []step{{"a:1 a:1", ""}, {"+1", ""}, {"a:1 a:1", "created a:1"}}},
	} {
		w := newWatch(tt.m, tt.most)
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
	w := newWatch(Monitor{Stable: 10 * time.Second, Patterns: []string{"?"}}, handLimits{files: 1})
	w.look("a:1", "no:1")
	if p := w.plan; p.files != 1 || p.waiting != 1 || p.wait != 10*time.Second || len(p.changed) != 1 {
		t.Errorf("first look: %+v", p)
	}
	w.now = w.now.Add(3 * time.Second)
	w.look("a:1", "b:1")
	if p := w.plan; p.files != 2 || p.waiting != 2 || p.wait != 7*time.Second || len(p.changed) != 1 {
		t.Errorf("second look: %+v", p)
	}
	w.now = w.now.Add(time.Minute)
	w.look("a:1", "b:1")
	if p := w.plan; p.waiting != 0 || p.wait != 0 || !p.more || len(p.changed) != 1 {
		t.Errorf("third look: %+v", p)
	}
	w.look("a:1", "b:1")
	if p := w.plan; p.more || len(p.changed) != 1 {
		t.Errorf("fourth look: %+v", p)
	}
	if w.look("a:1", "b:1"); len(w.plan.changed) != 0 {
		t.Errorf("a look at which nothing happened changes %+v", w.plan.changed)
	}
}

// TestPlanFilesAtRandom writes, removes and brings back files: every one that
// stays for long is handed over once for each appearance, complete.
func TestPlanFilesAtRandom(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		w := newWatch(Monitor{Stable: 2 * time.Second}, handLimits{})
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
			for _, f := range w.plan.ready {
				name := f.file.Name
				if handed[name]++; handed[name] != appeared[name] || int(f.file.Size) != there[name] || calm[name] < 2 {
					t.Fatalf("seed %d: %s handed over %d times in %d appearances, with %d of %d bytes after %d quiet looks",
						seed, name, handed[name], appeared[name], f.file.Size, there[name], calm[name])
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
	base := readyFile{file: courier.ListedFile{Name: "a", Size: 1, Modified: dawn}, event: Created, appeared: 1, poll: dawn}
	at := courier.Directory{Connection: "c", Path: "/in"}
	var keys []string
	add := func(monitor string, d courier.Directory, list ...readyFile) {
		keys = append(keys, fileKey(monitor, d, list))
	}
	with := func(change func(*readyFile)) readyFile {
		f := base
		change(&f)
		return f
	}
	add("m", at, base)
	add("n", at, base)
	add("m", courier.Directory{Path: "/in"}, base)
	add("m", courier.Directory{Connection: "c", Path: "/out"}, base)
	add("m", at, base, base)
	add("m", at, with(func(f *readyFile) { f.file.Name = "b" }))
	add("m", at, with(func(f *readyFile) { f.file.Size = 2 }))
	add("m", at, with(func(f *readyFile) { f.file.Modified = dawn.Add(time.Microsecond) }))
	add("m", at, with(func(f *readyFile) { f.event = Modified }))
	add("m", at, with(func(f *readyFile) { f.appeared = 2 }))
	add("m", at, with(func(f *readyFile) { f.event = Exists }))
	add("m", at, with(func(f *readyFile) { f.event, f.poll = Exists, dawn.Add(time.Second) }))
	for i, key := range keys {
		if slices.Contains(keys[:i], key) || !strings.HasPrefix(key, "monitor:") || len(key) > 100 {
			t.Errorf("key %d: %q", i, key)
		}
	}
	later := with(func(f *readyFile) { f.poll = dawn.Add(time.Hour) })
	if again := fileKey("m", at, []readyFile{later}); again != keys[0] {
		t.Errorf("at another look: %q, was %q", again, keys[0])
	}
}
