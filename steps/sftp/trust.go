package sftp

import (
	"context"
	"sync"

	"github.com/courierhq/courier/internal/sftpclient"
)

// A HostKeyStore keeps the host keys of servers that are trusted on first use;
// see Connection.TrustOnFirstUse. It may be called by several goroutines.
// [HostKeyFile] is the ready form.
type HostKeyStore interface {
	// HostKeys returns the keys of the server at addr, "host:port", in the form
	// of Connection.HostKeys. One with the marker "@revoked" is refused even
	// where HostKeys or KnownHosts of the Connection name it. None, or revoked
	// ones only, means that the server is not known yet.
	HostKeys(ctx context.Context, addr string) ([]string, error)
	// TrustHostKey adds a key, such as "ssh-ed25519 AAAA...", of a server that
	// was not known. If another key has been added meanwhile, it must fail.
	TrustHostKey(ctx context.Context, addr, key string) error
}

// A HostKeyFile is a [HostKeyStore] in a file in the form of OpenSSH's
// known_hosts, which is made when it is needed. Its lines mean what they mean to
// OpenSSH, but one that can't be read and may be about the server is an error.
// Only one process at a time may add to it.
type HostKeyFile struct {
	Path string

	mu sync.Mutex
}

var _ HostKeyStore = (*HostKeyFile)(nil)

// HostKeys returns the keys that the file has for addr.
func (f *HostKeyFile) HostKeys(_ context.Context, addr string) ([]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return sftpclient.HostKeysIn(f.Path, addr)
}

// TrustHostKey adds a line to the file, and makes it durable.
func (f *HostKeyFile) TrustHostKey(_ context.Context, addr, key string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return sftpclient.TrustHostKeyIn(f.Path, addr, key)
}
