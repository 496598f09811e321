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

// A Config says how to reach an SSH server and how client and server authenticate. No field has a
// default: a zero timeout means none, and without HostKeys, KnownHosts and TrustOnFirstUse every
// server is refused.
type Config struct {
	Addr     string // "host:port"
	Username string // as the server knows it

	Password    string // also answers a server that asks one hidden question; empty means none
	PrivateKey  string // in PEM form, as OpenSSH writes it; empty means none
	Passphrase  string // of PrivateKey
	Certificate string // for PrivateKey, the text of a file such as id_ed25519-cert.pub
	AgentSocket string // path of the socket of an SSH agent; empty means none

	// Agent returns an SSH agent for which a socket path is not sufficient. The agent is closed
	// after the login if it is an [io.Closer]. Nil means none.
	Agent func(ctx context.Context) (agent.Agent, error)
	// Challenge answers the questions of the keyboard-interactive method. Nil means that only a
	// single hidden question is answered, with Password.
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
	// Redact replaces secrets in text for human readers, such as messages of a server. It must
	// not be nil.
	Redact func(string) string
	// Log receives the negotiated properties of the connection. It must not be nil.
	Log *slog.Logger
}

// Check reports errors in the algorithms and the host keys of c.
func (c Config) Check() error {
	_, err := c.Algorithms.resolve()
	_, pins := c.parsePins()
	return errors.Join(err, pins)
}

// KnowsHost reports whether the known_hosts file has a key or an authority for the server. The
// error says that the file cannot be read, or a line of it that may concern the server.
func (c Config) KnowsHost() (bool, error) {
	known, alone, err := c.knownKeys()
	return slices.ContainsFunc(slices.Concat(known, alone), func(k hostKey) bool { return k.mark != markRevoked }), err
}

// Algorithms restricts the algorithms that may be negotiated. The lists are in order of
// preference and use the names of SSH. An empty list means all algorithms that are considered
// secure. Package steps/sftp has a type of its own for users, with the keys of a connection.
type Algorithms struct {
	KeyExchanges []string
	Ciphers      []string
	MACs         []string
	HostKeys     []string
}

// keepAliveMisses is the number of intervals without a byte after which a connection counts as
// lost.
const keepAliveMisses = 3

// hostOf returns the host in "host:port".
func hostOf(addr string) string {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	return host
}
