package courier

import "time"

// An Isolation has the limits of the processes in which the steps of a type run, one for
// each call. The zero value has none.
type Isolation struct {
	// Memory is how many bytes of data such a process, and each that it starts, may have
	// besides what the program takes itself. At least 16 MiB; 0 means no limit. Linux only.
	// Data is what a process has for itself, its heap first of all (RLIMIT_DATA). Shared
	// mappings, mapped files, files on a tmpfs and the cache of the kernel do not count: a
	// process with 64 MiB can map 1 GiB that is shared. A limit of all memory of the worker,
	// with these and its processes, is a control group, which is the host's to set.
	Memory int64
	// CPU is how much processor time such a process, and each that it starts, may use, in
	// whole seconds. 0 means no limit. Linux only.
	CPU time.Duration
	// Grace is how long a step may take to return after its context has ended. Then its
	// process is killed, with all that it has started. 0 means Options.Grace of the engine.
	Grace time.Duration
	// Terminate has the process, and all that it has started, get SIGTERM when the context of
	// the step ends, beside the end of the context: for functions that listen for signals
	// themselves, and for programs that the step runs. The signal comes after the process
	// listens, so it ends no step by itself. False means that the context alone ends. A step
	// that listens hears the SIGTERM of others, too, such as that of systemd.
	Terminate bool
	// Env names variables of the environment that the process gets. It always gets those
	// for languages, time zones and the places of programs and certificates, and no others.
	Env []string
}
