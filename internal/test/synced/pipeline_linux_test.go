package synced

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/internal/test/memnet"
	"github.com/courierhq/courier/internal/test/sftpserver"
	"github.com/courierhq/courier/steps/file"
	"github.com/courierhq/courier/steps/pgp"
	"github.com/courierhq/courier/steps/sftp"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/memstore"
)

// childArg makes the test binary the process that is watched. The directory
// comes after it.
const childArg = "watched-pipeline"

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == childArg {
		if err := pipeline(os.Args[2]); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// steps are what the pipeline does, below the directory DIR: once for each way
// in which a step can write files.
var steps = []string{
	`"type": "demo.create", "config": {"path": "new/directory/a.txt"}`,
	`"type": "file.copy", "config": {"source_path": "DIR/in/a.csv", "destination_path": "copies/a.csv"}`,
	`"type": "file.copy", "config": {"source_path": "DIR/in/*.csv", "destination_path": "DIR/out/new/directory/"}`,
	`"type": "file.zip", "id": "zip", "config": {"source_path": "DIR/in"}`,
	`"type": "file.unzip", "config": {"archive_path": "context:zip.archive_path", "output_directory": "DIR/out/unpacked"}`,
	`"type": "file.unzip", "config": {"archive_path": "context:zip.archive_path", "output_directory": "DIR/out/there", "if_exists": "overwrite"}`,
	`"type": "pgp.encrypt", "id": "encrypt", "config": {"source_path": "DIR/in/a.csv", "recipient_key_ids": ["ada"]}`,
	`"type": "pgp.decrypt", "config": {"source_path": "context:encrypt.encrypted_file", "output_path": "DIR/out/plain.csv"}`,
	`"type": "sftp.download", "config": {"connection_id": "partner", "remote_path": "report.csv"}`,
	`"type": "file.move", "config": {"source_path": "DIR/in/a.csv", "destination_path": "DIR/out/moved/a.csv"}`,
	moveInside,
}

// moveInside renames a file that nobody wrote meanwhile.
const moveInside = `"type": "file.move", "config": {"source_path": "DIR/in/b.csv", "destination_path": "DIR/in/done/b.csv"}`

// prepare makes what the pipeline needs.
func prepare(t *testing.T, dir string) {
	for _, name := range []string{"in/a.csv", "in/b.csv", "in/sub/c.csv", "remote/report.csv", "out/there/old.csv", workName + "/x"} {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(strings.Repeat(name, 1000)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// pipeline runs the steps in this process.
func pipeline(dir string) error {
	ctx := context.Background()
	var reg courier.Registry
	courier.RegisterFunc(&reg, "demo.create", create, nil)
	file.Register(&reg, nil)
	key, err := pgp.GenerateKey("ada", "ada@example.com")
	if err != nil {
		return err
	}
	var keys pgp.Keyring
	if err := keys.Add("ada", key); err != nil {
		return err
	}
	pgp.Register(&reg, &keys)
	server, err := sftpserver.New(filepath.Join(dir, "remote"), &sftpserver.Options{Users: map[string]string{"ada": "secret"}})
	if err != nil {
		return err
	}
	defer server.Close()
	net := memnet.Listen()
	go server.Serve(net)
	sftp.Register(&reg, sftp.Map{"partner": {
		Host: "files.example.com", Username: "ada", Password: "secret",
		HostKeys: []string{ssh.FingerprintSHA256(server.HostKey())}, Dial: net.DialContext,
	}})
	var job courier.Job
	text := `{"name": "all", "steps": [{` + strings.Join(steps, "}, {") + `}]}`
	if err := json.Unmarshal([]byte(strings.ReplaceAll(text, "DIR", dir)), &job); err != nil {
		return err
	}
	mark, err := os.Create(filepath.Join(dir, markName))
	if err != nil {
		return err
	}
	defer mark.Close()
	work := filepath.Join(dir, workName)
	e := engine.New(&marking{Store: memstore.New(), mark: mark, work: work}, &reg, &engine.Options{
		Workspace: work, Roots: []string{filepath.Join(dir, "in"), filepath.Join(dir, "out")},
	})
	_, err = e.Run(ctx, job, nil)
	return err
}

// create is a step of a user's own, as the documentation shows it.
func create(_ context.Context, job *courier.Context, cfg struct {
	Path string `json:"path"`
}) (struct{}, error) {
	w, err := job.Files().Create(cfg.Path)
	if err != nil {
		return struct{}{}, err
	}
	defer w.Close()
	if _, err := io.WriteString(w, "content"); err != nil {
		return struct{}{}, err
	}
	return struct{}{}, w.Commit()
}

// workName is the directory of the workspaces.
const workName = "work"

// markName is the file to which is written what is about to be recorded.
const markName = "mark"

// A mark tells the watcher that a step is about to be recorded as completed.
type mark struct {
	Step  int
	Type  string
	Files []string // absolute paths of those that the step reports
}

// marking is a store that writes marks before transitions.
type marking struct {
	store.Store
	mark *os.File
	work string
}

// Apply writes a mark for each step that the transition completes.
func (m *marking) Apply(ctx context.Context, t store.Transition) error {
	for i := range t.Ended {
		s := &t.Ended[i]
		if s.State != courier.StepCompleted {
			continue
		}
		out := mark{Step: s.Step, Type: s.Type}
		for _, f := range s.Files {
			path := f.Path
			if !filepath.IsAbs(path) {
				path = filepath.Join(m.work, string(t.Execution), path)
			}
			if !f.Removed && f.Connection == "" {
				out.Files = append(out.Files, path)
			}
		}
		if err := json.NewEncoder(m.mark).Encode(out); err != nil {
			return err
		}
	}
	return m.Store.Apply(ctx, t)
}
