//go:build !linux || !(386 || amd64 || arm || arm64 || loong64 || ppc64le || riscv64 || s390x)

package exec

import "errors"

// canLimit reports whether this system has limits.
const canLimit = false

// set has nothing that it could set; prepare refuses limits before.
func (l Limits) set(int) error { return errors.ErrUnsupported }
