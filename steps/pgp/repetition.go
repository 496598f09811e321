package pgp

// repetitions describes, for the documentation of the types, what happens when
// a step is executed again, and what its Cleanup and Rollback do.
var repetitions = map[string]struct{ repeat, cleanup string }{
	"encrypt": {
		"overwrites: the file gets its name when it is complete, so it is the old one or the new one; every attempt makes another session key",
		"removes unfinished files of earlier attempts; keeps complete ones",
	},
	"decrypt": {
		"overwrites: the plaintext gets its name when integrity and signature are confirmed",
		"removes unfinished files of earlier attempts; keeps complete ones",
	},
	"sign": {
		"overwrites: the file gets its name when it is complete, so it is the old one or the new one; the time in the signature differs",
		"removes unfinished files of earlier attempts; keeps complete ones",
	},
	"verify": {
		"reads only, but for output_path, which it overwrites: the content gets its name when it is complete",
		"removes unfinished files of earlier attempts; keeps complete ones",
	},
}
