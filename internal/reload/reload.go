// Package reload keeps what was read from a file, or from the files of a
// directory, and reads it again when they change.
package reload

import (
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// interval is the shortest time between two looks at the files.
const interval = time.Second

// A Source is what was last read without an error. Its methods may be called by
// several goroutines.
type Source[T any] struct {
	path string
	read func(path string) (T, error)
	log  *slog.Logger

	mu     sync.Mutex
	value  T
	state  string    // of the files when they were last read
	looked time.Time // at the state of the files
}

// New reads the file or directory at path. Log gets a warning when a change can't
// be read; nil means none.
func New[T any](path string, log *slog.Logger, read func(path string) (T, error)) (*Source[T], error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	s := &Source[T]{path: path, read: read, log: log}
	return s, s.Reload()
}

// Reload reads the files again, whether they have changed or not. After an error
// the former value stays.
func (s *Source[T]) Reload() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looked = time.Now()
	return s.reload(stateOf(s.path))
}

// Get returns the value. It looks at the files at most once a second, and reads
// them if their names, sizes or times of modification have changed. If they
// can't be read then, the former value stays, and a warning is logged once for
// each change.
func (s *Source[T]) Get() T {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := time.Now(); now.Sub(s.looked) >= interval {
		s.looked = now
		if state := stateOf(s.path); state != s.state {
			if err := s.reload(state); err != nil {
				s.log.Warn("a changed file can't be used; its previous content stays in use", "path", s.path, "error", err)
			}
		}
	}
	return s.value
}

// reload notes the state of the files even if they can't be read, so that one
// mistake is reported once.
func (s *Source[T]) reload(state string) error {
	s.state = state
	v, err := s.read(s.path)
	if err != nil {
		return err
	}
	s.value = v
	return nil
}

// stateOf describes the file, or the files of the directory, at path.
func stateOf(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return err.Error()
	}
	if !info.IsDir() {
		return stamp(info)
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return err.Error()
	}
	var b strings.Builder
	for _, e := range entries {
		if info, err := os.Stat(filepath.Join(path, e.Name())); err == nil {
			b.WriteString(stamp(info))
		}
	}
	return b.String()
}

func stamp(info fs.FileInfo) string {
	return fmt.Sprintf("%q %d %d\n", info.Name(), info.Size(), info.ModTime().UnixNano())
}
