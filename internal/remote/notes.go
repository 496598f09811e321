package remote

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/note"
	"github.com/courierhq/courier/internal/stepcontext"
)

// A notebook is where a step notes down what it is about to do that can't be had
// twice, so that a later attempt of the same step can tell its own deeds from those
// of others. It is replaced as a whole, and on the disk when write returns. Without
// a workspace it is kept in memory, as long as the context lives.
type notebook struct {
	job       *courier.Context
	dir, name string
	kept      *keptNotes // in place of the file
}

type keptNotes struct {
	mu   sync.Mutex
	text []byte
}

// Close does nothing.
func (*keptNotes) Close() error { return nil }

// notes opens the notebook called name for this attempt of the execution.
func (a Account) notes(ctx context.Context, name string) (*notebook, error) {
	return openNotes(ctx, a.Job, a.Job.Files().StepDir(), a.Family+"-"+name)
}

// lastingNotes opens the notebook called name that all attempts of the execution
// see.
func (a Account) lastingNotes(ctx context.Context, name string) (*notebook, error) {
	return openNotes(ctx, a.Job, stepcontext.Of(a.Job).NoteDir(), a.Family+"-"+name)
}

func openNotes(ctx context.Context, job *courier.Context, dir, name string) (*notebook, error) {
	n := &notebook{job: job, dir: dir, name: name}
	if dir != "" {
		return n, nil
	}
	key := fmt.Sprintf("%s-%s-%s", name, job.StepName(), courier.FormatIteration(job.Iteration()))
	var err error
	n.kept, err = courier.Keep(ctx, job, key, func(context.Context) (*keptNotes, error) { return &keptNotes{}, nil })
	return n, err
}

// read fills v with what was noted, and reports whether there is anything.
func (n *notebook) read(v any) (bool, error) {
	if n.kept == nil {
		return note.ReadIn(stepcontext.Of(n.job), n.dir, n.name, v)
	}
	n.kept.mu.Lock()
	defer n.kept.mu.Unlock()
	if n.kept.text == nil {
		return false, nil
	}
	return true, json.Unmarshal(n.kept.text, v)
}

// write puts v in the place of what was noted.
func (n *notebook) write(v any) error {
	if n.kept == nil {
		return note.WriteIn(stepcontext.Of(n.job), n.dir, n.name, v)
	}
	text, err := json.Marshal(v)
	n.kept.mu.Lock()
	defer n.kept.mu.Unlock()
	n.kept.text = text
	return err
}
