package ftp

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
	"github.com/courierhq/courier/internal/ftpclient"
	"github.com/courierhq/courier/internal/safename"
	"github.com/courierhq/courier/internal/transfer"
)

// Connections returns connections by the ids that job definitions use. It must
// be safe for concurrent use. [Map] is a ready implementation.
type Connections interface {
	// Connection returns the connection called id. If there is none, the error
	// matches [courier.ErrNotFound].
	Connection(ctx context.Context, id string) (Connection, error)
}

// A Connection says how to reach an FTP server and how client and server
// authenticate. The credentials belong to the host in the same Connection: no
// step can send them to another host. Formatting or logging a Connection shows
// no credentials.
type Connection struct {
	Host     string `json:"host"`     // name or address
	Port     int    `json:"port"`     // 0 means 21, or 990 with implicit TLS
	Username string `json:"username"` // as the server knows it; empty means anonymous

	// Password and ClientKey are the secret itself, or "secret:NAME" for a
	// secret that the engine's Secrets resolve. If a text begins with
	// "$secret:", the dollar sign is removed and the rest is the secret itself.
	Password string `json:"-"`

	// Security is how the connection is encrypted: "explicit" (AUTH TLS before
	// anything else), "implicit" (TLS from the first byte), or "none". With
	// "none", an attacker who controls the network can read and change
	// everything, including credentials; every use is logged as a warning.
	// Empty means "explicit".
	Security string `json:"security"`

	// CertificatePolicy is what the server's certificate must be: "system"
	// (issued for Host by an authority that the system trusts, or by one of
	// Authorities), "pinned" (one of PinnedCertificates, whoever issued it), or
	// "insecure" (any certificate; every use is logged as a warning). Empty
	// means "system".
	CertificatePolicy string `json:"certificate_policy"`
	// PinnedCertificates are SHA-256 fingerprints of certificates, 64
	// hexadecimal digits; colons and letter case are ignored.
	PinnedCertificates []string `json:"pinned_certificates"`
	// Authorities are certificates in PEM format that are trusted in place of
	// the system's.
	Authorities string `json:"authorities"`
	// ServerName is the name for which the certificate must be issued. Empty
	// means Host.
	ServerName string `json:"server_name"`
	// ClientCertificate and ClientKey, in PEM format, authenticate the client
	// if the server asks for a certificate.
	ClientCertificate string `json:"client_certificate"`
	ClientKey         string `json:"-"`
	// MinTLS and MaxTLS are "1.2" or "1.3". Empty means no further restriction.
	// Older versions are never used.
	MinTLS string `json:"min_tls"`
	MaxTLS string `json:"max_tls"`

	// Active makes the server connect back for data connections. A firewall on
	// the client's side usually prevents that.
	Active bool `json:"active"`
	// DisableEPSV requests passive connections with PASV, never with EPSV.
	DisableEPSV bool `json:"disable_epsv"`
	// DisableMLSD lists directories with LIST even if the server offers MLSD.
	DisableMLSD bool `json:"disable_mlsd"`

	// ConnectTimeout limits everything from the first packet to the server's
	// readiness for commands, and the opening of a data connection. 0 means 30
	// s.
	ConnectTimeout time.Duration `json:"-"`
	// KeepAlive is the interval at which an idle session sends a command. Nil
	// means 60 s, 0 means never.
	KeepAlive *time.Duration `json:"-"`
	// OperationTimeout is the longest time to wait for a reply or for data from
	// the server. 0 means 60 s.
	OperationTimeout time.Duration `json:"-"`
	// MaxSessions is the number of files that are transferred at a time, each
	// over a session of its own. 0 means 4. If the server allows fewer
	// sessions, fewer are used.
	MaxSessions int `json:"max_sessions"`

	// MaxBytes is the maximum size of a downloaded file, also where a step
	// allows more. 0 means 1 TiB, less than 0 means no limit.
	MaxBytes int64 `json:"max_bytes"`
	// KeepFree is the number of bytes of the disk that downloads leave free, as
	// far as the system reports the free space. 0 means 16 MiB, less than 0
	// means none.
	KeepFree int64 `json:"keep_free_bytes"`
	// MinRate is the minimum number of bytes per second that a transfer in
	// either direction must move, on average over five minutes, unless the
	// bandwidth_limit of the step is lower. 0 means 1024, less than 0 means no
	// limit.
	MinRate int64 `json:"min_bytes_per_second"`

	// Dial makes the connections, for example through a proxy. Nil means
	// [net.Dialer.DialContext].
	Dial func(ctx context.Context, network, addr string) (net.Conn, error) `json:"-"`
}

const (
	defaultPort             = 21
	defaultImplicitPort     = 990
	defaultConnectTimeout   = 30 * time.Second
	defaultKeepAlive        = 60 * time.Second
	defaultOperationTimeout = 60 * time.Second
	defaultSessions         = 4
	maxSessions             = 16
)

// limits returns the limits of transfers with the server.
func (c Connection) limits() transfer.Limits {
	return transfer.Limits{MaxBytes: c.MaxBytes, KeepFree: c.KeepFree, MinRate: c.MinRate}
}

// withDefaults checks c and fills in the defaults.
func (c Connection) withDefaults() (Connection, error) {
	if c.Security == "" {
		c.Security = ftpclient.SecurityExplicit
	}
	if c.CertificatePolicy == "" {
		c.CertificatePolicy = ftpclient.PolicySystem
	}
	if c.Username == "" {
		c.Username = "anonymous"
	}
	if err := c.problems(); err != nil {
		return c, err
	}
	if c.Port == 0 {
		c.Port = c.defaultPort()
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
	if c.MaxSessions == 0 {
		c.MaxSessions = defaultSessions
	}
	return c, nil
}

// problems reports all errors in the fields of c.
func (c Connection) problems() error {
	encrypted := c.Security != ftpclient.SecurityNone
	pinned := c.CertificatePolicy == ftpclient.PolicyPinned
	var errs []error
	wrong := func(is bool, field, format string, args ...any) {
		if is {
			errs = append(errs, connfile.Wrong(field, format, args...))
		}
	}
	odd := strings.ContainsFunc(c.Host, func(r rune) bool { return r <= ' ' || r == '/' || r == '@' || r == 0x7f })
	wrong(c.Host == "", "host", "host is missing")
	wrong(odd, "host", "host %s is not the name or address of a host", safename.Quote(c.Host))
	wrong(c.Port < 0 || c.Port > 65535, "port", "port %d is out of range", c.Port)
	wrong(c.MaxSessions < 0 || c.MaxSessions > maxSessions, "max_sessions", "max_sessions: %d is out of range; %d at most", c.MaxSessions, maxSessions)
	wrong(c.ConnectTimeout < 0, "connect_timeout_seconds", "connect_timeout_seconds is negative")
	wrong(c.OperationTimeout < 0, "operation_timeout_seconds", "operation_timeout_seconds is negative")
	wrong(c.KeepAlive != nil && *c.KeepAlive < 0, "keep_alive_seconds", "keep_alive_seconds is negative")
	wrong(!encrypted && (c.CertificatePolicy != ftpclient.PolicySystem || c.ClientCertificate != "" || c.ClientKey != "" || c.Authorities != ""), "security",
		`security is "none", so nothing about certificates can be demanded; correct one or the other`)
	wrong(pinned != (len(c.PinnedCertificates) > 0), "certificate_policy", `certificate_policy "pinned" and pinned_certificates belong together; one of them is missing`)
	wrong(c.ClientKey == "" != (c.ClientCertificate == ""), "client_certificate", "client_certificate and client_key belong together; one of them is missing")
	if err := ftpclient.CheckArgument("username", c.Username); err != nil {
		errs = append(errs, connfile.Wrong("username", "%w", err))
	}
	return errors.Join(append(errs,
		connfile.OneOf("security", c.Security, ftpclient.SecurityExplicit, ftpclient.SecurityImplicit, ftpclient.SecurityNone),
		connfile.OneOf("certificate_policy", c.CertificatePolicy, ftpclient.PolicySystem, ftpclient.PolicyPinned, ftpclient.PolicyInsecure),
		connfile.OneOf("min_tls", c.MinTLS, "", "1.2", "1.3"),
		connfile.OneOf("max_tls", c.MaxTLS, "", "1.2", "1.3"))...)
}

func (c Connection) defaultPort() int {
	if c.Security == ftpclient.SecurityImplicit {
		return defaultImplicitPort
	}
	return defaultPort
}

// address returns "host:port".
func (c Connection) address() string {
	port := c.Port
	if port == 0 {
		port = c.defaultPort()
	}
	return net.JoinHostPort(c.hostname(), strconv.Itoa(port))
}

// hostname returns Host without the brackets of an IPv6 address.
func (c Connection) hostname() string { return strings.Trim(c.Host, "[]") }

// String returns user, host and port.
func (c Connection) String() string {
	scheme := "ftps"
	if c.Security == ftpclient.SecurityNone {
		scheme = "ftp"
	}
	return fmt.Sprintf("%s://%s@%s", scheme, c.Username, c.address())
}

// Format writes what String returns, whatever the verb.
func (c Connection) Format(f fmt.State, _ rune) { fmt.Fprint(f, c.String()) }

// LogValue returns what String returns.
func (c Connection) LogValue() slog.Value { return slog.StringValue(c.String()) }

// check reports the errors of c alone.
func (c Connection) check() error {
	c, err := c.withDefaults()
	if err != nil {
		return err
	}
	c.ClientKey = "" // a secret, which is not resolved
	return c.client().Check()
}
