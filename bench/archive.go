package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/stepcontext"
	"github.com/courierhq/courier/steps/file"
)

// Programs of the system that stand beside the steps for files.
const (
	infoZip = "infozip"
	gnuTar  = "tar"
	gnuCopy = "cp"
)

// programs are the peers that are no systems on PostgreSQL.
var programs = []string{infoZip, gnuTar, gnuCopy, gnupgName, openSSH, openSSHSync, rclone, curlName, lftpName, lftpFour}

// archives measures the steps that pack, unpack and copy files, in MiB of
// unpacked content per second. Every contestant's files are on the disk at the
// end, as far as the file system has one: the bench uses /dev/shm where TMPDIR
// is not set, so that it is not the disk that is measured.
func archives() []bench {
	one := func(name, peer string, prepare func(*files) error, own func(context.Context, *courier.Context) error, args ...string) bench {
		return bench{
			name: name, peers: []string{peer}, figures: []figure{{unit: "MiB/s"}},
			turn: func(ctx context.Context, h *harness, who string) ([]float64, error) {
				rate, err := h.archive(ctx, who, prepare, own, args)
				return []float64{rate}, err
			},
		}
	}
	return []bench{
		one("zip-logs", infoZip, (*files).logs, zipStep, "zip", "-q", "out/out", "in"),
		one("zip-random", infoZip, (*files).random, zipStep, "zip", "-q", "out/out", "in"),
		one("unzip-logs", infoZip, (*files).zipped, unzipStep, "unzip", "-q", "in.zip", "-d", "out"),
		one("tarzst-logs", gnuTar, (*files).logs, tarStep, "tar", "--zstd", "-cf", "out/out", "in"),
		one("copy-1g", gnuCopy, (*files).random, copyStep, "cp", "in", "out/out"),
	}
}

func zipStep(ctx context.Context, job *courier.Context) error {
	_, err := file.Zip{}.Execute(ctx, job, file.ZipConfig{SourcePath: "in", OutputPath: "out/out"})
	return err
}

func unzipStep(ctx context.Context, job *courier.Context) error {
	_, err := file.Unzip{}.Execute(ctx, job, file.UnzipConfig{ArchivePath: "in.zip", OutputDirectory: "out"})
	return err
}

func tarStep(ctx context.Context, job *courier.Context) error {
	_, err := file.Tar{}.Execute(ctx, job, file.TarConfig{SourcePath: "in", OutputPath: "out/out", Format: file.TarZstd})
	return err
}

func copyStep(ctx context.Context, job *courier.Context) error {
	_, err := file.Copy{}.Execute(ctx, job, file.CopyConfig{SourcePath: "in", DestinationPath: "out/out"})
	return err
}

// archive lets a contestant work once and returns its rate.
func (h *harness) archive(ctx context.Context, who string, prepare func(*files) error, own func(context.Context, *courier.Context) error, args []string) (float64, error) {
	if h.files == nil {
		f, err := newFiles(h)
		if err != nil {
			return 0, err
		}
		h.files = f
	}
	if err := prepare(h.files); err != nil {
		return 0, err
	}
	out := filepath.Join(h.files.dir, "out")
	if err := os.RemoveAll(out); err != nil {
		return 0, err
	}
	if err := os.Mkdir(out, 0o700); err != nil {
		return 0, err
	}
	start := time.Now()
	if who == courierName {
		job := courier.NewContext(courier.ContextConfig{Execution: "bench", Job: "bench", Workspace: h.files.dir})
		defer job.Close()
		// Without what the turn before noted down: another attempt would find
		// that the work is done.
		for _, dir := range []string{job.Files().StepDir(), stepcontext.Of(job).NoteDir()} {
			if err := os.RemoveAll(filepath.Join(h.files.dir, dir)); err != nil {
				return 0, err
			}
		}
		start = time.Now()
		if err := own(ctx, job); err != nil {
			return 0, err
		}
	} else if err := h.files.program(ctx, out, args); err != nil {
		return 0, err
	}
	rate := float64(h.files.size) / (1 << 20) / time.Since(start).Seconds()
	size := sizeOf(out)
	if size == 0 {
		return 0, errors.New("there is no output")
	}
	h.say("  %s leaves %d bytes", who, size)
	return rate, os.RemoveAll(out)
}

// sizeOf is the size of all files in a directory.
func sizeOf(dir string) (n int64) {
	filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if info, err := d.Info(); err == nil {
				n += info.Size()
			}
		}
		return nil
	})
	return n
}

// files are what the steps for files work on.
type files struct {
	dir  string
	size int64
	is   string // what the file "in" holds
	zip  bool   // whether in.zip is there
}

func newFiles(h *harness) (*files, error) {
	f := &files{size: int64(h.scaled(1 << 30))}
	if h.quick && !h.least {
		f.size = 256 << 20
	}
	dir := os.Getenv("TMPDIR")
	if info, err := os.Stat("/dev/shm"); dir == "" && err == nil && info.IsDir() {
		dir = "/dev/shm"
	}
	var err error
	f.dir, err = os.MkdirTemp(dir, "courier-bench-")
	return f, err
}

func (f *files) close() error { return os.RemoveAll(f.dir) }

// program runs a program and makes durable what it wrote to out.
func (f *files) program(ctx context.Context, out string, args []string) error {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = f.dir
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", args[0], err, said)
	}
	return filepath.WalkDir(out, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		made, err := os.Open(name)
		if err != nil {
			return err
		}
		defer made.Close()
		return made.Sync()
	})
}

// logs makes "in" the log of a web server.
func (f *files) logs() error {
	return f.fill("logs", func(w io.Writer) error { return writeLogs(w, f.size) })
}

// random makes "in" a file that can't be compressed.
func (f *files) random() error {
	return f.fill("random", func(w io.Writer) error {
		_, err := io.CopyN(w, rand.NewChaCha8([32]byte{1}), f.size)
		return err
	})
}

// zipped makes "in.zip" an archive of a log.
func (f *files) zipped() error {
	if f.zip {
		return nil
	}
	if err := f.logs(); err != nil {
		return err
	}
	job := courier.NewContext(courier.ContextConfig{Execution: "bench", Workspace: f.dir})
	defer job.Close()
	if _, err := (file.Zip{}).Execute(context.Background(), job, file.ZipConfig{SourcePath: "in", OutputPath: "in.zip"}); err != nil {
		return err
	}
	f.zip = true
	return nil
}

// fill makes the file "in", unless it holds that already.
func (f *files) fill(what string, write func(io.Writer) error) error {
	if f.is == what {
		return nil
	}
	f.is = ""
	in, err := os.Create(filepath.Join(f.dir, "in"))
	if err != nil {
		return err
	}
	defer in.Close()
	b := bufio.NewWriterSize(in, 1<<20)
	if err := write(b); err != nil {
		return err
	}
	if err := b.Flush(); err != nil {
		return err
	}
	f.is = what
	return in.Close()
}

// writeLogs writes size bytes of lines as servers write them, always the same.
func writeLogs(w io.Writer, size int64) error {
	r := rand.New(rand.NewPCG(1, 2))
	levels := []string{"INFO", "INFO", "INFO", "WARN", "DEBUG", "ERROR"}
	paths := []string{"/api/v1/orders", "/api/v1/users", "/health", "/files/upload", "/files/download"}
	codes := []int{200, 200, 200, 404, 500}
	at := int64(1_700_000_000_000)
	for size > 0 {
		at += int64(r.IntN(900))
		line := fmt.Sprintf("%s %s [worker-%d] request id=%08x%08x method=GET path=%s/%d status=%d bytes=%d duration=%dms remote=10.%d.%d.%d\n",
			time.UnixMilli(at).UTC().Format("2006-01-02T15:04:05.000Z"), levels[r.IntN(6)], r.IntN(16), r.Uint32(), r.Uint32(), paths[r.IntN(5)],
			r.IntN(100_000), codes[r.IntN(5)], r.IntN(1<<20), r.IntN(2000), r.IntN(256), r.IntN(256), r.IntN(256))
		line = line[:min(int64(len(line)), size)]
		if _, err := io.WriteString(w, line); err != nil {
			return err
		}
		size -= int64(len(line))
	}
	return nil
}
