package steps_test

import (
	"context"
	"encoding/json"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/engine/dryrun"
	"github.com/courierhq/courier/internal/test/ftpserver"
	"github.com/courierhq/courier/internal/test/sftpserver"
	"github.com/courierhq/courier/steps"
	"github.com/courierhq/courier/steps/ftp"
	"github.com/courierhq/courier/steps/sftp"
	"github.com/courierhq/courier/store/memstore"
)

// dials counts the connections that are opened to each server.
type dials struct{ good, wrong, ftp, refused atomic.Int32 }

// counted is a way to a server on which logins are counted.
func counted(n *atomic.Int32, dial func(context.Context, string, string) (net.Conn, error)) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if strings.HasSuffix(addr, ":21") || strings.HasSuffix(addr, ":22") { // others are for content
			n.Add(1)
		}
		return dial(ctx, network, addr)
	}
}

// A firstUse is a store of host keys that knows none.
type firstUse struct{ kept atomic.Int32 }

func (*firstUse) HostKeys(context.Context, string) ([]string, error) { return nil, nil }

func (f *firstUse) TrustHostKey(context.Context, string, string) error {
	f.kept.Add(1)
	return nil
}

// tree lists the files and directories below dir.
func tree(t *testing.T, dir string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		names = append(names, path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// TestDryRunWithRealServers: a dry run logs in once for each connection, also
// where that fails, tells what it learned, and writes nothing.
func TestDryRunWithRealServers(t *testing.T) {
	w, err := newWorld(t.TempDir(), sftpserver.Options{}, ftpserver.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	var n dials
	trust := new(firstUse)
	good, wrong, other, refused := w.sconn, w.sconn, w.fconn, w.fconn
	good.Dial, wrong.Dial = counted(&n.good, w.sconn.Dial), counted(&n.wrong, w.sconn.Dial)
	other.Dial, refused.Dial = counted(&n.ftp, w.fconn.Dial), counted(&n.refused, w.fconn.Dial)
	good.HostKeys, good.TrustOnFirstUse = nil, trust
	wrong.Password, refused.Password = "not the password", "neither is this"
	var reg courier.Registry
	steps.Register(&reg, &steps.Options{
		Connections:    sftp.Map{"good": good, "wrong": wrong},
		FTPConnections: ftp.Map{"ftp": other, "refused": refused},
	})
	base := filepath.Join(w.dir, "B")
	e := engine.New(memstore.New(), &reg, &engine.Options{Workspace: filepath.Join(w.dir, "none"), Roots: []string{base}})
	if err := os.WriteFile(filepath.Join(w.dir, "sftp", "there"), []byte("1"), 0o600); err != nil {
		t.Fatal(err)
	}
	before := tree(t, w.dir)
	var job courier.Job
	err = json.Unmarshal([]byte(strings.ReplaceAll(`{"name": "real", "params": {"dir": null}, "steps": [
		{"type": "sftp.list", "config": {"connection_id": "good", "remote_path": "/"}},
		{"type": "flow.foreach", "config": {"source": "context:0.file_list"}},
		{"type": "sftp.download", "config": {"connection_id": "good", "remote_path": "context:loop.current_item.path", "local_path": "$B/in/"}},
		{"type": "file.unzip", "config": {"archive_path": "context:2.downloaded_file"}},
		{"type": "flow.end"},
		{"type": "sftp.download", "config": {"connection_id": "good", "remote_path": "/there"}},
		{"type": "sftp.download", "config": {"connection_id": "good", "remote_path": "/not there"}},
		{"type": "sftp.upload", "config": {"connection_id": "good", "local_path": "f", "remote_path": "${context:params.dir}/f"}},
		{"type": "sftp.mkdir", "config": {"connection_id": "good", "remote_path": "/made"}},
		{"type": "sftp.upload", "config": {"connection_id": "good", "local_path": "f", "remote_path": "/made/f"}},
		{"type": "sftp.list", "config": {"connection_id": "wrong", "remote_path": "/"}},
		{"type": "sftp.delete", "config": {"connection_id": "wrong", "remote_path": "/there"}},
		{"type": "ftp.list", "config": {"connection_id": "ftp", "remote_path": "/"}},
		{"type": "ftps.upload", "config": {"connection_id": "ftp", "local_path": "f", "remote_path": "/"}},
		{"type": "ftp.list", "config": {"connection_id": "refused", "remote_path": "/"}},
		{"type": "ftp.stat", "config": {"connection_id": "refused", "remote_path": "/"}},
		{"type": "file.move", "config": {"source_path": "$B/out/of/this/*", "destination_path": "$B/done/"}},
		{"type": "file.copy", "config": {"source_path": "/etc/passwd", "destination_path": "$B/"}}]}`, "$B", base)), &job)
	if err != nil {
		t.Fatal(err)
	}
	r, err := e.Jobs().DryRun(t.Context(), job, nil)
	if err != nil {
		t.Fatal(err)
	}
	const ok, problem, unsure = dryrun.OK, dryrun.Problem, dryrun.NotChecked
	for i, want := range []struct {
		state dryrun.State
		says  string
	}{
		{ok, "the connection works"}, {ok, ""}, {ok, ""}, {ok, ""}, {problem, "/not there"}, {ok, ""}, {ok, ""}, {unsure, "/made"}, // sftp
		{problem, "refuses the login"}, {problem, "refuses the login"},
		{ok, "the connection works"}, {ok, ""}, {problem, "refuses the login"}, {problem, "refuses the login"}, // ftp
		{unsure, "no mistake if an earlier step makes it"}, {problem, "engine.Options.Roots"}, // file
	} {
		s := r.Steps[i]
		if text := s.Message + strings.Join(s.Notes, "\n"); s.State != want.state || !strings.Contains(text, want.says) {
			t.Errorf("step %s (%s): %s, %s; want %s, %q", s.Path, s.Type, s.State, text, want.state, want.says)
		}
	}
	if n.good.Load() != 1 || n.wrong.Load() != 1 || n.ftp.Load() != 1 || n.refused.Load() != 1 {
		t.Errorf("logins: good %d, wrong %d, ftp %d, refused %d; want one of each", n.good.Load(), n.wrong.Load(), n.ftp.Load(), n.refused.Load())
	}
	if after := tree(t, w.dir); strings.Join(after, "\n") != strings.Join(before, "\n") || trust.kept.Load() > 0 {
		t.Errorf("it has written: %v\nbefore %v; host keys kept: %d", after, before, trust.kept.Load())
	}
	raw, err := json.Marshal(r)
	for _, secret := range []string{password, wrong.Password, refused.Password} {
		if err != nil || strings.Contains(string(raw)+r.String(), secret) {
			t.Errorf("%v; there is the password %q in\n%s", err, secret, &r)
		}
	}
	t.Logf("\n%s", &r)
}
