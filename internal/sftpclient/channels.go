package sftpclient

import (
	"context"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/courierhq/courier/internal/parallel"
)

// MaxChannels is the most that servers commonly open on a connection.
const MaxChannels = 8

// A channel of SSH lets about 2 MiB through per round trip, whatever the line
// could do. Between servers that are far apart, several channels on the same
// connection move several times as much.
const (
	manyChannels = MaxChannels          // channels to a server that is far away
	farAway      = 5 * time.Millisecond // per round trip
	muchData     = 8 << 20              // bytes that are worth more channels

	slowSync = 50 * time.Millisecond // for all files to become durable
)

// WorthChannels is from how many files on more channels may be worth it.
const WorthChannels = 16

// channels are the further channels of a connection.
type channels struct {
	width   int           // of Config.Channels; 0 means that it depends
	opening chan struct{} // holds its one token while nobody looks at more
	more    []*Client
	full    bool // the server opens no more
}

// ClientsFor returns the channels over which to move so many bytes in several
// files, the first one of the connection included. More than one are opened only
// where that is known to help and to do no harm.
func (s *Conn) ClientsFor(ctx context.Context, bytes int64, files int) []*Client {
	if files == 1 {
		return []*Client{s.Client} // more join it in OpenWorkers
	}
	return s.upTo(ctx, s.wantedChannels(bytes))
}

// ClientsForFiles returns the channels over which to write so many files, given
// those that clients has chosen. A server deals with a channel's requests one
// by one, and with none while it makes a file durable; file systems do that for
// several files at once in little more time than for one.
func (s *Conn) ClientsForFiles(ctx context.Context, chosen []*Client, files int) []*Client {
	if s.width != 0 || !s.isOpenSSH() || time.Duration(files)*s.syncTime() < slowSync {
		return chosen
	}
	return s.upTo(ctx, MaxChannels)
}

// Prepare opens the channels that a single file of so many bytes will need,
// while something else goes on, and returns a function that waits for that.
func (s *Conn) Prepare(ctx context.Context, bytes int64, files int) (wait func()) {
	var opening sync.WaitGroup
	if want := s.wantedChannels(bytes); files == 1 && want > 1 {
		opening.Go(func() { s.upTo(ctx, want) })
	}
	return opening.Wait
}

// upTo returns so many channels, or as many as the server opens.
func (s *Conn) upTo(ctx context.Context, want int) []*Client {
	if want <= 1 {
		return []*Client{s.Client}
	}
	select {
	case <-s.opening:
	case <-ctx.Done():
		return []*Client{s.Client}
	}
	defer func() { s.opening <- struct{}{} }()
	if missing := want - 1 - len(s.more); missing > 0 && !s.full {
		s.openMore(missing)
	}
	return append([]*Client{s.Client}, s.more[:min(want-1, len(s.more))]...)
}

// openMore opens up to n more channels. It ends when the connection does, or when
// the server is silent for too long.
func (s *Conn) openMore(n int) {
	limit := time.AfterFunc(s.silence, func() { s.fail(ErrSilence) })
	defer limit.Stop()
	opened := make([]*Client, n)
	parallel.Do(context.Background(), n, n, func(_ context.Context, i int) error {
		c, err := s.openClient(s.connState)
		if err == nil {
			s.running.Go(c.receive)
			opened[i] = c
		}
		return nil
	})
	for _, c := range opened {
		if c != nil {
			s.more = append(s.more, c)
		} else {
			s.full = true
		}
	}
}

// wantedChannels returns over how many channels to move so many bytes of one file.
func (s *Conn) wantedChannels(bytes int64) int {
	switch {
	case s.width != 0:
		return s.width
	case bytes < muchData || s.distance() < farAway || !s.isOpenSSH():
		return 1
	}
	return manyChannels
}

// isOpenSSH reports whether the server is one whose files are those of a file
// system, so that a file may be open several times. Of servers that put files
// elsewhere some take a second writer for a new file.
func (s *Conn) isOpenSSH() bool {
	version := string(s.ssh.ServerVersion())
	return strings.HasPrefix(version, "SSH-2.0-OpenSSH_") && !strings.Contains(version, "Windows")
}

// Workers are the channels of one file. While the first one is at work, more may
// join it.
type Workers struct {
	Files   []*File
	joining chan *File // closed when no more come; nil if none do
}

// OneWorker returns the workers of a file that is open on one channel.
func OneWorker(f *File) *Workers { return &Workers{Files: []*File{f}} }

// OpenWorkers opens a file on the given channel, and, if so many bytes are left
// to be moved that it helps, on more channels, without the flags that make it
// or cut it. A server that doesn't open it several times has its way.
func (s *Conn) OpenWorkers(ctx context.Context, c *Client, path string, flags int, bytes int64) (*Workers, error) {
	f, err := c.Open(ctx, path, flags)
	if err != nil {
		return nil, err
	}
	return s.addWorkers(ctx, f, path, flags&^(os.O_CREATE|os.O_TRUNC), s.wantedChannels(bytes)), nil
}

// addWorkers has others join a file that is open on the connection's first channel,
// so that there are so many channels in the end.
func (s *Conn) addWorkers(ctx context.Context, first *File, path string, flags int, want int) *Workers {
	w := OneWorker(first)
	if want <= 1 || first.Client != s.Client {
		return w
	}
	w.joining = make(chan *File, want)
	go func() {
		defer close(w.joining)
		more := s.upTo(ctx, want)[1:]
		parallel.Do(ctx, len(more), len(more), func(ctx context.Context, i int) error {
			if f, err := more[i].Open(ctx, path, flags); err == nil {
				w.joining <- f
			}
			return nil
		})
	}()
	return w
}

// next returns the channel whose turn it is.
func (w *Workers) next(turn int) *File {
	select {
	case l, more := <-w.joining:
		if !more {
			w.joining = nil
			break
		}
		w.Files = append(w.Files, l)
	default:
	}
	return w.Files[turn%len(w.Files)]
}

// window is how many bytes may be under way.
func (w *Workers) window() int64 {
	if len(w.Files) == 1 {
		return WindowBytes
	}
	return int64(len(w.Files)) * channelBytes
}

// All waits until no more channels come, and returns them.
func (w *Workers) All() []*File {
	if w.joining != nil {
		for l := range w.joining {
			w.Files = append(w.Files, l)
		}
		w.joining = nil
	}
	return w.Files
}

// Close closes files whose content no longer matters, as [File.Close] does.
func (w *Workers) Close(ctx context.Context) {
	open := w.All()
	parallel.Do(context.WithoutCancel(ctx), len(open), len(open), func(_ context.Context, i int) error {
		open[i].Close(ctx)
		return nil
	})
}

// CloseAndStat closes files from which was read, and then looks at the file,
// in one round trip.
func (w *Workers) CloseAndStat(ctx context.Context, path string) (Attrs, error) {
	first, others := w.All()[0], &Workers{Files: w.Files[1:]}
	var closing sync.WaitGroup
	closing.Go(func() { others.Close(ctx) })
	defer closing.Wait()
	return first.closeAndStat(ctx, path)
}
