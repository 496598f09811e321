package sftpclient

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
)

// A HostKeyStore stores the host keys of servers that are trusted on first use; see
// Config.TrustOnFirstUse. It must be safe for concurrent use.
type HostKeyStore interface {
	// HostKeys returns the keys of the server at addr, "host:port", in the form of
	// Config.HostKeys. A key with the marker "@revoked" is refused even if HostKeys or KnownHosts
	// of the Config contain it. No keys, or only revoked ones, mean that the server is not known
	// yet.
	HostKeys(ctx context.Context, addr string) ([]string, error)
	// TrustHostKey adds a key, such as "ssh-ed25519 AAAA...", of a server that is not known yet.
	// It must fail if another key has been added meanwhile.
	TrustHostKey(ctx context.Context, addr, key string) error
}

// recall adds the keys of the server in the store, or determines that this is the first use.
func (h *hostKeyCheck) recall(ctx context.Context, store HostKeyStore) error {
	if store == nil {
		return nil
	}
	texts, err := store.HostKeys(ctx, h.addr)
	if err != nil {
		return fmt.Errorf("trusted host keys: %w", err)
	}
	keys, err := parseHostKeys("trusted host keys", texts)
	if err != nil {
		return err
	}
	good := func(k hostKey) bool { return k.mark != markRevoked }
	if slices.ContainsFunc(h.pins, good) || slices.ContainsFunc(h.known, good) {
		keys = slices.DeleteFunc(keys, good)
	} else {
		h.store, h.first = store, !slices.ContainsFunc(keys, good)
	}
	h.pins = append(h.pins, keys...)
	return nil
}

// remember adds the key of an unknown server to the store.
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

// HostKeysIn returns the keys for addr, "host:port", in a file in the format of known_hosts. The
// keys are in the form of Config.HostKeys. There are none if the file does not exist.
func HostKeysIn(path, addr string) ([]string, error) {
	file, err := readKnownHosts(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	keys, alone, err := file.keys(addr)
	if err != nil {
		return nil, err
	}
	var texts []string
	add := func(k hostKey) {
		text := strings.TrimLeft(k.mark+" "+string(bytes.TrimSpace(ssh.MarshalAuthorizedKey(k.key))), " ")
		if !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	for _, k := range keys {
		add(k)
	}
	for _, k := range alone {
		if k.mark == markRevoked {
			add(k)
		}
	}
	return texts, nil
}

// TrustHostKeyIn adds a line for the server at addr to a file in the format of known_hosts, and
// makes it durable. It creates the file if it does not exist. It fails if the file has another
// key of the server. Only one caller at a time may add to a file.
func TrustHostKeyIn(path, addr, key string) error {
	there, err := HostKeysIn(path, addr)
	if err != nil {
		return err
	}
	if slices.Contains(there, key) {
		return nil
	}
	if slices.Contains(there, markRevoked+" "+key) {
		return fmt.Errorf("%s has the key of %s as revoked by now", path, addr)
	}
	if slices.ContainsFunc(there, func(k string) bool { return !strings.HasPrefix(k, markRevoked) }) {
		return fmt.Errorf("%s has another key of %s by now", path, addr)
	}
	public, _, _, _, err := ssh.ParseAuthorizedKey([]byte(key))
	if err != nil {
		return err
	}
	line := knownName(addr) + " " + string(ssh.MarshalAuthorizedKey(public))
	if text, err := os.ReadFile(path); err == nil && len(text) > 0 && text[len(text)-1] != '\n' {
		line = "\n" + line // the last line has no end
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteString(line)
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}
