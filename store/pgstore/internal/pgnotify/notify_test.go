package pgnotify

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
)

// offline returns a notifier whose statements do nothing.
func offline(t *testing.T) *Notifier {
	n := New(Options{
		Schema: "courier",
		ID:     "me",
		Log:    slog.New(slog.DiscardHandler),
		Connect: func(context.Context) (*pgx.Conn, error) {
			return nil, errors.New("there is no database")
		},
		Query: func(context.Context, Querier, func(pgx.Rows) error, string, ...any) error {
			return nil
		},
		ClaimScope: func() string { return "scope" },
		ClaimTime:  func() time.Duration { return time.Millisecond },
	})
	t.Cleanup(n.Close)
	return n
}

// TestInline checks when a statement may send its own notification: one statement at a
// time, one every 5 ms, and none for 5 s after one that took longer than 20 ms.
func TestInline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := offline(t)
		begin := func(want bool, when string) Inline {
			t.Helper()
			o := n.BeginInline("queue")
			if got := o.Channel != ""; got != want {
				t.Errorf("%s: notification %+v, want one: %v", when, o, want)
			}
			return o
		}
		first := begin(true, "at first")
		second := begin(false, "while another statement runs")
		n.EndInline(&second)
		begin(false, "while the first still runs")
		n.EndInline(&first)
		begin(false, "at once after the first")
		time.Sleep(notifyEvery)
		slow := begin(true, "5 ms later")
		time.Sleep(slowInline + time.Millisecond)
		n.EndInline(&slow)
		time.Sleep(inlinePause - time.Millisecond)
		begin(false, "within 5 s after a slow one")
		time.Sleep(time.Millisecond)
		begin(true, "5 s after a slow one")
	})
}

// TestWakeLater checks that a notification wakes at once if no other store listens,
// after a delay otherwise, and not if another store has emptied the queue by then.
func TestWakeLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := offline(t)
		woken := func() bool {
			t.Helper()
			mark := n.Queues.Mark()
			n.receive("it" + queueChanged + "queue")
			synctest.Wait()
			ctx, cancel := context.WithTimeout(t.Context(), 2*maxWakeDelay)
			defer cancel()
			return n.Queues.Wait(ctx, []string{"queue"}, mark) == nil
		}
		started := time.Now()
		if !woken() || time.Since(started) != 0 {
			t.Errorf("without other stores: woken after %v", time.Since(started))
		}
		n.receive("it" + echo)
		if !woken() {
			t.Error("with another store: not woken")
		}
		mark := n.Queues.Mark()
		n.receive("it" + queueChanged + "queue")
		n.receive("it" + queueEmptied + "scope queue")
		ctx, cancel := context.WithTimeout(t.Context(), 2*maxWakeDelay)
		defer cancel()
		if err := n.Queues.Wait(ctx, []string{"queue"}, mark); err == nil {
			t.Error("woken, though another store had emptied the queue")
		}
	})
}
