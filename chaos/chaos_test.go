package chaos

import (
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/courierhq/courier/internal/test/pgtest"
)

var (
	kills    = flag.Int("kills", 100, "how many workers TestCrashPoints and TestKills kill, each")
	ends     = flag.Int("unattended", 64, "how many workers TestUnattended kills, 64 in a round; a round of a few is too short for its schedules")
	restarts = flag.Int("restarts", 18, "how many times TestServer stops the server")
	items    = flag.Int("items", 600, "how many items the pipeline of TestItems has")
	repairs  = flag.Int("repairs", 30, "how many executions TestRepairs has repaired")
	length   = flag.Duration("for", 0, "how long each test goes on at least")
)

// ordersVariable tells the test binary that it is to be a worker.
const ordersVariable = "COURIER_CHAOS_WORKER"

func TestMain(m *testing.M) {
	if text := os.Getenv(ordersVariable); text != "" {
		os.Exit(obey(text))
	}
	pgtest.Main(m)
}

// rounds calls f, each time with a part of the whole number, until that is
// reached and the time is over.
func rounds(t *testing.T, whole, part int, f func(t *testing.T, n int)) {
	begun := time.Now()
	for round := 1; whole > 0 || time.Since(begun) < *length; round++ {
		n := part
		if whole > 0 {
			n = min(whole, part)
		}
		whole -= n
		if !t.Run(fmt.Sprintf("round %d", round), func(t *testing.T) { f(t, n) }) {
			return
		}
	}
}
