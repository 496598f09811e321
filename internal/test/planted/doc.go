// Package planted tests the tests: it plants bugs, one at a time, and requires
// that the suite finds each of them.
//
// A bug is a file in testdata, such as 01-no-fence.bug. It says in one sentence
// what is wrong, which promise that breaks, what text of which file is
// exchanged for what, and which tests must find it:
//
//	bug: Apply takes any token
//	breaks: P2
//	-- old store/transition.go --
//		case t.Lease == "" || t.Lease != s.Lease:
//	-- new --
//		case t.Lease == "":
//	-- found by --
//	./store -run ^TestAdmit$
//	./store/memstore -run ^TestConformance$/^virtual$/^guard$
//
// The old text must occur exactly once in its file; a bug may exchange several.
// Each line of the last section is a command of its own, the arguments of go
// test, and each has to find the bug; "-C chaos . -run ^TestKills$" is of a module
// of its own. It does if a test fails; a build that
// fails finds nothing, nor does a test that hangs, unless the file says
// "hangs: yes".
//
// Nothing is changed in the tree: the go command takes the changed files from
// elsewhere (go test -overlay). The same commands must pass without the bug; if no
// flag chooses bugs, that is left to the runs of their own packages. They run
// without the race detector, however this package's tests are run.
//
// Building takes most of the time. So TestPlanted tries the bugs that say
// "always: yes", and all of them with -all. -planted NAME tries those whose names
// contain NAME, and -keep leaves the changed files where they are and says how to
// run the command by hand. A list of all bugs:
//
//	grep -h ^bug: internal/test/planted/testdata/*.bug
//
// A file is kept if it guards a promise, repeats a serious bug of the past, or
// stands for a class of attack, and if no other file implies it: one bug implies
// another if the same test finds both, for the same reason. TestPromises requires
// two for each promise of docs/design.md. A new file should replace one that it
// implies, because each file makes changes of the quoted code more expensive. If a
// change of the code makes a file stale, TestBugsFit says so, and the file is
// adapted, not deleted.
//
// For breadth TestMutants changes a package
// at random places, one at a time, runs its tests on each change, and tells how
// many of the changes they find and which they don't:
//
//	go test ./internal/test/planted -run ^TestMutants$ -v -timeout 0 -mutate ./flow,./webhook
//	go test ./internal/test/planted -run ^TestMutants$ -v -timeout 0 -mutate ./store -mutants 100 -seed 7 \
//		-with './store/memstore -run ^TestConformance$/^virtual$'
//
// The mutators negate conditions, move boundaries, exchange && and ||, remove
// statements, ignore errors, and change constants. A change that does not compile
// is passed over. TestMutants is no gate: some changes make no difference.
package planted
