// Package corpus keeps the corpora of the fuzz targets small. A corpus is the
// directory testdata/fuzz/FuzzName beside a target; go test runs its entries after
// the seeds that the target adds itself.
//
// An entry is kept for one of two reasons: a bug was found with it, or it executes
// code that neither the seeds of its target nor the other entries execute. Its name
// says in words what it is, such as nul-after-a-value. TestEntries requires such
// names and limits the number of entries.
//
// TestReduce finds out which entries add coverage. It runs the seeds of a target,
// then each entry alone, and chooses those that add the most blocks until no other
// adds one:
//
//	go test ./internal/test/corpus -run ^TestReduce$ -v -timeout 0 -reduce ./flow,./store
//
// A corpus grows in three steps: fuzz, copy what the go command has found, and
// remove what adds nothing. An entry whose name is in words is never removed.
//
//	go test ./flow -run '^$' -fuzz '^FuzzCond$' -fuzztime 10m
//	cp "$(go env GOCACHE)"/fuzz/github.com/courierhq/courier/flow/FuzzCond/* flow/testdata/fuzz/FuzzCond
//	go test ./internal/test/corpus -run ^TestReduce$ -v -timeout 0 -reduce ./flow -remove
package corpus
