package file

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/courierhq/courier"
)

// settle is how long changes are gathered before they are told of.
const settle = 500 * time.Millisecond

// Watch has the kernel tell of files that are created, written and closed, moved
// or removed in a directory. Changes that other machines make on network
// storage, and those that were too many to be noted one by one, are found by the
// next listing only.
func (l *Lister) Watch(ctx context.Context, t courier.MonitorTarget, changed func()) error {
	root, err := l.open(t)
	if err != nil {
		return err
	}
	defer root.Close()
	dir, err := root.Open(".")
	if err != nil {
		return fault(t.Path, err)
	}
	defer dir.Close()
	fd, err := syscall.InotifyInit1(syscall.IN_NONBLOCK | syscall.IN_CLOEXEC)
	if err != nil {
		return fmt.Errorf("inotify: %w", err)
	}
	events := os.NewFile(uintptr(fd), "inotify") // non-blocking, so that Close ends a Read
	defer events.Close()
	const what = syscall.IN_CREATE | syscall.IN_CLOSE_WRITE | syscall.IN_MOVED_TO | syscall.IN_MOVED_FROM | syscall.IN_DELETE
	// By the directory that is open, not by a path that may lead elsewhere by now.
	if _, err := syscall.InotifyAddWatch(fd, fmt.Sprintf("/proc/self/fd/%d", dir.Fd()), what|syscall.IN_ONLYDIR); err != nil {
		return fmt.Errorf("inotify: %q: %w", t.Path, err)
	}
	defer context.AfterFunc(ctx, func() { events.Close() })()
	buf := make([]byte, 64<<10)
	for {
		if _, err := events.Read(buf); err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if errors.Is(err, syscall.EINTR) {
				continue
			}
			return fmt.Errorf("inotify: %q: %w", t.Path, err)
		}
		select { // what comes meanwhile is read with the next
		case <-time.After(settle):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		changed()
	}
}
