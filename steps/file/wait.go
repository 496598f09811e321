package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/glob"
	"github.com/courierhq/courier/internal/localfile"
	"github.com/courierhq/courier/internal/wakeup"
)

// Wait is the step type file.wait. It waits until a file exists, or until a
// pattern finds enough files, and the files, their sizes and their modification
// times have not changed for a while.
//
// Both this time and the timeout count from the beginning of the attempt. The
// zero Wait has the default limits.
type Wait struct {
	Limits Limits // of which Wait uses MaxMatches
}

// OnTimeout says what happens when the timeout of the step expires.
type OnTimeout string

// The values of OnTimeout. The empty OnTimeout means TimeoutFails.
const (
	TimeoutFails     OnTimeout = "fail"     // it is an error
	TimeoutContinues OnTimeout = "continue" // the output says so
)

// UnmarshalText refuses everything but the two values.
func (o *OnTimeout) UnmarshalText(text []byte) error {
	return oneOf(o, string(text), "", TimeoutFails, TimeoutContinues)
}

// WaitConfig is the configuration of file.wait.
type WaitConfig struct {
	Path           courier.Pattern `json:"path" courier:"required" doc:"the file to wait for, or a pattern"`
	Glob           *bool           `json:"glob,omitempty" doc:"whether the path is a pattern; by default if it has * or ? and no file has that name"`
	MinFiles       int             `json:"min_files" default:"1" min:"0" max:"1000000000" doc:"number of files that a pattern must find"`
	StableSeconds  float64         `json:"stable_seconds" default:"5" min:"0" max:"1000000000" doc:"how long the files must have stayed unchanged; 0 takes them at once"`
	PollSeconds    float64         `json:"poll_seconds" default:"1" min:"0" max:"1000000000" doc:"time between two checks; less than 0.01 means 0.01"`
	TimeoutSeconds float64         `json:"timeout_seconds" default:"3600" min:"0" max:"1000000000" doc:"longest wait; 0 leaves it to the step's timeout"`
	OnTimeout      OnTimeout       `json:"on_timeout" default:"fail" enum:"fail,continue" doc:"fail, or continue: the step completes with found false"`
}

// WaitOutput is the output of file.wait.
type WaitOutput struct {
	Found      bool     `json:"found" doc:"whether the files exist and are stable; false only after a timeout"`
	TimedOut   bool     `json:"timed_out" doc:"the opposite of found"`
	FoundFile  string   `json:"found_file,omitempty" doc:"path of the file, the first if there are several"`
	FoundFiles []string `json:"found_files" doc:"paths of the files in order; after a timeout those that exist, stable or not"`
	FileCount  int      `json:"file_count" doc:"number of files"`
	Size       int64    `json:"size" doc:"of all files together, in bytes"`
}

// shortestPoll is the minimum poll interval: a mistake in a definition must not
// keep a CPU core busy.
const shortestPoll = 10 * time.Millisecond

// Execute waits. It changes nothing, and so can be repeated.
func (w Wait) Execute(ctx context.Context, job *courier.Context, cfg WaitConfig) (WaitOutput, error) {
	start := time.Now()
	stable, poll, limit := seconds(cfg.StableSeconds), max(seconds(cfg.PollSeconds), shortestPoll), seconds(cfg.TimeoutSeconds)
	var last []sighting
	since := start
	for {
		if ctx.Err() != nil {
			return WaitOutput{}, context.Cause(ctx)
		}
		found, err := w.look(ctx, job, cfg)
		if err != nil {
			return WaitOutput{}, err
		}
		now := time.Now()
		if !slices.Equal(found, last) {
			last, since = found, now
		}
		enough := len(found) >= max(1, cfg.MinFiles)
		if enough && now.Sub(since) >= stable {
			return output(found, true), nil
		}
		if limit > 0 && now.Sub(start) >= limit {
			return cfg.timeout(found, enough)
		}
		next := poll
		if enough {
			next = min(next, max(stable-now.Sub(since), shortestPoll))
		}
		if limit > 0 {
			next = min(next, max(limit-now.Sub(start), shortestPoll))
		}
		job.Progress(0, -1, cfg.Path.String()) // waiting is no stall
		if err := wakeup.Sleep(ctx, next); err != nil {
			return WaitOutput{}, err
		}
	}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// A sighting is the state of a file when it was seen.
type sighting struct {
	name string
	localfile.Identity
}

// look finds the files that exist.
func (w Wait) look(ctx context.Context, job *courier.Context, cfg WaitConfig) ([]sighting, error) {
	pattern, err := isPattern(job, cfg.Path, cfg.Glob)
	if err != nil {
		return nil, err
	}
	if !pattern {
		return lookAt(job, cfg.Path.String())
	}
	limits := w.Limits.withDefaults()
	found, err := search{job: job, most: limits.MaxMatches, paths: limits.MaxPathBytes}.glob(ctx, glob.Whole(cfg.Path, cfg.Glob))
	if err != nil {
		return nil, err
	}
	var all []sighting
	for _, m := range found {
		all = append(all, sighting{m.name, localfile.Identify(m.info)})
	}
	return all, nil
}

// lookAt is look for a path that is not a pattern.
func lookAt(job *courier.Context, name string) ([]sighting, error) {
	p, err := at(job, name)
	if localfile.Missing(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	info, err := p.root.Stat(p.rel)
	switch {
	case errors.Is(err, fs.ErrNotExist) || localfile.IsNotDir(err):
		return nil, nil
	case err != nil:
		return nil, localfile.Error(p.name, err)
	case !info.Mode().IsRegular():
		return nil, courier.Permanent(fmt.Errorf("%q is %s; wait for a file, or for a pattern such as %s/*", p.name, localfile.Kind(info.Mode()), p.name))
	}
	return []sighting{{p.name, localfile.Identify(info)}}, nil
}

// timeout returns the result of a step whose timeout has expired.
func (cfg WaitConfig) timeout(found []sighting, enough bool) (WaitOutput, error) {
	if cfg.OnTimeout == TimeoutContinues {
		return output(found, false), nil
	}
	what := "it is not there"
	switch {
	case enough:
		what = fmt.Sprintf("%q is there, but has not been stable for %v s", found[0].name, cfg.StableSeconds)
	case len(found) > 0:
		what = fmt.Sprintf("%d of %d files are there", len(found), cfg.MinFiles)
	}
	return WaitOutput{}, fmt.Errorf("%q: waited for %v s: %s; if that is not an error, set on_timeout to continue", localfile.Shorten(cfg.Path.String()), cfg.TimeoutSeconds, what)
}

func output(found []sighting, stable bool) WaitOutput {
	out := WaitOutput{Found: stable, TimedOut: !stable, FoundFiles: []string{}, FileCount: len(found)}
	for _, s := range found {
		out.FoundFiles = append(out.FoundFiles, s.name)
		out.Size += s.Size
	}
	if len(found) > 0 {
		out.FoundFile = found[0].name
	}
	return out
}

// Validate checks the path and the numbers.
func (w Wait) Validate(ctx context.Context, job *courier.Context, cfg WaitConfig) error {
	return request{source: glob.Whole(cfg.Path, cfg.Glob), glob: cfg.Glob, ignoreMissing: true}.validateSource(job, "path")
}
