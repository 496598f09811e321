package ftp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/remote"
	"github.com/courierhq/courier/internal/transfer"
)

// find finds the files to upload, those that are ready.
func (t *uploading) find(ctx context.Context) error {
	files, several, err := t.cfg.sources().FindReady(ctx, t.job, t.cfg.StableSeconds)
	t.files, t.several = localFiles(files), several
	return err
}

func (cfg UploadConfig) sources() remote.Sources {
	return remote.Sources{LocalPath: cfg.LocalPath, Glob: cfg.Glob, IgnoreMissing: cfg.IgnoreMissing}
}

func localFiles(sources []remote.Source) []localFile {
	files := make([]localFile, len(sources))
	for i, f := range sources {
		files[i] = localFile{local: f.Local, below: f.Below, size: f.Size}
	}
	return files
}

// setTargets gives each file its remote path.
func (s *session) setTargets(ctx context.Context, cfg UploadConfig, files []localFile, several bool) error {
	targets, err := cfg.sources().Targets(sourcesOf(files), several, cfg.RemotePath, func() (bool, bool, error) {
		n, err := s.Stat(ctx, cfg.RemotePath)
		if errors.Is(err, fs.ErrNotExist) {
			return false, false, nil
		}
		return err == nil, n.IsDir, err
	})
	for i, target := range targets {
		files[i].final = target
	}
	return s.fault("upload to", cfg.RemotePath, err)
}

// makeParents makes the directories below remote_path that hold the files.
func (s *session) makeParents(ctx context.Context, cfg UploadConfig, files []localFile) error {
	for _, dir := range remote.Directories(cfg.RemotePath, sourcesOf(files)) {
		if err := s.makeOne(ctx, dir); err != nil {
			return s.fault("make directory", dir, err)
		}
	}
	return nil
}

func sourcesOf(files []localFile) []remote.Source {
	sources := make([]remote.Source, len(files))
	for i, f := range files {
		sources[i] = remote.Source{Local: f.local, Below: f.below}
	}
	return sources
}

// written lists the remote files that the step writes, companions included.
func (t *uploading) written() []localFile {
	all := slices.Clone(t.files)
	for _, f := range t.files {
		if t.cfg.Checksum == remote.ChecksumSidecar {
			all = append(all, localFile{final: f.final + remote.SidecarSuffix})
		}
		if t.cfg.DoneFile != "" {
			all = append(all, localFile{final: remote.DonePath(t.cfg.DoneFile, f.final)})
		}
	}
	return all
}

// companions writes the files with checksums and, when all is there, the done
// files.
func (t *uploading) companions(ctx context.Context) error {
	if t.cfg.Checksum != remote.ChecksumSidecar && t.cfg.DoneFile == "" {
		return nil
	}
	return t.use(ctx, func(s *session) error {
		done := make(map[string]bool)
		for _, f := range t.files {
			if f.skipped {
				continue
			}
			if t.cfg.DoneFile != "" {
				done[remote.DonePath(t.cfg.DoneFile, f.final)] = true
			}
			if t.cfg.Checksum != remote.ChecksumSidecar {
				continue
			}
			if err := t.putSidecar(ctx, s, f); err != nil {
				return s.fault("upload", f.final+remote.SidecarSuffix, err)
			}
		}
		for name := range done {
			if err := s.putText(ctx, t.job, name, ""); err != nil {
				return s.fault("upload", name, err)
			}
		}
		return nil
	})
}

// putSidecar writes the file with the checksum of a local file.
func (t *uploading) putSidecar(ctx context.Context, s *session, f localFile) error {
	sum, err := f.source().Sum(ctx, t.job, f.final)
	if err != nil {
		return err
	}
	_, name := remote.Split(f.final)
	return s.putText(ctx, t.job, f.final+remote.SidecarSuffix, remote.SidecarText(sum, name))
}

func (f localFile) source() remote.Uploaded {
	return remote.Uploaded{Local: f.local, Below: f.below, Final: f.final, Was: f.was, Skipped: f.skipped}
}

// putText writes a small remote file, in place of what is there.
func (s *session) putText(ctx context.Context, job *courier.Context, final, text string) error {
	dir, name := remote.Split(final)
	side := remote.Join(dir, job.SideName(name))
	err := s.Store(ctx, side, false, func(to io.Writer) error {
		_, err := io.Copy(to, strings.NewReader(text))
		return err
	})
	if err != nil {
		return err
	}
	n, err := s.Stat(ctx, side)
	if err == nil && n.Size != int64(len(text)) {
		err = fmt.Errorf("the server has %d bytes of %d, although it confirmed all of them", n.Size, len(text))
	}
	if err != nil {
		return err
	}
	m := moving{job: job, from: side, to: final, size: int64(len(text)), ifExists: transfer.IfExistsOverwrite, what: "the complete file"}
	return m.run(ctx, s)
}

// uploaded describes the files for notes.
func (t *uploading) uploaded() []remote.Uploaded {
	files := make([]remote.Uploaded, len(t.files))
	for i, f := range t.files {
		files[i] = f.source()
	}
	return files
}

// note writes down what is uploaded, where the sources go away.
func (t *uploading) note() error {
	if t.cfg.AfterTransfer == remote.AfterKeep {
		return nil
	}
	t.at = time.Now()
	return lastingNote(t.job, "uploaded").write(remote.UploadNote{
		LocalPath: t.cfg.LocalPath.String(), RemotePath: t.cfg.RemotePath, Several: t.several, Files: t.uploaded(), At: t.at, Attempt: t.job.ExecutionAttempt()})
}

// recall takes over what an earlier attempt has uploaded, and reports whether
// there is anything.
func (t *uploading) recall(ctx context.Context) (bool, error) {
	if t.cfg.AfterTransfer == remote.AfterKeep {
		return false, nil
	}
	var n remote.UploadNote
	known, err := lastingNote(t.job, "uploaded").read(&n)
	if err != nil || !known || n.LocalPath != t.cfg.LocalPath.String() || n.RemotePath != t.cfg.RemotePath {
		return false, err
	}
	if done, err := n.Done(ctx, t.job, t.cfg.sources()); err != nil || !done {
		return false, err
	}
	t.several, t.at = n.Several, n.At
	for _, f := range n.Files {
		t.files = append(t.files, localFile{local: f.Local, below: f.Below, final: f.Final, size: f.Was.Size, was: f.Was, skipped: f.Skipped})
	}
	return true, nil
}

// Cleanup removes the unfinished remote files of earlier attempts, except those
// with which the next goes on.
func (u Upload) Cleanup(ctx context.Context, job *courier.Context, cfg UploadConfig) error {
	if err := cfg.check(); err != nil {
		return err
	}
	sources, several := cfg.sources().Former(ctx, job)
	if len(sources) == 0 {
		return nil
	}
	files := localFiles(sources)
	return use(ctx, job, u.Connections, cfg.ConnectionID, func(s *session) error {
		err := s.setTargets(ctx, cfg, files, several)
		if courier.IsPermanent(err) {
			return nil // where nothing can be written, nothing was left
		} else if err != nil {
			return err
		}
		t := &uploading{cfg: cfg, files: files}
		return s.removeLeftovers(ctx, job, t.written(), job.Attempt(), cfg.Resume && job.Cancelled())
	})
}
