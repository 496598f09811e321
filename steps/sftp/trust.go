package sftp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"

	"golang.org/x/crypto/ssh"
	xknownhosts "golang.org/x/crypto/ssh/knownhosts"
)

// A HostKeyStore keeps the host keys of servers that are trusted on first use;
// see Connection.TrustOnFirstUse. It may be called by several goroutines.
// [HostKeyFile] is the ready form.
type HostKeyStore interface {
	// HostKeys returns the keys of the server at addr, "host:port", in the form
	// of Connection.HostKeys. None means that the server is not known yet.
	HostKeys(ctx context.Context, addr string) ([]string, error)
	// TrustHostKey adds a key, such as "ssh-ed25519 AAAA...", of a server that
	// was not known. If another key has been added meanwhile, it must fail.
	TrustHostKey(ctx context.Context, addr, key string) error
}

// recall adds what the store knows of the server, or finds that this is the
// first use.
func (h *hostKeyCheck) recall(ctx context.Context, store HostKeyStore) error {
	if store == nil || len(h.pins) > 0 || h.known != nil && len(h.known.HostKeys(h.addr)) > 0 {
		return nil
	}
	keys, err := store.HostKeys(ctx, h.addr)
	if err != nil {
		return fmt.Errorf("trusted host keys: %w", err)
	}
	if h.pins, err = (Connection{HostKeys: keys}).parsePins(); err != nil {
		return fmt.Errorf("trusted host keys: %w", err)
	}
	h.store, h.first = store, len(keys) == 0
	return nil
}

// remember puts the key of a server that was not known into the store.
func (h *hostKeyCheck) remember(ctx context.Context) error {
	if !h.first || h.last == nil {
		return nil
	}
	key := h.last
	if cert, ok := key.(*ssh.Certificate); ok {
		key = cert.Key
	}
	if err := h.store.TrustHostKey(ctx, h.addr, string(bytes.TrimSpace(ssh.MarshalAuthorizedKey(key)))); err != nil {
		return fmt.Errorf("the server's host key, trusted on first use, can't be kept: %w", err)
	}
	return nil
}

// A HostKeyFile is a [HostKeyStore] in a file in the form of OpenSSH's
// known_hosts, which is made when it is needed. Only one process at a time may
// add to it.
type HostKeyFile struct {
	Path string

	mu sync.Mutex
}

var _ HostKeyStore = (*HostKeyFile)(nil)

// HostKeys returns the keys that the file has for addr.
func (f *HostKeyFile) HostKeys(_ context.Context, addr string) ([]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.keys(addr)
}

func (f *HostKeyFile) keys(addr string) ([]string, error) {
	text, err := os.ReadFile(f.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	host := xknownhosts.Normalize(addr)
	var keys []string
	for len(bytes.TrimSpace(text)) > 0 {
		_, hosts, key, _, rest, err := ssh.ParseKnownHosts(text)
		if err != nil {
			return nil, fmt.Errorf("%s: a line is damaged: %w", f.Path, err)
		}
		if slices.Contains(hosts, host) {
			keys = append(keys, string(bytes.TrimSpace(ssh.MarshalAuthorizedKey(key))))
		}
		text = rest
	}
	return keys, nil
}

// TrustHostKey adds a line to the file, and makes it durable.
func (f *HostKeyFile) TrustHostKey(_ context.Context, addr, key string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	there, err := f.keys(addr)
	if err != nil {
		return err
	}
	if slices.Contains(there, key) {
		return nil
	}
	if len(there) > 0 {
		return fmt.Errorf("%s has another key of %s by now", f.Path, addr)
	}
	public, _, _, _, err := ssh.ParseAuthorizedKey([]byte(key))
	if err != nil {
		return err
	}
	file, err := os.OpenFile(f.Path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteString(xknownhosts.Line([]string{xknownhosts.Normalize(addr)}, public) + "\n")
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}
