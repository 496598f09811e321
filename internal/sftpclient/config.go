package sftpclient

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"time"

	"golang.org/x/crypto/ssh/agent"
)

// A Config says how to reach an SSH server and how to prove who is who. Nothing in
// it has a default: a zero timeout means none, and without HostKeys, KnownHosts and
// TrustOnFirstUse every server is refused.
type Config struct {
	Addr     string // "host:port"
	Username string // as the server knows it

	Password    string // also answers a server that asks one hidden question; empty means none
	PrivateKey  string // in PEM form, as OpenSSH writes it; empty means none
	Passphrase  string // of PrivateKey
	Certificate string // for PrivateKey, the text of a file such as id_ed25519-cert.pub
	AgentSocket string // path of the socket of an SSH agent; empty means none

	// Agent returns an SSH agent in another way. It is closed after the login if
	// it is an [io.Closer]. Nil means none.
	Agent func(ctx context.Context) (agent.Agent, error)
	// Challenge answers what a server asks by the keyboard-interactive method. Nil
	// means that only one hidden question is answered, with Password.
	Challenge func(ctx context.Context, instruction string, questions []string, echoed []bool) ([]string, error)

	HostKeys              []string     // fingerprints or public keys, one of which must be presented
	KnownHosts            string       // path of a file in the form of OpenSSH's known_hosts; empty means none
	TrustOnFirstUse       HostKeyStore // keeps the key of a server that nothing else knows; nil means none
	ForgetHostKey         bool         // puts no key into TrustOnFirstUse
	InsecureIgnoreHostKey bool         // accepts any key

	Algorithms Algorithms // that may be negotiated

	ConnectTimeout   time.Duration // for everything up to the server's readiness for requests
	KeepAlive        time.Duration // interval of checks; a connection without a byte for three of them is lost; 0 means none
	OperationTimeout time.Duration // longest time for which the server may leave all requests unanswered
	Channels         int           // for a large file; 0 means that it depends on the server

	// Dial makes the connection. It must not be nil.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Redact replaces secrets in text for people, such as the words of a server. It
	// must not be nil.
	Redact func(string) string
	// Log gets what was agreed on. It must not be nil.
	Log *slog.Logger
}

// Check reports what is wrong with the algorithms and the host keys of c.
func (c Config) Check() error {
	_, err := c.Algorithms.resolve()
	_, pins := c.parsePins()
	return errors.Join(err, pins)
}

// KnowsHost reports whether the file of known hosts has a key for the server, or an
// authority. The error says that the file can't be read, or a line of it that may be about
// the server.
func (c Config) KnowsHost() (bool, error) {
	known, alone, err := c.knownKeys()
	return slices.ContainsFunc(slices.Concat(known, alone), func(k hostKey) bool { return k.mark != markRevoked }), err
}

// Algorithms restrict what may be negotiated, in the order of preference and
// by the names of SSH. An empty list means all that are considered secure. Package steps/sftp
// has a type of its own for users, with the keys of a connection.
type Algorithms struct {
	KeyExchanges []string
	Ciphers      []string
	MACs         []string
	HostKeys     []string
}

// keepAliveMisses is after how many intervals without a byte a connection
// counts as lost.
const keepAliveMisses = 3

// hostOf is the name of the host in "host:port".
func hostOf(addr string) string {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	return host
}
