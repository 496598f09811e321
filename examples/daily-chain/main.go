// Command daily-chain runs a chain of four jobs every night: download the invoices that a partner
// has put on its SFTP server, decrypt them, unzip them, and move them into the processing
// directory. Jobs, chain and schedule are data, in pipelines.json.
//
//	go run ./examples/daily-chain
//	go run ./examples/daily-chain -time-lapse
//
// The first command checks by a dry run whether the chain could run, and runs it once. The second
// command shows a week in seconds. In this week the clocks are put forward, in one night a key is
// missing and an operator retries the chain in the morning, and in another night the machine is
// switched off.
//
// It needs nothing but Go: the partner's server is inside the process.
package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/engine/dryrun"
	"github.com/courierhq/courier/schedule"
	"github.com/courierhq/courier/steps"
	"github.com/courierhq/courier/store/memstore"
)

//go:embed pipelines.json
var pipelines []byte

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "daily-chain:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	f := flag.NewFlagSet("daily-chain", flag.ContinueOnError)
	lapse := f.Bool("time-lapse", false, "show a week in seconds, in virtual time")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q; see -help", f.Arg(0))
	}
	s := memstore.New()
	if *lapse {
		s = memstore.NewAt(weekBegins)
	}
	o, err := newOffice(ctx, s, out)
	if err != nil {
		return err
	}
	defer o.close()
	if *lapse {
		return o.week(ctx)
	}
	return o.once(ctx)
}

// An office is our side: an engine with the chain, its directories, and the
// partner that it works with.
type office struct {
	out     io.Writer
	store   *memstore.Store
	engine  *engine.Engine
	partner *partner
	dirs    dirs
	chain   chain.Chain
	sched   schedule.Schedule
	zone    *time.Location
}

// newOffice does the same as a service at its start.
func newOffice(ctx context.Context, s *memstore.Store, out io.Writer) (o *office, err error) {
	o = &office{out: out, store: s}
	opened := o // o is nil where an error is returned
	defer func() {
		if err != nil {
			opened.close()
		}
	}()
	if o.dirs, err = newDirs(); err != nil {
		return nil, err
	}
	if o.partner, err = startPartner(o.dirs.partner); err != nil {
		return nil, err
	}
	var reg courier.Registry
	steps.Register(&reg, &steps.Options{Connections: o.partner.connections, Keys: o.partner.ourKeys})
	o.engine = engine.New(s, &reg, &engine.Options{Workspace: o.dirs.work, Roots: []string{o.dirs.staging, o.dirs.processing}})
	bundle, err := o.engine.Check(ctx, []courier.Source{{File: "pipelines.json", Text: pipelines}})
	if err := errors.Join(err, bundle.Err()); err != nil {
		return nil, err
	}
	bundle.Chains[0].Params = map[string]any{"staging": o.dirs.staging, "processing": o.dirs.processing}
	o.sched = bundle.Schedules[0]
	if o.zone, err = time.LoadLocation(o.sched.Zone); err != nil {
		return nil, err
	}
	if _, err = o.engine.Apply(ctx, bundle, &engine.ApplyOptions{Name: "daily-chain"}); err != nil {
		return nil, err
	}
	o.chain, err = o.engine.Chains().Get(ctx, bundle.Chains[0].Name, 0)
	return o, err
}

func (o *office) close() {
	if o.partner != nil {
		o.partner.close()
	}
	o.dirs.remove()
}

// once checks whether the chain can run, and runs it.
func (o *office) once(ctx context.Context) error {
	if err := o.partner.put(ctx, time.Now().Format(time.DateOnly), keyNow); err != nil {
		return err
	}
	report, err := o.engine.DryRunChain(ctx, o.chain, &dryrun.Options{Fires: 3})
	if err != nil {
		return err
	}
	if _, err := report.WriteTo(o.out); err != nil {
		return err
	}
	if err := report.Err(); err != nil {
		return err
	}
	if err := o.engine.Start(ctx); err != nil {
		return err
	}
	defer o.engine.Stop(context.WithoutCancel(ctx))
	fmt.Fprintf(o.out, "\nStarting it now\n")
	x, err := o.engine.Chains().Start(ctx, o.chain.Name, &chain.StartOptions{By: courier.By{Actor: "example"}})
	if err != nil {
		return err
	}
	if x, err = o.engine.Chains().Wait(ctx, x.ID); err != nil {
		return err
	}
	if err := o.print(ctx, &x, nil); err != nil {
		return err
	}
	n, err := o.dirs.invoices()
	fmt.Fprintf(o.out, "\n%d invoices are in the processing directory. With -time-lapse there is a week of this.\n", n)
	return errors.Join(x.Err(), err)
}
