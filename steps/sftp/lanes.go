package sftp

import (
	"context"
	"strings"
	"time"
)

// A channel of SSH lets about 2 MiB through per round trip, whatever the line
// could do. Between servers that are far apart, several channels on the same
// connection move several times as much.
const (
	manyLanes = 4                    // channels to a server that is far away
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

// clients returns the channels over which to move so many bytes, the first one
// of the session included. More than one are opened only where that is known
// to help and to do no harm.
func (s *session) clients(ctx context.Context, bytes int64) []*client {
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
	inParallel(context.Background(), n, n, func(_ context.Context, i int) error {
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

// share returns the channels for the i-th of n files that are moved at the same
// time: all for the only one, otherwise one each.
func share(clients []*client, i, n int) []*client {
	if n == 1 {
		return clients
	}
	i %= len(clients)
	return clients[i : i+1]
}

// A lane is a file that is open on a channel.
type lane struct {
	*client
	handle string
}

// openLanes opens a file on the given channels, on the first with the given
// flags. A server that doesn't open it several times has its way.
func (s *session) openLanes(ctx context.Context, clients []*client, path string, flags uint32) ([]lane, error) {
	h, err := clients[0].open(ctx, path, flags)
	if err != nil {
		return nil, err
	}
	first := lane{clients[0], h}
	more := make([]lane, len(clients)-1)
	err = inParallel(ctx, len(more), len(more), func(ctx context.Context, i int) error {
		c := clients[i+1]
		h, err := c.open(ctx, path, flags&^(flagCreate|flagTruncate))
		if err == nil {
			more[i] = lane{c, h}
		}
		if isStatus(err) {
			return nil
		}
		return err
	})
	open := []lane{first}
	for _, l := range more {
		if l.client != nil {
			open = append(open, l)
		}
	}
	if err != nil {
		closeLanes(ctx, open)
		return nil, err
	}
	return open, nil
}

// closeLanes closes handles whose content no longer matters, even if ctx has
// ended while the session lives on.
func closeLanes(ctx context.Context, open []lane) {
	ctx, cancel := detached(ctx)
	defer cancel()
	inParallel(ctx, len(open), len(open), func(ctx context.Context, i int) error {
		open[i].close(ctx, open[i].handle)
		return nil
	})
}
