// Package exec has the step exec.run, which runs a program of the host.
//
// # What may run
//
// No program may run unless the host application names it in [Options]: a job says "report", and
// the host says which file that is, by an absolute path. There is no shell, and no search along
// PATH. The environment has only the variables that the host passes on, and those that the job
// sets under names that the host allows. The program starts in a directory of the workspace, in a
// process group of its own. It has the same permissions as the host application: courier does not
// sandbox it.
//
// # Its end
//
// When the step's context ends, the group gets SIGTERM, and after a grace period SIGKILL. When
// the program itself has ended, the remaining processes of the group are killed too, before the
// step returns. A process that makes a group of its own, as a daemon does, is not killed. If the
// worker itself is killed, the program is killed too on Linux, but processes that it started may
// continue.
//
// # Failures
//
// A run that fails has outputs too: the exit code, the last 4 KiB of standard output and standard
// error without secrets, and the output files that are there. They are in the record of the
// attempt. Later steps never see them.
//
// # Repetition
//
// A step runs at least once, so a program must be safe to repeat: courier cannot know what a
// program has done. For a program that is not safe to repeat, once keeps notes in the workspace.
// A completed run is not repeated; its outputs are returned again. After an interrupted run, the
// step fails instead of running the program again. The files that the step itself writes appear
// complete under their names, or not at all, and are written again by a repetition.
//
// # Systems
//
// On Unix all of this applies except limits, which work on Linux only. On Windows there are no
// such process groups: the program is killed at once, without a grace period, and the processes
// that it started are not killed.
package exec

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/courierhq/courier/internal/nearest"

	"github.com/courierhq/courier"
)

// Register adds exec.run to r. It panics if the key is taken, or if a program's
// path is not absolute. A nil opt allows no program.
func Register(r *courier.Registry, opt *Options) {
	if opt == nil {
		opt = &Options{}
	}
	for name, p := range opt.Programs {
		if !filepath.IsAbs(p.Path) {
			panic(fmt.Sprintf("exec: register: the path of program %q, %q, is not absolute", name, p.Path))
		}
	}
	courier.Register(r, "exec.run", Run{Options: *opt}, &courier.TypeOptions{
		FailedOutputs: true,
		Doc:           "Runs a program that the host application allows, without a shell.",
		RepeatDoc:     "runs the program again, which must be safe to repeat; see once, which also holds after retry_job",
		CleanupDoc:    "removes unfinished files of standard output and error; keeps complete ones and files of the program",
	})
}

// Options are what the host application allows. The zero value allows nothing.
type Options struct {
	// Programs are the programs that may run, by the names that jobs use.
	Programs map[string]Program
	// MaxOutput is the maximum number of bytes of standard output, and of standard error, that
	// become outputs. 0 means 1 MiB.
	MaxOutput int
	// MaxBytes is the maximum number of bytes written to a file. 0 means 10 GiB.
	MaxBytes int64
	// MaxFiles is the maximum number of files that a pattern of output_files may match. 0 means
	// 10,000.
	MaxFiles int
	// Grace is the time between SIGTERM and SIGKILL. 0 means 5 s. The maximum is 8 s, since the
	// engine abandons a step 10 s after its context has ended.
	Grace time.Duration
}

// A Program is a program that may run.
type Program struct {
	Path string   // absolute
	Args []string // before the arguments of the job
	// Env is the environment in addition to the variables that jobs set, as "NAME=value".
	Env []string
	// AllowEnv are the names of the variables that jobs may set. LD_PRELOAD and similar names are
	// allowed only if the host lists them.
	AllowEnv []string
	// Limits apply unless a job sets lower ones.
	Limits Limits
}

// Limits are the resource limits of a process. They apply to each process of the program
// separately. 0 means no limit. They work on Linux; elsewhere a step with limits fails.
type Limits struct {
	CPUSeconds int64 `json:"cpu_seconds,omitempty" min:"0" doc:"processor time in seconds"`
	Memory     int64 `json:"memory_bytes,omitempty" min:"0" doc:"address space in bytes"`
	FileSize   int64 `json:"file_bytes,omitempty" min:"0" doc:"size of a written file in bytes"`
	Files      int64 `json:"open_files,omitempty" min:"0" doc:"open files"`
	Processes  int64 `json:"processes,omitempty" min:"0" doc:"processes of the same user"`
}

// lower returns the lower of l and m for each limit.
func (l Limits) lower(m Limits) Limits {
	pick := func(a, b int64) int64 {
		if a == 0 || b != 0 && b < a {
			return b
		}
		return a
	}
	return Limits{
		CPUSeconds: pick(l.CPUSeconds, m.CPUSeconds), Memory: pick(l.Memory, m.Memory), FileSize: pick(l.FileSize, m.FileSize),
		Files: pick(l.Files, m.Files), Processes: pick(l.Processes, m.Processes),
	}
}

// String lists the limits that are set.
func (l Limits) String() string {
	if !canLimit {
		return "none: this system has none of this kind"
	}
	var all []string
	for _, f := range []struct {
		name  string
		value int64
	}{
		{"cpu_seconds", l.CPUSeconds}, {"memory_bytes", l.Memory}, {"file_bytes", l.FileSize}, {"open_files", l.Files}, {"processes", l.Processes},
	} {
		if f.value > 0 {
			all = append(all, fmt.Sprintf("%s=%d", f.name, f.value))
		}
	}
	if len(all) == 0 {
		return "none"
	}
	return strings.Join(all, " ")
}

const (
	defaultMaxOutput = 1 << 20
	defaultMaxBytes  = 10 << 30
	defaultMaxFiles  = 10_000
	defaultGrace     = 5 * time.Second
	maxGrace         = 8 * time.Second
	maxArgs          = 1000
	maxArgBytes      = 100_000
)

// program returns the program that a job names.
func (o *Options) program(name string) (Program, error) {
	if len(o.Programs) == 0 {
		return Program{}, errf("program: no programs are allowed; the host application has to name them in exec.Options.Programs")
	}
	p, ok := o.Programs[name]
	if !ok {
		names := make([]string, 0, len(o.Programs))
		for n := range o.Programs {
			names = append(names, n)
		}
		slices.Sort(names)
		return p, errf("program: %q is not allowed; %s", name, nearest.DidYouMean(name, names))
	}
	if !filepath.IsAbs(p.Path) {
		return p, errf("program %q: its path is not absolute; correct it in exec.Options.Programs", name)
	}
	return p, nil
}

// environment returns the environment of a program.
func (p *Program) environment(set map[string]string) ([]string, error) {
	env := slices.Clone(p.Env)
	for name, value := range set {
		switch {
		case !slices.Contains(p.AllowEnv, name):
			return nil, fmt.Errorf("env: %q may not be set for this program; allowed are %q", name, p.AllowEnv)
		case name == "" || strings.ContainsAny(name, "=\x00") || strings.Contains(value, "\x00"):
			return nil, fmt.Errorf("env: %q has a name or a value that no environment can hold", name)
		}
		env = slices.DeleteFunc(env, func(e string) bool { return strings.HasPrefix(e, name+"=") })
		env = append(env, name+"="+value)
	}
	slices.Sort(env)
	if env == nil {
		env = []string{} // nil would be that of this process
	}
	return env, nil
}

// errf is fmt.Errorf for errors that a retry cannot fix.
func errf(format string, args ...any) error {
	return courier.Permanent(fmt.Errorf(format, args...))
}

var errTooLarge = errors.New("the output is too large")
