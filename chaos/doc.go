// Package chaos kills workers and servers, and looks at what became of the
// executions. It is a module of its own, for it needs a checker of histories
// that Courier itself has no use for, and it holds nothing but tests.
//
// The tests start PostgreSQL clusters of their own and real worker processes:
// the test binary runs itself. A worker is an engine on pgstore that executes
// simple pipelines of every kind: loops, branches, retries, failures that wait
// for an operator, files. Meanwhile
//
//   - workers kill themselves at named points, before, during and after each
//     kind of call to the store, and in the middle of steps (TestCrashPoints);
//   - workers are killed at random, three of them under load (TestKills);
//   - schedules fire, chains run and a subscriber is told of what ends, while
//     workers are killed at any time, and at named points of all three
//     (TestUnattended);
//   - workers stand still for longer than their lease and go on then
//     (TestZombies);
//   - the server stops, is killed, loses its connections, takes no writes, has
//     no connection left and cancels statements (TestServer);
//   - the server is lost and its standby promoted (TestFailover);
//   - operators repair executions in all ways, twice and more, while workers are
//     killed (TestRepairs);
//   - a worker is killed at the default settings (TestTakeover).
//
// One checker looks at all of them afterwards. What was acknowledged has ended;
// nothing has completed twice; no completed step began again, by the steps' own
// notes and not just by the store's; each completed execution took the steps of
// its plan with the outputs they must have; limits held whenever somebody looked
// and by the order of the audit; the audit has no gap. All calls to the store
// that change an execution or tell how it stands are noted when they begin and
// when they return, in a file of the process, so that a killed one leaves calls
// that never returned. These histories must be linearizable: porcupine searches
// an order in which the contract of package store explains all answers.
//
// What schedules, chains and subscriptions must come to is reckoned without the
// code that does it: the ticks by counting seconds, the members of a chain by its
// definition and how the others ended, the events by the audit.
//
// What continuous integration runs takes about two minutes and a half on two cores:
//
//	go test -race ./...
//
// At night it may take longer. Each test repeats its rounds until it has reached
// the number of kills or restarts, and the time is over:
//
//	go test -timeout 0 -kills 20000 -restarts 2000 -unattended 6000 -repairs 2000
//	go test -timeout 0 -run TestServer -for 8h
package chaos
