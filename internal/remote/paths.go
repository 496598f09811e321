package remote

import (
	"strconv"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/stepcontext"
)

// Join returns the path of name in the remote directory dir.
func Join(dir, name string) string {
	switch {
	case dir == "" || dir == ".":
		return name
	case strings.HasSuffix(dir, "/"):
		return dir + name
	}
	return dir + "/" + name
}

// Split cuts a remote path into directory and name. "" and "/" have no name.
func Split(p string) (dir, name string) {
	i := strings.LastIndexByte(p, '/')
	switch {
	case i < 0:
		return ".", p
	case i == 0:
		return "/", p[1:]
	}
	return p[:i], p[i+1:]
}

// SideMark is in the name of every file that a Courier is still uploading.
const SideMark = ".courier-tmp-"

// IsSideFile reports whether name is that of such a file.
func IsSideFile(name string) bool { return strings.Contains(name, SideMark) }

// AsideSuffix is added to the name of a file before it is moved aside.
const AsideSuffix = ".old"

// AsideName is where a remote file goes that is in the way of this attempt.
func AsideName(job *courier.Context, final string) string {
	dir, name := Split(final)
	return Join(dir, stepcontext.Of(job).SideName(name+AsideSuffix))
}

// maxAttempts bounds how many earlier attempts are cleaned up after.
const maxAttempts = 50

// SideNames returns the names of the side files for the name final of the
// starts up to the one numbered last, the latest first.
func SideNames(job *courier.Context, final string, last int) []string {
	own := stepcontext.Of(job)
	prefix := strings.TrimSuffix(own.SideName(final), strconv.Itoa(own.StartNumber()))
	var names []string
	for n := last; n >= 1 && len(names) < maxAttempts; n-- {
		if name := prefix + strconv.Itoa(n); own.IsSideName(final, name) {
			names = append(names, name)
		}
	}
	return names
}

// TrimSlashes removes slashes at the end that mean nothing.
func TrimSlashes(p string) string {
	for len(p) > 1 && p[len(p)-1] == '/' {
		p = p[:len(p)-1]
	}
	return p
}
