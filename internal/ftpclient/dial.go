package ftpclient

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/courierhq/courier/internal/connerr"
	"github.com/courierhq/courier/internal/failure"
	"github.com/courierhq/courier/internal/safehttp"
	"github.com/courierhq/courier/internal/safename"
)

// errConnectTimeout is the cause that ends connecting after Connection.ConnectTimeout.
var errConnectTimeout = errors.New("the server was not ready in time")

// Dial logs in at an FTP server. It tries once more if the server closes the connection instead
// of answering the login. Dial ends when ctx ends or c.ConnectTimeout has passed.
func Dial(ctx context.Context, c Config) (*Conn, error) {
	s := &Conn{c: c}
	var err error
	if s.tls, err = c.tlsConfig(); err != nil {
		return nil, failure.Permanent(err)
	}
	err = s.connect(ctx)
	if isHungUp(err) && ctx.Err() == nil {
		err = refusedTwice(s.connect(ctx))
	}
	if err != nil {
		return nil, err
	}
	s.report()
	return s, nil
}

// connect opens the session, for the first time or again after its end. It closes everything
// unless it succeeds.
func (s *Conn) connect(ctx context.Context) error {
	timeout, cancel := context.WithTimeoutCause(ctx, s.c.ConnectTimeout,
		fmt.Errorf("%w, which is %v (connect_timeout_seconds)", errConnectTimeout, s.c.ConnectTimeout))
	defer cancel()
	conn, err := s.dialTo(timeout, s.c.Addr)
	if err != nil {
		return connerr.Ended(timeout, connerr.Presentable(err))
	}
	s.begin(conn)
	stop := context.AfterFunc(timeout, func() { s.End(context.Cause(timeout)) })
	err = s.login(timeout)
	if !stop() && err == nil {
		err = context.Cause(timeout)
	}
	if err != nil {
		s.End(err)
	}
	return connerr.Ended(timeout, err)
}

func (s *Conn) dialTo(ctx context.Context, addr string) (net.Conn, error) {
	if s.c.Dial != nil {
		return s.c.Dial(ctx, "tcp", addr)
	}
	return (&net.Dialer{}).DialContext(ctx, "tcp", addr)
}

// login prepares the connection for commands about files. It sends credentials only when the
// connection is as secure as required.
func (s *Conn) login(ctx context.Context) error {
	if s.c.Security == SecurityImplicit {
		if err := s.secure(ctx); err != nil {
			return err
		}
	}
	if err := s.greet(ctx); err != nil {
		return err
	}
	if s.c.Security == SecurityExplicit {
		if _, err := s.command(ctx, "AUTH", "TLS"); err != nil {
			if IsReply(err) {
				return failure.Permanent(fmt.Errorf(`the server offers no TLS (AUTH TLS); ask its operator to enable it, or, if an unencrypted connection is acceptable, set security to "none": %w`, err))
			}
			return err
		}
		if err := s.secure(ctx); err != nil {
			return err
		}
	}
	if err := s.identify(ctx); err != nil {
		return err
	}
	return s.settle(ctx)
}

func (s *Conn) greet(ctx context.Context) error {
	for range maxMarks {
		r, err := s.hear(ctx)
		switch {
		case IsReply(err):
			return fmt.Errorf("the server accepts no connections: %w", err)
		case err != nil:
			return err
		case r.code >= 200:
			s.banner = r.text()
			return nil
		}
	}
	return broken("its greeting has no end")
}

// secure encrypts the connection.
func (s *Conn) secure(ctx context.Context) error {
	if n := s.line.r.Buffered(); n > 0 {
		return broken("it sends %d bytes in plain sight after encryption was agreed on, as an attacker on the way would", n)
	}
	conn := tls.Client(s.net, s.tls)
	if err := conn.HandshakeContext(ctx); err != nil {
		return s.explainTLS(connerr.Ended(ctx, err))
	}
	s.line = newControlConn(conn, s.c.Redact)
	s.state = conn.ConnectionState()
	return nil
}

// explainTLS says how to fix a failed handshake.
func (s *Conn) explainTLS(err error) error {
	var record tls.RecordHeaderError
	var verify *tls.CertificateVerificationError
	var name x509.HostnameError
	switch {
	case errors.As(err, &name):
		names := name.Certificate.DNSNames
		return failure.Permanent(fmt.Errorf("the server's certificate is not trusted: it was issued for %s and not for %s; its SHA-256 is %s; if the server's operator confirms that, set server_name to a name in it",
			safename.Quote(strings.Join(names[:min(len(names), 10)], ", ")), safename.Quote(name.Host), fingerprint(name.Certificate)))
	case errors.As(err, &record) && s.c.Security == SecurityImplicit:
		return failure.Permanent(fmt.Errorf(`the server does not speak TLS from the first byte; perhaps security must be "explicit", with port 21: %w`, connerr.Presentable(err)))
	case errors.As(err, &verify):
		print := "none"
		if len(verify.UnverifiedCertificates) > 0 {
			print = fingerprint(verify.UnverifiedCertificates[0])
		}
		return failure.Permanent(fmt.Errorf(`the server's certificate is not trusted; its SHA-256 is %s; if the server's operator confirms that, put it into pinned_certificates and set certificate_policy to "pinned", or put the authority's certificate into authorities: %w`, print, connerr.Presentable(verify.Err)))
	case failure.IsPermanent(err):
		return err
	}
	return fmt.Errorf("TLS: %w", connerr.Presentable(err))
}

// identify logs in.
func (s *Conn) identify(ctx context.Context) error {
	r, err := s.command(ctx, "USER", s.c.Username)
	if err == nil && r.code >= 300 {
		r, err = s.command(ctx, "PASS", s.c.Password)
	}
	if err == nil && r.code == 332 {
		return failure.Permanent(errors.New("the server asks for an account (ACCT) besides the password, which is not supported; ask its operator for another login"))
	}
	if err == nil && r.code >= 300 {
		return failure.Permanent(fmt.Errorf("the server asks for more than a password: %d %s", r.code, safename.Quote(s.c.Redact(r.text()))))
	}
	if lost, ok := errors.AsType[*connerr.LostError](err); ok && ctx.Err() == nil {
		return s.lostAtLogin(lost)
	}
	refusal, ok := errors.AsType[*ReplyError](err)
	if !ok {
		return err
	}
	return s.refused(refusal)
}

// refused returns the error of a login that the server refuses. It is temporary only if the reply
// says that the server has too many users.
func (s *Conn) refused(r *ReplyError) error {
	err := fmt.Errorf("the server refuses the login of user %s; check username and password: %w", safename.Quote(s.c.Username), r)
	if r.Code != 430 && (r.Code < 500 || r.Passing()) && !aboutAccount(r.text) {
		return err
	}
	return failure.Permanent(failure.WithClass(err, failure.Login))
}

// aboutAccount reports whether the text of a reply is about the login and not about the number of
// users.
func aboutAccount(text string) bool {
	text = strings.ToLower(text)
	for _, word := range []string{"incorrect", "invalid", "password", "attempt", "fail", "denied", "refused", "disabled", "locked", "expired", "suspended", "not allowed", "not permitted"} {
		if strings.Contains(text, word) {
			return true
		}
	}
	return false
}

// lostAtLogin returns the error of a session that the server has ended instead of answering the
// credentials.
func (s *Conn) lostAtLogin(lost *connerr.LostError) error {
	if ended, ok := errors.AsType[*endedError](lost.Err); ok && aboutAccount(ended.said.text) {
		return s.refused(ended.said)
	}
	if errors.Is(lost, io.EOF) {
		return &hungUpError{lost}
	}
	return lost
}

// A hungUpError says that the server has closed the connection instead of answering credentials.
type hungUpError struct{ err error }

func (e *hungUpError) Error() string {
	return "the server ends the connection in place of an answer to the login: " + e.err.Error()
}
func (e *hungUpError) Unwrap() error { return e.err }

func isHungUp(err error) bool {
	_, ok := errors.AsType[*hungUpError](err)
	return ok
}

// refusedTwice treats a second close of the connection at the login as a refusal: a server is not
// restarted twice at exactly that time.
func refusedTwice(err error) error {
	if isHungUp(err) {
		return failure.Permanent(failure.WithClass(fmt.Errorf("%w, and again; ask the server's operator about the account", err), failure.Login))
	}
	return err
}

// settle negotiates how files are transferred.
func (s *Conn) settle(ctx context.Context) error {
	if s.c.Security != SecurityNone {
		_, err := s.command(ctx, "PBSZ", "0")
		if err == nil {
			_, err = s.command(ctx, "PROT", "P")
		}
		if IsReply(err) {
			return failure.Permanent(fmt.Errorf("the server would send content unencrypted (PROT P): %w", err))
		} else if err != nil {
			return err
		}
	}
	r, err := s.command(ctx, "FEAT", "")
	if err != nil && !IsReply(err) {
		return err
	}
	s.features = make(map[string]string)
	for _, text := range r.lines {
		name, rest, _ := strings.Cut(strings.TrimSpace(text), " ")
		s.features[strings.ToUpper(name)] = rest
	}
	if s.has("UTF8") {
		if _, err := s.command(ctx, "OPTS", "UTF8 ON"); err != nil && !IsReply(err) {
			return err
		}
	}
	if _, err := s.command(ctx, "TYPE", "I"); err != nil {
		return fmt.Errorf("binary transfer (TYPE I): %w", err)
	}
	return nil
}

func (s *Conn) has(feature string) bool {
	_, ok := s.features[feature]
	return ok
}

// report logs the negotiated properties, and collects the warnings.
func (s *Conn) report() {
	attrs := []any{"server", safename.Quote(s.banner), "security", s.c.Security}
	if s.c.Security == SecurityNone {
		s.given = append(s.given, `the connection is not encrypted (security "none"): whoever controls the network can read and change everything, credentials included`)
	} else {
		attrs = append(attrs, "tls", tls.VersionName(s.state.Version), "cipher", tls.CipherSuiteName(s.state.CipherSuite))
		attrs = append(attrs, safehttp.Certificate(s.state.PeerCertificates[0])...)
	}
	s.known = attrs
	if s.c.CertificatePolicy == PolicyInsecure {
		s.given = append(s.given, "the server's certificate "+fingerprint(s.state.PeerCertificates[0])+
			` is not checked (certificate_policy "insecure"): whoever controls the network can read and change everything`)
	}
	s.c.Log.Debug("connected", attrs...)
}

// fingerprint returns the SHA-256 of a certificate.
func fingerprint(c *x509.Certificate) string {
	sum := sha256.Sum256(c.Raw)
	return hex.EncodeToString(sum[:])
}

// tlsConfig returns the configuration for the connections of one session. It has its own session
// cache: many servers require that data connections resume the TLS session of the control
// connection.
func (c Config) tlsConfig() (*tls.Config, error) {
	versions := map[string]uint16{"": 0, "1.2": tls.VersionTLS12, "1.3": tls.VersionTLS13}
	config := &tls.Config{
		ServerName:         c.ServerName,
		MinVersion:         max(tls.VersionTLS12, versions[c.MinTLS]),
		MaxVersion:         versions[c.MaxTLS],
		ClientSessionCache: tls.NewLRUClientSessionCache(8),
	}
	if config.MaxVersion != 0 && config.MaxVersion < config.MinVersion {
		return nil, fmt.Errorf("max_tls %s is below min_tls %s", c.MaxTLS, c.MinTLS)
	}
	if config.ServerName == "" {
		config.ServerName = c.hostname()
	}
	if c.Authorities != "" {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM([]byte(c.Authorities)) {
			return nil, errors.New("authorities hold no certificate in PEM form")
		}
	}
	if c.ClientKey != "" {
		pair, err := tls.X509KeyPair([]byte(c.ClientCertificate), []byte(c.ClientKey))
		if err != nil {
			return nil, errors.New("client_certificate and client_key can't be read, or don't belong together; both must be in PEM form, the key without a passphrase")
		}
		config.Certificates = []tls.Certificate{pair}
	}
	if c.CertificatePolicy == PolicySystem || c.CertificatePolicy == "" {
		return config, nil
	}
	config.InsecureSkipVerify = true
	if c.CertificatePolicy == PolicyPinned {
		pins, err := c.pins()
		if err != nil {
			return nil, err
		}
		config.VerifyConnection = func(state tls.ConnectionState) error { return checkPin(state, pins) }
	}
	return config, nil
}

// pins returns the fingerprints in a uniform notation.
func (c Config) pins() ([]string, error) {
	var pins []string
	for _, p := range c.PinnedCertificates {
		digits := strings.ToLower(strings.ReplaceAll(p, ":", ""))
		if b, err := hex.DecodeString(digits); err != nil || len(b) != sha256.Size {
			return nil, fmt.Errorf("pinned_certificates: %s is not the SHA-256 of a certificate, 64 hexadecimal digits", safename.Quote(p))
		}
		pins = append(pins, digits)
	}
	return pins, nil
}

func checkPin(state tls.ConnectionState, pins []string) error {
	if got := fingerprint(state.PeerCertificates[0]); !slices.Contains(pins, got) {
		return failure.Permanent(fmt.Errorf("the server's certificate has the SHA-256 %s, which is not among pinned_certificates; if the server's operator confirms that it was changed, add it", got))
	}
	return nil
}

// begin makes conn the session's connection.
func (s *Conn) begin(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.net = newLiveConn(conn, s.c.OperationTimeout)
	s.line = newControlConn(s.net, s.c.Redact)
	s.data, s.dead, s.home = nil, nil, ""
	s.began = time.Now()
}
