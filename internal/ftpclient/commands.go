package ftpclient

import (
	"context"
	"errors"
	"io/fs"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/courierhq/courier/internal/connerr"
)

// An Info describes a file or directory, as far as the server states it.
type Info struct {
	IsDir    bool
	Size     int64 // -1 if the server doesn't tell
	Modified time.Time
}

// SameFile reports whether n and other, of the same path at different times, have the same
// content, as far as the server states it.
func (n Info) SameFile(other Info) bool {
	return n.IsDir == other.IsDir && n.Size == other.Size && n.Modified.Equal(other.Modified)
}

// Stat asks for one path. The meaning of a refusal is not certain; it counts as a path that does
// not exist.
func (s *Conn) Stat(ctx context.Context, path string) (Info, error) {
	if s.has("MLST") && !s.c.DisableMLSD {
		r, err := s.command(ctx, "MLST", path)
		if err == nil {
			if n, ok := parseMLST(r); ok {
				return n, nil
			}
		} else if refused, ok := errors.AsType[*ReplyError](err); !ok {
			return Info{}, err
		} else if refused.Code == 550 {
			return Info{}, missing(err)
		}
	}
	return s.statByParts(ctx, path)
}

// statByParts uses several commands to ask for the facts that MLST returns.
func (s *Conn) statByParts(ctx context.Context, path string) (Info, error) {
	n := Info{Size: -1}
	r, err := s.command(ctx, "SIZE", path)
	switch {
	case err == nil:
		if n.Size, err = parseSize(r.text()); err != nil {
			return n, s.End(err)
		}
		// Some servers tell the size of a directory as well. A refusal to go there, also
		// one for now, leaves a file.
		if dir, err := s.IsDirectory(ctx, path); err != nil && !IsReply(err) {
			return n, err
		} else if dir {
			return Info{IsDir: true, Size: -1}, nil
		}
	case !IsReply(err):
		return n, err
	default:
		dir, e := s.IsDirectory(ctx, path)
		if e != nil {
			return n, e
		}
		if dir {
			return Info{IsDir: true, Size: -1}, nil
		}
		if unsupported(err) {
			return s.statByListing(ctx, path)
		}
		return n, missing(err)
	}
	r, err = s.command(ctx, "MDTM", path)
	if err != nil && !IsReply(err) {
		return n, err
	}
	if err == nil {
		n.Modified, _ = parseTime(strings.TrimSpace(r.text()))
	}
	return n, nil
}

// statByListing searches the listing of its directory for a path, if the server supports nothing
// else.
func (s *Conn) statByListing(ctx context.Context, path string) (Info, error) {
	dir, name := splitPath(path)
	var found *Info
	_, err := s.List(ctx, dir, false, func(e Entry) error {
		if e.Name == name {
			found = &e.Info
		}
		return nil
	})
	if err == nil && found == nil {
		err = fs.ErrNotExist
	}
	if err != nil {
		return Info{}, err
	}
	return *found, nil
}

// IsDirectory tries to change to a directory, and changes back.
func (s *Conn) IsDirectory(ctx context.Context, path string) (bool, error) {
	err := s.enter(ctx, path)
	if r, ok := errors.AsType[*ReplyError](err); ok && (r.Code >= 500 || r.missing) {
		return false, nil
	} else if err != nil {
		return false, err // also a refusal for now, which says nothing of what is there
	}
	return true, s.leave(ctx)
}

// enter makes path the current directory. The caller must call leave.
func (s *Conn) enter(ctx context.Context, path string) error {
	if s.home == "" {
		r, err := s.command(ctx, "PWD", "")
		if err != nil {
			return err
		}
		if s.home = parsePWD(r.text()); s.home == "" || CheckArgument("", s.home) != nil {
			s.home = ""
			return s.End(broken("its reply to PWD names no directory"))
		}
	}
	_, err := s.command(ctx, "CWD", path)
	return missing(err)
}

// leave changes back to the directory where relative paths start.
func (s *Conn) leave(ctx context.Context) error {
	_, err := s.command(ctx, "CWD", s.home)
	if IsReply(err) {
		return s.End(&connerr.LostError{Err: err})
	}
	return err
}

// parsePWD parses `"/home/acme" is the current directory`, with quotes in the path doubled.
func parsePWD(text string) string {
	if !strings.HasPrefix(text, `"`) {
		return ""
	}
	var path strings.Builder
	for i := 1; i < len(text); i++ {
		if text[i] == '"' {
			if i+1 == len(text) || text[i+1] != '"' {
				return path.String()
			}
			i++
		}
		path.WriteByte(text[i])
	}
	return ""
}

// missing marks a refusal as one that may mean that the file does not exist.
func missing(err error) error {
	if r, ok := err.(*ReplyError); ok && (r.Code == 550 || r.Code == 450) {
		r.missing = true
	}
	return err
}

// IsMissing reports whether err says that a path does not exist, for ignore_missing. The code of
// such a reply also means that the account has no permission, or that the file is busy. As far as
// the text shows that, the path does not count as missing.
func IsMissing(err error) bool {
	r, ok := errors.AsType[*ReplyError](err)
	return errors.Is(err, fs.ErrNotExist) && (!ok || !r.Passing() && !r.denied())
}

// unsupported reports whether the server does not support a command.
func unsupported(err error) bool {
	r, ok := errors.AsType[*ReplyError](err)
	return ok && (r.Code == 500 || r.Code == 501 || r.Code == 502 || r.Code == 504)
}

func parseSize(text string) (int64, error) {
	n, err := strconv.ParseUint(strings.TrimSpace(text), 10, 64)
	if err != nil || n > math.MaxInt64 {
		return 0, broken("its reply to SIZE is not a number of bytes: %.40q", text)
	}
	return int64(n), nil
}

// parseTime parses the time of MDTM and MLSD, such as "20240506070809.123".
func parseTime(text string) (time.Time, bool) {
	whole, _, _ := strings.Cut(text, ".")
	if len(whole) != len("20060102150405") {
		return time.Time{}, false
	}
	t, err := time.Parse("20060102150405", text)
	return t, err == nil && t.Year() > 1
}

// Remove deletes a file (DELE).
func (s *Conn) Remove(ctx context.Context, path string) error {
	_, err := s.command(ctx, "DELE", path)
	return missing(err)
}

// Mkdir makes a directory (MKD). Its parent directory must exist.
func (s *Conn) Mkdir(ctx context.Context, path string) error {
	_, err := s.command(ctx, "MKD", path)
	return err
}

// Rmdir removes an empty directory (RMD).
func (s *Conn) Rmdir(ctx context.Context, path string) error {
	_, err := s.command(ctx, "RMD", path)
	return missing(err)
}

// Rename renames. Some servers replace an existing file at the new path, others do not.
func (s *Conn) Rename(ctx context.Context, from, to string) error {
	if _, err := s.command(ctx, "RNFR", from); err != nil {
		return missing(err)
	}
	_, err := s.command(ctx, "RNTO", to)
	return err
}

// SetTime sets the modification time of a file, if the server supports that.
func (s *Conn) SetTime(ctx context.Context, path string, t time.Time) error {
	if !s.has("MFMT") {
		return ErrNoMFMT
	}
	_, err := s.command(ctx, "MFMT", t.UTC().Format("20060102150405")+" "+path)
	return err
}

// ErrNoMFMT is the error of [Conn.SetTime] if the server does not support it.
var ErrNoMFMT = errors.New("the server does not let a client set a modification time (MFMT)")

// splitPath splits a remote path into directory and name.
func splitPath(p string) (dir, name string) {
	i := strings.LastIndexByte(p, '/')
	switch {
	case i < 0:
		return "", p
	case i == 0:
		return "/", p[1:]
	}
	return p[:i], p[i+1:]
}
