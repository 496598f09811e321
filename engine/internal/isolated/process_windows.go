package isolated

import (
	"errors"
	"time"
)

// Nothing of this is reached: Check, Define and Of refuse isolated steps on this system.

const canLimit = false

func executable() (string, error) { return "", errors.ErrUnsupported }

func isPipe(int) bool { return false }

func closeOnExec(int) {}

func killOwnGroup() {}

func setLimits(_, _ int64) error { return errors.ErrUnsupported }

func usedCPU(any) time.Duration { return 0 }

func signalOf(any) string { return "" }
