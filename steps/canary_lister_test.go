package steps_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/monitor"
	"github.com/courierhq/courier/steps/ftp"
	"github.com/courierhq/courier/steps/sftp"
	"github.com/courierhq/courier/store/memstore"
)

// TestListersKeepSecrets lets monitors look at servers that repeat passwords in
// their answers and in names of files, and looks for them in all that is kept of
// the monitors and in the log.
func TestListersKeepSecrets(t *testing.T) {
	w := &world{dir: t.TempDir()}
	t.Cleanup(func() {
		if err := w.close(); err != nil {
			t.Error(err)
		}
	})
	at := site{world: w, TB: t}
	at.write("sftp/names/"+canaries["sftp-password"], "content")
	at.write("ftp/names/"+canaries["ftp-password"]+".csv", "content")
	var log bytes.Buffer
	reg := new(courier.Registry)
	courier.RegisterFunc(reg, "demo.take", func(context.Context, *courier.Context, struct{}) (struct{}, error) { return struct{}{}, nil }, nil)
	e := engine.New(memstore.New(), reg, &engine.Options{
		Workspace: t.TempDir(), Log: slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Secrets: func(_ context.Context, q courier.SecretRequest) (string, error) {
			if secret, ok := canaries[q.Name]; ok {
				return secret, nil
			}
			return "", errors.New("no such secret")
		},
		Listers: map[string]courier.Lister{"sftp": sftp.NewLister(sftpBirds(t, w)), "ftp": ftp.NewLister(ftpBirds(t, w))},
	})
	if _, err := e.Jobs().Define(t.Context(), courier.Job{Name: "job", Steps: []courier.StepSpec{{Type: "demo.take"}}}, nil); err != nil {
		t.Fatal(err)
	}
	looks := []struct {
		lister, connection, path string
		state                    monitor.State
		mention                  string
	}{
		{"sftp", "literal", "tell", monitor.Degraded, "tell"},
		{"sftp", "secret", "tell", monitor.Degraded, "tell"},
		{"sftp", "secret", "names", monitor.Degraded, "[secret sftp-password]"},
		{"sftp", "wrong", ".", monitor.Failed, "password"},
		{"sftp", "locked", ".", monitor.Degraded, "passphrase"},
		{"sftp", "nokey", ".", monitor.Degraded, "private_key"},
		{"sftp", "mixed", ".", monitor.Degraded, "private_key"},
		{"ftp", "literal", "tell", monitor.Degraded, "tell"},
		{"ftp", "secret", "tell", monitor.Degraded, "tell"},
		{"ftp", "secret", "names", monitor.Degraded, "[secret ftp-password]"},
		{"ftp", "wrong", ".", monitor.Failed, "wrong name or"},
	}
	for i, l := range looks {
		_, err := e.Monitors().Set(t.Context(), monitor.Monitor{Name: fmt.Sprint(i), Lister: l.lister, Connection: l.connection, Path: l.path, Job: "job"}, courier.By{})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	var said string
	for i, l := range looks {
		m, err := e.Monitors().Get(t.Context(), fmt.Sprint(i))
		for m.Health.LastPoll.IsZero() && err == nil {
			time.Sleep(10 * time.Millisecond)
			m, err = e.Monitors().Get(t.Context(), m.Name)
		}
		files, err2 := e.Monitors().Files(t.Context(), monitor.SeenFilter{Monitor: m.Name})
		if err := errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}
		if m.State != l.state || !strings.Contains(m.Health.Problem, l.mention) {
			t.Errorf("%s %q %q is %s, %q; want %s, %q", l.lister, l.connection, l.path, m.State, m.Health.Problem, l.state, l.mention)
		}
		said += fmt.Sprintf("%+v %+v\n", m, files)
	}
	if err := e.Stop(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	for _, found := range shown(said + log.String()) {
		t.Errorf("there is the secret %s", found)
	}
}
