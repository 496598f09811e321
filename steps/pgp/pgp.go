// Package pgp provides the steps that encrypt, decrypt, sign and verify files with OpenPGP, in
// the format that GnuPG and the products of partners read and write.
//
// A host application provides its keys through [Keys] and registers the steps with [Register].
// Messages are written with AES-256 and an integrity check; messages without one are never read.
// Decrypted content gets its final name only after the whole message, its integrity check and its
// signature have been verified.
//
// AEAD of RFC 9580 is used if the keys of all recipients support it; aead: off always uses the
// format that every program reads. Clear-signed text has lines of at most 19,000 bytes and no
// NUL. pgp.verify returns its findings as outputs, including the finding that a file is not a
// message, because jobs branch on them. Signer and time are returned for valid signatures only.
package pgp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/pgpstream"
	"github.com/courierhq/courier/internal/transfer"
)

// Register adds pgp.encrypt, pgp.decrypt, pgp.sign and pgp.verify to r. If keys is nil, the steps
// are registered, but fail and state the reason.
func Register(r *courier.Registry, keys Keys) {
	opt := func(verb, doc string) *courier.TypeOptions {
		r := repetitions[verb]
		return &courier.TypeOptions{Timeout: new(time.Duration(0)), Stall: new(stall), Doc: doc, RepeatDoc: r.repeat, CleanupDoc: r.cleanup}
	}
	courier.Register(r, "pgp.encrypt", &Encrypt{Keys: keys}, opt("encrypt", "Encrypts a file to one or more OpenPGP keys, and signs it if asked to."))
	courier.Register(r, "pgp.decrypt", &Decrypt{Keys: keys}, opt("decrypt", "Decrypts an OpenPGP message and checks its signature."))
	courier.Register(r, "pgp.sign", &Sign{Keys: keys}, opt("sign", "Signs a file with an OpenPGP key."))
	courier.Register(r, "pgp.verify", &Verify{Keys: keys}, opt("verify", "Checks the OpenPGP signature of a file, and reports what it found."))
}

// stall is how long a step may run without progress.
const stall = 60 * time.Second

// settings are the names of the steps' settings in errors of package pgpstream.
var settings = pgpstream.SettingNames{MaxBytes: "max_bytes", PrivateKeys: "private_key_ids", Signers: "signer_key_ids"}

// A disk is a writer to a file that checks the free space after every 16 MiB.
type disk struct {
	w     io.Writer
	ctx   context.Context // that guard ends with the reason
	guard *transfer.Guard
	done  int64
}

// onDisk returns a writer to w; target is the path of the file. The writer keeps keepFree bytes
// of the disk free; 0 means the default, and less means none. The guard's End must be called.
func onDisk(ctx context.Context, job *courier.Context, w io.Writer, target string, keepFree int64, step string) (*disk, error) {
	root, rel, err := job.Files().Root(target)
	if err != nil {
		return nil, fmt.Errorf("output: %w", err)
	}
	ctx, guard := transfer.Space(keepFree, "KeepFree of "+step).Guard(ctx)
	guard.Watch(root, filepath.Dir(rel))
	return &disk{w: w, ctx: ctx, guard: guard}, nil
}

// Write implements io.Writer.
func (d *disk) Write(p []byte) (int, error) {
	n, err := d.w.Write(p)
	d.done += int64(n)
	d.guard.At(d.done)
	if err == nil && d.ctx.Err() != nil {
		err = context.Cause(d.ctx)
	}
	return n, err
}

// place returns the path of the file that a step writes. It is output, or base in output if
// output is a directory or ends with a slash, or base in the attempt's own directory if output is
// empty.
func place(job *courier.Context, output, base string) (string, error) {
	if output == "" {
		return path.Join(job.Files().Dir(), base), nil
	}
	if strings.HasSuffix(filepath.ToSlash(output), "/") {
		return output + base, nil
	}
	root, rel, err := job.Files().Root(output)
	if err != nil {
		return "", fmt.Errorf("output: %w", err)
	}
	if info, err := root.Stat(rel); err == nil && info.IsDir() {
		return output + "/" + base, nil
	}
	return output, nil
}

// baseName returns the last element of a path. It accepts every kind of slash that the system
// supports.
func baseName(name string) string { return path.Base(filepath.ToSlash(name)) }

// cleanup removes the unfinished files of earlier attempts of a step beside its target. A default
// target lies in the directory of the attempt, so the directories of earlier attempts are
// searched as well.
func cleanup(job *courier.Context, output, base string) error {
	target, err := place(job, output, base)
	if err != nil {
		return err
	}
	err = job.Files().RemoveSideFiles(target)
	if output != "" {
		return err
	}
	for n := 1; n < job.Attempt(); n++ {
		dir := path.Join(path.Dir(job.Files().Dir()), strconv.Itoa(n))
		err = errors.Join(err, job.Files().RemoveSideFiles(path.Join(dir, base)))
	}
	return err
}

// distinct refuses a target that is the input itself, perhaps under another name. Otherwise a
// second attempt would take the result of the first as its input.
func distinct(job *courier.Context, in *os.File, target string) error {
	root, rel, err := job.Files().Root(target)
	if err != nil {
		return fmt.Errorf("output: %w", err)
	}
	from, err := in.Stat()
	if err != nil {
		return fmt.Errorf("input: %w", err)
	}
	if to, err := root.Stat(rel); err == nil && os.SameFile(from, to) {
		return permanentf("output %q: is the input itself; give another output_path", target)
	}
	return nil
}

// An inputFile is the input of a step that reads all of it once. At the end its size must be the
// same as at the beginning.
type inputFile struct {
	job  *courier.Context
	name string
	f    *os.File
	size int64
	read int64
}

func newInputFile(job *courier.Context, name string, f *os.File) (*inputFile, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("input: %w", err)
	}
	return &inputFile{job: job, name: name, f: f, size: info.Size()}, nil
}

// Read implements io.Reader.
func (s *inputFile) Read(p []byte) (int, error) {
	n, err := s.f.Read(p)
	s.read += int64(n)
	if err == io.EOF && s.read != s.size {
		err = fmt.Errorf("input %q: changed while it was read: it had %d bytes, and %d were read", s.name, s.size, s.read)
	}
	return n, err
}

// progress reports how much of the input has been processed.
func (s *inputFile) progress(done int64) { s.job.Progress(done, s.size, s.name) }

// produce calls write to make a file from the input, and gives the file the name target when it
// is complete. It returns the path and the size of the file.
func produce(job *courier.Context, input, target string, write func(w io.Writer, in *inputFile) error) (name string, size int64, err error) {
	in, err := job.Files().Open(input)
	if err != nil {
		return "", 0, fmt.Errorf("input: %w", err)
	}
	defer in.Close()
	if err := distinct(job, in, target); err != nil {
		return "", 0, err
	}
	src, err := newInputFile(job, input, in)
	if err != nil {
		return "", 0, err
	}
	w, err := job.Files().Create(target)
	if err != nil {
		return "", 0, fmt.Errorf("output: %w", err)
	}
	defer w.Close()
	if err := write(w, src); err != nil {
		return "", 0, err
	}
	info, err := w.Stat()
	if err == nil {
		err = w.Commit()
	}
	if err != nil {
		return "", 0, fmt.Errorf("output: %w", err)
	}
	name, err = job.Files().Path(target)
	return name, info.Size(), err
}

// checkPaths checks the paths of a step as far as Validate can. A relative input is made by an
// earlier step, so only an absolute input can exist already.
func checkPaths(job *courier.Context, input, output string) error {
	if !job.Unresolved("source_path") {
		if err := checkInput(job, input); err != nil {
			return fmt.Errorf("input: %w", err)
		}
	}
	if output == "" || job.Unresolved("output_path") {
		return nil
	}
	if _, err := job.Files().Path(output); err != nil {
		return fmt.Errorf("output: %w", err)
	}
	return nil
}

// checkInput opens an input that may exist already.
func checkInput(job *courier.Context, name string) error {
	if !filepath.IsAbs(name) {
		return nil
	}
	f, err := job.Files().Open(name)
	if err == nil {
		f.Close()
	}
	return err
}

// permanentf is fmt.Errorf for errors that a retry cannot fix.
func permanentf(format string, args ...any) error {
	return courier.Permanent(fmt.Errorf(format, args...))
}
