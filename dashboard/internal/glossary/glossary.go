// Package glossary has what the page of help explains: keys, words and states.
package glossary

// A Key does something on all pages; Instead is what does the same without it.
type Key struct{ Key, Text, Instead string }

// A Word is what the pages call a thing.
type Word struct{ Name, Value string }

// A State is a state of executions; Next is what can be done, or what comes next.
type State struct{ State, Text, Next string }

// Keys are the keys of all pages, each with what does the same without them.
var Keys = []Key{
	{"/", "go to the filter, or else to the first field of the page", "Tab"},
	{"j", "next row", "Tab to the next link of the table"},
	{"k", "previous row", "Shift and Tab"},
	{"Enter", "open the row", "its link"},
	{"n", "next failed row", "the rows that are marked as failed"},
	{"x", "select the row", "its checkbox; with Shift and the mouse all from the last one on"},
	{".", "go to the actions: to their first field or button", "Tab"},
	{"[", "previous item of the loop", "the link beside the number of the item"},
	{"]", "next item of the loop", "the link beside it"},
	{"p", "pause live updates, or go on with them", "the button beside the heading"},
	{"?", "this page", "Help, at the top"},
	{"Esc", "leave a field", "Tab"},
}

// States are the states of executions as people see them.
var States = []State{
	{"created", "It was made to be held.", "Release it, or cancel it."},
	{"queued", "It waits for a worker with its step types and queue, or for room under a limit.", "Its page says what it waits for."},
	{"scheduled", "It is queued, and due later.", "It begins by itself."},
	{"waiting", "Its job depends on another one, which has not ended as it must.", "It begins by itself."},
	{"running", "A worker executes its steps.", "Pause it before its next step, or cancel it at once."},
	{"lost", "Its worker has gone, and no other one has taken it over yet.", "A worker with its step types, queue and workspace goes on with it."},
	{"pausing", "It pauses before its next step: a step is never interrupted for that.", "A resume withdraws the pause."},
	{"cancelling", "Its step is interrupted, and what is unfinished is removed.", "It ends by itself."},
	{"finishing", "How it ends is decided, and its finally part runs.", "It ends by itself. A cancel without the finally part ends that at once."},
	{"paused", "It stands still, for as long as people want.", "Resume it, with changes if need be, or cancel it."},
	{"completed", "All of its steps have ended well. This is final.", "Start it again as a new execution."},
	{"failed", "A step has failed, and its policy was to stop. What was completed stays completed.", "Remove the cause and resume it: it goes on at the step that failed. Or give it up by a cancel."},
	{"cancelled", "Somebody has given it up. This is final.", "Start it again as a new execution."},
	{"skipped", "Of a step: it failed, and its policy was to go on. Of a member of a chain: what it depends on came to something else.", "Nothing has to be done."},
}

// Words are what the pages call things.
var Words = []Word{
	{"job", "a named list of steps, in versions: what can be executed"},
	{"execution", "one run of a version of a job"},
	{"step", "one piece of work of a job, such as a download; each try is an attempt"},
	{"item", "what a loop of steps is executed for, such as one file of many"},
	{"chain", "a group of jobs that depend on each other; its jobs are its members"},
	{"schedule", "what starts a job or a chain at given times"},
	{"expectation", "which files are to come from whom on which days; each day has a record of what came"},
	{"monitor", "what looks for new files in a directory, and starts a job or a chain for them"},
	{"subscription", "who is told of events, by webhook, by mail or by starting a job"},
	{"worker", "an engine that executes; it takes executions of its queues"},
	{"lease", "for how long a worker may execute without renewing its claim; when it ends, another worker goes on"},
	{"workspace", "the directory of an execution for its files"},
	{"limit", "how many executions run at once: of all jobs, of one, or with one key"},
	{"label", "a name and a value of an execution, such as partner=acme, by which it is found"},
	{"values", "parameters, outputs, messages and logs, which need a right of their own"},
}
