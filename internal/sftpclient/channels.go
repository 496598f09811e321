package sftpclient

import (
	"context"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/courierhq/courier/internal/parallel"
)

// MaxChannels is the maximum number of channels that servers commonly allow on a connection.
const MaxChannels = 8

// An SSH channel transfers about 2 MiB per round trip, whatever the bandwidth is. With long
// round-trip times, several channels on the same connection are several times as fast.
const (
	manyChannels = MaxChannels          // channels to a server that is far away
	farAway      = 5 * time.Millisecond // per round trip
	muchData     = 8 << 20              // bytes that are worth more channels

	slowSync = 50 * time.Millisecond // for all files to become durable
)

// WorthChannels is the minimum number of files for which more channels may be worthwhile.
const WorthChannels = 16

// channels are the further channels of a connection.
type channels struct {
	width   int           // of Config.Channels; 0 means that it depends
	opening chan struct{} // holds its one token while nobody looks at more
	more    []*Client
	full    bool // the server opens no more
}

// ClientsFor returns the channels over which to transfer the given bytes in several files,
// including the first channel of the connection. It opens more than one only if that is known to
// be faster and harmless.
func (s *Conn) ClientsFor(ctx context.Context, bytes int64, files int) []*Client {
	if files == 1 {
		return []*Client{s.Client} // more join it in OpenWorkers
	}
	return s.upTo(ctx, s.wantedChannels(bytes))
}

// ClientsForFiles returns the channels over which to write the files, given the channels that
// ClientsFor has chosen. A server handles the requests of a channel one by one, and none while it
// makes a file durable. File systems make several files durable at once in little more time than
// one.
func (s *Conn) ClientsForFiles(ctx context.Context, chosen []*Client, files int) []*Client {
	if s.width != 0 || !s.isOpenSSH() || time.Duration(files)*s.syncTime() < slowSync {
		return chosen
	}
	return s.upTo(ctx, MaxChannels)
}

// Prepare opens the channels for a single file of the given bytes in the background, and returns
// a function that waits until they are open.
func (s *Conn) Prepare(ctx context.Context, bytes int64, files int) (wait func()) {
	var opening sync.WaitGroup
	if want := s.wantedChannels(bytes); files == 1 && want > 1 {
		opening.Go(func() { s.upTo(ctx, want) })
	}
	return opening.Wait
}

// upTo returns want channels, or as many as the server opens.
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

// openMore opens up to n more channels. It ends when the connection ends, or when the server does
// not respond in time.
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

// wantedChannels returns the number of channels for one file of the given bytes.
func (s *Conn) wantedChannels(bytes int64) int {
	switch {
	case s.width != 0:
		return s.width
	case bytes < muchData || s.distance() < farAway || !s.isOpenSSH():
		return 1
	}
	return manyChannels
}

// isOpenSSH reports whether the server is OpenSSH. Its files are in a file system, so a file may
// be open several times. Some servers with other storage treat a second writer as a new file.
func (s *Conn) isOpenSSH() bool {
	version := string(s.ssh.ServerVersion())
	return strings.HasPrefix(version, "SSH-2.0-OpenSSH_") && !strings.Contains(version, "Windows")
}

// Workers are the channels of one file. Others may join while the first one is transferring.
type Workers struct {
	Files   []*File
	joining chan *File // closed when no more come; nil if none do
}

// OneWorker returns the workers of a file that is open on one channel.
func OneWorker(f *File) *Workers { return &Workers{Files: []*File{f}} }

// OpenWorkers opens a file on the given channel. If the remaining bytes make it worthwhile, it
// also opens the file on more channels, without the flags that create or truncate it. If the
// server refuses to open the file several times, one channel is used.
func (s *Conn) OpenWorkers(ctx context.Context, c *Client, path string, flags int, bytes int64) (*Workers, error) {
	f, err := c.Open(ctx, path, flags)
	if err != nil {
		return nil, err
	}
	return s.addWorkers(ctx, f, path, flags&^(os.O_CREATE|os.O_TRUNC), s.wantedChannels(bytes)), nil
}

// addWorkers opens on other channels a file that is open on the connection's first channel, so
// that the file has want channels in the end.
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

// next returns the next channel in turn.
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

// window returns the maximum number of bytes in flight.
func (w *Workers) window() int64 {
	if len(w.Files) == 1 {
		return WindowBytes
	}
	return int64(len(w.Files)) * channelBytes
}

// All waits until no more channels join, and returns all files.
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

// CloseAndStat closes files that were read, and then asks for the attributes of the file, in one
// round trip.
func (w *Workers) CloseAndStat(ctx context.Context, path string) (Attrs, error) {
	first, others := w.All()[0], &Workers{Files: w.Files[1:]}
	var closing sync.WaitGroup
	closing.Go(func() { others.Close(ctx) })
	defer closing.Wait()
	return first.closeAndStat(ctx, path)
}
