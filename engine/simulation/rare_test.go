package simulation_test

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/courierhq/courier/engine/simulation"
	"github.com/courierhq/courier/internal/test/raced"
)

// rareMoves are the moves of operators and workers that happen in few worlds, and how often
// each of them happens in the chosen ones. Faults of repair need several of them together.
var rareMoves = map[string]int{
	"indexes moved": 100, "items chosen": 100, "items repaired": 100, "output set": 100, "parameter set": 100, "repaired again": 100,
	"resumed from": 100, "step skipped by operator": 100, "workspace lost": 100,
	"items accepted": 20, "items skipped": 20, "rescue failed": 20, "rescued by operator": 20, "rescued items chosen": 20, "worker lost in a rescue": 20,
}

var rareFile = filepath.Join("testdata", "rare.txt")

// TestRareWorlds runs worlds that were chosen because the rare moves happen in them, each as
// often as it says. With the race detector it runs the first few, which have the most of them.
func TestRareWorlds(t *testing.T) {
	if *update {
		chooseRareWorlds(t)
		return
	}
	text, err := os.ReadFile(rareFile)
	if err != nil {
		t.Fatal(err)
	}
	var chosen []uint64
	for line := range strings.Lines(string(text)) {
		number, err := strconv.ParseUint(strings.TrimSpace(line), 10, 64)
		if err != nil {
			t.Fatalf("%s: %v", rareFile, err)
		}
		chosen = append(chosen, number)
	}
	sum := tally{events: make(map[string]int)}
	sum.run(t, chosen[:min(len(chosen), raced.Or(30, len(chosen)))], nil)
	for move, often := range rareMoves {
		if n := sum.events[move]; n < often && !raced.On {
			t.Errorf("%q happened %d times in %d worlds, not %d times; choose others with -update -seeds 5000", move, n, sum.worlds, often)
		}
	}
}

// chooseRareWorlds runs the worlds of -seeds and -from, and writes down a few in which all rare
// moves happen often. One after the other it takes the world that brings the largest part of
// what is missing.
func chooseRareWorlds(t *testing.T) {
	worlds := make(map[uint64]map[string]int)
	sum := tally{events: make(map[string]int)}
	sum.run(t, inRow(*from, *seeds), func(r *simulation.Result) {
		moves := make(map[string]int)
		for move := range rareMoves {
			if n := r.Events[move]; n > 0 {
				moves[move] = n
			}
		}
		if len(moves) > 0 && r.Err == nil {
			worlds[r.Seed] = moves
		}
	})
	missing := maps.Clone(rareMoves)
	var chosen bytes.Buffer
	for len(missing) > 0 {
		var best uint64
		most := 0.0
		for seed, moves := range worlds {
			value := 0.0
			for _, move := range slices.Sorted(maps.Keys(rareMoves)) { // the sum depends on the order
				if n := min(moves[move], missing[move]); n > 0 {
					value += float64(n) / float64(sum.events[move]) // what is rare in all worlds is worth more
				}
			}
			if value > most || value == most && seed < best {
				best, most = seed, value
			}
		}
		if most == 0 {
			t.Errorf("%d worlds are too few: %v", sum.worlds, missing)
			break
		}
		fmt.Fprintln(&chosen, best)
		for move, n := range worlds[best] {
			if missing[move] -= n; missing[move] <= 0 {
				delete(missing, move)
			}
		}
		delete(worlds, best)
	}
	if err := os.MkdirAll(filepath.Dir(rareFile), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(rareFile, chosen.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d worlds are chosen", bytes.Count(chosen.Bytes(), []byte("\n")))
}
