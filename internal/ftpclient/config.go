package ftpclient

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"time"
)

// A Config says how to reach an FTP server, how client and server authenticate, and which parts
// of the protocol to use. No field has a default unless its comment states one.
type Config struct {
	Addr     string // "host:port"
	Username string // as the server knows it
	Password string

	// Security is how the connection is encrypted: "explicit" (AUTH TLS before
	// anything else), "implicit" (TLS from the first byte), or "none".
	Security string

	// CertificatePolicy is what the server's certificate must be: "system", "pinned" (one of
	// PinnedCertificates), or "insecure" (any certificate). Empty means "system".
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

	// Guard starts the guard of a listing. It returns a context for the listing, a function that
	// gets the number of bytes that have arrived, and a function that ends the guard. Nil means
	// no guard.
	Guard func(ctx context.Context) (guarded context.Context, moved func(bytes int64), end func())
	// Dial makes the connections, for example through a proxy. Nil means
	// [net.Dialer.DialContext].
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Redact replaces secrets in text for human readers, such as messages of a server. It must
	// not be nil.
	Redact func(string) string
	// Log receives the negotiated properties of the connection. It must not be nil.
	Log *slog.Logger
}

// Check reports errors in the fields about TLS.
func (c Config) Check() error {
	_, err := c.tlsConfig()
	return err
}

// hostname returns the host of Addr.
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

// CheckArgument returns an error for text that cannot be part of a command, since it would end
// the command and begin another one.
func CheckArgument(field, text string) error {
	for i := range len(text) {
		if b := text[i]; b < 0x20 || b == 0x7f || b == 0xff {
			return fmt.Errorf("%s: contains a control character, which no FTP server takes as part of a command", field)
		}
	}
	return nil
}
