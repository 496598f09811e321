package file

// repetitions describes, for the documentation of the types, what happens when
// a step is executed again, and what its Cleanup and Rollback do.
var repetitions = map[string]struct{ repeat, cleanup string }{
	"copy": {
		"overwrites: the file gets its name when it is complete, so it is the old one or the new one; with if_exists skip or fail an existing destination stays",
		"removes unfinished files of earlier attempts; keeps complete ones",
	},
	"move": {
		"checks and skips: records a file before it changes it; a new file under its name stays",
		"removes unfinished files of earlier attempts; keeps complete ones",
	},
	"delete": {
		"checks and skips: records a file before it changes it; a new file under its name stays",
		"",
	},
	"list": {
		"reads only: looks again",
		"",
	},
	"zip": {
		"overwrites: the file gets its name when it is complete, so it is the old one or the new one, with the same bytes for the same files",
		"removes unfinished files of earlier attempts; keeps complete ones",
	},
	"unzip": {
		"publishes once: unpacks beside the target, records the rename of the directory, and renames it once",
		"removes what was not published; keeps what was about to be published until the execution is cancelled",
	},
	"gzip": {
		"overwrites: the file gets its name when it is complete, so it is the old one or the new one, with the same bytes for the same content",
		"removes unfinished files of earlier attempts; keeps complete ones",
	},
	"gunzip": {
		"overwrites: the file gets its name when it is complete, so it is the old one or the new one",
		"removes unfinished files of earlier attempts; keeps complete ones",
	},
	"zstd": {
		"overwrites: the file gets its name when it is complete, so it is the old one or the new one, with the same bytes for the same content",
		"removes unfinished files of earlier attempts; keeps complete ones",
	},
	"unzstd": {
		"overwrites: the file gets its name when it is complete, so it is the old one or the new one",
		"removes unfinished files of earlier attempts; keeps complete ones",
	},
	"tar": {
		"overwrites: the file gets its name when it is complete, so it is the old one or the new one, with the same bytes for the same files",
		"removes unfinished files of earlier attempts; keeps complete ones",
	},
	"untar": {
		"publishes once: unpacks beside the target, records the rename of the directory, and renames it once",
		"removes what was not published; keeps what was about to be published until the execution is cancelled",
	},
	"hash": {
		"overwrites: the file gets its name when it is complete, so it is the old one or the new one",
		"removes unfinished files of earlier attempts; keeps complete ones",
	},
	"verify": {
		"reads only: checks again",
		"",
	},
	"split": {
		"overwrites: an old manifest is removed first and the new one comes last, so where a manifest is, all its parts are",
		"removes unfinished files of earlier attempts; keeps complete ones",
	},
	"join": {
		"overwrites: the file gets its name when it is complete, so it is the old one or the new one",
		"removes unfinished files of earlier attempts; keeps complete ones",
	},
	"mkdir": {
		"checks and skips: an existing directory is enough",
		"",
	},
	"wait": {
		"reads only: waits again, from the beginning of the attempt",
		"",
	},
}
