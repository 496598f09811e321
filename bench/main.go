// Command bench measures Courier on PostgreSQL, with other systems beside it
// in one run, in turns and on the same server, and prints how they compare.
//
//	go run . [-only REGEXP] [-quick] [-peers none] [-json FILE] [-list]
//
// The regexp must match from the begin of what it chooses, which is a bench and
// a peer, such as steps-10x64/dbos; -list shows them all.
//
// The program starts a server of its own with the usual settings, but more memory, on
// which everything that is committed is on the disk. If COURIER_TEST_DATABASE
// holds the URL of a server, it uses that one, where it must be allowed to
// create databases. Figures depend on the machine; what is worth something are
// the ratios, which are above 1 where Courier is better.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"runtime/pprof"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if len(os.Args) == 2 && os.Args[1] == pipelineArg {
		err = runPipeline(ctx, os.Stdin, os.Stdout, os.Stderr)
	} else {
		err = command(ctx, os.Args[1:], os.Stdout, os.Stderr)
	}
	switch {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// command runs the program with its arguments. The results go to out, and what
// goes on to progress.
func command(ctx context.Context, args []string, out, progress io.Writer) (err error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(progress)
	file := flags.String("json", "", "write the results to this `file`, - for the standard output")
	only := flags.String("only", "", "measure only what begins with a match of this `regexp`, as bench/peer")
	quick := flags.Bool("quick", false, "take less time: any one bench in less than 50 seconds, and once half a minute more for a history")
	peers := flags.String("peers", "all", "none, all, or the `names` of those to measure beside Courier, with commas")
	list := flags.Bool("list", false, "list the benches and their peers, and measure nothing")
	profile := flags.String("cpuprofile", "", "write a profile of this process to this `file`")
	memory := flags.String("memprofile", "", "write what this process allocated to this `file`")
	if err := flags.Parse(args); err != nil {
		return err
	}
	match, err := regexp.Compile("^(?:" + *only + ")")
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	chosen, err := choose(benches(), match, *peers)
	if err != nil {
		return err
	}
	if *list {
		return writeList(out, chosen)
	}
	stop, err := startProfile(*profile)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop(), writeAllocations(*memory)) }()
	srv, err := openServer(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, srv.close()) }()
	h := newHarness(srv, *quick, progress)
	defer func() { err = errors.Join(err, h.close()) }()
	results, err := h.all(ctx, chosen)
	if *file != "" {
		err = errors.Join(err, writeJSON(*file, out, results))
	}
	if *file != "-" {
		err = errors.Join(err, writeTable(out, results))
	}
	return err
}

// benches returns all benches in the order in which they are run. Those that
// fill the database come last.
func benches() []bench {
	var list []bench
	list = append(list, steps()...)
	list = append(list, executions()...)
	list = append(list, latency()...)
	list = append(list, enqueue()...)
	list = append(list, pickup()...)
	list = append(list, freedLimit()...)
	list = append(list, schedules()...)
	list = append(list, pgpBenches()...)
	list = append(list, cost()...)
	list = append(list, sftp()...)
	list = append(list, ftp()...)
	list = append(list, xmin()...)
	list = append(list, history()...)
	list = append(list, archives()...)
	list = append(list, pipelines()...)
	return list
}

// startProfile writes a profile of the processor's time to a file until stop is
// called. An empty name means none.
func startProfile(file string) (stop func() error, err error) {
	if file == "" {
		return func() error { return nil }, nil
	}
	f, err := os.Create(file)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		return f.Close()
	}, nil
}

// writeAllocations writes a profile of all that was allocated since the process
// began, unless there is no file.
func writeAllocations(file string) error {
	if file == "" {
		return nil
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	return errors.Join(pprof.Lookup("allocs").WriteTo(f, 0), f.Close())
}
