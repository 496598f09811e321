//go:build unix && !linux

package isolated

import (
	"errors"
	"os"
)

// canLimit reports whether this system has limits of memory and processor time.
const canLimit = false

// executable is the program of this process.
func executable() (string, error) { return os.Executable() }

// setLimits has nothing to set: Check refuses limits before.
func setLimits(memory, cpu int64) error {
	if memory > 0 || cpu > 0 {
		return errors.ErrUnsupported
	}
	return nil
}
