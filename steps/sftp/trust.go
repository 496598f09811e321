package sftp

import (
	"context"
	"sync"

	"github.com/courierhq/courier/internal/sftpclient"
)

// A HostKeyStore stores the host keys of servers that are trusted on first use;
// see Connection.TrustOnFirstUse. It must be safe for concurrent use.
// [HostKeyFile] is a ready implementation.
type HostKeyStore interface {
	// HostKeys returns the keys of the server at addr, "host:port", in the form
	// of Connection.HostKeys. A key with the marker "@revoked" is refused even
	// if HostKeys or KnownHosts of the Connection contain it. No keys, or only
	// revoked ones, mean that the server is not known yet.
	HostKeys(ctx context.Context, addr string) ([]string, error)
	// TrustHostKey adds a key, such as "ssh-ed25519 AAAA...", of a server that
	// is not known yet. It must fail if another key has been added meanwhile.
	TrustHostKey(ctx context.Context, addr, key string) error
}

// A HostKeyFile is a [HostKeyStore] in a file in the format of OpenSSH's
// known_hosts. It creates the file when it is needed. The lines have the same
// meaning as in OpenSSH, but an unreadable line that may concern the server is
// an error. Only one process at a time may add to the file.
type HostKeyFile struct {
	Path string

	mu sync.Mutex
}

var _ HostKeyStore = (*HostKeyFile)(nil)

// HostKeys returns the keys for addr in the file.
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
