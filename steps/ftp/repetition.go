package ftp

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
		"overwrites: a file gets its name when it is complete, so it is the old one or the new one; of a file of 1 MiB or more, and with idempotency resume of any, the next attempt goes on where the last one stopped, if a note proves that the source is the same",
		"removes the unfinished local files of earlier attempts but those with which the next one goes on; keeps complete files",
	},
	"upload": {
		"overwrites: a side file is renamed over the final name when its size has been compared; with idempotency resume the next attempt goes on where the last one stopped, if a note proves that the source is the same",
		"removes the side files of earlier attempts on the server but those with which the next one goes on; keeps complete files",
	},
	"mkdir": {
		"checks and skips: a directory that is there is what was asked for",
		"",
	},
	"rmdir": {
		"checks and skips: what is gone is done",
		"",
	},
	"delete": {
		"checks and skips: what is deleted is noted down first, so what is gone is done, and what has come since under the name stays",
		"",
	},
	"rename": {
		"checks and skips: what is renamed is noted down first, so a second attempt knows its own deed and does not repeat it",
		"",
	},
}
