//go:build !linux || !(386 || amd64 || arm || arm64 || loong64 || ppc64le || riscv64 || s390x)

package exec

import "errors"

// canLimit reports whether this system supports limits.
const canLimit = false

// set returns an error: this system has no limits, and prepare has already refused them.
func (l Limits) set(int) error { return errors.ErrUnsupported }
