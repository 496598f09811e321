package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/steps/file"
	"github.com/courierhq/courier/steps/pgp"
	courierSFTP "github.com/courierhq/courier/steps/sftp"
	"github.com/courierhq/courier/store/memstore"
)

// pipelineArg makes the program the process whose memory is measured. The
// description of the work comes from its standard input.
const pipelineArg = "pipeline"

// pipelines measures whole pipelines: their speed, and the most memory that the
// process of the engine ever had, which is to be small however large the files
// are. One goes from an OpenSSH server on the same machine to the files in their
// place, the other encrypts and decrypts in both forms. The server and what
// prepares the files are other processes.
func pipelines() []bench {
	one := func(name, job string, prepare func(*pipeline, context.Context) error, files int) bench {
		return bench{
			name: name, figures: []figure{{unit: "MiB/s"}, {name: "memory", unit: "MiB", less: true}}, once: true,
			turn: func(ctx context.Context, h *harness, _ string) ([]float64, error) {
				p, err := newPipeline(ctx, h, job, files)
				if err != nil {
					return nil, err
				}
				var v []float64
				if err = prepare(p, ctx); err == nil {
					v, err = p.measure(ctx, h)
				}
				return v, errors.Join(err, p.lab.close())
			},
		}
	}
	return []bench{
		one("pipeline-10g", pipelineJob, (*pipeline).encrypted, 10),
		one("pgp-pipeline-1g", pgpJob, (*pipeline).plain, 1),
	}
}

// A pipeline is a job with the files for it, and a place for what comes of them.
type pipeline struct {
	job   string
	lab   *sftpLab
	files int
	bytes int64 // of each
}

// A pipelineWork is what the process that is measured is told. In the directory
// are the keys, and local/ is for what it makes.
type pipelineWork struct {
	Job  string
	Dir  string
	User string // who may log in at the server
	Port int
}

func newPipeline(ctx context.Context, h *harness, job string, files int) (*pipeline, error) {
	p := &pipeline{job: job, files: files, bytes: 1 << 30}
	switch {
	case h.least:
		p.bytes = 256 << 10
	case h.quick:
		p.bytes = 100 << 20
	}
	var err error
	if p.lab, err = openSFTPLab(ctx, h); err != nil {
		return nil, err
	}
	key, err := pgp.GenerateKey("bench", "bench@example.com")
	if err == nil {
		err = os.WriteFile(p.lab.in("key"), key.Data, 0o600)
	}
	if err != nil {
		return nil, errors.Join(err, p.lab.close())
	}
	return p, nil
}

// plain makes a file.
func (p *pipeline) plain(context.Context) error { return p.fill(p.lab.in("local", "plain")) }

// encrypted makes a message on the server that holds an archive of the files.
func (p *pipeline) encrypted(ctx context.Context) error {
	source := p.lab.in("local", "source")
	if err := os.Mkdir(source, 0o700); err != nil {
		return err
	}
	if err := p.fill(filepath.Join(source, "0")); err != nil {
		return err
	}
	for i := 1; i < p.files; i++ {
		if err := os.Link(filepath.Join(source, "0"), filepath.Join(source, strconv.Itoa(i))); err != nil {
			return err
		}
	}
	reg, err := p.work().steps()
	if err != nil {
		return err
	}
	job := courier.NewContext(courier.ContextConfig{Execution: "bench", Workspace: p.lab.in("local"), Roots: []string{p.lab.in("remote")}})
	defer job.Close()
	for _, step := range []struct{ name, config string }{
		{"file.zip", `{"source_path": "source/*", "output_path": "archive"}`},
		{"pgp.encrypt", fmt.Sprintf(`{"source_path": "archive", "output_path": %q, "recipient_key_ids": ["bench"]}`, p.lab.in("remote", "message"))},
	} {
		typ, ok := reg.Lookup(step.name)
		if !ok {
			return fmt.Errorf("there is no step %s", step.name)
		}
		if _, err := typ.Execute(ctx, job, []byte(step.config)); err != nil {
			return err
		}
	}
	return errors.Join(os.RemoveAll(source), os.Remove(p.lab.in("local", "archive")))
}

// fill writes a file of which three quarters can't be compressed, and one is
// text.
func (p *pipeline) fill(name string) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer f.Close()
	var text bytes.Buffer
	part := p.bytes / 16
	if err := writeLogs(&text, part); err != nil {
		return err
	}
	random := rand.NewChaCha8([32]byte{1})
	for range 4 {
		if _, err := io.CopyN(f, random, 3*part); err != nil {
			return err
		}
		if _, err := f.Write(text.Bytes()); err != nil {
			return err
		}
	}
	return f.Close()
}

// measure runs the pipeline in a process of its own.
func (p *pipeline) measure(ctx context.Context, h *harness) ([]float64, error) {
	input, err := json.Marshal(p.work())
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	var said, failed bytes.Buffer
	cmd := exec.CommandContext(ctx, self, pipelineArg)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(input), &said, &failed
	start := time.Now()
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("pipeline: %w: %.2000s", err, &failed)
	}
	took := time.Since(start)
	h.say("%s", bytes.TrimSpace(failed.Bytes()))
	for i := range p.files {
		if err := arrived(p.lab.in("local", "target", strconv.Itoa(i)), p.bytes); err != nil {
			return nil, err
		}
	}
	peak, err := strconv.ParseFloat(strings.TrimSpace(said.String()), 64)
	return []float64{float64(p.files) * float64(p.bytes) / (1 << 20) / took.Seconds(), peak}, err
}

func (p *pipeline) work() pipelineWork { return pipelineWork{p.job, p.lab.dir, p.lab.user, p.lab.port} }

// steps are those that the pipeline needs.
func (w pipelineWork) steps() (*courier.Registry, error) {
	var reg courier.Registry
	file.Register(&reg, &file.Options{Limits: file.Limits{MaxBytes: 1 << 40, MaxEntryBytes: 1 << 40}})
	var data [3][]byte
	for i, name := range []string{"key", "client", "host.pub"} {
		var err error
		if data[i], err = os.ReadFile(filepath.Join(w.Dir, name)); err != nil {
			return nil, err
		}
	}
	var keys pgp.Keyring
	if err := keys.Add("bench", pgp.Key{Data: data[0]}); err != nil {
		return nil, err
	}
	pgp.Register(&reg, &keys)
	courierSFTP.Register(&reg, courierSFTP.Map{"server": {
		Host: "127.0.0.1", Port: w.Port, Username: w.User, PrivateKey: string(data[1]), HostKeys: []string{string(data[2])},
		Algorithms: courierSFTP.Algorithms{Ciphers: []string{sftpCipher}},
	}})
	return &reg, nil
}

// pipelineJob keeps no file longer than it is needed, as jobs do whose files
// are large.
const pipelineJob = `{"name": "pipeline", "steps": [
	{"type": "sftp.download", "config": {"connection_id": "server", "remote_path": "message", "local_path": "message"}},
	{"type": "pgp.decrypt", "config": {"source_path": "message", "output_path": "archive.zip"}},
	{"type": "file.delete", "config": {"path": "message"}},
	{"type": "file.unzip", "config": {"archive_path": "archive.zip", "output_directory": "unpacked"}},
	{"type": "file.delete", "config": {"path": "archive.zip"}},
	{"type": "file.move", "config": {"source_path": "unpacked/*", "destination_path": "TARGET/"}}
]}`

const pgpJob = `{"name": "pgp", "steps": [
	{"type": "pgp.encrypt", "config": {"source_path": "LOCAL/plain", "output_path": "message", "recipient_key_ids": ["bench"], "signing_key_id": "bench"}},
	{"type": "pgp.decrypt", "config": {"source_path": "message", "output_path": "decrypted", "verify": "required"}},
	{"type": "pgp.encrypt", "config": {"source_path": "decrypted", "output_path": "message", "recipient_key_ids": ["bench"], "output_format": "armored", "compression": "zlib"}},
	{"type": "pgp.decrypt", "config": {"source_path": "message", "output_path": "TARGET/0"}}
]}`

// runPipeline is the process that is measured. Its output is the most memory
// that it had, in MiB.
func runPipeline(ctx context.Context, in io.Reader, out, progress io.Writer) error {
	var work pipelineWork
	if err := json.NewDecoder(in).Decode(&work); err != nil {
		return err
	}
	reg, err := work.steps()
	if err != nil {
		return err
	}
	target := filepath.Join(work.Dir, "local", "target")
	if err := os.Mkdir(target, 0o700); err != nil {
		return err
	}
	var job courier.Job
	if err := json.Unmarshal([]byte(strings.NewReplacer("TARGET", target, "LOCAL", filepath.Dir(target)).Replace(work.Job)), &job); err != nil {
		return err
	}
	e := engine.New(memstore.New(), reg, &engine.Options{
		Workspace: filepath.Join(work.Dir, "local", "work"), Roots: []string{filepath.Dir(target)},
		Observers: []func(courier.Event){func(ev courier.Event) {
			switch ev.Type {
			case courier.EventStepCompleted:
				peak, _ := peakMemory()
				fmt.Fprintf(progress, "  %s done, %.1f MiB of memory at most\n", ev.StepType, peak)
			case courier.EventStepFailed:
				fmt.Fprintf(progress, "  %s: %s\n", ev.StepType, ev.Error)
			}
		}},
	})
	x, err := e.Run(ctx, job, nil)
	if err == nil && x.State != courier.Completed {
		err = fmt.Errorf("the execution is %s", x.State)
	}
	if err != nil {
		return err
	}
	peak, err := peakMemory()
	fmt.Fprintln(out, peak)
	return err
}

// peakMemory is the most resident memory that the process had, in MiB.
func peakMemory() (float64, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	found := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(status)
	if found == nil {
		return 0, errors.New("/proc/self/status does not tell the peak of memory")
	}
	kib, err := strconv.ParseFloat(string(found[1]), 64)
	return kib / 1024, err
}
