package exec

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/courierhq/courier"
)

// Run is the step type exec.run. The zero Run allows no program.
type Run struct {
	Options Options
}

// RunConfig is the configuration of exec.run.
type RunConfig struct {
	Program   string            `json:"program" courier:"required" doc:"name of a program that the host application allows"`
	Args      []string          `json:"args,omitempty" doc:"arguments, passed without a shell; other users of the machine can see them, so pass secrets by env or stdin"`
	Env       map[string]string `json:"env,omitempty" doc:"environment variables; only names that the host application allows for the program"`
	Directory string            `json:"directory,omitempty" courier:"path" doc:"working directory in the workspace, which is the default; created if missing"`

	Stdin     string `json:"stdin,omitempty" courier:"at_most_one=stdin" doc:"text for standard input"`
	StdinPath string `json:"stdin_path,omitempty" courier:"path,at_most_one=stdin" doc:"file for standard input"`

	StdoutPath  string            `json:"stdout_path,omitempty" courier:"path" doc:"file for standard output; an existing file is replaced when the program has succeeded"`
	StderrPath  string            `json:"stderr_path,omitempty" courier:"path" doc:"file for standard error; an existing file is replaced when the program has succeeded"`
	OutputFiles []courier.Pattern `json:"output_files,omitempty" doc:"files that the program writes, or patterns; each must exist or match a file when the program has ended"`

	SuccessCodes []int  `json:"success_codes,omitempty" min:"0" max:"4294967295" doc:"exit codes that count as success; 0 by default"`
	Limits       Limits `json:"limits,omitzero" doc:"limits for each process of the program, on Linux; 0 means the limit of the host application"`
	Once         bool   `json:"once,omitempty" doc:"run at most once: a repetition returns the outputs of a completed run, and fails after any other"`
}

// RunOutput is the output of exec.run.
type RunOutput struct {
	ExitCode        int      `json:"exit_code" doc:"exit code of the program; -1 if a signal ended it"`
	Stdout          string   `json:"stdout,omitempty" doc:"standard output, unless it went to a file; the last 4 KiB if the program failed"`
	Stderr          string   `json:"stderr,omitempty" doc:"standard error, unless it went to a file; the last 4 KiB if the program failed"`
	StdoutTruncated bool     `json:"stdout_truncated" doc:"whether stdout is only the beginning, or the end if the program failed"`
	StderrTruncated bool     `json:"stderr_truncated" doc:"whether stderr is only the end"`
	StdoutFile      string   `json:"stdout_file,omitempty" doc:"path of the file with standard output"`
	StderrFile      string   `json:"stderr_file,omitempty" doc:"path of the file with standard error"`
	OutputFiles     []string `json:"output_files" doc:"paths of the output_files; those that exist if the program failed"`
}

// Execute runs the program. A repetition runs it again, unless once is set.
func (s Run) Execute(ctx context.Context, job *courier.Context, cfg RunConfig) (RunOutput, error) {
	r, err := s.prepare(job, &cfg)
	if err != nil {
		return RunOutput{}, err
	}
	if ctx.Err() != nil {
		return RunOutput{}, context.Cause(ctx)
	}
	run := r.run
	if cfg.Once {
		run = r.runOnce
	}
	out, err := run(ctx)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return out, err // with an error, what is recorded of a run that has failed
}

// Validate checks that the program is allowed and exists, and checks the job's
// settings. It logs what it has found. It runs nothing.
func (s Run) Validate(_ context.Context, job *courier.Context, cfg RunConfig) error {
	if job.Unresolved("program") || job.Unresolved("env") || job.Unresolved("limits") {
		return nil
	}
	r, err := s.prepare(job, &cfg)
	if err != nil {
		return err
	}
	facts, err := r.program.inspect()
	if err != nil {
		return fmt.Errorf("program %q: %w", cfg.Program, err)
	}
	for field, name := range map[string]string{"stdout_path": cfg.StdoutPath, "stderr_path": cfg.StderrPath, "stdin_path": cfg.StdinPath} {
		if name == "" || job.Unresolved(field) {
			continue
		}
		if _, err := job.Files().Path(name); err != nil {
			return fmt.Errorf("%s: %w", field, err)
		}
	}
	job.Log().With("program", cfg.Program).Info("the program can be run", append(facts, "env", names(r.env), "limits", r.limits.String())...)
	return nil
}

// inspect finds the program, and returns the properties of its file as pairs
// for a log. It does not run the program.
func (p *Program) inspect() ([]any, error) {
	file, err := exec.LookPath(p.Path) // that it is executable
	if err != nil {
		return nil, fmt.Errorf("%w; install it on this worker, or correct its path in exec.Options.Programs", err)
	}
	if file, err = filepath.EvalSymlinks(file); err != nil {
		return nil, err
	}
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	return []any{"path", p.Path, "file", file, "size", info.Size(), "mode", info.Mode().String(), "modified", info.ModTime().UTC().Format(time.RFC3339)}, nil
}

// names returns the names in an environment, without the values, which may be
// secrets.
func names(env []string) []string {
	list := make([]string, len(env))
	for i, e := range env {
		list[i], _, _ = strings.Cut(e, "=")
	}
	return list
}

// Cleanup removes unfinished files of earlier attempts. The program's own files
// stay.
func (s Run) Cleanup(_ context.Context, job *courier.Context, cfg RunConfig) error {
	var errs []error
	for _, name := range []string{cfg.StdoutPath, cfg.StderrPath} {
		if name != "" {
			errs = append(errs, job.Files().RemoveSideFiles(name))
		}
	}
	return errors.Join(errs...)
}

// A run is a run whose configuration has been checked.
type run struct {
	job     *courier.Context
	cfg     *RunConfig
	opt     *Options
	program Program
	env     []string
	limits  Limits
	started bool // the program may have done something
}

func (s Run) prepare(job *courier.Context, cfg *RunConfig) (*run, error) {
	r := &run{job: job, cfg: cfg, opt: &s.Options}
	var err error
	if r.program, err = s.Options.program(cfg.Program); err != nil {
		return nil, err
	}
	if r.env, err = r.program.environment(cfg.Env); err != nil {
		return nil, courier.Permanent(err)
	}
	r.limits = r.program.Limits.lower(cfg.Limits)
	if r.limits != (Limits{}) && !canLimit {
		return nil, errf("limits: only Linux has limits of this kind; leave them out")
	}
	size := 0
	for _, a := range cfg.Args {
		if size += len(a); strings.Contains(a, "\x00") {
			return nil, errf("args: an argument contains a NUL character")
		}
	}
	switch {
	case len(cfg.Args) > maxArgs || size > maxArgBytes:
		return nil, errf("args: more than %d arguments, or %d bytes; give the data by stdin", maxArgs, maxArgBytes)
	case cfg.StdoutPath != "" && cfg.StdoutPath == cfg.StderrPath:
		return nil, errf("stdout_path and stderr_path: must not be the same file")
	}
	return r, nil
}

// directory returns the directory in which the program starts.
func (r *run) directory() (string, error) {
	name := r.cfg.Directory
	if name == "" {
		name = "."
	}
	if filepath.IsAbs(filepath.FromSlash(name)) {
		return "", errf("directory: must lie below the workspace, so give it without the path of the workspace")
	}
	root, rel, err := r.job.Files().Root(name)
	if err == nil {
		err = r.job.Files().MkdirAll(name)
	}
	if err == nil {
		_, err = root.Stat(rel) // follows links, but not out of the workspace
	}
	if err != nil {
		return "", fmt.Errorf("directory: %w", err)
	}
	return filepath.Abs(filepath.Join(root.Name(), rel))
}

// run runs the program.
func (r *run) run(ctx context.Context) (out RunOutput, err error) {
	dir, err := r.directory()
	if err != nil {
		return out, err
	}
	cmd := &exec.Cmd{
		Path: r.program.Path, Args: slices.Concat([]string{r.program.Path}, r.program.Args, r.cfg.Args),
		Env: r.env, Dir: dir, WaitDelay: waitDelay,
	}
	stdin, err := r.stdin()
	if err != nil {
		return out, err
	}
	if stdin != nil {
		cmd.Stdin = stdin
		if f, ok := stdin.(io.Closer); ok {
			defer f.Close()
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stdout, err := r.capture("stdout_path", r.cfg.StdoutPath, false, cancel)
	if err != nil {
		return out, err
	}
	defer stdout.close()
	stderr, err := r.capture("stderr_path", r.cfg.StderrPath, true, cancel)
	if err != nil {
		return out, err
	}
	defer stderr.close()
	cmd.Stdout, cmd.Stderr = stdout, stderr
	r.job.Log().Debug("a program is started", "program", r.cfg.Program)
	err = r.process(ctx, cmd)
	if err == nil {
		err = r.judge(cmd, stdout, stderr)
	}
	if err == nil {
		out.ExitCode = cmd.ProcessState.ExitCode()
		err = r.collect(ctx, &out, stdout, stderr)
	}
	if err != nil && r.started {
		return r.failedOutput(ctx, cmd, stdout, stderr), err
	}
	return out, err
}

// stdin returns standard input; nil means none.
func (r *run) stdin() (io.Reader, error) {
	if r.cfg.StdinPath == "" {
		if r.cfg.Stdin == "" {
			return nil, nil
		}
		return strings.NewReader(r.cfg.Stdin), nil
	}
	f, err := r.job.Files().Open(r.cfg.StdinPath)
	if err != nil {
		return nil, fmt.Errorf("stdin_path: %w", err)
	}
	return f, nil
}

// judge returns nil if the program was successful.
func (r *run) judge(cmd *exec.Cmd, stdout, stderr *capture) error {
	if err := errors.Join(stdout.failure(), stderr.failure()); err != nil {
		return err
	}
	state := cmd.ProcessState
	codes := r.cfg.SuccessCodes
	if len(codes) == 0 {
		codes = []int{0}
	}
	if state.Exited() && slices.Contains(codes, state.ExitCode()) {
		return nil
	}
	text := fmt.Sprintf("program %q: ended with %s", r.cfg.Program, state)
	if r.limits != (Limits{}) && !state.Exited() {
		text += ", perhaps because of its limits"
	}
	if tail := r.clean(stderr.tail()); tail != "" {
		text += "; standard error ends with: " + tail
	}
	return errors.New(text)
}

// clean makes the end of a program's output suitable for a message. It removes
// the values of its environment, which may be secrets.
func (r *run) clean(text string) string {
	var own courier.Redactor
	for _, e := range r.env {
		name, v, _ := strings.Cut(e, "=")
		own.Add(name, v)
	}
	own.Add("stdin", r.cfg.Stdin)
	text = own.Redact(r.job.Redact(text))
	return printable(strings.TrimSpace(strings.ToValidUTF8(text[max(0, len(text)-tailSize):], "")))
}
