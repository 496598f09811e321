package advice

import (
	"fmt"
	"time"

	"github.com/courierhq/courier"
)

// Status is the status of an execution in words. If the execution does not go on, Status says what
// the execution waits for and what to do about it, as far as the execution alone shows it;
// [Explain] also uses facts of the store. Now is the present time by the clock of the store.
func Status(x *courier.Execution, now time.Time) string {
	status := x.Status(now)
	switch {
	case status == "lost" && x.Workspace != "":
		return fmt.Sprintf("lost: the lease of worker %q ended at %s, and its files are in the workspace %q; an engine with that WorkspaceID, the step types and the queue %q goes on with it; if the files are gone for good, Resume it with Elsewhere",
			x.Worker, x.LeaseExpiresAt.Format(time.RFC3339), x.Workspace, x.Queue)
	case status == "lost":
		return fmt.Sprintf("lost: the lease of worker %q ended at %s; any engine with its step types and the queue %q goes on with it", x.Worker, x.LeaseExpiresAt.Format(time.RFC3339), x.Queue)
	case status == "queued" && x.Workspace != "":
		return fmt.Sprintf("queued: its files are in the workspace %q; an engine with that WorkspaceID, the step types and the queue %q goes on with it; if the files are gone for good, Pause it, and Resume it with Elsewhere", x.Workspace, x.Queue)
	case status == "queued":
		return fmt.Sprintf("queued: it waits for an engine with its step types that serves the queue %q, or for room under a limit", x.Queue)
	}
	return status
}
