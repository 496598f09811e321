package sftp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/parallel"
	"github.com/courierhq/courier/internal/remote"
	"github.com/courierhq/courier/internal/safename"
	"github.com/courierhq/courier/internal/sftpclient"
)

const (
	// manyRequests is the number of small requests in flight at a time.
	manyRequests = 16
	// manyFiles is the number of files transferred at a time. Up to manySmall small files may be
	// transferred in addition, since they spend most of their time waiting for replies and disks.
	manyFiles = 8
	manySmall = 32
	// smallFile is the maximum size of a small file in bytes.
	smallFile = 64 << 10
)

// account returns the connection called id, for the steps of package remote.
func account(job *courier.Context, c Connections, id string) remote.Account {
	var a remote.Account
	a = remote.Account{
		Job: job, Family: "sftp", ID: id, Persists: true, IsLost: isLost, CheckPath: checkPath,
		Use: func(ctx context.Context, f func(remote.Server) error) error {
			return use(ctx, job, c, id, func(s *session) error { return f(server{s, s.Client, a}) })
		},
		Each: func(ctx context.Context, b remote.Batch) error {
			done := make([]bool, len(b.Sizes))
			move := func() error {
				return more(ctx, job, c, id, func(s *session) error { return s.moveAll(ctx, a, b, done) })
			}
			if len(done) == 0 || !b.Resumes(0) {
				return move()
			}
			return remote.Reconnecting(ctx, job, id, isLost, move)
		},
		Test: func(ctx context.Context, s remote.Server) error { return s.(server).test(ctx, job) },
	}
	return a
}

// moveAll transfers the files of b that are not done yet, over as many channels as are useful.
func (s *session) moveAll(ctx context.Context, a remote.Account, b remote.Batch, done []bool) error {
	n, total := len(b.Sizes), int64(0)
	for _, size := range b.Sizes {
		total += size
	}
	if n == 0 {
		return nil
	}
	defer s.Prepare(ctx, total, n)()
	clients := s.ClientsFor(ctx, total, n)
	move := func(ctx context.Context, i int) error {
		if done[i] {
			return nil
		}
		err := b.Move(ctx, server{s, clients[i%len(clients)], a}, i)
		done[i] = err == nil
		return err
	}
	small := slices.IndexFunc(b.Sizes, func(size int64) bool { return size <= smallFile })
	if b.Storing && n >= sftpclient.WorthChannels && small >= 0 {
		// How long one takes to become durable tells how to go on.
		if err := move(ctx, small); err != nil {
			return err
		}
		clients = s.ClientsForFiles(ctx, clients, n)
	}
	return eachFile(ctx, b.Sizes, move)
}

// eachFile calls f for each file in parallel, as parallel.Do does. The memory that a file takes
// depends on its size, so more small files than large ones are transferred at a time.
func eachFile(ctx context.Context, sizes []int64, f func(ctx context.Context, i int) error) error {
	var groups [2][]int
	for i, size := range sizes {
		g := 0
		if size <= smallFile {
			g = 1
		}
		groups[g] = append(groups[g], i)
	}
	width := [2]int{manyFiles, manySmall}
	return parallel.Do(ctx, len(groups), len(groups), func(ctx context.Context, g int) error {
		return parallel.Do(ctx, len(groups[g]), width[g], func(ctx context.Context, i int) error { return f(ctx, groups[g][i]) })
	})
}

// A server is a session as package remote uses it. It is safe for concurrent use.
type server struct {
	*session
	via     *sftpclient.Client // over which to move a file; more may join
	account remote.Account
}

var _ remote.Server = server{}

// Traits returns the traits of SFTP and of the extensions that the server offers.
func (s server) Traits() remote.Traits {
	return remote.Traits{Replaces: s.CanReplace(), ComparesEnd: true, Requests: manyRequests, Addr: s.addr, Limits: s.limits}
}

// Fault returns err with the connection, the operation and the path.
func (s server) Fault(op, path string, err error) error { return s.fault(op, path, err) }

// Refused reports whether err is a status reply.
func (s server) Refused(err error) bool { return sftpclient.IsStatus(err) }

// Missing reports whether err matches [fs.ErrNotExist].
func (s server) Missing(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// Again calls f with another session.
func (s server) Again(ctx context.Context, f func(remote.Server) error) error {
	return s.account.Use(ctx, f)
}

// describe converts attributes.
func describe(a sftpclient.Attrs) remote.Info {
	i := remote.Info{Size: -1, Modified: a.Modified(), Kind: remote.KindOther, Mode: fs.FileMode(a.Mode & 0o7777), HasMode: a.Flags&sftpclient.AttrPermissions != 0}
	if size, err := a.FileSize(); err != nil {
		i.Unsized = err
	} else {
		i.Size = size
	}
	switch {
	case a.Mode&sftpclient.ModeType == 0:
		i.Kind = remote.KindUnknown
	case a.IsFile():
		i.Kind = remote.KindFile
	case a.IsDir():
		i.Kind = remote.KindDirectory
	case a.IsLink():
		i.Kind = remote.KindLink
	}
	return i
}

// Stat follows links.
func (s server) Stat(ctx context.Context, path string) (remote.Info, error) {
	a, err := s.Client.Stat(ctx, path)
	return describe(a), err
}

// Lstat does not follow links.
func (s server) Lstat(ctx context.Context, path string) (remote.Info, error) {
	a, err := s.Client.Lstat(ctx, path)
	return describe(a), err
}

// CheckDirectory opens the directory and reads its first entries.
func (s server) CheckDirectory(ctx context.Context, dir string) error {
	_, err := s.Peek(ctx, dir)
	return s.fault("list", dir, err)
}

// CheckFile opens the file.
func (s server) CheckFile(ctx context.Context, path string) error {
	f, err := s.Open(ctx, path, os.O_RDONLY)
	if err == nil {
		f.Close(ctx)
	}
	return err
}

// List calls f with each entry of a directory. All entries can be parsed.
func (s server) List(ctx context.Context, dir string, f func(remote.Entry) error) (int, error) {
	ctx, guard := s.limits.Listing().Guard(ctx)
	defer guard.End()
	return 0, s.Client.List(ctx, dir, remote.MaxListingBytes,
		func(e sftpclient.Entry) error { return f(asEntry(e.Name, e.Attrs)) }, func(bytes int) { guard.At(int64(bytes)) })
}

// asEntry converts a name and its attributes to an entry.
func asEntry(name string, a sftpclient.Attrs) remote.Entry {
	i := describe(a)
	e := remote.Entry{Name: name, Modified: i.Modified, IsDir: i.IsDir(), Regular: i.Kind == remote.KindFile, Link: a.IsLink(), Ask: a.IsLink(), Odd: i.Kind == remote.KindOther}
	if a.IsFile() {
		e.Size, e.Unusable = a.FileSize()
	}
	return e
}

// Resolve replaces the attributes of links with those of their targets.
func (s server) Resolve(ctx context.Context, _ string, entries []remote.Entry) error {
	var links []*remote.Entry
	for i := range entries {
		if entries[i].Ask {
			links = append(links, &entries[i])
		}
	}
	return parallel.Do(ctx, len(links), manyRequests, func(ctx context.Context, i int) error {
		a, err := s.Client.Stat(ctx, links[i].Path)
		if err != nil && !sftpclient.IsStatus(err) {
			return err
		}
		e := asEntry(links[i].Name, a)
		e.Path, e.Below, e.Ask, e.Odd = links[i].Path, links[i].Below, true, e.Odd || err != nil
		*links[i] = e
		return nil
	})
}

// Rename renames over the channel of the file.
func (s server) Rename(ctx context.Context, from, to string, replace bool) (gone bool, err error) {
	return s.via.RenameAndStat(ctx, from, to, replace)
}

// Preserve sets attributes.
func (s server) Preserve(ctx context.Context, path string, local fs.FileInfo, times, modes bool) error {
	var a sftpclient.Attrs
	if at := local.ModTime().Unix(); times && at >= 0 && at < 1<<32 {
		a.Flags, a.Mtime = a.Flags|sftpclient.AttrTimes, uint32(at)
	}
	if modes {
		a.Flags, a.Mode = a.Flags|sftpclient.AttrPermissions, uint32(local.Mode().Perm())
	}
	if a.Flags == 0 {
		return nil
	}
	return s.SetAttrs(ctx, path, a)
}

// tailBytes is the number of bytes at the end of a part that are compared with the source before
// the rest is appended.
const tailBytes = 4 << 10

// Retrieve reads with many requests in flight, and then checks the file again.
func (s server) Retrieve(ctx context.Context, r remote.Retrieval) error {
	open, err := s.OpenWorkers(ctx, s.via, r.Path, os.O_RDONLY, r.Before.Size)
	if err != nil {
		return err
	}
	if r.From > 0 {
		var same int64
		same, err = sftpclient.CompareRange(ctx, open.Files[0], r.To, max(0, r.From-tailBytes), r.From, r.Compared)
		if err == nil && same < r.From {
			err = remote.ErrNoResume
		}
	}
	if err == nil {
		reading := sftpclient.Reading{Workers: open, Size: r.Before.Size, To: r.To, Progress: r.At, Limit: r.Limit, Asked: r.From, Wrote: r.From}
		err = reading.Run(ctx)
	}
	if err != nil {
		open.Close(ctx)
		return err
	}
	after, err := open.CloseAndStat(ctx, r.Path)
	return remote.HeldStill(r.Before, describe(after), err)
}

// RetrieveSmall reads a file that fits into a packet, in two round trips.
func (s server) RetrieveSmall(ctx context.Context, path string, limit int64, use func(before remote.Info, content []byte)) (bool, error) {
	before, file, err := s.via.StatAndOpen(ctx, path)
	if err != nil {
		return false, err
	}
	size, err := before.FileSize()
	if err != nil || !before.IsFile() || size > min(limit, int64(s.via.ReadChunk)) {
		file.Close(ctx)
		return false, nil
	}
	text := sftpclient.Texts.Get().(*[]byte)
	data := slices.Grow((*text)[:0], int(size))[:size]
	if err := file.ReadAll(ctx, path, data, before); err != nil {
		return false, err // an answer may still come into data
	}
	*text = data
	defer sftpclient.Texts.Put(text)
	use(describe(before), data)
	return true, nil
}

// Store writes with many requests in flight, or at once if the content fits into a packet.
func (s server) Store(ctx context.Context, w remote.Storing) (acked int64, err error) {
	flags := os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	if w.From == 0 && w.Limit == nil && w.Size <= int64(s.via.WriteChunk) {
		f, err := s.via.Open(ctx, w.Path, flags)
		if err != nil {
			return 0, cantOpen(w.Path, err)
		}
		open := []*sftpclient.File{f}
		return 0, w.Meter.While(func() error { return sftpclient.Finish(ctx, open, w.Path, w.Size, w.Content) })
	}
	if w.From > 0 {
		flags = os.O_WRONLY
	}
	open, err := s.OpenWorkers(ctx, s.via, w.Path, flags, w.Size-w.From)
	if w.From > 0 && sftpclient.IsStatus(err) { // object stores can't change what they have
		return w.From, fmt.Errorf("%w: %w", remote.ErrNoResume, err)
	}
	if err != nil {
		return w.From, cantOpen(w.Path, err)
	}
	writing := sftpclient.Writing{Workers: open, Size: w.Size, From: w.Content, Progress: w.Meter.At, Limit: w.Limit, Sent: w.From, Acked: w.From}
	if err := writing.Run(ctx); err != nil {
		open.Close(ctx)
		return writing.Acked, err
	}
	return writing.Acked, w.Meter.While(func() error { return sftpclient.Finish(ctx, open.All(), w.Path, w.Size, nil) })
}

// cantOpen explains why a file cannot be created.
func cantOpen(path string, err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	dir, _ := remote.Split(path)
	return courier.Permanent(fmt.Errorf("the remote directory %s doesn't exist; create it, or correct remote_path: %w", safename.Quote(dir), err))
}

// ResumeAt returns how much of the part on the server is correct. The rest is appended.
//
// Bytes that the server has confirmed count as correct. So do bytes that lie further back than
// the window of requests in flight, since they were confirmed before later ones were sent. The
// bytes after these may have holes, so they are read and compared. The end is always compared.
func (s server) ResumeAt(ctx context.Context, w remote.Storing, acked int64) (int64, error) {
	a, err := s.Client.Stat(ctx, w.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	} else if err != nil {
		return 0, err
	}
	size, err := a.FileSize()
	if err != nil || size > w.Size || size == 0 {
		return 0, nil
	}
	from := max(min(acked, size), size-sftpclient.MaxChannels*sftpclient.WindowBytes)
	from = max(0, min(from, size-tailBytes))
	f, err := s.Open(ctx, w.Path, os.O_RDONLY)
	if sftpclient.IsStatus(err) {
		return 0, nil // it may not be read, so nothing proves that it is right
	} else if err != nil {
		return 0, err
	}
	defer f.Close(ctx)
	same, err := sftpclient.CompareRange(ctx, f, w.Content, from, size, w.Meter.Compared)
	switch {
	case sftpclient.IsStatus(err):
		return 0, nil
	case err != nil:
		return 0, err
	case same == from && from < size:
		return 0, nil // not even the beginning is right
	}
	return same, nil
}

// Same compares the contents.
func (s server) Same(ctx context.Context, path string, local io.ReaderAt, size int64, compared func(int64)) (bool, error) {
	return s.SameContent(ctx, path, local, size, compared)
}
