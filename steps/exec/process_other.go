//go:build !linux

package exec

import (
	"errors"
	"os/exec"

	"github.com/courierhq/courier/internal/procgroup"
)

// start starts the leader of a group.
func start(_ *procgroup.Group, cmd *exec.Cmd, limits Limits) error {
	if limits != (Limits{}) {
		return errors.Join(errors.New("its limits can't be set"), limits.set(0))
	}
	return cmd.Start()
}
