// Package localfile has what package os does not have for all systems alike. It
// describes files of the local file system and the errors about them: what kind of
// file something is, which file it is, whether this process may read it. It opens
// what may be a pipe, and makes files and the names in directories durable. Where a
// system can't answer, the function says what it returns instead.
package localfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/courierhq/courier/internal/failure"
)

// Kind names the kind of a file, such as "a directory".
func Kind(m fs.FileMode) string {
	switch {
	case m.IsRegular():
		return "a regular file"
	case m.IsDir():
		return "a directory"
	case m&fs.ModeSymlink != 0:
		return "a symbolic link"
	case m&fs.ModeNamedPipe != 0:
		return "a pipe"
	case m&fs.ModeSocket != 0:
		return "a socket"
	case m&fs.ModeDevice != 0:
		return "a device"
	}
	return "a special file"
}

// Error returns an error of package os about the file called name. It begins
// with that name in place of the name that package os gives, which is relative
// to some root. Any other error is returned as it is, and Error(name, nil) is
// nil. A link that leads out of an [os.Root] is marked by package failure as
// permanent.
func Error(name string, err error) error {
	switch e := err.(type) {
	case nil:
		return nil
	case *fs.PathError:
		err = e.Err
	case *os.LinkError:
		err = e.Err
	default:
		return err
	}
	if err.Error() == "path escapes from parent" {
		return failure.Permanent(fmt.Errorf("%q: a link on this path leads out of the allowed directory, so it is not followed", name))
	}
	return fmt.Errorf("%q: %w", name, err)
}

// Missing reports whether err says that a file isn't there: it does not exist,
// or a path leads through a file that is no directory.
func Missing(err error) bool { return errors.Is(err, fs.ErrNotExist) || IsNotDir(err) }

// Shorten cuts a name for a message: to 200 bytes of valid UTF-8.
func Shorten(name string) string {
	const most = 200
	if len(name) <= most {
		return name
	}
	return strings.ToValidUTF8(name[:most], "") + "..."
}
