package sftp

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/courierhq/courier/internal/parallel"
)

// A channel of SSH lets about 2 MiB through per round trip, whatever the line
// could do. Between servers that are far apart, several channels on the same
// connection move several times as much.
const (
	manyLanes = maxChannels          // channels to a server that is far away
	farAway   = 5 * time.Millisecond // per round trip
	muchData  = 8 << 20              // bytes that are worth more channels

	worthLanes = 16                    // files that may be worth more channels
	slowSync   = 50 * time.Millisecond // for all files to become durable
)

// lanes are the further channels of a session.
type lanes struct {
	width   int           // of Connection.Channels; 0 means that it depends
	opening chan struct{} // holds its one token while nobody looks at more
	more    []*client
	full    bool // the server opens no more
}

// clients returns the channels over which to move so many bytes in several
// files, the first one of the session included. More than one are opened only
// where that is known to help and to do no harm.
func (s *session) clients(ctx context.Context, bytes int64, files int) []*client {
	if files == 1 {
		return []*client{s.client} // more join it in openLanes
	}
	return s.atMost(ctx, s.wantedLanes(bytes))
}

// clientsForFiles returns the channels over which to write so many files, given
// those that clients has chosen. A server deals with a channel's requests one
// by one, and with none while it makes a file durable; file systems do that for
// several files at once in little more time than for one.
func (s *session) clientsForFiles(ctx context.Context, chosen []*client, files int) []*client {
	if s.width != 0 || !s.isOpenSSH() || time.Duration(files)*s.syncTime() < slowSync {
		return chosen
	}
	return s.atMost(ctx, maxChannels)
}

// prepare opens the channels that a single file of so many bytes will need,
// while something else goes on, and returns a function that waits for that.
func (s *session) prepare(ctx context.Context, bytes int64, files int) (wait func()) {
	var opening sync.WaitGroup
	if want := s.wantedLanes(bytes); files == 1 && want > 1 {
		opening.Go(func() { s.atMost(ctx, want) })
	}
	return opening.Wait
}

// atMost returns so many channels, or as many as the server opens.
func (s *session) atMost(ctx context.Context, want int) []*client {
	if want <= 1 {
		return []*client{s.client}
	}
	select {
	case <-s.opening:
	case <-ctx.Done():
		return []*client{s.client}
	}
	defer func() { s.opening <- struct{}{} }()
	if missing := want - 1 - len(s.more); missing > 0 && !s.full {
		s.openMore(missing)
	}
	return append([]*client{s.client}, s.more[:min(want-1, len(s.more))]...)
}

// openMore opens up to n more channels. It ends when the session does, or when
// the server is silent for too long.
func (s *session) openMore(n int) {
	limit := time.AfterFunc(s.silence, func() { s.fail(errSilence) })
	defer limit.Stop()
	opened := make([]*client, n)
	parallel.Do(context.Background(), n, n, func(_ context.Context, i int) error {
		c, err := s.openClient(s.fate)
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

func (s *session) wantedLanes(bytes int64) int {
	switch {
	case s.width != 0:
		return s.width
	case bytes < muchData || s.distance() < farAway || !s.isOpenSSH():
		return 1
	}
	return manyLanes
}

// isOpenSSH reports whether the server is one whose files are those of a file
// system, so that a file may be open several times. Of servers that put files
// elsewhere some take a second writer for a new file.
func (s *session) isOpenSSH() bool {
	version := string(s.ssh.ServerVersion())
	return strings.HasPrefix(version, "SSH-2.0-OpenSSH_") && !strings.Contains(version, "Windows")
}

// A lane is a file that is open on a channel.
type lane struct {
	*client
	handle string
}

// A crew are the lanes of one file. While the first one is at work, more may
// join it.
type crew struct {
	lanes   []lane
	joining chan lane // closed when no more come; nil if none do
}

// alone is a crew of one lane.
func alone(c *client, handle string) *crew { return &crew{lanes: []lane{{c, handle}}} }

// openLanes opens a file on the given channel, and, if so many bytes are left
// to be moved that it helps, on more channels, without the flags that make it
// or cut it. A server that doesn't open it several times has its way.
func (s *session) openLanes(ctx context.Context, c *client, path string, flags uint32, bytes int64) (*crew, error) {
	h, err := c.open(ctx, path, flags)
	if err != nil {
		return nil, err
	}
	return s.recruit(ctx, lane{c, h}, path, flags&^(flagCreate|flagTruncate), s.wantedLanes(bytes)), nil
}

// recruit has others join a file that is open on the session's first channel,
// so that there are so many lanes in the end.
func (s *session) recruit(ctx context.Context, first lane, path string, flags uint32, want int) *crew {
	w := &crew{lanes: []lane{first}}
	if want <= 1 || first.client != s.client {
		return w
	}
	w.joining = make(chan lane, want)
	go func() {
		defer close(w.joining)
		more := s.atMost(ctx, want)[1:]
		parallel.Do(ctx, len(more), len(more), func(ctx context.Context, i int) error {
			if h, err := more[i].open(ctx, path, flags); err == nil {
				w.joining <- lane{more[i], h}
			}
			return nil
		})
	}()
	return w
}

// next returns the lane whose turn it is.
func (w *crew) next(turn int) lane {
	select {
	case l, more := <-w.joining:
		if !more {
			w.joining = nil
			break
		}
		w.lanes = append(w.lanes, l)
	default:
	}
	return w.lanes[turn%len(w.lanes)]
}

// window is how many bytes may be under way.
func (w *crew) window() int64 {
	if len(w.lanes) == 1 {
		return windowBytes
	}
	return int64(len(w.lanes)) * laneBytes
}

// all waits until no more lanes come, and returns them.
func (w *crew) all() []lane {
	if w.joining != nil {
		for l := range w.joining {
			w.lanes = append(w.lanes, l)
		}
		w.joining = nil
	}
	return w.lanes
}

// close closes handles whose content no longer matters, even if ctx has ended
// while the session lives on.
func (w *crew) close(ctx context.Context) {
	open := w.all()
	ctx, cancel := detached(ctx)
	defer cancel()
	parallel.Do(ctx, len(open), len(open), func(ctx context.Context, i int) error {
		open[i].close(ctx, open[i].handle)
		return nil
	})
}

// closeAndLook closes handles from which was read, and then looks at the file,
// in one round trip.
func (w *crew) closeAndLook(ctx context.Context, path string) (attrs, error) {
	first, others := w.all()[0], &crew{lanes: w.lanes[1:]}
	var closing sync.WaitGroup
	closing.Go(func() { others.close(ctx) })
	defer closing.Wait()
	var b batch
	b.add(pathPacket(fxpClose, first.handle), nil)
	b.add(pathPacket(fxpStat, path), nil)
	calls, err := b.send(first.client)
	if err != nil {
		return attrs{}, err
	}
	return first.attrsOf(ctx, calls[1])
}
