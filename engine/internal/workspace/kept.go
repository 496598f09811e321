package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/core"
	"github.com/courierhq/courier/internal/secret"
	"github.com/courierhq/courier/internal/storecall"
	"github.com/courierhq/courier/store"
)

// Kept are the workspaces that stay although their executions are over, as this engine
// has last seen them. The zero value has none. Its methods may be called by several
// goroutines.
type Kept struct {
	mu   sync.Mutex
	list map[courier.ExecutionID]courier.OnlyCopies
}

// Note takes note of the workspace of an execution; c is nil if it is not kept.
func (k *Kept) Note(id courier.ExecutionID, c *courier.OnlyCopies) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.list == nil {
		k.list = make(map[courier.ExecutionID]courier.OnlyCopies)
	}
	if delete(k.list, id); c != nil {
		k.list[id] = *c
	}
}

// Sum returns how many workspaces are kept, and how many files with how many bytes they
// hold.
func (k *Kept) Sum() (executions, files int, bytes int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range k.list {
		files += c.Count
		bytes += c.Bytes
	}
	return len(k.list), files, bytes
}

// LetGo removes the workspace of an execution that has ended for good, unless it holds files
// that may exist nowhere else; c is nil if it does not.
func (j *Janitor) LetGo(x *courier.Execution, c *courier.OnlyCopies) {
	if c != nil && c.Any() {
		j.Kept.Note(x.ID, c)
		j.Log.Warn("the workspace is kept: it holds files that may exist nowhere else", "execution", x.ID, "job", x.Job,
			"files", c.Count, "bytes", c.Bytes, "workspace", j.Of(x.ID), "problem", c.Problem)
		return
	}
	if err := j.Remove(x.ID); err != nil {
		j.Log.Warn("remove workspace", "execution", x.ID, "job", x.Job, "error", err)
	}
}

// ListAgain has the store name the kept files of an execution that has just ended, when the worker
// that let it go knew too few of its secrets to name them.
func (j *Janitor) ListAgain(ctx context.Context, id courier.ExecutionID) {
	call, cancel := context.WithTimeout(ctx, storecall.Timeout)
	x, err := j.Store.Execution(call, id)
	cancel()
	if err != nil {
		j.Log.Warn("name the kept files; the next sweep of the workspaces does it", "execution", string(id), "error", err)
		return
	}
	j.Found(ctx, &x, j.OnlyCopies(id), "")
}

// needs says what the janitor does with a workspace that holds only copies, of an execution
// that is over or unknown: whether it stays, and if not, whether its time has run out. One
// of an execution that has completed without skipped steps and failed items is not needed.
func (j *Janitor) needs(ctx context.Context, x *courier.Execution, changed time.Time) (stays, expired bool) {
	if x.State == courier.Completed && x.FailedItems == 0 && x.Workspace == j.ID && x.OnlyCopies == nil {
		if !j.Unfinished(ctx, j.Store, x, nil) {
			return false, false
		}
	}
	since := x.EndedAt
	if since.IsZero() {
		since = changed
	}
	expired = j.KeepOnlyCopies > 0 && time.Since(since) >= j.KeepOnlyCopies
	return !expired, expired
}

// Found tells the store what a workspace of an execution that has ended for good holds, if
// the store has something else. Note is what was done, for the audit.
func (j *Janitor) Found(ctx context.Context, x *courier.Execution, c *courier.OnlyCopies, note string) {
	if c == nil {
		c = new(courier.OnlyCopies)
	}
	had := x.OnlyCopies
	if had == nil {
		had = new(courier.OnlyCopies)
	}
	if x.ID == "" || !x.State.Final() || note == "" && had.Count == c.Count && had.Bytes == c.Bytes && had.Problem == c.Problem {
		return
	}
	if x.Workspace != "" && x.Workspace != j.ID && had.Any() {
		return // it keeps others elsewhere; these are listed when those are gone
	}
	if c = j.named(ctx, x, had, c); note == "" && reflect.DeepEqual(had, c) {
		return
	}
	f := &store.Found{Workspace: j.ID, OnlyCopies: *c, Discarded: x.Request == store.RequestDiscard, Note: note}
	j.report(ctx, x.ID, f)
}

// named returns c as it may be shown: without the names that contain a secret which the
// execution has used. If one can't be had now, the only names are those that the store had, and
// it is had itself if there are as many files.
func (j *Janitor) named(ctx context.Context, x *courier.Execution, had, c *courier.OnlyCopies) *courier.OnlyCopies {
	if len(c.Files) == 0 || len(x.Secrets) == 0 {
		return c
	}
	known := new(secret.Redactor)
	if err := j.recall(ctx, x, known); err != nil {
		if had.Count == c.Count && had.Bytes == c.Bytes {
			return had
		}
		shown := func(name string) bool {
			return slices.ContainsFunc(had.Files, func(f courier.File) bool { return f.Path == name })
		}
		return hide(c, func(name string) bool { return !shown(name) }, "names left out, since secrets of the execution can't be had now: %d")
	}
	return hide(c, func(name string) bool { return known.Clean(name) != name }, withSecrets)
}

// recall asks for the secrets that the execution has used, so that known has them.
func (j *Janitor) recall(ctx context.Context, x *courier.Execution, known *secret.Redactor) (err error) {
	ctx, cancel := context.WithTimeout(ctx, storecall.Timeout)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("Options.Secrets panicked: %v", p)
		}
	}()
	secrets := core.Secrets{Source: j.Secrets, Redactor: known}
	secrets.Claimed(x.Secrets)
	return secrets.Recall(ctx, courier.SecretRequest{Execution: x.ID, Job: x.Job}, func(courier.SecretUse, error) {})
}

func (j *Janitor) report(ctx context.Context, id courier.ExecutionID, f *store.Found) {
	ctx, cancel := context.WithTimeout(ctx, storecall.Timeout)
	defer cancel()
	_, err := j.Store.Request(ctx, store.Request{Execution: id, Kind: store.RequestFound, Found: f})
	if err != nil && ctx.Err() == nil {
		j.Log.Warn("report kept files", "execution", string(id), "error", err)
	}
}

// mostAtOnce is how many executions that keep files the janitor reads at once.
const mostAtOnce = 100

// Attend carries out the discards that are pending for files in this tree, and reports files
// that are not there any more.
func (j *Janitor) Attend(ctx context.Context) {
	f := store.Filter{Kept: true, Workspace: j.ID, Limit: mostAtOnce}
	for {
		call, cancel := context.WithTimeout(ctx, storecall.Timeout)
		list, err := j.Store.Executions(call, f)
		cancel()
		if err != nil {
			if ctx.Err() == nil {
				j.Log.Warn("look for kept files", "error", err)
			}
			return
		}
		for i := range list {
			if x := &list[i]; x.Request == store.RequestDiscard {
				j.Discard(ctx, x)
			} else if _, err := os.Lstat(j.Of(x.ID)); errors.Is(err, fs.ErrNotExist) && ctx.Err() == nil {
				j.Kept.Note(x.ID, nil)
				j.Found(ctx, x, nil, "the kept files are not in the workspace any more")
			}
		}
		if len(list) < mostAtOnce || ctx.Err() != nil {
			return
		}
		f.Before = list[len(list)-1].ID
	}
}

// Discard carries out the discard of the files that the execution names, and removes its
// workspace if no others are left that may exist nowhere else. What remains has not been
// shown to who asked.
func (j *Janitor) Discard(ctx context.Context, x *courier.Execution) {
	names, err := j.removeNamed(x)
	if err != nil {
		j.Log.Error("discard kept files", "execution", string(x.ID), "error", err)
		return
	}
	left := j.OnlyCopies(x.ID)
	if left == nil {
		if err := j.Remove(x.ID); err != nil {
			j.Log.Error("discard kept files", "execution", string(x.ID), "error", err)
			return
		}
	}
	j.Kept.Note(x.ID, left)
	j.Log.Info("kept files were discarded", "execution", string(x.ID), "job", x.Job, "by", x.RequestedBy, "why", x.RequestReason, "files", len(names))
	j.Found(ctx, x, left, fmt.Sprintf("%d kept files were discarded: %s", len(names), shortened(names)))
}

// removeNamed removes the files that the execution names, and returns the names of those that
// were there.
func (j *Janitor) removeNamed(x *courier.Execution) (names []string, err error) {
	root, err := os.OpenRoot(j.Of(x.ID))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer root.Close()
	for _, f := range x.OnlyCopies.Files {
		switch e := root.Remove(filepath.FromSlash(f.Path)); {
		case e == nil:
			names = append(names, f.Path)
		case !errors.Is(e, fs.ErrNotExist): // it may have been removed by hand
			err = errors.Join(err, e)
		}
	}
	return names, err
}

// shortened lists names in at most about 1000 bytes.
func shortened(names []string) string {
	text := strings.Join(names, ", ")
	if len(text) > 1000 {
		text = strings.ToValidUTF8(text[:1000], "") + "..."
	}
	return text
}

// SweepEvery sweeps now and each hour, and attends to kept files then and, if there are any in
// this tree, each minute, until the engine stops.
func (j *Janitor) SweepEvery(l core.Lifetime) {
	tick := time.NewTicker(time.Minute)
	defer tick.Stop()
	for n := 0; ; n++ {
		hourly := n%60 == 0
		if hourly {
			j.sweep(l.Ctx)
		}
		if kept, _, _ := j.Kept.Sum(); hourly || kept > 0 { // others need not ask the store
			j.Attend(l.Ctx)
		}
		select {
		case <-l.Stop:
			return
		case <-tick.C:
		}
	}
}
