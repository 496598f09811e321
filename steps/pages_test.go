package steps_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/monitor"
	localfiles "github.com/courierhq/courier/steps/file"
	"github.com/courierhq/courier/steps/ftp"
	"github.com/courierhq/courier/steps/sftp"
	"github.com/courierhq/courier/store/memstore"
)

// block returns the JSON block of a page that is marked with a word.
func block(t *testing.T, page, mark string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "docs", page))
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile("(?s)```json " + mark + "\n(.*?)```").FindSubmatch(text)
	if m == nil {
		t.Fatalf("%s has no block ```json %s", page, mark)
	}
	return m[1]
}

// TestConnectionsPage: the connections in docs/connections.md can be read.
func TestConnectionsPage(t *testing.T) {
	file := func(mark string) string {
		dir := t.TempDir()
		name, known := filepath.Join(dir, mark+".json"), filepath.Join(dir, "known_hosts")
		text := bytes.ReplaceAll(block(t, "connections.md", mark), []byte("/etc/courier/known_hosts"), []byte(known))
		if err := errors.Join(os.WriteFile(name, text, 0o600), os.WriteFile(known, []byte("* ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\n"), 0o600)); err != nil {
			t.Fatal(err)
		}
		return name
	}
	if m, err := sftp.ReadConnections(file("sftp")); err != nil || len(m) != 3 {
		t.Errorf("the sftp connections: %d, %v", len(m), err)
	}
	if m, err := ftp.ReadConnections(file("ftp")); err != nil || len(m) != 3 {
		t.Errorf("the ftp connections: %d, %v", len(m), err)
	}
}

// TestJobsPage: the job in docs/jobs.md can be read and defined.
func TestJobsPage(t *testing.T) {
	var job courier.Job
	if err := json.Unmarshal(block(t, "jobs.md", "job"), &job); err != nil {
		t.Fatal(err)
	}
	e := engine.New(memstore.New(), registry(), nil)
	for _, name := range job.DependsOn {
		other := courier.Job{Name: name.Job, Steps: []courier.StepSpec{{Type: "file.mkdir", Config: map[string]any{"path": "/srv/a"}}}}
		if _, err := e.Jobs().Define(t.Context(), other, nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := e.Jobs().Define(t.Context(), job, nil); err != nil {
		t.Error(err)
	}
}

// TestFlowPage: the job in docs/flow.md does what the page says.
func TestFlowPage(t *testing.T) {
	var job courier.Job
	if err := json.Unmarshal(block(t, "flow.md", "job"), &job); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, size := range map[string]int{"a.csv": 10, "b.csv": 5000} {
		if err := os.WriteFile(filepath.Join(dir, name), make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	e := engine.New(memstore.New(), registry(), &engine.Options{
		Roots:   []string{dir},
		Secrets: func(context.Context, courier.SecretRequest) (string, error) { return "a password", nil },
	})
	x, err := e.Run(t.Context(), job, &courier.EnqueueOptions{Params: map[string]any{"dir": dir}})
	if err != nil || x.State != courier.Completed {
		t.Fatalf("%v, %v", x.State, err)
	}
	for _, name := range []string{"sorted/a.csv", "sorted/b.csv.zip", "SHA256SUMS"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
}

// TestMonitorsPage: the monitor in docs/monitors.md starts the job there.
func TestMonitorsPage(t *testing.T) {
	dir, ctx := t.TempDir(), t.Context()
	local := func(mark string) []byte {
		return bytes.ReplaceAll(block(t, "monitors.md", mark), []byte("/srv/in"), []byte(dir))
	}
	var m monitor.Monitor
	var job courier.Job
	if err := errors.Join(json.Unmarshal(local("monitor"), &m), json.Unmarshal(local("job"), &job)); err != nil {
		t.Fatal(err)
	}
	m.Every = time.Second
	e := engine.New(memstore.New(), registry(), &engine.Options{
		Roots: []string{dir}, Listers: map[string]courier.Lister{"file": localfiles.NewLister([]string{dir}, nil)},
	})
	if _, err := e.Jobs().Define(ctx, job, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Monitors().Set(ctx, m, courier.By{}); err != nil {
		t.Fatal(err)
	}
	if err := e.Start(ctx); err != nil {
		t.Fatal(err)
	}
	defer e.Stop(context.Background())
	if err := os.WriteFile(filepath.Join(dir, "may.csv"), []byte("1;2"), 0o600); err != nil {
		t.Fatal(err)
	}
	seen, err := e.Monitors().Get(ctx, m.Name)
	for seen.Health.LastExecution == "" && err == nil {
		time.Sleep(50 * time.Millisecond)
		seen, err = e.Monitors().Get(ctx, m.Name)
	}
	if err != nil {
		t.Fatal(err)
	}
	x, err := e.Wait(ctx, seen.Health.LastExecution)
	if err != nil || x.State != courier.Completed || x.By != "monitor:invoices" {
		t.Errorf("%v by %q: %v", x.State, x.By, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "done", "may.csv")); err != nil {
		t.Error(err)
	}
}
