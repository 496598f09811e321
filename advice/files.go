package advice

import (
	"fmt"
	"time"
)

// FilesRemoved says when retention removed the files of a failed execution from a depot.
func FilesRemoved(at time.Time) Cause {
	return Cause{
		Kind: Files, Since: at, Text: fmt.Sprintf("Its files in the depot expired and were removed at %s.", at.Format(time.RFC3339)),
		Do: "Start a new execution with the files. This one can be resumed if none of its remaining steps needs them.",
	}
}

// FilesKept says until when retention keeps the files of a failed execution in a depot.
func FilesKept(until time.Time) Cause {
	return Cause{
		Kind: Files, Until: until, Text: fmt.Sprintf("Its files in the depot are kept until %s.", until.Format(time.RFC3339)),
		Do: "Resume it before then, or download the files.", Call: "Engine.Resume",
	}
}
