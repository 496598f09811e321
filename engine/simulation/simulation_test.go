package simulation_test

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/courierhq/courier/engine/simulation"
	"github.com/courierhq/courier/internal/test/raced"
)

var (
	seeds               = flag.Int("seeds", raced.Or(150, 1000), "how many worlds TestSimulation runs; a night takes 1000000")
	from                = flag.Uint64("from", uint64(raced.Or(1_000_001, 1)), "the first seed")
	update              = flag.Bool("update", false, "choose the worlds of TestRareWorlds from -seeds worlds")
	seed                = flag.Uint64("seed", 0, "run just this world, and tell all that happens in it")
	all                 = flag.Bool("all", false, "go on after a world that breaks a promise, to find all of them")
	worldsWithCalendars = flag.Int("calendars", raced.Or(20, 100), "how many worlds TestCalendars runs")
	twice               = flag.Int("twice", raced.Or(20, 50), "how many worlds TestReplay runs twice")
	worldsOfFiles       = flag.Int("expectations", raced.Or(10, 30), "how many worlds TestExpectations runs")
	worldsWithFinally   = flag.Int("finally", raced.Or(20, 150), "how many worlds TestFinally runs")
)

const replay = "replay it with: go test ./engine/simulation -run TestSimulation -v -seed=%d"

// TestSimulation runs worlds, and shows that none breaks a promise.
func TestSimulation(t *testing.T) {
	if *seed != 0 {
		r := simulation.Run(t, *seed, &simulation.Options{Tell: true})
		t.Log(r.Story)
		if r.Err != nil {
			t.Errorf("seed %d: %v", r.Seed, r.Err)
		}
		return
	}
	sum := tally{events: make(map[string]int)}
	sum.run(t, inRow(*from, *seeds), nil)
	if *seeds >= 1000 {
		sum.check(t)
	}
}

// TestReplay runs worlds twice, and shows that the same happens at the same
// nanosecond. They are not those of TestSimulation.
func TestReplay(t *testing.T) {
	each(t, inRow(*from+500_000, *twice), func(t *testing.T, seed uint64, opt *simulation.Options) {
		once := simulation.Run(t, seed, opt)
		again := simulation.Run(t, seed, opt)
		if once.Trace == again.Trace {
			return
		}
		told := &simulation.Options{Dir: opt.Dir, Tell: true}
		t.Errorf("seed %d went two ways, %s", seed, parting(simulation.Run(t, seed, told).Story, simulation.Run(t, seed, told).Story))
	})
}

// perWorld is how long a world may take in real time before something in it
// must be turning in circles.
const perWorld = 2 * time.Minute

// inRow returns n seeds, the first and those that follow it.
func inRow(first uint64, n int) []uint64 {
	list := make([]uint64, n)
	for i := range list {
		list[i] = first + uint64(i)
	}
	return list
}

// each calls f with each of the seeds, on all processors, until it has failed, unless -all is set.
func each(t *testing.T, seeds []uint64, f func(t *testing.T, seed uint64, opt *simulation.Options)) {
	var next atomic.Int64
	t.Run("on", func(t *testing.T) {
		for i := range runtime.GOMAXPROCS(0) {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				opt := &simulation.Options{Dir: t.TempDir()}
				for i := int(next.Add(1)); i <= len(seeds) && (*all || !t.Failed()); i = int(next.Add(1)) {
					seed := seeds[i-1]
					endless := time.AfterFunc(perWorld, func() { panic(fmt.Sprintf("seed %d does not end; "+replay, seed, seed)) })
					f(t, seed, opt)
					endless.Stop()
					clean(t, opt.Dir)
				}
			})
		}
	})
}

// clean removes what a world has left in its directory, such as the workspaces of executions that
// were cancelled when no worker could reach them: the workers of each later world would look at
// all of them.
func clean(t *testing.T, dir string) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
	}
	if err != nil {
		t.Error(err)
	}
}

// A tally adds up what happened in all worlds.
type tally struct {
	mu                 sync.Mutex
	worlds, executions int
	faults             int
	virtual            time.Duration
	events             map[string]int
}

// run runs worlds, reports those that break a promise, adds up and logs what happened in
// them, and calls one, if it is not nil, with one result after the other.
func (s *tally) run(t *testing.T, seeds []uint64, one func(*simulation.Result)) {
	start := time.Now()
	each(t, seeds, func(t *testing.T, seed uint64, opt *simulation.Options) {
		r := simulation.Run(t, seed, opt)
		if r.Err != nil {
			t.Errorf("seed %d: %v\n"+replay, r.Seed, r.Err, r.Seed)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.add(&r)
		if one != nil {
			one(&r)
		}
	})
	s.log(t, time.Since(start))
}

func (s *tally) add(r *simulation.Result) {
	s.worlds++
	s.executions += r.Executions
	s.faults += r.Faults()
	s.virtual += r.Virtual
	for kind, n := range r.Events {
		s.events[kind] += n
	}
}

func (s *tally) log(t *testing.T, took time.Duration) {
	t.Logf("%d worlds in %v (%.0f a second), %.1f hours of their own: %d executions, %d attempts of steps, %d faults",
		s.worlds, took.Round(time.Millisecond), float64(s.worlds)/took.Seconds(), s.virtual.Hours(), s.executions, s.events["execute"], s.faults)
	var list []string
	for _, kind := range slices.Sorted(maps.Keys(s.events)) {
		if !strings.Contains(kind, "=") { // settings
			list = append(list, fmt.Sprintf("%s %d", kind, s.events[kind]))
		}
	}
	t.Log(strings.Join(list, ", "))
}

// check shows that nothing has gone missing from the worlds.
func (s *tally) check(t *testing.T) {
	for _, kind := range []string{
		"lost before", "lost after", "late", "slow", "outage", "pause", "crash", "stop", "stopped", "stuck",
		"fails", "permanent", "panics", "hangs", "ignores", "never", "kills", "cleanup", "rollback", "ask", "set",
		"goes on", "ended completed", "ended failed", "ended cancelled",
		"put", "remove", "fire", "fire in vain", "tick due", "night", "created", "start chain", "ask chain",
		"chain ended completed", "chain ended failed", "chain ended cancelled", "member skipped", "member cancelled",
		"failed by error", "failed by panic", "failed by timeout", "failed by stalled", "failed by execution_timeout", "failed by worker_lost", "failed by items_failed",
		"item failed", "item failed by worker_lost", "items repaired", "items chosen", "workspace lost", "rerun", "resumed from", "step skipped by operator", "resumed with another version", "parameter set", "output set",
		"rescue begun", "rescue begun by worker_lost", "rescue failed", "worker lost in a rescue", "failed by items_rescued", "items accepted", "items skipped", "rescued by operator", "rescued items chosen",
	} {
		if s.events[kind] == 0 {
			t.Errorf("%q never happened in %d worlds", kind, s.worlds)
		}
	}
}

// parting shows where two stories begin to differ.
func parting(a, b string) string {
	as, bs := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(as), len(bs)) {
		if as[i] != bs[i] {
			return fmt.Sprintf("after\n%s\nonce\n%s\nand once\n%s", strings.Join(as[max(0, i-5):i], "\n"), as[i], bs[i])
		}
	}
	return "but not when it was told"
}

// TestWorldsThatBroke runs the worlds in which a promise was broken once. Those that are older
// than rescues had none. Half of all seeds have another world with them: it runs too, and only
// the one without is the world that broke.
func TestWorldsThatBroke(t *testing.T) {
	for _, world := range []struct {
		seed  uint64
		broke string
	}{
		{5002012, "a step had the directory that another had in an earlier version of the job"},
		{6003248, "the same, in its second attempt"},
		{7001664, "the same, after two changes of the version"},
		{6010382, "an execution lost its workspace in the middle of a failed item, and completed steps of it twice"},
		{7015998, "the same, in a loop in a loop"},
		{5003978, "the check took an item for one that began again, in which the execution went on where it stood"},
		{7014455, "the same, with a worker that was lost between"},
		{40028605, "the check forgot that an execution had lost its workspace twice in one pass"},
		{40042701, "the check did not know in which loops the flow.end lies at which three workers were lost"},
		{40079461, "an item that began again had no values from the iteration around it"},
		{40080335, "the check did not know that a member that was skipped waits again after a retry of its chain execution"},
		{40130441, "the check counted a failure of an item that was executed again and failed an item of a loop in it"},
		{40134414, "an execution went on in an inner loop, of which later iterations needed a file that was gone"},
		{60023223, "a resume missed a file that a lost attempt had replaced, in a loop that had begun again"},
		{50074821, "an operator went back in an item that would have begun again without its files"},
		{50140062, "an operator went back to a step behind the one that failed, in a loop that accepts that"},
		{50176494, "an operator went back to a step that needs a file of a workspace that was lost"},
		{50154671, "an item failed again while it was repaired, and its files were lost then"},
		{50094341, "a third run of an engine did not wait for the first, whose step was at work, when the second had lost its lease"},
		{50007126, "the check took a schedule of a chain for the one of a job that had its name before it was removed"},
		{80039446, "the same of another chain"},
		{10245929, "a failed item went on in a loop in it, of which later items needed a file that was gone"},
		{10240980, "an operator skipped the step that had failed, with its outputs, and another one had failed meanwhile"},
		{161004202, "a rescued item was taken for one that began again without its files"},
		{124009388, "the check took a tick for missed that had waited, and fired under a policy that was set then"},
		{132005908, "a resume went on with a version in which what was known of a rescued item could not be told"},
		{136015751, "the simulation kept the answer of a failed read of a version, and missed its change"},
	} {
		for _, plain := range []bool{true, false} {
			if r := simulation.Run(t, world.seed, &simulation.Options{Plain: plain}); r.Err != nil {
				t.Errorf("seed %d, without rescues %t, where %s: %v\n"+replay, r.Seed, plain, world.broke, r.Err, r.Seed)
			}
		}
	}
}

// special runs worlds of one kind, for the test that is running, and reports those that break a
// promise; with -seed just that one, and then it returns nil. Again, which may be nil, looks at each.
func special(t *testing.T, worlds int, kind simulation.Options, again func(*simulation.Result, *simulation.Options)) *tally {
	if *seed != 0 {
		kind.Tell = true
		r := simulation.Run(t, *seed, &kind)
		t.Log(r.Story)
		if r.Err != nil {
			t.Errorf("seed %d: %v", r.Seed, r.Err)
		}
		return nil
	}
	sum := &tally{events: make(map[string]int)}
	each(t, inRow(*from, worlds), func(t *testing.T, seed uint64, opt *simulation.Options) {
		this := kind
		this.Dir = opt.Dir
		r := simulation.Run(t, seed, &this)
		if r.Err != nil {
			name, _, _ := strings.Cut(t.Name(), "/")
			t.Errorf("seed %d: %v\nreplay it with: go test ./engine/simulation -run %s -v -seed=%d", r.Seed, r.Err, name, r.Seed)
		}
		if again != nil {
			again(&r, &this)
		}
		sum.mu.Lock()
		defer sum.mu.Unlock()
		sum.add(&r)
	})
	return sum
}

// happened reports what never did in the worlds of a kind.
func (s *tally) happened(t *testing.T, what ...string) {
	for _, w := range what {
		if s.events[w] == 0 {
			t.Errorf("%q never happened in %d worlds", w, s.worlds)
		}
	}
}

// TestCalendars runs worlds in which a day ends and schedules go by calendars, which people change:
// no promise is broken, and no closed day fires.
func TestCalendars(t *testing.T) {
	sum := special(t, *worldsWithCalendars, simulation.Options{Calendars: true}, nil)
	if sum == nil {
		return
	}
	if n := sum.events["tick due by calendar"]; n < *worldsWithCalendars {
		t.Errorf("in %d worlds only %d ticks of schedules with a calendar were due", *worldsWithCalendars, n)
	}
	t.Logf("%d worlds, %d ticks by calendars", sum.worlds, sum.events["tick due by calendar"])
}

// TestFinally runs worlds whose jobs have finally parts: each runs once for each end, with its
// worker lost or not, and changes no outcome.
func TestFinally(t *testing.T) {
	sum := special(t, *worldsWithFinally, simulation.Options{Finally: true}, nil)
	if sum == nil {
		return
	}
	sum.happened(t, "finally of completed", "finally of failed", "finally of cancelled", "finally failed")
	t.Logf("%d worlds, of completed %d, failed %d, cancelled %d; %d failed", sum.worlds, sum.events["finally of completed"], sum.events["finally of failed"], sum.events["finally of cancelled"], sum.events["finally failed"])
}

// TestExpectations runs worlds in which a partner's files are expected, with wrong clocks, restarts and
// takeovers: each day has one record, no event happens twice, and no file is lost. Each tenth world is
// run twice, and the same happens.
func TestExpectations(t *testing.T) {
	sum := special(t, *worldsOfFiles, simulation.Options{Expectations: true}, func(r *simulation.Result, opt *simulation.Options) {
		if r.Seed%10 == 0 && simulation.Run(t, r.Seed, opt).Trace != r.Trace {
			t.Errorf("seed %d went two ways", r.Seed)
		}
	})
	if sum == nil {
		return
	}
	sum.happened(t, "day arrived", "day late", "day missing", "day incomplete", "day excused", "file counted", "excuse", "expect", "partner away", "clock jumps",
		"crash", "lost before", "lost after", "late", "outage", "pause", "stop")
	t.Logf("%d worlds, %d files", sum.worlds, sum.events["file counted"])
}
