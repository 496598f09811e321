package duepoll_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier/internal/duepoll"
)

// TestRun: when the loop asks, after each answer.
func TestRun(t *testing.T) {
	for _, wakes := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			var log bytes.Buffer
			l := duepoll.New(duepoll.Options{What: "look", Log: slog.New(slog.NewTextHandler(&log, nil)), Poll: time.Second, Wakes: wakes})
			start := time.Now()
			var asked []string
			answers := []func() (time.Duration, bool, error){
				func() (time.Duration, bool, error) { return time.Minute, false, nil },
				func() (time.Duration, bool, error) { return 2 * time.Second, true, nil },
				func() (time.Duration, bool, error) { return 0, false, nil },
				func() (time.Duration, bool, error) { return 0, false, errors.New("away") },
				func() (time.Duration, bool, error) { time.AfterFunc(10*time.Second, l.Wake); return 0, true, nil },
				func() (time.Duration, bool, error) {
					time.AfterFunc(10*time.Second, l.Wake)
					return time.Hour, true, nil
				},
				func() (time.Duration, bool, error) { l.Wake(); return 0, true, nil }, // saved meanwhile
				func() (time.Duration, bool, error) { time.AfterFunc(time.Second, l.Now); return 0, false, nil },
				func() (time.Duration, bool, error) { cancel(); return 0, false, errors.New("the engine stops") },
			}
			l.Run(ctx, func() (time.Duration, bool, error) {
				asked = append(asked, fmt.Sprint(int(time.Since(start).Seconds())))
				return answers[len(asked)-1]()
			})
			want := []string{"0", "30", "32", "62", "63", "93", "123", "123", "124"}
			if wakes {
				want = []string{"0", "30", "32", "62", "63", "73", "103", "103", "104"}
			}
			if !slices.Equal(asked, want) || strings.Count(log.String(), "msg=look") != 1 {
				t.Errorf("asked after %v, want %v\n%s", asked, want, &log)
			}
			l.Run(t.Context(), func() (time.Duration, bool, error) { return 0, false, fmt.Errorf("none: %w", errors.ErrUnsupported) })
		})
	}
}
