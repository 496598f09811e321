package sftp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/courierhq/courier/internal/connfile"
	"github.com/courierhq/courier/internal/sftpclient"

	"golang.org/x/crypto/ssh/agent"

	"github.com/courierhq/courier/internal/safename"
	"github.com/courierhq/courier/internal/transfer"
)

// Connections returns connections by the ids that job definitions use. It must be safe for
// concurrent use. [Map] is a ready implementation.
type Connections interface {
	// Connection returns the connection called id. If there is none, the error
	// matches [courier.ErrNotFound].
	Connection(ctx context.Context, id string) (Connection, error)
}

// A Connection says how to reach an SFTP server and how client and server authenticate. The
// credentials belong to the host in the same Connection: no step can send them to another host.
// Formatting or logging a Connection shows no credentials.
//
// At least one of HostKeys, KnownHosts and TrustOnFirstUse is required. Without them connecting
// fails, and the error shows the key that the server presents.
type Connection struct {
	Host     string `json:"host"`     // name or address
	Port     int    `json:"port"`     // 0 means 22
	Username string `json:"username"` // as the server knows it

	// Password, PrivateKey and Passphrase are the secret itself, or "secret:NAME" for a secret
	// that the engine's Secrets resolve. If a text begins with "$secret:", the dollar sign is
	// removed and the rest is the secret itself.
	Password   string `json:"-"` // also answers a server that asks one hidden question
	PrivateKey string `json:"-"` // in PEM form, as OpenSSH writes it
	Passphrase string `json:"-"` // of PrivateKey
	// Certificate is the SSH certificate for PrivateKey, as the text of a file
	// such as id_ed25519-cert.pub, or "secret:NAME". Empty means none.
	Certificate string `json:"-"`
	// AgentSocket is the path of the socket of an SSH agent, whose keys are tried one after the
	// other. It is never taken from the environment. Empty means no agent.
	AgentSocket string `json:"agent_socket"`
	// Agent returns an SSH agent for which AgentSocket is not sufficient. It is called for every
	// connection. The agent is closed after the login if it is an [io.Closer]. Nil means none.
	Agent func(ctx context.Context) (agent.Agent, error) `json:"-"`
	// Challenge answers the questions of the keyboard-interactive method, such as for a second
	// factor. The texts come from the server; echoed[i] reports whether the answer may be shown
	// while it is typed. Nil means that only a single hidden question is answered, with Password.
	Challenge func(ctx context.Context, instruction string, questions []string, echoed []bool) ([]string, error) `json:"-"`

	// Jump is the id of the connection to an SSH server through which this one
	// is reached, with its own credentials and host keys. Empty means that it
	// is reached directly.
	Jump string `json:"jump"`

	// HostKeys are the server's keys: fingerprints such as "SHA256:pjZ...", or public keys such
	// as "ssh-ed25519 AAAA...". One of them must be presented. A public key shows its type, but a
	// fingerprint does not, so connecting to a server with keys of several types may take several
	// tries. "@cert-authority " before a key means all keys that it has certified for the host,
	// and "@revoked " means that the key is always refused.
	HostKeys []string `json:"host_keys"`
	// KnownHosts is the path of a file in the format of OpenSSH's known_hosts. Its lines have the
	// same meaning as in OpenSSH, including markers, patterns and hashed names. A key that it
	// revokes for the host is always refused. OpenSSH ignores lines that it cannot read; here
	// such a line is an error if it may concern the host.
	KnownHosts string `json:"known_hosts"`
	// TrustOnFirstUse stores the keys of servers that are trusted on first use. It takes effect
	// if neither HostKeys, nor KnownHosts, nor the store itself has a key of the server: then any
	// key is accepted, and added to the store after a successful login. An attacker who controls
	// the network at that time can impersonate the server from then on. Every such use is logged
	// as a warning. Nil means that no server is trusted on first use.
	TrustOnFirstUse sftpclient.HostKeyStore `json:"-"`
	// InsecureIgnoreHostKey accepts any key. An attacker who controls the network can then read
	// and change everything, including credentials. Every use is logged as a warning.
	InsecureIgnoreHostKey bool `json:"insecure_ignore_host_key"`

	// ConnectTimeout limits everything from the first packet to the server's
	// readiness for requests. 0 means 30 s.
	ConnectTimeout time.Duration `json:"-"`
	// KeepAlive is the interval at which an idle connection is checked. A connection on which
	// nothing arrives for three times as long counts as lost. Nil means 15 s, 0 means never.
	KeepAlive *time.Duration `json:"-"`
	// OperationTimeout is the longest time for which the server may leave all
	// requests unanswered. 0 means 5 minutes.
	OperationTimeout time.Duration `json:"-"`

	// MaxBytes is the maximum size of a downloaded file, also where a step allows more. 0 means 1
	// TiB, less than 0 means no limit.
	MaxBytes int64 `json:"max_bytes"`
	// KeepFree is the number of bytes of the disk that downloads leave free, as far as the system
	// reports the free space. 0 means 16 MiB, less than 0 means none.
	KeepFree int64 `json:"keep_free_bytes"`
	// MinRate is the minimum number of bytes per second that a transfer in either direction must
	// move, on average over five minutes, unless the bandwidth_limit of the step is lower. 0
	// means 1024, less than 0 means no limit.
	MinRate int64 `json:"min_bytes_per_second"`

	// Channels is the number of SSH channels over which a large file is transferred. 0 means 1,
	// or 8 if the server is OpenSSH with a long round-trip time, where 8 channels are several
	// times as fast. Many files also use 8 channels if the server is slow to make them durable.
	// Servers that do not keep files in a file system may be unable to write a file over more
	// than one channel.
	Channels int `json:"channels"`

	Algorithms Algorithms `json:"algorithms"`

	// Dial makes the connection to the address "host:port", for example through
	// a proxy. Nil means [net.Dialer.DialContext].
	Dial func(ctx context.Context, network, addr string) (net.Conn, error) `json:"-"`
}

// Algorithms restricts the algorithms that may be negotiated. The lists are in order of
// preference and use the names of SSH. An empty list means all algorithms that are considered
// secure. An insecure old algorithm must be named explicitly; its use is logged as a warning.
type Algorithms struct {
	KeyExchanges []string `json:"key_exchanges"`
	Ciphers      []string `json:"ciphers"`
	MACs         []string `json:"macs"`
	HostKeys     []string `json:"host_keys"`
}

const (
	defaultPort             = 22
	defaultConnectTimeout   = 30 * time.Second
	defaultKeepAlive        = 15 * time.Second
	defaultOperationTimeout = 5 * time.Minute
)

// limits returns the limits of transfers with the server.
func (c Connection) limits() transfer.Limits {
	return transfer.Limits{MaxBytes: c.MaxBytes, KeepFree: c.KeepFree, MinRate: c.MinRate}
}

// withDefaults checks c and fills in the defaults.
func (c Connection) withDefaults() (Connection, error) {
	if err := c.problems(); err != nil {
		return c, err
	}
	if c.Port == 0 {
		c.Port = defaultPort
	}
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = defaultConnectTimeout
	}
	if c.OperationTimeout == 0 {
		c.OperationTimeout = defaultOperationTimeout
	}
	if c.KeepAlive == nil {
		c.KeepAlive = new(defaultKeepAlive)
	}
	if c.Dial == nil {
		c.Dial = (&net.Dialer{}).DialContext
	}
	return c, nil
}

// problems reports all errors in the fields of c alone.
func (c Connection) problems() error {
	var errs []error
	wrong := func(is bool, field, format string, args ...any) {
		if is {
			errs = append(errs, connfile.Wrong(field, format, args...))
		}
	}
	odd := strings.ContainsFunc(c.Host, func(r rune) bool { return r <= ' ' || r == '/' || r == '@' })
	wrong(c.Host == "", "host", "host is missing")
	wrong(odd, "host", "host %s is not the name or address of a host", safename.Quote(c.Host))
	wrong(c.Port < 0 || c.Port > 65535, "port", "port %d is out of range", c.Port)
	wrong(c.Username == "", "username", "username is missing")
	wrong(c.Password == "" && c.PrivateKey == "" && c.AgentSocket == "" && c.Agent == nil && c.Challenge == nil, "password",
		"password and private_key are both missing; one of them, or agent_socket, is needed to log in")
	wrong(c.Certificate != "" && c.PrivateKey == "", "certificate", "certificate is given, but no private_key that it belongs to")
	wrong(c.Passphrase != "" && c.PrivateKey == "", "passphrase", "passphrase is given, but no private_key that it belongs to")
	wrong(c.Jump != "" && c.Dial != nil, "jump", "jump and Dial exclude each other")
	wrong(c.Channels < 0 || c.Channels > sftpclient.MaxChannels, "channels", "channels: %d is out of range; %d at most", c.Channels, sftpclient.MaxChannels)
	wrong(c.ConnectTimeout < 0, "connect_timeout_seconds", "connect_timeout_seconds is negative")
	wrong(c.OperationTimeout < 0, "operation_timeout_seconds", "operation_timeout_seconds is negative")
	wrong(c.KeepAlive != nil && *c.KeepAlive < 0, "keep_alive_seconds", "keep_alive_seconds is negative")
	return errors.Join(errs...)
}

// address returns "host:port".
func (c Connection) address() string {
	port := c.Port
	if port == 0 {
		port = defaultPort
	}
	return net.JoinHostPort(strings.Trim(c.Host, "[]"), strconv.Itoa(port))
}

// String returns user, host and port.
func (c Connection) String() string {
	return fmt.Sprintf("sftp://%s@%s", c.Username, c.address())
}

// Format writes what String returns, whatever the verb.
func (c Connection) Format(f fmt.State, _ rune) { fmt.Fprint(f, c.String()) }

// LogValue returns what String returns.
func (c Connection) LogValue() slog.Value { return slog.StringValue(c.String()) }

// ReadConnections reads a JSON file that maps ids to connections, such as {"acme": {"host":
// "files.example.com", ...}}; see [Connection.UnmarshalJSON]. It reports all errors in the
// connections, each with its line. Missing host keys are errors too, and so are a known_hosts
// file that cannot be read or has no key for the server, a circular jump, and credentials in the
// file itself. It does not contact servers or resolve secrets. Before a connection is checked,
// each function in set may set fields that a file cannot hold, such as TrustOnFirstUse, Challenge
// or Dial.
func ReadConnections(path string, set ...func(id string, c *Connection)) (Map, error) {
	return connfile.ReadConnections(path, "sftp", func(id string, c *Connection) error {
		err := connfile.InFile("password", c.Password, "private_key", c.PrivateKey, "passphrase", c.Passphrase)
		for _, f := range set {
			f(id, c)
		}
		return err
	}, checkAmong)
}

// checkAmong reports the errors of a connection in relation to all others.
func checkAmong(id string, all map[string]Connection) error {
	c := all[id]
	return errors.Join(c.problems(), c.client().Check(), checkJumps(id, all), c.hostKeys())
}

// client is the part of c that can be checked by itself.
func (c Connection) client() sftpclient.Config {
	return sftpclient.Config{Algorithms: sftpclient.Algorithms(c.Algorithms), HostKeys: c.HostKeys, KnownHosts: c.KnownHosts, Addr: c.address()}
}

// hostKeys reports an error if no field says which server is trusted, or if the known hosts
// cannot be read.
func (c Connection) hostKeys() error {
	switch {
	case c.KnownHosts != "":
		known, err := c.client().KnowsHost()
		switch {
		case err != nil:
			return connfile.Wrong("known_hosts", "%w", err)
		case !known && len(c.HostKeys) == 0 && c.TrustOnFirstUse == nil && !c.InsecureIgnoreHostKey:
			return connfile.Wrong("known_hosts", "known_hosts: %s has no key for %s, so the server can't prove who it is; ask the partner for the fingerprint, compare it with that of ssh-keyscan, and add the line", safename.Quote(c.KnownHosts), c.address())
		}
	case len(c.HostKeys) == 0 && c.TrustOnFirstUse == nil && !c.InsecureIgnoreHostKey:
		return connfile.Wrong("host_keys", "host_keys and known_hosts are both missing, so the server can't prove who it is; ask the partner for the fingerprint, and compare it with that of ssh-keyscan")
	}
	return nil
}
