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
		"overwrites: a file gets its name when it is complete, so it is the old one or the new one; of a file of 1 MiB or more, and with resume of any, the next attempt goes on where the last one stopped, if a note proves that the remote file still has its size and time; with if_exists skip or fail a file that an earlier attempt has written is recognized by its notes; what after_transfer does to a remote file is noted down first and done once",
		"removes the unfinished local files of earlier attempts and moves back what was set aside on the server; keeps complete files, and unfinished ones with which the next one goes on until the execution is cancelled",
	},
	"upload": {
		"overwrites: a side file is renamed over the final name when its size, and its content if asked, has been compared; with if_exists skip or fail a second attempt compares contents; with resume it goes on where the last one stopped, if a note proves that the source is the same; what after_transfer does to a local file is noted down first and done once",
		"removes the side files of earlier attempts on the server; keeps complete files, and with resume unfinished ones until the execution is cancelled",
	},
	"mkdir": {
		"checks and skips: a directory that is there is what was asked for",
		"",
	},
	"rmdir": {
		"checks and skips: what is gone is done; what is removed is noted down first, and what has come since stays",
		"",
	},
	"delete": {
		"checks and skips: what is gone is done; what is deleted is noted down first by size and time, and what has come since under the name stays",
		"",
	},
	"rename": {
		"checks and skips: what is renamed is noted down first by size and time, so a second attempt knows its own deed and does not repeat it",
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
