// Package glossary has the texts of the help page: keys, words and states.
package glossary

// A Key does something on all pages. Instead is another way to do it.
type Key struct{ Key, Text, Instead string }

// A Word is a term of the pages.
type Word struct{ Name, Value string }

// A State is a state of executions. Next is the next step, or what somebody can do.
type State struct{ State, Text, Next string }

// Keys are the keys of all pages, each with another way to do the same.
var Keys = []Key{
	{"/", "go to the filter, or to the first field of the page", "Tab"},
	{"j", "next row", "Tab to the next link of the table"},
	{"k", "previous row", "Shift and Tab"},
	{"Enter", "open the row", "its link"},
	{"n", "next failed row", "the rows that are marked as failed"},
	{"x", "select the row", "its checkbox; Shift and a click select all rows from the last one"},
	{".", "go to the actions: to their first field or button", "Tab"},
	{"[", "previous item of the loop", "the link beside the number of the item"},
	{"]", "next item of the loop", "the link beside it"},
	{"p", "pause or continue live updates", "the button beside the heading"},
	{"?", "this page", "Help, at the top"},
	{"Esc", "leave a field", "Tab"},
}

// States are the states of executions as people see them.
var States = []State{
	{"created", "It was created on hold.", "Release it, or cancel it."},
	{"queued", "It waits for a worker with its step types and queue, or for room under a limit.", "Its page says what it waits for."},
	{"scheduled", "It is queued and due later.", "It starts by itself."},
	{"waiting", "Its job depends on another job, which has not ended as required.", "It starts by itself."},
	{"running", "A worker executes its steps.", "Pause it before its next step, or cancel it at once."},
	{"lost", "Its worker is gone, and no other worker has taken it over yet.", "A worker with its step types, queue and workspace continues it."},
	{"pausing", "It pauses before its next step. A pause never interrupts a step.", "Resume it to withdraw the pause."},
	{"cancelling", "Its step is interrupted, and unfinished files are removed.", "It ends by itself."},
	{"finishing", "Its outcome is decided, and its finally part runs.", "It ends by itself. Cancel it without the finally part to end it at once."},
	{"paused", "It does not run until somebody resumes it.", "Resume it, with changes if need be, or cancel it."},
	{"completed", "All of its steps have completed. This is final.", "Start it again as a new execution."},
	{"failed", "A step has failed, and its policy was to stop. Completed steps stay completed.", "Fix the cause, then resume it: it continues at the step that failed. Or cancel it."},
	{"cancelled", "Somebody has cancelled it. This is final.", "Start it again as a new execution."},
	{"skipped", "A step: it failed, and its policy was to continue. A member of a chain: the members that it depends on ended with another outcome.", "Nothing needs to be done."},
}

// Words are the terms of the pages.
var Words = []Word{
	{"job", "a named list of steps that can be executed; it has versions"},
	{"execution", "one run of a version of a job"},
	{"step", "one piece of work of a job, such as a download; each time it runs is an attempt"},
	{"item", "one thing that a loop of steps works on, such as one file of many"},
	{"chain", "a group of jobs that depend on each other; its jobs are its members"},
	{"schedule", "a rule that starts a job or a chain at given times"},
	{"expectation", "a rule that says which files should arrive on which days; each day has a record of what arrived"},
	{"monitor", "a watch on a directory that starts a job or a chain for new files"},
	{"subscription", "a rule that notifies somebody of events by webhook, by e-mail or by starting a job"},
	{"worker", "an engine that runs executions of its queues"},
	{"lease", "the time for which a worker may run an execution without renewing its claim; when it ends, another worker takes over"},
	{"workspace", "the directory of an execution for its files"},
	{"limit", "the number of executions that may run at once: of all jobs, of one job, or with one key"},
	{"label", "a name and a value of an execution, such as partner=acme; you can search for it"},
	{"values", "parameters, outputs, messages and logs; seeing them needs a separate right"},
}
