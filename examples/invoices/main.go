// Command invoices runs the pipeline that Courier is made for: list a partner's SFTP directory, and
// for each file download, decrypt, unzip and move it into the processing directory; then archive
// the originals and clean up. A damaged file is put into quarantine on the partner's server, and
// the pipeline continues with the other files. At the end a report lists the result of each file,
// whether or not the pipeline has completed. The pipeline is data, in pipeline.json.
//
//	go run ./examples/invoices
//	go run ./examples/invoices -fail-at 'sftp.download[2]'
//	go run ./examples/invoices -serve                              # then look at it in the dashboard
//	go run ./examples/invoices -serve -fail-at 'sftp.download[2]'  # and resume it there
//
// It needs nothing but Go: it starts an SFTP server inside the process, with files encrypted for
// keys that it makes itself. With -connection it uses a real server instead; see -help.
package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/steps"
	"github.com/courierhq/courier/store/memstore"
)

//go:embed pipeline.json
var pipeline []byte

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "invoices:", err)
		os.Exit(1)
	}
}

// settings are the settings on the command line.
type settings struct {
	failAt, connection, key, remote, dir, addr string
	serve                                      bool
}

const (
	defaultRemote = "/outgoing"
	defaultAddr   = "127.0.0.1:0"
)

func parseFlags(args []string) (settings, error) {
	var s settings
	f := flag.NewFlagSet("invoices", flag.ContinueOnError)
	f.StringVar(&s.failAt, "fail-at", "", "make this step fail once, such as 'sftp.download[2]' for the third file; then resume, with -serve in the dashboard")
	f.StringVar(&s.connection, "connection", "", "a JSON `file` with a connection \"partner\", to run against a real server; secret:NAME in it is the content of the file NAME beside it")
	f.StringVar(&s.key, "key", "", "with -connection: a `file` or directory with the private OpenPGP keys")
	f.StringVar(&s.remote, "remote", defaultRemote, "with -connection: the partner's directory")
	f.StringVar(&s.dir, "dir", "", "where the files arrive, kept afterwards; by default a temporary directory")
	f.BoolVar(&s.serve, "serve", false, "show the execution in the dashboard afterwards, until an interrupt")
	f.StringVar(&s.addr, "addr", defaultAddr, "with -serve: the `address` of the dashboard, which serves this host only; port 0 is a free one")
	err := f.Parse(args)
	if err == nil && f.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q; see -help", f.Arg(0))
	}
	if err == nil && (s.connection == "") != (s.key == "") {
		err = errors.New("-connection and -key belong together, since the files on the server are encrypted; give both")
	}
	if err == nil && s.connection == "" && s.remote != defaultRemote {
		err = errors.New("-remote is a directory of a real server; give -connection and -key too")
	}
	if err == nil && !s.serve && s.addr != defaultAddr {
		err = errors.New("-addr is where the dashboard is served; give -serve too")
	}
	return s, err
}

func run(ctx context.Context, args []string, out io.Writer) error {
	s, err := parseFlags(args)
	if err != nil {
		return err
	}
	var job courier.Job
	if err := json.Unmarshal(pipeline, &job); err != nil {
		return err
	}
	fault, err := parseFault(s.failAt, &job)
	if err != nil {
		return err
	}
	dirs, err := newDirs(s.dir)
	if err != nil {
		return err
	}
	defer dirs.remove()
	p, err := newPartner(ctx, s, dirs)
	if err != nil {
		return err
	}
	defer p.close()
	return process(ctx, s, &job, fault, dirs, p, out)
}

// process does the same as a service: it starts an engine, runs the pipeline and reports the
// outcome.
func process(ctx context.Context, s settings, job *courier.Job, fault *fault, dirs *dirs, p *partner, out io.Writer) error {
	v := newView(out)
	var reg courier.Registry
	steps.Register(&reg, &steps.Options{Connections: p.connections, Keys: p.keys})
	courier.RegisterFunc(&reg, "invoices.report", report, &courier.TypeOptions{Doc: "writes what has become of the files"})
	e := engine.New(memstore.New(), &reg, &engine.Options{
		Secrets:   s.secret,
		Workspace: dirs.work,
		Roots:     []string{dirs.staging, dirs.processing, dirs.quarantine, dirs.archive},
		Observers: []func(courier.Event){v.event},
		Around:    fault.around,
	})
	fmt.Fprintf(out, "Running %s for the files in %s\n", job.Name, p.where)
	x, err := e.Run(ctx, *job, &courier.EnqueueOptions{By: courier.By{Actor: "example"}, Params: map[string]any{
		"remote_dir": p.remote, "staging": dirs.staging, "processing": dirs.processing,
		"quarantine": dirs.quarantine, "archive": dirs.archive, "day": time.Now().Format(time.DateOnly),
	}})
	v.done()
	if x.ID == "" {
		return err
	}
	if e := printTree(ctx, out, e, x); e != nil {
		return e
	}
	if s.serve && x.State == courier.Failed {
		fmt.Fprintf(out, "\nThe execution is %s; the dashboard can resume it:\n  %v\n", x.State, x.Err())
		return serve(ctx, s.addr, e, p, out)
	}
	if err != nil && fault.fired {
		x, err = resume(ctx, out, e, v, x)
	}
	if err != nil {
		return err
	}
	if fault.typ != "" && !fault.fired {
		fmt.Fprintf(out, "\nNothing failed: %s was never reached.\n", fault)
	}
	if err := errors.Join(printRescued(ctx, out, e, x), dirs.print(out)); err != nil || !s.serve {
		return err
	}
	return serve(ctx, s.addr, e, p, out)
}

// printRescued prints the names of the files that were put into quarantine on the partner's server.
func printRescued(ctx context.Context, out io.Writer, e *engine.Engine, x courier.Execution) error {
	list, err := e.Executions().RescuedItems(ctx, x.ID)
	if len(list) > 0 {
		fmt.Fprintf(out, "\nIn quarantine on the partner's server\n")
	}
	for _, f := range list {
		fmt.Fprintf(out, "  %s: %s: %s\n", f.Label, courier.StepLabel(f.Step, f.ID, f.Type), f.Error)
	}
	return err
}

// resume shows the failed execution, resumes it, and shows the steps that ran again.
func resume(ctx context.Context, out io.Writer, e *engine.Engine, v *view, x courier.Execution) (courier.Execution, error) {
	fmt.Fprintf(out, "\nThe execution is %s, with its checkpoint and its files:\n  %v\n", x.State, x.Err())
	before, err := e.Executions().Steps(ctx, x.ID)
	if err != nil {
		return x, err
	}
	fmt.Fprintf(out, "\nResuming it, as an operator would\n")
	if x, err = e.Resume(ctx, x.ID, &courier.ResumeOptions{By: courier.By{Actor: "operator"}}); err != nil {
		return x, err
	}
	if err := e.Start(ctx); err != nil {
		return x, err
	}
	x, err = e.Wait(ctx, x.ID)
	err = errors.Join(err, e.Stop(context.WithoutCancel(ctx)))
	v.done()
	if err != nil {
		return x, err
	}
	after, err := e.Executions().Steps(ctx, x.ID)
	if err != nil {
		return x, err
	}
	if err := printTree(ctx, out, e, x); err != nil {
		return x, err
	}
	again := repeated(before, after[len(before):])
	fmt.Fprintf(out, "\n%d steps had completed before the failure; %d of them ran again.\n", completed(before), again)
	if again > 0 {
		return x, errors.New("completed steps were repeated")
	}
	return x, x.Err()
}

func completed(steps []courier.StepExecution) (n int) {
	for _, s := range steps {
		if s.State == courier.StepCompleted {
			n++
		}
	}
	return n
}

// repeated counts the attempts in after that repeat steps which had completed before. It does not
// count the report, which is written at each end.
func repeated(before, after []courier.StepExecution) (n int) {
	done := make(map[string]bool)
	for _, s := range before {
		if s.State == courier.StepCompleted && s.Type != "invoices.report" {
			done[place(&s)] = true
		}
	}
	for _, s := range after {
		if done[place(&s)] {
			n++
		}
	}
	return n
}
