package ftp

import (
	"context"
	"errors"
	"io/fs"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/connerr"
	"github.com/courierhq/courier/internal/remote"
)

// A node is what the server tells of a file or directory.
type node struct {
	isDir    bool
	size     int64 // -1 if the server doesn't tell
	modified time.Time
}

// sameFile reports whether n and other, of the same path at different times,
// are the same content as far as the server tells.
func (n node) sameFile(other node) bool {
	return n.isDir == other.isDir && n.size == other.size && n.modified.Equal(other.modified)
}

// stat asks for one path. What a refusal means can't be told for sure; it
// counts as if there were nothing.
func (s *session) stat(ctx context.Context, path string) (node, error) {
	if s.has("MLST") && !s.c.DisableMLSD {
		r, err := s.command(ctx, "MLST", path)
		if err == nil {
			if n, ok := parseMLST(r); ok {
				return n, nil
			}
		} else if refused, ok := errors.AsType[*replyError](err); !ok {
			return node{}, err
		} else if refused.code == 550 {
			return node{}, missing(err)
		}
	}
	return s.statByParts(ctx, path)
}

// statByParts asks for what MLST would tell by several commands.
func (s *session) statByParts(ctx context.Context, path string) (node, error) {
	n := node{size: -1}
	r, err := s.command(ctx, "SIZE", path)
	switch {
	case err == nil:
		if n.size, err = parseSize(r.text()); err != nil {
			return n, s.end(err)
		}
	case !isReply(err):
		return n, err
	default:
		dir, e := s.isDirectory(ctx, path)
		if e != nil {
			return n, e
		}
		if dir {
			return node{isDir: true, size: -1}, nil
		}
		if unsupported(err) {
			return s.statByListing(ctx, path)
		}
		return n, missing(err)
	}
	r, err = s.command(ctx, "MDTM", path)
	if err != nil && !isReply(err) {
		return n, err
	}
	if err == nil {
		n.modified, _ = parseTime(strings.TrimSpace(r.text()))
	}
	return n, nil
}

// statByListing looks for a path in the listing of its directory, where the
// server has no other way.
func (s *session) statByListing(ctx context.Context, path string) (node, error) {
	dir, name := remote.Split(path)
	var found *node
	_, err := s.each(ctx, dir, false, func(e entry) error {
		if e.name == name {
			found = &e.node
		}
		return nil
	})
	if err == nil && found == nil {
		err = fs.ErrNotExist
	}
	if err != nil {
		return node{}, err
	}
	return *found, nil
}

// isDirectory tries to go to a directory, and back.
func (s *session) isDirectory(ctx context.Context, path string) (bool, error) {
	err := s.enter(ctx, path)
	if r, ok := errors.AsType[*replyError](err); ok && (r.code >= 500 || r.missing) {
		return false, nil
	} else if err != nil {
		return false, err // also a refusal for now, which says nothing of what is there
	}
	return true, s.leave(ctx)
}

// enter makes path the current directory. The caller leaves it again.
func (s *session) enter(ctx context.Context, path string) error {
	if s.home == "" {
		r, err := s.command(ctx, "PWD", "")
		if err != nil {
			return err
		}
		if s.home = parsePWD(r.text()); s.home == "" || checkArgument("", s.home) != nil {
			s.home = ""
			return s.end(broken("its reply to PWD names no directory"))
		}
	}
	_, err := s.command(ctx, "CWD", path)
	return missing(err)
}

// leave goes back to where relative paths start.
func (s *session) leave(ctx context.Context) error {
	_, err := s.command(ctx, "CWD", s.home)
	if isReply(err) {
		return s.end(&connerr.LostError{Err: err})
	}
	return err
}

// parsePWD reads `"/home/acme" is the current directory`, with quotes in the
// path doubled.
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

// missing marks a refusal as one that may mean that there is no such file.
func missing(err error) error {
	if r, ok := err.(*replyError); ok && (r.code == 550 || r.code == 450) {
		r.missing = true
	}
	return err
}

// isMissing reports whether err says that there is nothing, for ignore_missing. The
// code of such a reply also stands for what the account may not look at, and for
// what is busy; as far as the words tell that, it is no missing path.
func isMissing(err error) bool {
	r, ok := errors.AsType[*replyError](err)
	return errors.Is(err, fs.ErrNotExist) && (!ok || !r.passing() && !r.denied())
}

// unsupported reports that the server doesn't know a command.
func unsupported(err error) bool {
	r, ok := errors.AsType[*replyError](err)
	return ok && (r.code == 500 || r.code == 501 || r.code == 502 || r.code == 504)
}

func parseSize(text string) (int64, error) {
	n, err := strconv.ParseUint(strings.TrimSpace(text), 10, 64)
	if err != nil || n > math.MaxInt64 {
		return 0, broken("its reply to SIZE is no number of bytes: %.40q", text)
	}
	return int64(n), nil
}

// parseTime reads the time of MDTM and MLSD, such as "20240506070809.123".
func parseTime(text string) (time.Time, bool) {
	whole, _, _ := strings.Cut(text, ".")
	if len(whole) != len("20060102150405") {
		return time.Time{}, false
	}
	t, err := time.Parse("20060102150405", text)
	return t, err == nil && t.Year() > 1
}

func (s *session) remove(ctx context.Context, path string) error {
	_, err := s.command(ctx, "DELE", path)
	return missing(err)
}

func (s *session) makeDirectory(ctx context.Context, path string) error {
	_, err := s.command(ctx, "MKD", path)
	return err
}

func (s *session) removeDirectory(ctx context.Context, path string) error {
	_, err := s.command(ctx, "RMD", path)
	return missing(err)
}

// rename may or may not replace what has the new path; servers differ.
func (s *session) rename(ctx context.Context, from, to string) error {
	if _, err := s.command(ctx, "RNFR", from); err != nil {
		return missing(err)
	}
	_, err := s.command(ctx, "RNTO", to)
	return err
}

// setTime sets when a file was last changed, where the server offers that.
func (s *session) setTime(ctx context.Context, path string, t time.Time) error {
	if !s.has("MFMT") {
		return errNoMFMT
	}
	_, err := s.command(ctx, "MFMT", t.UTC().Format("20060102150405")+" "+path)
	return err
}

var errNoMFMT = errors.New("the server can't be told when a file was last changed (MFMT)")

// checkPath reports a remote path that can't be sent.
func checkPath(field, p string) error { return courier.Permanent(checkArgument(field, p)) }
