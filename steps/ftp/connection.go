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

// Connections returns connections by the ids that job definitions use. It may be
// called by several goroutines. [Map] is the ready form.
type Connections interface {
	// Connection returns the connection called id. If there is none, the error
	// matches [courier.ErrNotFound].
	Connection(ctx context.Context, id string) (Connection, error)
}

// A Connection says how to reach an FTP server and how to prove who is who.
// Credentials belong to the host in the same Connection: no step can send them
// elsewhere. Formatting or logging a Connection shows no credentials.
type Connection struct {
	Host     string `json:"host"`     // name or address
	Port     int    `json:"port"`     // 0 means 21, or 990 with implicit TLS
	Username string `json:"username"` // as the server knows it; empty means anonymous

	// Password and ClientKey are the secret itself, or "secret:NAME" for one
	// that the engine's Secrets resolve. A text that begins with "$secret:"
	// stands for itself without the dollar sign.
	Password string `json:"-"`

	// Security is how the connection is encrypted: "explicit" (AUTH TLS before
	// anything else), "implicit" (TLS from the first byte), or "none", with
	// which whoever controls the network can read and change everything,
	// credentials included; every use of that is logged as a warning. Empty
	// means "explicit".
	Security string `json:"security"`

	// CertificatePolicy is what the server's certificate must be: "system"
	// (issued for Host by an authority that the system trusts, or by one of
	// Authorities), "pinned" (one of PinnedCertificates, whoever issued it), or
	// "insecure" (anything; every use is logged as a warning). Empty means
	// "system".
	CertificatePolicy string `json:"certificate_policy"`
	// PinnedCertificates are SHA-256 fingerprints of certificates, 64
	// hexadecimal digits; colons and letter case don't count.
	PinnedCertificates []string `json:"pinned_certificates"`
	// Authorities are certificates in PEM form that are trusted in place of the
	// system's.
	Authorities string `json:"authorities"`
	// ServerName is the name that the certificate must have been issued for.
	// Empty means Host.
	ServerName string `json:"server_name"`
	// ClientCertificate and ClientKey, in PEM form, prove to the server who
	// connects, where it asks for that.
	ClientCertificate string `json:"client_certificate"`
	ClientKey         string `json:"-"`
	// MinTLS and MaxTLS are "1.2" or "1.3". Empty means all of them. Older
	// versions are never used.
	MinTLS string `json:"min_tls"`
	MaxTLS string `json:"max_tls"`

	// Active makes the server connect back for content, which a firewall on
	// this side usually prevents.
	Active bool `json:"active"`
	// DisableEPSV never asks for a passive connection by EPSV but by PASV.
	DisableEPSV bool `json:"disable_epsv"`
	// DisableMLSD lists directories by LIST even if the server offers MLSD.
	DisableMLSD bool `json:"disable_mlsd"`

	// ConnectTimeout limits everything from the first packet to the server's
	// readiness for commands, and the opening of a connection for content.
	// 0 means 30 s.
	ConnectTimeout time.Duration `json:"-"`
	// KeepAlive is how often an idle session says something. Nil means 60 s,
	// 0 never.
	KeepAlive *time.Duration `json:"-"`
	// OperationTimeout is the longest time for which the server may be silent
	// where it is its turn. 0 means 60 s.
	OperationTimeout time.Duration `json:"-"`
	// MaxSessions is how many files are moved at a time, each by a session of
	// its own. 0 means 4. If the server allows fewer, there are fewer.
	MaxSessions int `json:"max_sessions"`

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

// limits bound what the server may cost.
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

// problems reports all that is wrong with the fields of c.
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

// hostname is Host without the brackets of an IPv6 address.
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

// check reports what is wrong with c by itself.
func (c Connection) check() error {
	c, err := c.withDefaults()
	if err != nil {
		return err
	}
	c.ClientKey = "" // a secret, which is not resolved
	return c.client().Check()
}
