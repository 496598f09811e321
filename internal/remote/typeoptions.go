package remote

import (
	"time"

	"github.com/courierhq/courier"
)

// repetitions say what happens when a step is executed once more, and what its
// Cleanup and Rollback do, for the documentation of the types.
var repetitions = map[string]struct{ repeat, cleanup string }{
	"list": {
		"reads only: looks again",
		"",
	},
	"stat": {
		"reads only: looks again",
		"",
	},
	"download": {
		"overwrites: a file gets its name when it is complete, so it is the old one or the new one; with resume, continues a file if the remote file is recorded as the same",
		"removes unfinished local files, and moves back what was set aside on the server; keeps complete files, and until the execution is cancelled those that the next attempt continues",
	},
	"upload": {
		"overwrites: a side file gets the final name when its size, and with checksum its content, has been compared; with if_exists skip or fail, compares contents; with resume, continues a file if its source is recorded as the same",
		"removes side files on the server; keeps complete files, and with resume unfinished ones until the execution is cancelled",
	},
	"mkdir": {
		"checks and skips: an existing directory is enough",
		"",
	},
	"rmdir": {
		"checks and skips: records a file before it changes it; a new file under its name stays",
		"",
	},
	"delete": {
		"checks and skips: records a file before it changes it; a new file under its name stays",
		"",
	},
	"rename": {
		"checks and skips: records a file before it changes it; a new file under its name stays",
		"moves back what an interrupted attempt has set aside, unless its successor is in place",
	},
}

// stall is the longest time without progress before a step is given up.
const stall = 60 * time.Second

// TypeOptions returns the options of the step type with the given verb, such as
// "upload".
func TypeOptions(verb, doc string, aliases ...string) *courier.TypeOptions {
	r := repetitions[verb]
	return &courier.TypeOptions{Timeout: new(time.Duration(0)), Stall: new(stall), Aliases: aliases, Doc: doc, RepeatDoc: r.repeat, CleanupDoc: r.cleanup}
}
