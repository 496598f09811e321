package remote

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/transfer"
)

// WorthKeeping is the size from which on an unfinished file is kept for another
// attempt unless a step says otherwise.
const WorthKeeping = 1 << 20

// Boot identifies the run of the system: what was written and not yet on the
// disk is lost with it. Empty where it can't be told.
func Boot() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}

// Fits reports whether a remote file of size bytes, of which have are there
// already, may become the local file called name.
func Fits(job *courier.Context, name string, guard *transfer.Guard, size, have int64) error {
	root, rel, err := job.Root(name)
	if err != nil {
		return err
	}
	return guard.Fits(size, have, root, filepath.Dir(rel))
}
