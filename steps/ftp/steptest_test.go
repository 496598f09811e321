package ftp_test

import (
	"errors"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/test/ftpserver"
	"github.com/courierhq/courier/internal/test/raced"
	"github.com/courierhq/courier/internal/test/steprig"
	"github.com/courierhq/courier/steps/ftp"
	"github.com/courierhq/courier/steps/steptest"
)

// A trial is a step with the world that it works on.
type trial struct {
	key  string
	cfg  object
	opt  ftpserver.Options
	here []string // local files
	far  []string // remote files
	size int
}

var trials = map[string]trial{
	"list":              {key: "ftp.list", cfg: object{"remote_path": "dir"}, far: []string{"dir/a", "dir/b"}},
	"list tree":         {key: "ftp.list", cfg: object{"remote_path": "dir", "pattern": "**/*"}, far: []string{"dir/a", "dir/sub/b"}},
	"list by LIST":      {key: "ftp.list", cfg: object{"remote_path": "dir"}, far: []string{"dir/a", "dir/b"}, opt: ftpserver.Options{NoMLSD: true, NoEPSV: true}},
	"stat":              {key: "ftp.stat", cfg: object{"remote_path": "dir/a"}, far: []string{"dir/a"}},
	"stat by parts":     {key: "ftp.stat", cfg: object{"remote_path": "dir"}, far: []string{"dir/a"}, opt: ftpserver.Options{NoMLSD: true}},
	"download over":     {key: "ftp.download", cfg: object{"remote_path": "dir/a", "local_path": "a"}, far: []string{"dir/a", "dir/b"}, here: []string{"a"}, size: 600_000},
	"download many":     {key: "ftp.download", cfg: object{"remote_path": "dir", "pattern": "**"}, far: []string{"dir/a", "dir/b", "dir/sub/c"}, size: 1000},
	"download unless":   {key: "ftp.download", cfg: object{"remote_path": "dir/a", "local_path": "a", "if_exists": "skip"}, far: []string{"dir/a"}, size: 1000},
	"download or fail":  {key: "ftp.download", cfg: object{"remote_path": "dir/a", "local_path": "a", "if_exists": "fail", "resume": false}, far: []string{"dir/a"}, size: 1000},
	"rename or fail":    {key: "ftp.rename", cfg: object{"source_path": "dir/a", "destination_path": "dir/c", "if_exists": "fail"}, far: []string{"dir/a", "dir/b"}},
	"download resume":   {key: "ftp.download", cfg: object{"remote_path": "dir/a", "local_path": "a", "resume": true}, far: []string{"dir/a"}, here: []string{"a"}, size: 600_000},
	"download move":     {key: "ftp.download", cfg: object{"remote_path": "dir", "local_path": "in/", "after_transfer": "delete"}, far: []string{"dir/a", "dir/b"}, size: 1000},
	"download aside":    {key: "ftp.download", cfg: object{"remote_path": "dir", "pattern": "**", "local_path": "in/", "after_transfer": "move", "move_to": "old"}, far: []string{"dir/a", "dir/sub/b", "old/a"}, size: 1000, opt: ftpserver.Options{NoRenameOver: true}},
	"download done":     {key: "ftp.download", cfg: object{"remote_path": "dir/a", "local_path": "in/", "after_transfer": "move", "move_to": "old/new", "done_file": "b"}, far: []string{"dir/a", "dir/b"}, size: 1000},
	"download archive":  {key: "ftp.download", cfg: object{"remote_path": "dir", "pattern": "**", "local_path": "in/", "after_transfer": "archive", "move_to": "old/new"}, far: []string{"dir/a.txt", "dir/sub/b", "old/keep"}, size: 1000},
	"download same":     {key: "ftp.download", cfg: object{"remote_path": "dir", "local_path": "in/", "skip_if_same": true, "checksum": "read_back"}, far: []string{"dir/a", "dir/b"}, size: 1000},
	"download by LIST":  {key: "ftp.download", cfg: object{"remote_path": "dir", "local_path": "in/"}, far: []string{"dir/a", "dir/b"}, size: 1000, opt: ftpserver.Options{NoMLSD: true}},
	"upload over":       {key: "ftp.upload", cfg: object{"local_path": "a", "remote_path": "dir/a"}, here: []string{"a"}, far: []string{"dir/a", "dir/keep"}, size: 600_000},
	"upload aside":      {key: "ftp.upload", cfg: object{"local_path": "a", "remote_path": "dir/a"}, here: []string{"a"}, far: []string{"dir/a", "dir/keep"}, size: 1000, opt: ftpserver.Options{NoRenameOver: true}},
	"upload unless":     {key: "ftp.upload", cfg: object{"local_path": "a", "remote_path": "dir/a", "if_exists": "skip"}, here: []string{"a"}, far: []string{"dir/keep"}, size: 1000},
	"upload or fail":    {key: "ftp.upload", cfg: object{"local_path": "a", "remote_path": "dir/a", "if_exists": "fail"}, here: []string{"a"}, far: []string{"dir/keep"}, size: 1000},
	"upload resume":     {key: "ftp.upload", cfg: object{"local_path": "a", "remote_path": "dir/a", "resume": true}, here: []string{"a"}, far: []string{"dir/a", "dir/keep"}, size: 600_000},
	"upload many":       {key: "ftp.upload", cfg: object{"local_path": "*", "remote_path": "dir/", "checksum": "read_back", "preserve": "times"}, here: []string{"a", "b"}, far: []string{"dir/keep"}, size: 1000},
	"upload and delete": {key: "ftp.upload", cfg: object{"local_path": "*", "remote_path": "dir/", "after_transfer": "delete", "done_file": "*.done", "checksum": "sidecar"}, here: []string{"a", "b"}, far: []string{"dir/keep"}, size: 1000},
	"upload archive":    {key: "ftp.upload", cfg: object{"local_path": "t/**", "remote_path": "dir/", "after_transfer": "archive", "move_to": "sent"}, here: []string{"t/a.txt", "t/sub/b"}, far: []string{"dir/keep"}, size: 1000},
	"upload tree":       {key: "ftp.upload", cfg: object{"local_path": "t/**", "remote_path": "dir/", "after_transfer": "move", "move_to": "sent", "resume": true}, here: []string{"t/a", "t/sub/b"}, far: []string{"dir/keep"}, size: 1000},
	"upload same":       {key: "ftp.upload", cfg: object{"local_path": "a", "remote_path": "dir/a", "skip_if_same": true, "preserve": "times", "done_file": "done"}, here: []string{"a"}, far: []string{"dir/keep"}, size: 1000},
	"mkdir":             {key: "ftp.mkdir", cfg: object{"remote_path": "dir/x/y"}, far: []string{"dir/a"}},
	"rmdir":             {key: "ftp.rmdir", cfg: object{"remote_path": "dir", "recursive": true}, far: []string{"dir/a", "dir/sub/b", "keep"}},
	"delete":            {key: "ftp.delete", cfg: object{"remote_path": "dir/a"}, far: []string{"dir/a", "dir/b"}},
	"delete many":       {key: "ftp.delete", cfg: object{"remote_path": "dir", "pattern": "*"}, far: []string{"dir/a", "dir/b", "keep"}},
	"rename":            {key: "ftp.rename", cfg: object{"source_path": "dir/a", "destination_path": "dir/c"}, far: []string{"dir/a", "dir/b"}},
	"rename over":       {key: "ftp.rename", cfg: object{"source_path": "dir/a", "destination_path": "dir/b"}, far: []string{"dir/a", "dir/b"}, opt: ftpserver.Options{NoRenameOver: true}},
}

// stamp is what after_transfer adds to a name with archive.
var stamp = regexp.MustCompile(`-\d{8}T\d{6}\.\d{6}Z`)

// TestContract holds the steps against the contract for retries. The commands
// that reach the server are places at which they are disturbed.
func TestContract(t *testing.T) {
	var keys []string
	for i, name := range slices.Sorted(maps.Keys(trials)) {
		tr := trials[name]
		keys = append(keys, tr.key)
		if raced.On && i%3 != 0 {
			continue // the run without the race detector has them
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			steptest.Run(t, steptest.Case{
				Packages: []string{steptest.All},
				Key:      tr.key,
				Setup: func(w *steptest.World) {
					remote := serve(w, tr.opt)
					tr.fill(w, remote)
					w.Config = object{"connection_id": steprig.Partner}
					for k, v := range tr.cfg {
						w.Config.(object)[k] = v
					}
				},
				Name:    func(name string) string { return stamp.ReplaceAllString(name, "-<time>") },
				Virtual: true,
				Places:  raced.Or(2, 10),
			})
		})
	}
	var r courier.Registry
	ftp.Register(&r, ftp.Map{})
	steptest.Cover(t, &r, keys...)
}

// fill makes the files of a world.
func (tr trial) fill(w *steptest.World, remote string) {
	moving, upload := tr.size > 0, tr.key == "ftp.upload"
	for _, name := range tr.here {
		text := "old " + name
		if upload && moving {
			text = string(steprig.Content(tr.size + len(name)))
		}
		w.Write(name, text)
	}
	for _, name := range tr.far {
		text := "old " + name
		if !upload && moving {
			text = string(steprig.Content(tr.size + len(name)))
		}
		w.Write(filepath.Join(remote, name), text)
	}
}

// serve starts a server of the world's own and returns the directory that it
// serves.
func serve(w *steptest.World, opt ftpserver.Options) string {
	var net ftpserver.Network
	remote := filepath.Join(w.Dir, "remote")
	opt.Users, opt.Listen = map[string]string{steprig.User: steprig.Password}, net.Listen
	opt.Fault = func(verb, argument string) error {
		switch verb {
		case "USER", "PASS", "FEAT", "OPTS", "TYPE", "EPSV", "PASV", "NOOP", "PWD":
			return nil
		}
		return w.Reach(verb + " " + argument)
	}
	s, err := ftpserver.New(remote, &opt)
	if err != nil {
		w.Fatal(err)
	}
	done := make(chan error, 1)
	l := net.Commands()
	go func() { done <- s.Serve(l) }()
	w.Cleanup(func() {
		if err := errors.Join(s.Close(), <-done); err != nil {
			w.Errorf("server: %v", err)
		}
	})
	ftp.Register(w.Registry, ftp.Map{steprig.Partner: connection(&net, &opt)})
	return remote
}
