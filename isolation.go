package courier

import "time"

// An Isolation limits the processes in which the steps of a type run, one for each call.
// The zero value sets no limit.
type Isolation struct {
	// Memory is how many bytes of data such a process, and each that it starts, may have in
	// addition to what the program itself needs. At least 16 MiB; 0 means no limit. Linux
	// only. Data is a process's private memory, mostly its heap (RLIMIT_DATA). Shared
	// mappings, mapped files, files on a tmpfs and the page cache do not count: a process
	// with 64 MiB can map 1 GiB that is shared. To limit all memory of the worker and its
	// processes, run it in a control group.
	Memory int64
	// CPU is how much processor time such a process, and each that it starts, may use, in
	// whole seconds; 0 means no limit. Linux only.
	CPU time.Duration
	// Grace is how long a step may take to return after its context has ended. Then its
	// process is killed, with all processes that it has started. 0 means Options.Grace of
	// the engine.
	Grace time.Duration
	// Terminate sends SIGTERM to the process, and to all that it has started, when the
	// context of the step ends. It is for functions that handle signals themselves, and for
	// programs that the step runs. The process handles the signal before it can arrive, so
	// the signal ends no step by itself. False means that only the context ends. A step that
	// handles SIGTERM also gets it from others, such as systemd.
	Terminate bool
	// Env names environment variables that the process gets. In addition it gets those for
	// languages, time zones and the locations of programs and certificates, and no others.
	Env []string
}
