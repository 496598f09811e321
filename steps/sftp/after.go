package sftp

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/safename"
)

// The values of after_transfer, preserve and checksum.
const (
	afterKeep   = "keep"
	afterDelete = "delete"
	afterMove   = "move"

	checksumNone     = "none"
	checksumReadBack = "read_back"
	checksumSidecar  = "sidecar"

	// sidecarSuffix is added to the name of a file for that with its checksum.
	sidecarSuffix = ".sha256"
)

var (
	preserveValues = []string{"none", "times", "modes", "all"}
	checksumValues = []string{checksumNone, checksumReadBack, checksumSidecar}
)

func times(preserve string) bool { return preserve == "times" || preserve == "all" }
func modes(preserve string) bool { return preserve == "modes" || preserve == "all" }

func checkAfter(after, moveTo string) error {
	switch {
	case after == afterMove && moveTo == "":
		return errors.New("move_to: is missing; after_transfer is move, which needs a directory")
	case after != afterMove && moveTo != "":
		return fmt.Errorf("move_to: is given, but after_transfer is %s, not move", safename.Quote(after))
	}
	return oneOf("after_transfer", after, afterKeep, afterDelete, afterMove)
}

func checkDoneFile(pattern string) error {
	switch {
	case pattern == "":
		return nil
	case strings.Count(pattern, "*") > 1, pattern == "*":
		return fmt.Errorf("done_file: %s must differ from the file's name, for which one * stands, such as in *.done", safename.Quote(pattern))
	}
	if err := safename.Check(strings.ReplaceAll(pattern, "*", "x")); err != nil {
		return fmt.Errorf("done_file: %w; it is the name of a file in the same directory", err)
	}
	return nil
}

// doneName is the name of the companion of the file called name.
func doneName(pattern, name string) string { return strings.Replace(pattern, "*", name, 1) }

// isDoneName reports whether name is one of a companion.
func isDoneName(pattern, name string) bool {
	before, after, ok := strings.Cut(pattern, "*")
	if !ok {
		return pattern != "" && name == pattern
	}
	return len(name) > len(before)+len(after) && strings.HasPrefix(name, before) && strings.HasSuffix(name, after)
}

// isLost reports whether err ends a connection, so that another may do better.
func isLost(err error) bool {
	_, lost := errors.AsType[*lostError](err)
	return lost || errors.Is(err, errSilence)
}

// errOtherContent says that a comparison has found a difference.
var errOtherContent = errors.New("the content differs when it is read again")

// compareWhole reads a remote file again and compares it with the local one.
func compareWhole(ctx context.Context, l lane, src io.ReaderAt, m *meter) error {
	same, err := compareRange(ctx, l, src, 0, m.total, m.beat)
	if err == nil && same < m.total {
		err = errOtherContent
	}
	return err
}

// sum returns the SHA-256 of size bytes in hexadecimal digits.
func sum(ctx context.Context, src io.ReaderAt, size int64, beat func()) (string, error) {
	h := sha256.New()
	buf := make([]byte, 256<<10)
	for off := int64(0); off < size; {
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		n, err := src.ReadAt(buf[:min(int64(len(buf)), size-off)], off)
		if n == 0 && err != nil {
			return "", fmt.Errorf("local file: %w", err)
		}
		h.Write(buf[:n])
		off += int64(n)
		beat()
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// maxSidecar is how long a file with a checksum may be.
const maxSidecar = 4 << 10

// checkSidecar compares what was downloaded with the checksum beside it.
func (s *session) checkSidecar(ctx context.Context, remote string, src io.ReaderAt, m *meter) error {
	want, err := s.readSidecar(ctx, remote+sidecarSuffix)
	if err != nil {
		return fmt.Errorf("checksum in %s: %w", safename.Quote(remote+sidecarSuffix), err)
	}
	got, err := sum(ctx, src, m.total, m.beat)
	if err == nil && got != want {
		err = fmt.Errorf("the content has the SHA-256 %s, but %s says %s", got, safename.Quote(remote+sidecarSuffix), want)
	}
	return err
}

// readSidecar returns the checksum at the beginning of a small remote file.
func (s *session) readSidecar(ctx context.Context, remote string) (string, error) {
	a, err := s.stat(ctx, remote)
	if err != nil {
		return "", err
	}
	size, err := a.fileSize()
	if err != nil || size > maxSidecar || !a.isFile() {
		return "", courier.Permanent(errors.New("is no file with a checksum"))
	}
	h, err := s.open(ctx, remote, flagRead)
	if err != nil {
		return "", err
	}
	defer s.closeHandle(ctx, h)
	var text bytes.Buffer
	r := reading{crew: alone(s.client, h), size: size, to: &text, progress: func(int64) {}}
	if err := r.run(ctx); err != nil {
		return "", err
	}
	word := text.String()
	if i := strings.IndexAny(word, " \t\r\n"); i >= 0 {
		word = word[:i]
	}
	word = strings.ToLower(strings.TrimPrefix(word, `\`)) // sha256sum marks names that it has escaped
	if b, err := hex.DecodeString(word); err != nil || len(b) != sha256.Size {
		return "", courier.Permanent(fmt.Errorf("it begins with %s, which is no SHA-256", safename.Quote(word)))
	}
	return word, nil
}

// A downloadNote is what sftp.download notes down when all is downloaded, so
// that a later attempt knows what is its own, even if the sources are gone.
type downloadNote struct {
	RemotePath string           `json:"remote_path"`
	Pattern    string           `json:"pattern"`
	LocalPath  string           `json:"local_path"`
	Files      []downloadedFile `json:"files"`
	Skipped    int              `json:"skipped"`
	NotReady   int              `json:"not_ready"`
}

type downloadedFile struct {
	Remote string   `json:"remote"`
	Local  string   `json:"local"`
	Was    identity `json:"was"`
	Timed  bool     `json:"timed"` // the server tells the time
}

func (t *downloading) remembers() bool {
	return t.cfg.ResumePartial || t.cfg.AfterTransfer != afterKeep
}

// note notes down what is downloaded, where that matters.
func (t *downloading) note(ctx context.Context) error {
	if !t.remembers() {
		return nil
	}
	notes, err := openNotes(ctx, t.job, "download")
	if err != nil {
		return err
	}
	n := downloadNote{t.cfg.RemotePath, t.cfg.Pattern, t.cfg.LocalPath, []downloadedFile{}, t.skipped, t.notReady}
	for _, f := range t.files {
		n.Files = append(n.Files, downloadedFile{f.remote, f.local, f.was, !f.mtime.IsZero()})
	}
	return notes.write(n)
}

// recall takes over what an earlier attempt has noted down, and reports whether
// there is anything.
func (t *downloading) recall(ctx context.Context) (bool, error) {
	if !t.remembers() {
		return false, nil
	}
	notes, err := openNotes(ctx, t.job, "download")
	if err != nil {
		return false, err
	}
	var n downloadNote
	if found, err := notes.read(&n); err != nil || !found || n.RemotePath != t.cfg.RemotePath || n.Pattern != t.cfg.Pattern || n.LocalPath != t.cfg.LocalPath {
		return false, err
	}
	t.skipped, t.notReady = n.Skipped, n.NotReady
	for _, f := range n.Files {
		r := remoteFile{remote: f.Remote, local: f.Local, size: int64(f.Was.Size), was: f.Was}
		if f.Timed {
			r.mtime = attrs{flags: attrTimes, mtime: f.Was.Modified}.modified()
		}
		t.files = append(t.files, r)
	}
	return true, nil
}

// claim reports whether all that an earlier attempt has downloaded is there
// and, if the sources are kept, still what they hold. It moves files from the
// directory of that attempt to this one's.
func (t *downloading) claim(ctx context.Context) (bool, error) {
	for i := range t.files {
		if !t.own(&t.files[i]) {
			if t.cfg.AfterTransfer == afterKeep {
				return false, nil
			}
			return false, courier.Permanent(fmt.Errorf("local file %s: an earlier attempt has downloaded it, but it is gone or has changed; "+
				"the remote one may be gone too: %w", safename.Quote(t.files[i].local), fs.ErrNotExist))
		}
	}
	if t.cfg.AfterTransfer == afterKeep {
		same := true
		err := use(ctx, t.job, t.Connections, t.cfg.ConnectionID, func(s *session) error {
			for _, f := range t.files {
				a, err := s.stat(ctx, f.remote)
				if err != nil && !errors.Is(err, fs.ErrNotExist) {
					return s.fault("download", f.remote, err)
				}
				same = same && (err != nil || identify(a) == f.was)
			}
			return nil
		})
		if err != nil || !same {
			return false, err
		}
	}
	for _, f := range t.files {
		if err := t.job.Wrote(f.local); err != nil {
			return false, err
		}
	}
	return true, nil
}

// own finds the local file, which may be in the directory of an earlier
// attempt, and has it in this one's.
func (t *downloading) own(f *remoteFile) bool {
	there := func(name string) bool {
		info, err := t.job.Stat(name)
		return err == nil && info.Mode().IsRegular() && info.Size() == f.size
	}
	if t.cfg.LocalPath != "" || t.job.Dir() == "." {
		return there(f.local)
	}
	name := path.Base(filepath.ToSlash(f.local))
	f.local = joinLocal(t.job.Dir(), name)
	for _, dir := range attemptDirs(t.job) {
		old := joinLocal(dir, name)
		if !there(old) {
			continue
		}
		if old == f.local {
			return true
		}
		root, rel, err := t.job.Root(f.local)
		if err == nil {
			err = errors.Join(root.MkdirAll(filepath.Dir(rel), 0o700), root.Rename(filepath.FromSlash(old), rel), courier.SyncDir(root, filepath.Dir(rel)))
		}
		return err == nil
	}
	return false
}

// archived is where move puts a remote file.
func (cfg DownloadConfig) archived(remote string) string {
	_, name := split(remote)
	return join(trimSlashes(cfg.MoveTo), name)
}

// after does with the sources what after_transfer says. What isn't what was
// downloaded any more stays.
func (t *downloading) after(ctx context.Context) error {
	return use(ctx, t.job, t.Connections, t.cfg.ConnectionID, func(s *session) error {
		if t.cfg.AfterTransfer == afterMove && len(t.files) > 0 {
			if err := s.makeDirectories(ctx, trimSlashes(t.cfg.MoveTo)); err != nil {
				return s.fault("move to", t.cfg.MoveTo, err)
			}
		}
		return inParallel(ctx, len(t.files), manyFiles, func(ctx context.Context, i int) error {
			return s.fault(t.cfg.AfterTransfer, t.files[i].remote, t.afterOne(ctx, s, &t.files[i]))
		})
	})
}

func (t *downloading) afterOne(ctx context.Context, s *session, f *remoteFile) error {
	a, err := s.stat(ctx, f.remote)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return t.removeDone(ctx, s, f)
	case err != nil:
		return err
	case identify(a) != f.was:
		t.job.Log().Warn("a file has changed since it was downloaded; it stays", "connection", s.id, "file", f.remote)
		return nil
	}
	if t.cfg.AfterTransfer == afterDelete {
		err = s.remove(ctx, f.remote)
	} else {
		move := renaming{
			connections: t.Connections, job: t.job, id: t.cfg.ConnectionID,
			from: f.remote, to: t.cfg.archived(f.remote), size: f.size, ifExists: ifExistsOverwrite, what: "the downloaded file",
		}
		err = move.run(ctx, s)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return t.removeDone(ctx, s, f)
}

// removeDone removes the companion of a file that is gone.
func (t *downloading) removeDone(ctx context.Context, s *session, f *remoteFile) error {
	if t.cfg.DoneFile == "" {
		return nil
	}
	dir, name := split(f.remote)
	err := s.remove(ctx, join(dir, doneName(t.cfg.DoneFile, name)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
