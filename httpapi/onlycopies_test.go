package httpapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/httpapi"
	"github.com/courierhq/courier/internal/attention"
	"github.com/courierhq/courier/steps/file"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/memstore"
)

// A partner is a directory from which jobs move files into their workspaces, and one into
// which they deliver them, if they get so far.
type partner struct {
	world
	work, in, out string
	fails         bool
	names         []string
	discarded     map[string]bool // names that were shown to who discarded them
	did           []string
}

// deliver copies a file of the workspace to the target.
func (p *partner) deliver(_ context.Context, job *courier.Context, cfg struct {
	From string `json:"from"`
}) (struct{}, error) {
	if p.fails {
		return struct{}{}, errors.New("login refused")
	}
	src, err := job.Files().Open(cfg.From)
	if errors.Is(err, fs.ErrNotExist) {
		return struct{}{}, nil // there was none
	}
	if err != nil {
		return struct{}{}, err
	}
	defer src.Close()
	text, err := io.ReadAll(src)
	if err != nil {
		return struct{}{}, err
	}
	return struct{}{}, os.WriteFile(filepath.Join(p.out, string(text)), text, 0o600)
}

// fetchJob moves the file if there is one, as a job that lists a directory does, and
// delivers it.
func (p *partner) fetchJob(after string, loop bool) courier.Job {
	steps := fmt.Sprintf(`{"id": "look", "type": "file.list", "config": {"path": %q}},
		{"type": "flow.foreach", "config": {"source": "context:look.file_list"%s}},
		{"type": "file.move", "config": {"source_path": "context:loop.current_item.path", "destination_path": "context:loop.current_item.name"}},
		{"type": "test.deliver", "failure_policy": %s, "config": {"from": "context:loop.current_item.name"}},
		{"type": "flow.end"}`, p.in, map[bool]string{true: `, "on_item_failure": "continue", "then": "complete"`}[loop], after)
	var j courier.Job
	if err := json.Unmarshal(fmt.Appendf(nil, `{"name": "fetch", "steps": [%s]}`, steps), &j); err != nil {
		p.Fatal(err)
	}
	return j
}

// TestOnlyCopiesAfterAnyActOfTheAPI lets random jobs take the files of a partner, and does what
// the API and the buttons of the pages offer. Each file stays at its source, at its target, in
// the workspace of an execution that is open and not superseded, or in the list of kept
// files, until it is discarded by who was shown its name.
func TestOnlyCopiesAfterAnyActOfTheAPI(t *testing.T) {
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			p := &partner{work: t.TempDir(), in: t.TempDir(), out: t.TempDir(), fails: true, discarded: make(map[string]bool)}
			p.T, p.log, p.user = t, new(strings.Builder), "admin"
			p.store = memstore.New()
			var reg courier.Registry
			file.Register(&reg, nil)
			courier.RegisterFunc(&reg, "test.deliver", p.deliver, nil)
			p.engine = engine.New(p.store, &reg, &engine.Options{Workspace: p.work, Roots: []string{p.in, p.out}})
			after := []string{`"stop"`, `"skip_and_continue"`, `{"type": "retry_step", "max_retries": 1}`}[r.IntN(3)]
			loop := r.IntN(3) == 0
			if _, err := p.engine.Jobs().Define(t.Context(), p.fetchJob(after, loop), nil); err != nil {
				t.Fatal(err)
			}
			if err := p.engine.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			p.api = httpapi.New(p.engine, &httpapi.Options{Access: policy(), Log: p.logger()})
			p.did = []string{after, fmt.Sprint(loop)}
			for range 12 {
				p.act(r)
				time.Sleep(5 * time.Second)
				synctest.Wait()
				p.check(seed)
			}
			p.api.Close()
			if err := p.engine.Stop(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// executions are all there are, the newest first.
func (p *partner) executions() []courier.Execution {
	list, err := p.engine.Executions().List(p.Context(), store.Filter{})
	if err != nil {
		p.Fatal(err)
	}
	return list
}

// kept is the list of kept files.
func (p *partner) kept() (got struct {
	Items []store.KeptFiles `json:"items"`
}) {
	p.get("v1/kept-files").want(http.StatusOK, &got)
	return got
}

// superseded are the executions that Attention advises to give up.
func (p *partner) superseded() (ids []courier.ExecutionID) {
	var a attention.List
	p.get("v1/attention").want(http.StatusOK, &a)
	for _, e := range a.Entries {
		if e.Kind == attention.Superseded {
			ids = append(ids, e.Executions...)
		}
	}
	return ids
}

// act does one thing.
func (p *partner) act(r *rand.Rand) {
	list := p.executions()
	at := "v1/executions/none"
	if len(list) > 0 {
		at = "v1/executions/" + string(list[r.IntN(len(list))].ID)
	}
	post := func(path, body string) {
		a := p.post(path, body)
		p.did = append(p.did, fmt.Sprintf("%s %s: %d", path, body, a.Code))
	}
	switch n := r.IntN(16); n {
	case 0, 1, 2:
		if r.IntN(2) == 0 {
			name := fmt.Sprintf("file-%d", len(p.names))
			p.names = append(p.names, name)
			if err := os.WriteFile(filepath.Join(p.in, name), []byte(name), 0o600); err != nil {
				p.Fatal(err)
			}
		}
		post("v1/jobs/fetch/executions", "")
	case 3:
		p.fails = !p.fails
		p.did = append(p.did, fmt.Sprint("fails: ", p.fails))
	case 4:
		post(at+"/cancel", "")
	case 5:
		post(at+"/pause", "")
	case 6:
		post(at+"/resume", "")
	case 7:
		post(at+"/resume", `{"skip": true}`)
	case 8:
		post(at+"/resume", `{"elsewhere": true}`)
	case 9:
		post(at+"/resume", `{"from": "look", "force": true}`)
	case 10:
		post(at+"/rerun", "")
	case 11:
		post("v1/bulk", fmt.Sprintf(`{"action": %q, "where": "job:fetch"}`, []string{"cancel", "pause", "resume"}[r.IntN(3)]))
	case 12, 13:
		if ids := p.superseded(); len(ids) > 0 { // the button of the page
			text, _ := json.Marshal(map[string]any{"action": "cancel", "ids": ids})
			post("v1/bulk", string(text))
		}
	case 14:
		for _, k := range p.kept().Items {
			if r.IntN(2) == 0 {
				post("v1/kept-files/"+string(k.Execution)+"/discard", `{"files": ["other"], "reason": "so"}`)
				continue
			}
			var names []string
			for _, f := range k.Files {
				names = append(names, f.Path)
				if text, err := os.ReadFile(filepath.Join(p.work, string(k.Execution), f.Path)); err == nil {
					p.discarded[string(text)] = true
				}
			}
			text, _ := json.Marshal(map[string]any{"files": names, "reason": "nobody wants them"})
			post("v1/kept-files/"+string(k.Execution)+"/discard", string(text))
		}
	case 15:
		for _, x := range list {
			dir := filepath.Join(p.work, string(x.ID))
			_ = os.Chtimes(dir, time.Time{}, time.Now().Add(-365*24*time.Hour)) // if it is there
		}
		p.did = append(p.did, "the janitor comes")
		time.Sleep(2 * time.Hour)
	}
}

// check looks for each file.
func (p *partner) check(seed uint64) {
	p.Helper()
	superseded, kept := p.superseded(), p.kept().Items
	for _, name := range p.names {
		if p.discarded[name] || p.isAt(p.in, name) || p.isAt(p.out, name) || slices.ContainsFunc(p.executions(), func(x courier.Execution) bool { return p.holds(&x, name, superseded, kept) }) {
			continue
		}
		p.Fatalf("seed %d: %s is nowhere after\n%s\n%s", seed, name, strings.Join(p.did, "\n"), p.log)
	}
}

func (p *partner) isAt(dir, name string) bool {
	text, err := os.ReadFile(filepath.Join(dir, name))
	return err == nil && string(text) == name
}

// holds reports whether an execution has a file in its workspace where nobody destroys it
// without having been shown its name.
func (p *partner) holds(x *courier.Execution, name string, superseded []courier.ExecutionID, kept []store.KeptFiles) bool {
	dir, found := filepath.Join(p.work, string(x.ID)), ""
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if text, err := os.ReadFile(path); err == nil && string(text) == name {
				found, _ = filepath.Rel(dir, path)
			}
		}
		return nil
	})
	switch {
	case found == "":
		return false
	case !x.State.Final():
		return !slices.Contains(superseded, x.ID)
	}
	return slices.ContainsFunc(kept, func(k store.KeptFiles) bool {
		return k.Execution == x.ID && slices.ContainsFunc(k.Files, func(f courier.File) bool { return f.Path == filepath.ToSlash(found) })
	})
}
