package transfer

import (
	"fmt"
	"io/fs"

	"github.com/courierhq/courier/internal/failure"
	"github.com/courierhq/courier/internal/safename"
)

// The values of the configuration key if_exists.
const (
	IfExistsOverwrite = "overwrite" // the existing file is replaced
	IfExistsSkip      = "skip"      // the existing file stays, and the step reports it as skipped
	IfExistsFail      = "fail"      // the step fails with ErrExists
)

// ReasonExists is the output reason of a step that has skipped all files.
const ReasonExists = "file_exists"

// ErrExists returns the permanent error for the existing file called name if
// if_exists is "fail". It wraps [fs.ErrExist]. The name is empty if the caller
// adds it to the error.
func ErrExists(name string) error {
	if name != "" {
		name = safename.Quote(name) + " "
	}
	return failure.Permanent(fmt.Errorf("%sexists, and if_exists is %q; remove it, name another path, or set if_exists to %q: %w",
		name, IfExistsFail, IfExistsOverwrite, fs.ErrExist))
}
