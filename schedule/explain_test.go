package schedule_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/schedule"
)

func TestExplainCron(t *testing.T) {
	x, err := schedule.ExplainCron("0 30 2 * * ?", "Europe/Berlin", time.Date(2027, 3, 26, 12, 0, 0, 0, time.UTC), 3)
	if err != nil || len(x.Next) != 3 || len(x.Notes) == 0 || x.Words == "" {
		t.Fatalf("%+v, %v", x, err)
	}
	if got := fmt.Sprint(x.Next[1]); got != "2027-03-28 03:30:00 +0200 CEST" {
		t.Errorf("in the gap it fires at %s", got)
	}
	for _, want := range []string{x.Words, "next: Sat 2027-03-27 02:30:00 CET\n", "note: " + x.Notes[0]} {
		if !strings.Contains(x.String(), want) {
			t.Errorf("%q lacks %q", x, want)
		}
	}
	if x, err := schedule.ExplainCron("0 0 0 30 2 ?", "", time.Time{}, 0); err != nil || len(x.Next) != 0 || !strings.Contains(x.String(), "never fires") {
		t.Errorf("%+v, %v", x, err)
	}
	for _, bad := range [][2]string{{"0 3 * * *", ""}, {"0 0 3 * * ?", "Berlin/Europe"}} {
		if _, err := schedule.ExplainCron(bad[0], bad[1], time.Time{}, 0); !errors.Is(err, courier.ErrInvalid) {
			t.Errorf("%v: %v", bad, err)
		}
	}
}
