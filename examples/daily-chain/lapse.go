package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/schedule"
)

// weekBegins is noon in Berlin on a Tuesday. On the Sunday after, at 02:00, the
// clocks are put forward by an hour.
var weekBegins = time.Date(2027, 3, 23, 11, 0, 0, 0, time.UTC)

// week lets a week pass. Only the clock of the store is virtual, and it is the one that counts. It
// is put forward to each moment at which something is due. The engine, the schedule and the
// transfers work as in every other program.
func (o *office) week(ctx context.Context) error {
	begun := time.Now()
	x, err := schedule.ExplainCron(o.sched.Cron, o.sched.Zone, o.store.Now(), 7)
	if err != nil {
		return err
	}
	x.Notes = x.Notes[:1] // the others are about later changes of the clocks
	fmt.Fprintf(o.out, "Chain %s: download, decrypt, unzip, move\nSchedule %s, %s:\n%s\n", o.chain.Name, o.sched.Name, o.sched.Zone, x)
	if err := o.engine.Start(ctx); err != nil {
		return err
	}
	defer o.engine.Stop(context.WithoutCancel(ctx))
	const days = 7
	for range days {
		if err := o.day(ctx); err != nil {
			return err
		}
	}
	if err := o.sum(ctx, days); err != nil {
		return err
	}
	fmt.Fprintf(o.out, "It took %v.\n", time.Since(begun).Round(100*time.Millisecond))
	return nil
}

// day is the time from one evening to the next.
func (o *office) day(ctx context.Context) error {
	o.until(22, 0)
	s, err := o.engine.Schedules().Get(ctx, o.sched.Name)
	if err != nil {
		return err
	}
	tick := s.NextFire.In(o.zone)
	day, key := tick.Weekday(), keyNow
	if day == time.Thursday {
		key = keyNext
	}
	if err := o.partner.put(ctx, tick.Format(time.DateOnly), key); err != nil {
		return err
	}
	o.say("the partner puts %d archives on its server", perDay)
	switch day {
	case time.Thursday:
		return o.failingNight(ctx, tick)
	case time.Saturday:
		return o.darkNight(ctx, tick)
	}
	o.store.Advance(tick.Sub(o.store.Now()))
	_, err = o.fired(ctx, tick, chain.Completed)
	return err
}

// failingNight is a night with files that are encrypted for a key that we do not have yet.
func (o *office) failingNight(ctx context.Context, tick time.Time) error {
	o.store.Advance(tick.Sub(o.store.Now()))
	before, err := o.fired(ctx, tick, chain.Failed)
	if err != nil {
		return err
	}
	o.until(8, 15)
	o.say("an operator reads that, adds the key, and retries the chain")
	if err := o.partner.handOver(keyNext); err != nil {
		return err
	}
	if _, err := o.engine.Chains().Retry(ctx, before.ID, courier.By{Actor: "ada"}); err != nil {
		return err
	}
	x, err := o.engine.Chains().Wait(ctx, before.ID)
	if err != nil {
		return err
	}
	if err := o.print(ctx, &x, before); err != nil {
		return err
	}
	return x.Err()
}

// darkNight is a night in which the machine is off.
func (o *office) darkNight(ctx context.Context, tick time.Time) error {
	o.until(23, 0)
	o.say("the machine is switched off")
	if err := o.engine.Stop(ctx); err != nil {
		return err
	}
	o.until(14, 0)
	o.say("it is back; the tick of %s was missed, and is made up for (misfire: %s)", tick.Format("15:04"), o.sched.Misfire)
	if err := o.engine.Start(ctx); err != nil {
		return err
	}
	_, err := o.fired(ctx, tick, chain.Completed)
	return err
}

// until puts the clock forward to the next time at which it shows hour and minute.
func (o *office) until(hour, minute int) {
	now := o.store.Now().In(o.zone)
	at := time.Date(now.Year(), now.Month(), now.Day(), hour, minute, 0, 0, o.zone)
	if !at.After(now) {
		at = time.Date(now.Year(), now.Month(), now.Day()+1, hour, minute, 0, 0, o.zone)
	}
	o.store.Advance(at.Sub(now))
}

// say writes a line of the log, with the time of the clock.
func (o *office) say(format string, args ...any) {
	fmt.Fprintf(o.out, "%-22s %s\n", o.store.Now().In(o.zone).Format("Mon 02 Jan 15:04 MST"), fmt.Sprintf(format, args...))
}

// fired waits until the engine has fired a tick and the chain has ended in the expected state.
func (o *office) fired(ctx context.Context, tick time.Time, want chain.State) (*chain.Execution, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var s schedule.Schedule
	for !s.LastFire.Equal(tick) {
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return nil, fmt.Errorf("the tick of %s did not fire: %w; the schedule says %q", tick, ctx.Err(), s.Problem)
		}
		var err error
		if s, err = o.engine.Schedules().Get(ctx, o.sched.Name); err != nil {
			return nil, err
		}
	}
	x, err := o.engine.Chains().Wait(ctx, courier.ChainExecutionID(s.LastExecution))
	if err != nil {
		return nil, err
	}
	o.say("schedule %s fires, for %s", o.sched.Name, tick.Format("Mon 15:04 MST"))
	if err := o.print(ctx, &x, nil); err != nil {
		return nil, err
	}
	if x.State != want {
		return nil, fmt.Errorf("the chain is %s, not %s: %w", x.State, want, x.Err())
	}
	return &x, nil
}

// print shows the results of the members. Before is the chain execution before a retry, or nil.
func (o *office) print(ctx context.Context, x, before *chain.Execution) error {
	for i, m := range x.Members {
		text := m.Reason
		if m.Execution != "" {
			e, err := o.engine.Executions().Get(ctx, m.Execution)
			if err != nil {
				return err
			}
			if text = o.moved(ctx, &e); e.Failure != nil {
				text = strings.ReplaceAll(e.Failure.Message, o.dirs.base+string(filepath.Separator), "")
			}
		}
		if before != nil && before.Members[i].State == m.State {
			text = "was done, and is not repeated"
		}
		fmt.Fprintf(o.out, "    %-9s %-10s %s\n", m.Name, m.State, text)
	}
	fmt.Fprintf(o.out, "    the chain is %s\n", x.State)
	return nil
}

// moved describes the files that an execution has moved, from its steps' outputs.
func (o *office) moved(ctx context.Context, x *courier.Execution) string {
	values, err := o.engine.Executions().Values(ctx, x.ID)
	if err != nil {
		return err.Error()
	}
	for key, what := range map[string]string{
		"0.downloaded_files": "downloaded", "3.file_list": "decrypted", "3.deleted_files": "unzipped", "0.moved_files": "moved",
	} {
		if list, ok := values[key].([]any); ok {
			return fmt.Sprintf("%d files %s", len(list), what)
		}
	}
	return ""
}

// sum checks that every day has had its chain execution, and that all invoices have arrived.
func (o *office) sum(ctx context.Context, days int) error {
	list, err := o.engine.Chains().Executions(ctx, chain.Filter{})
	if err != nil {
		return err
	}
	n, err := o.dirs.invoices()
	if err != nil {
		return err
	}
	completed := 0
	for i := range list {
		if list[i].State == chain.Completed {
			completed++
		}
	}
	fmt.Fprintf(o.out, "\n%d days, %d executions of the chain, %d completed; %d invoices are in the processing directory.\n", days, len(list), completed, n)
	if len(list) != days || completed != days || n != days*perDay*perArchive {
		return errors.New("that is not one for each day, with all that the partner has sent")
	}
	return nil
}
