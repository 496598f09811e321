package sftp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/courierhq/courier/internal/filesync"
	"github.com/courierhq/courier/internal/sftpclient"

	"github.com/courierhq/courier"
)

// A notebook is where a step notes down what it is about to do that can't be
// had twice, so that a later attempt of the same step can tell its own deeds
// from those of others. It is a file beside the attempts' directories, and is
// replaced as a whole. Without a workspace it is kept in memory, as long as the
// context lives.
type notebook struct {
	root *os.Root
	rel  string      // of the file below root
	kept *keptNotes  // in place of the file
	mu   *sync.Mutex // of what is written
}

type keptNotes struct{ text []byte }

// Close does nothing.
func (*keptNotes) Close() error { return nil }

// openNotes opens the notebook of the step with the given verb for this attempt
// of the execution.
func openNotes(ctx context.Context, job *courier.Context, verb string) (*notebook, error) {
	return openNotesIn(ctx, job, job.StepDir(), verb)
}

// openLasting opens the notebook of the step with the given verb that all
// attempts of the execution see.
func openLasting(ctx context.Context, job *courier.Context, verb string) (*notebook, error) {
	return openNotesIn(ctx, job, job.NoteDir(), verb)
}

func openNotesIn(ctx context.Context, job *courier.Context, dir, verb string) (*notebook, error) {
	if dir == "" {
		key := fmt.Sprintf("sftp.%s-%d-%s", verb, job.Step(), courier.FormatIteration(job.Iteration()))
		kept, err := courier.Keep(ctx, job, key, func(context.Context) (*keptNotes, error) { return &keptNotes{}, nil })
		if err != nil {
			return nil, err
		}
		return &notebook{kept: kept, mu: new(sync.Mutex)}, nil
	}
	root, rel, err := job.Root(dir)
	if err != nil {
		return nil, err
	}
	return &notebook{root: root, rel: filepath.Join(rel, "sftp-"+verb+".json"), mu: new(sync.Mutex)}, nil
}

// read fills v with what was noted, and reports whether there is anything.
func (n *notebook) read(v any) (bool, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var text []byte
	if n.kept != nil {
		text = n.kept.text
	} else {
		var err error
		text, err = n.root.ReadFile(n.rel)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, n.fault(err)
		}
	}
	if len(text) == 0 {
		return false, nil
	}
	if err := json.Unmarshal(text, v); err != nil {
		return false, n.fault(fmt.Errorf("it is damaged, so the step can't tell what it has done already; look at the files, then remove it: %w", err))
	}
	return true, nil
}

// write puts v in the place of what was noted. It is on the disk when write
// returns.
func (n *notebook) write(v any) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if n.kept != nil {
		n.kept.text = text
		return nil
	}
	return n.fault(replaceFile(n.root, n.rel, text))
}

func (n *notebook) fault(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("notes of the step, %s in the workspace: %w", filepath.ToSlash(n.rel), err)
}

// replaceFile writes a file below root so that it has either its old content
// or the new one, with the directory above it.
func replaceFile(root *os.Root, rel string, text []byte) error {
	dir := filepath.Dir(rel)
	if err := root.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := root.OpenFile(rel+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if _, err = f.Write(text); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := root.Rename(rel+".new", rel); err != nil {
		return err
	}
	for ; ; dir = filepath.Dir(dir) {
		if err := filesync.SyncDir(root, dir); err != nil || dir == "." || dir == filepath.Dir(dir) {
			return err
		}
	}
}

// An identity tells a remote file from another that has its name at another
// time, as far as size and time can.
type identity struct {
	Size     uint64 `json:"size"`
	Modified uint32 `json:"modified"` // in seconds since 1970
	Mode     uint32 `json:"mode"`     // type only
}

func identify(a sftpclient.Attrs) identity {
	return identity{a.Size, a.Mtime, a.Mode & sftpclient.ModeType}
}
