package ftpclient

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"time"
)

// A Config says how to reach an FTP server, how to prove who is who, and which
// parts of the protocol to use. Nothing in it has a default but where it says so.
type Config struct {
	Addr     string // "host:port"
	Username string // as the server knows it
	Password string

	// Security is how the connection is encrypted: "explicit" (AUTH TLS before
	// anything else), "implicit" (TLS from the first byte), or "none".
	Security string

	// CertificatePolicy is what the server's certificate must be: "system",
	// "pinned" (one of PinnedCertificates), or "insecure" (anything). Empty means
	// "system".
	CertificatePolicy  string
	PinnedCertificates []string // SHA-256 fingerprints, 64 hexadecimal digits
	Authorities        string   // in PEM form, in place of the system's; empty means those
	ServerName         string   // in the certificate; empty means the host of Addr
	ClientCertificate  string   // in PEM form; empty means none
	ClientKey          string   // in PEM form
	MinTLS, MaxTLS     string   // "1.2" or "1.3"; empty means all of them

	Active      bool // the server connects back for content
	DisableEPSV bool // asks for passive connections by PASV alone
	DisableMLSD bool // lists by LIST also where the server offers MLSD

	ConnectTimeout   time.Duration // from the first packet to the readiness for commands, and for a connection for content
	OperationTimeout time.Duration // longest silence of the server where it is its turn
	MaxListing       int           // bytes of one listing

	// Guard begins what bounds a listing besides, and returns a context for it, what
	// is told the bytes that have come, and what ends it. Nil means that nothing
	// does.
	Guard func(ctx context.Context) (guarded context.Context, moved func(bytes int64), end func())
	// Dial makes the connections, for example through a proxy. Nil means
	// [net.Dialer.DialContext].
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Redact replaces secrets in text for people, such as the words of a server. It
	// must not be nil.
	Redact func(string) string
	// Log gets what was agreed on. It must not be nil.
	Log *slog.Logger
}

// Check reports what is wrong with the fields about TLS.
func (c Config) Check() error {
	_, err := c.tlsConfig()
	return err
}

// hostname is the host of Addr.
func (c Config) hostname() string {
	host, _, err := net.SplitHostPort(c.Addr)
	if err != nil {
		return c.Addr
	}
	return host
}

// The values of Config.Security and Config.CertificatePolicy.
const (
	SecurityExplicit = "explicit"
	SecurityImplicit = "implicit"
	SecurityNone     = "none"

	PolicySystem   = "system"
	PolicyPinned   = "pinned"
	PolicyInsecure = "insecure"
)

// CheckArgument reports text that can't be part of a command: it would end the
// command, and begin another.
func CheckArgument(field, text string) error {
	for i := range len(text) {
		if b := text[i]; b < 0x20 || b == 0x7f || b == 0xff {
			return fmt.Errorf("%s: contains a control character, which no FTP server takes as part of a command", field)
		}
	}
	return nil
}
