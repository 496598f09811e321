// Package lockedbuffer keeps what several goroutines of a test write, such as the log of an
// engine.
package lockedbuffer

import (
	"strings"
	"sync"
)

// A Buffer keeps text. The zero value is empty; its methods may be called by several goroutines.
type Buffer struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write adds to the text.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// String returns all that was written since the last Reset.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// Reset removes the text.
func (b *Buffer) Reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text.Reset()
}
