package remote

import (
	"path"

	"github.com/courierhq/courier"
)

// Produced notes down that the step has made a remote file or directory, and so
// what was missing above it, for
// steps of the same attempt of the execution that take it away, and have already
// taken away one of that name in a former attempt; see [Remade]. It costs nothing
// in the first attempt of an execution.
func Produced(job *courier.Context, family, connection, p string) error {
	return job.Produced(subject(family, connection, p))
}

// Remade reports whether a step of this attempt of the execution has made the
// remote file or directory p. Anything else under the name has come from elsewhere.
func Remade(job *courier.Context, family, connection, p string) (bool, error) {
	return job.WasProduced(subject(family, connection, p))
}

func subject(family, connection, p string) string {
	return family + ":" + connection + ":" + path.Clean(p)
}

// HoldDownloads keeps local files whose remote ones go away; see
// [courier.Context.Hold]. Local returns "" for a file whose remote one stays.
func HoldDownloads[F any](job *courier.Context, files []F, local func(F) string) error {
	var names []string
	for _, f := range files {
		if name := local(f); name != "" {
			names = append(names, name)
		}
	}
	return job.Hold(names...)
}
