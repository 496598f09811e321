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

// Connections returns connections by the ids that job definitions use. It may be
// called by several goroutines. [Map] is the ready form.
type Connections interface {
	// Connection returns the connection called id. If there is none, the error
	// matches [courier.ErrNotFound].
	Connection(ctx context.Context, id string) (Connection, error)
}

// A Connection says how to reach an SFTP server and how to prove who is who.
// Credentials belong to the host in the same Connection: no step can send them
// elsewhere. Formatting or logging a Connection shows no credentials.
//
// At least one of HostKeys, KnownHosts and TrustOnFirstUse is needed, or nothing
// works; the error shows what the server presents.
type Connection struct {
	Host     string `json:"host"`     // name or address
	Port     int    `json:"port"`     // 0 means 22
	Username string `json:"username"` // as the server knows it

	// Password, PrivateKey and Passphrase are the secret itself, or
	// "secret:NAME" for one that the engine's Secrets resolve. A text that
	// begins with "$secret:" stands for itself without the dollar sign.
	Password   string `json:"-"` // also answers a server that asks one hidden question
	PrivateKey string `json:"-"` // in PEM form, as OpenSSH writes it
	Passphrase string `json:"-"` // of PrivateKey
	// Certificate is the SSH certificate for PrivateKey, as the text of a file
	// such as id_ed25519-cert.pub, or "secret:NAME". Empty means none.
	Certificate string `json:"-"`
	// AgentSocket is the path of the socket of an SSH agent, whose keys are
	// tried one after the other; the environment is never asked for it. Empty
	// means no agent.
	AgentSocket string `json:"agent_socket"`
	// Agent returns an SSH agent in another way than AgentSocket does. It is
	// called for every connection, and is closed after the login if it is an
	// [io.Closer]. Nil means none.
	Agent func(ctx context.Context) (agent.Agent, error) `json:"-"`
	// Challenge answers what a server asks by the keyboard-interactive method,
	// such as for a second factor. Texts come from the server; echoed[i] tells
	// whether an answer is meant to be seen. Nil means that only one hidden
	// question is answered, with Password.
	Challenge func(ctx context.Context, instruction string, questions []string, echoed []bool) ([]string, error) `json:"-"`

	// Jump is the id of the connection to an SSH server through which this one
	// is reached, with its own credentials and host keys. Empty means that it
	// is reached directly.
	Jump string `json:"jump"`

	// HostKeys are the server's keys: fingerprints such as "SHA256:pjZ...", or
	// public keys such as "ssh-ed25519 AAAA...". One of them must be presented.
	// A fingerprint doesn't tell the type of its key, so connecting to a server
	// with keys of several types may take several tries; a public key does.
	// "@cert-authority " before a key stands for all that it has certified for
	// the host, and "@revoked " for a key that is refused in any case.
	HostKeys []string `json:"host_keys"`
	// KnownHosts is the path of a file in the form of OpenSSH's known_hosts,
	// whose lines mean what they mean there: markers, patterns and hashed names
	// included. A key that it revokes for the host is refused in any case. A line
	// that can't be read, which OpenSSH overlooks, is an error if it may be about
	// the host.
	KnownHosts string `json:"known_hosts"`
	// TrustOnFirstUse keeps the keys of servers that are trusted because they
	// were the first to answer. It takes effect for a server of which neither
	// HostKeys, nor KnownHosts, nor the store itself has a key: then any key is
	// accepted, and put into the store when the login has succeeded. Whoever
	// controls the network at that time can pretend to be the server for ever.
	// Every such use is logged as a warning. Nil means that no server is
	// trusted so.
	TrustOnFirstUse sftpclient.HostKeyStore `json:"-"`
	// InsecureIgnoreHostKey accepts any key, so that whoever controls the
	// network can read and change everything, credentials included. Every use
	// is logged as a warning.
	InsecureIgnoreHostKey bool `json:"insecure_ignore_host_key"`

	// ConnectTimeout limits everything from the first packet to the server's
	// readiness for requests. 0 means 30 s.
	ConnectTimeout time.Duration `json:"-"`
	// KeepAlive is how often an idle connection is checked; one on which
	// nothing arrives for three times as long counts as lost. Nil means 15 s,
	// 0 never.
	KeepAlive *time.Duration `json:"-"`
	// OperationTimeout is the longest time for which the server may leave all
	// requests unanswered. 0 means 5 minutes.
	OperationTimeout time.Duration `json:"-"`

	// MaxBytes is the most that a file may have that is downloaded, also where a
	// step allows more. 0 means 1 TiB, less than 0 no limit.
	MaxBytes int64 `json:"max_bytes"`
	// KeepFree is how many bytes of the disk stay free of downloaded files, as
	// far as the system tells. 0 means 16 MiB, less than 0 none.
	KeepFree int64 `json:"keep_free_bytes"`
	// MinRate is how many bytes per second a transfer in either direction must
	// move at least, on average over five minutes, unless the bandwidth_limit of
	// the step is in the way. 0 means 1024, less than 0 no limit.
	MinRate int64 `json:"min_bytes_per_second"`

	// Channels is over how many SSH channels a large file is moved. 0 means 1,
	// or 8 if the server is OpenSSH and far away, where that is several times
	// as fast; many files go over 8 too if it takes its time to make them durable.
	// Servers that keep files elsewhere than in a file system may not
	// be able to write a file over more than one.
	Channels int `json:"channels"`

	Algorithms Algorithms `json:"algorithms"`

	// Dial makes the connection to the address "host:port", for example through
	// a proxy. Nil means [net.Dialer.DialContext].
	Dial func(ctx context.Context, network, addr string) (net.Conn, error) `json:"-"`
}

// Algorithms restrict what may be negotiated, in the order of preference and
// by the names of SSH. An empty list means all that are considered secure. An
// old algorithm that is not must be named; its use is logged as a warning.
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

// limits bound what the server may cost.
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

// problems reports all that is wrong with the fields of c by themselves.
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

// ReadConnections reads a JSON file that maps ids to connections, such as
// {"acme": {"host": "files.example.com", ...}}; see [Connection.UnmarshalJSON].
// All that is wrong with the connections by themselves is reported here, each with its
// line: also host keys that are missing, a file of known hosts that can't be read or has no key for
// the server, a jump that leads in a circle, and
// credentials that stand in the file. The server is not asked, and secrets are not resolved.
// Before a connection is checked, each of set may set what a file does not hold, such as
// TrustOnFirstUse, Challenge or Dial.
func ReadConnections(path string, set ...func(id string, c *Connection)) (Map, error) {
	return connfile.ReadConnections(path, "sftp", func(id string, c *Connection) error {
		err := connfile.InFile("password", c.Password, "private_key", c.PrivateKey, "passphrase", c.Passphrase)
		for _, f := range set {
			f(id, c)
		}
		return err
	}, checkAmong)
}

// checkAmong reports what is wrong with a connection as one of all.
func checkAmong(id string, all map[string]Connection) error {
	c := all[id]
	return errors.Join(c.problems(), c.client().Check(), checkJumps(id, all), c.hostKeys())
}

// client is the part of c that can be checked by itself.
func (c Connection) client() sftpclient.Config {
	return sftpclient.Config{Algorithms: sftpclient.Algorithms(c.Algorithms), HostKeys: c.HostKeys, KnownHosts: c.KnownHosts, Addr: c.address()}
}

// hostKeys reports whether nothing says which server is trusted, or what does can't be read.
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
