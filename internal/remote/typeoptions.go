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
		"overwrites: a file gets its name when it is complete, so it is the old one or the new one; goes on within a file where resume says so, if a note proves that the remote file is the same",
		"removes unfinished local files, and moves back what was set aside on the server; keeps complete files, and until the execution is cancelled those that the next attempt goes on with",
	},
	"upload": {
		"overwrites: a side file is renamed over the final name when its size, and its content if asked, has been compared; with if_exists skip or fail, compares contents; with resume, goes on within a file if a note proves that the source is the same",
		"removes side files on the server; keeps complete files, and with resume unfinished ones until the execution is cancelled",
	},
	"mkdir": {
		"checks and skips: a directory that is there is what was asked for",
		"",
	},
	"rmdir": {
		"checks and skips: what is removed is noted down first, and what has come since stays",
		"",
	},
	"delete": {
		"checks and skips: what is deleted is noted down first by size and time, and what has come since under the name stays",
		"",
	},
	"rename": {
		"checks and skips: what is renamed is noted down first by size and time, and not renamed twice",
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
