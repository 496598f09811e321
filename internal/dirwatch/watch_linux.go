package dirwatch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// Watch calls changed after files were created, written and closed, moved or
// removed in the open directory dir, until ctx ends; name is its path in errors.
// The error is the cause with which ctx ended, or one of inotify.
func Watch(ctx context.Context, dir *os.File, name string, changed func()) error {
	fd, err := syscall.InotifyInit1(syscall.IN_NONBLOCK | syscall.IN_CLOEXEC)
	if err != nil {
		return fmt.Errorf("inotify: %w", err)
	}
	events := os.NewFile(uintptr(fd), "inotify") // non-blocking, so that Close ends a Read
	defer events.Close()
	const what = syscall.IN_CREATE | syscall.IN_CLOSE_WRITE | syscall.IN_MOVED_TO | syscall.IN_MOVED_FROM | syscall.IN_DELETE
	// By the directory that is open, not by a path that may lead elsewhere by now.
	if _, err := syscall.InotifyAddWatch(fd, fmt.Sprintf("/proc/self/fd/%d", dir.Fd()), what|syscall.IN_ONLYDIR); err != nil {
		return fmt.Errorf("inotify: %q: %w", name, err)
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
			return fmt.Errorf("inotify: %q: %w", name, err)
		}
		select { // what comes meanwhile is read with the next
		case <-time.After(gather):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		changed()
	}
}
