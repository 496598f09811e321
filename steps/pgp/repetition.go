package pgp

// repetitions say what happens when a step is executed once more, and what its
// Cleanup and Rollback do, for the documentation of the types.
var repetitions = map[string]struct{ repeat, cleanup string }{
	"encrypt": {
		"overwrites: the message gets its name when it is complete; every attempt makes another session key, for the same content",
		"removes the unfinished file of earlier attempts; keeps a complete one",
	},
	"decrypt": {
		"overwrites: the plaintext gets its name when integrity and signature are confirmed",
		"removes the unfinished file of earlier attempts; keeps a complete one",
	},
	"sign": {
		"overwrites: the signature gets its name when it is complete; its time differs from attempt to attempt",
		"removes the unfinished file of earlier attempts; keeps a complete one",
	},
	"verify": {
		"reads only, but for output_path, which it overwrites: the content gets its name when it is complete",
		"removes the unfinished file of earlier attempts; keeps a complete one",
	},
}
