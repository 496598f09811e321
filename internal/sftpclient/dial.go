package sftpclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/courierhq/courier/internal/connerr"
	"github.com/courierhq/courier/internal/failure"
	"github.com/courierhq/courier/internal/safename"
)

// errConnectTimeout is the cause that ends connecting after Connection.ConnectTimeout.
var errConnectTimeout = errors.New("the server was not ready in time")

// Dial logs in at an SSH server and starts SFTP. It tries once more if the server closes the
// connection instead of answering the login, or if it has a host key of another type. Dial ends
// when ctx ends or c.ConnectTimeout has passed.
func Dial(ctx context.Context, c Config) (*Conn, error) { return dialSSH(ctx, c, true) }

// DialJump logs in at an SSH server through which other servers are reached; see [Conn.Tunnel].
// It does not start SFTP.
func DialJump(ctx context.Context, c Config) (*Conn, error) { return dialSSH(ctx, c, false) }

func dialSSH(ctx context.Context, c Config, files bool) (*Conn, error) {
	s := &Conn{addr: c.Addr, speaks: files, redact: c.Redact}
	config, check, done, err := c.clientConfig(ctx, s)
	if err != nil {
		return nil, err
	}
	defer done()
	timeout, cancel := context.WithTimeoutCause(ctx, c.ConnectTimeout,
		fmt.Errorf("%w, which is %v (connect_timeout_seconds)", errConnectTimeout, c.ConnectTimeout))
	defer cancel()
	for _, algorithms := range check.attempts() {
		config.HostKeyAlgorithms = algorithms
		if err = s.connect(timeout, c, config, check); isHungUp(err) {
			err = refusedTwice(s.connect(timeout, c, config, check))
		}
		if !check.mayRetry(err) {
			break
		}
	}
	if check.mayRetry(err) && len(check.seen) > 0 {
		err = check.refusal()
	}
	if err == nil && !c.ForgetHostKey {
		if err = check.remember(timeout); err != nil {
			s.Close()
		}
	}
	if err != nil {
		return nil, connerr.Ended(timeout, err)
	}
	s.report(c.Log, check)
	return s, nil
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
// restarted twice at exactly that time, and some servers report an expired account only in this
// way.
func refusedTwice(err error) error {
	if isHungUp(err) {
		return failure.Permanent(failure.WithClass(fmt.Errorf("%w, and again; ask the server's operator about the account", err), failure.Login))
	}
	return err
}

// mayRetry reports whether, after a handshake that ended with err, another handshake with a
// different type of host key may succeed.
func (h *hostKeyCheck) mayRetry(err error) bool {
	n, ok := errors.AsType[*ssh.AlgorithmNegotiationError](err)
	return ok && n.What == "host key" || err != nil && h.err == errHostKey
}

// clientConfig prepares the configuration that all handshakes share. The returned function
// releases the resources that only the login needs.
func (c Config) clientConfig(ctx context.Context, s *Conn) (*ssh.ClientConfig, *hostKeyCheck, func(), error) {
	algorithms, err := c.Algorithms.resolve()
	if err != nil {
		return nil, nil, nil, failure.Permanent(err)
	}
	check, err := c.hostKeyCheck(algorithms.HostKeys)
	if err != nil {
		return nil, nil, nil, failure.Permanent(err)
	}
	if err := check.recall(ctx, c.TrustOnFirstUse); err != nil {
		return nil, nil, nil, err
	}
	auth, done, err := c.auth(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	return &ssh.ClientConfig{
		AuthCallback: s.loggingIn,
		Config: ssh.Config{
			KeyExchanges: algorithms.KeyExchanges,
			Ciphers:      algorithms.Ciphers,
			MACs:         algorithms.MACs,
		},
		User:            c.Username,
		Auth:            auth,
		ClientVersion:   "SSH-2.0-Courier",
		HostKeyCallback: check.verify,
	}, check, done, nil
}

// connect makes one attempt. It closes everything unless it succeeds.
func (s *Conn) connect(ctx context.Context, c Config, config *ssh.ClientConfig, check *hostKeyCheck) error {
	conn, err := c.Dial(ctx, "tcp", s.addr)
	if err != nil {
		return err
	}
	s.net = newLiveConn(conn)
	stop := context.AfterFunc(ctx, func() { s.net.Close() })
	err = s.handshake(c, config, check)
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		s.net.Close()
		s.running.Wait()
		return err
	}
	s.serve(c.KeepAlive)
	return nil
}

// handshake performs the handshakes of SSH and SFTP.
func (s *Conn) handshake(c Config, config *ssh.ClientConfig, check *hostKeyCheck) error {
	check.err = nil
	s.offered = nil
	sshConn, opened, requests, err := ssh.NewClientConn(s.net, s.addr, config)
	if err != nil {
		return s.handshakeError(err, config.User, check)
	}
	s.ssh = sshConn
	ended := make(chan struct{})
	s.ended = ended
	s.running.Go(func() {
		sshConn.Wait()
		close(ended)
	})
	s.running.Go(func() { ssh.DiscardRequests(requests) })
	s.running.Go(func() {
		for ch := range opened {
			ch.Reject(ssh.Prohibited, "no channels are accepted")
		}
	})
	s.silence = c.OperationTimeout
	s.channels = channels{width: c.Channels, opening: NewToken()}
	live := s.net
	f := newConnState(func() { live.Close() })
	s.Client = nil
	if !s.speaks {
		s.Client = &Client{connState: f}
		return nil
	}
	s.Client, err = s.openClient(f)
	return err
}

// openChannel opens a channel. It returns when the connection has ended. OpenChannel itself does
// not return if the connection ends just when it begins: then nothing closes its channel, and the
// goroutine that waits for it is abandoned.
func openChannel(conn ssh.Conn, ended <-chan struct{}, kind string, extra []byte) (ssh.Channel, <-chan *ssh.Request, error) {
	var ch ssh.Channel
	var requests <-chan *ssh.Request
	opened := make(chan error, 1)
	go func() {
		c, r, err := conn.OpenChannel(kind, extra)
		ch, requests = c, r
		opened <- err
	}()
	select {
	case err := <-opened:
		return ch, requests, err
	case <-ended:
		return nil, nil, io.EOF
	}
}

// openClient opens an SFTP channel.
func (s *Conn) openClient(f *connState) (*Client, error) {
	ch, requests, err := openChannel(s.ssh, s.ended, "session", nil)
	if err != nil {
		if refused, ok := errors.AsType[*ssh.OpenChannelError](err); ok {
			return nil, fmt.Errorf("the server refuses a session: %w", &connerr.Hostile{Err: refused})
		}
		return nil, s.explainLost(err)
	}
	var stderr tail
	s.running.Go(func() { ssh.DiscardRequests(requests) })
	s.running.Go(func() { io.Copy(&stderr, ch.Stderr()) })
	ok, err := ch.SendRequest("subsystem", true, ssh.Marshal(struct{ Name string }{"sftp"}))
	switch {
	case err != nil:
		err = s.explainLost(err)
	case !ok:
		err = failure.Permanent(errors.New("the account may not use SFTP: the server refuses the subsystem; ask the server's operator"))
	}
	var c *Client
	if err == nil {
		c, err = newClient(ch, f, s.silence, s.explainLost, s.Client)
	}
	if err != nil {
		ch.Close()
		if words := stderr.shown(s.redact); words != "" {
			err = fmt.Errorf("%w (the server's words: %s)", err, safename.Quote(words))
		}
		return nil, err
	}
	return c, nil
}

// serve starts the goroutines that serve the connection.
func (s *Conn) serve(keepAlive time.Duration) {
	s.net.roll(keepAliveMisses * keepAlive)
	if s.speaks {
		s.running.Go(s.Client.receive)
	}
	if keepAlive > 0 {
		s.running.Go(func() { s.keepAlive(keepAlive) })
	}
}

// loggingIn is an [ssh.ClientAuthCallback]. It records that credentials are about to be sent, and
// to which server.
func (s *Conn) loggingIn(a *ssh.ClientAuthContext) (ssh.AuthMethod, error) {
	if s.offered == nil {
		s.offered = append([]string{}, a.AllowedMethods...)
	}
	return nil, nil
}

// handshakeError explains why the SSH handshake or the login failed.
func (s *Conn) handshakeError(err error, user string, check *hostKeyCheck) error {
	if check.err != nil {
		return check.err
	}
	if text := err.Error(); s.redact(text) != text {
		err = &worded{s.redact(text), err} // the server's words may repeat the password
	}
	if errors.Is(err, errQuestions) {
		return failure.Permanent(fmt.Errorf("%w to log in user %s; use an account that logs in with a password or key alone", errQuestions, safename.Quote(user)))
	}
	if n, ok := errors.AsType[*ssh.AlgorithmNegotiationError](err); ok {
		text := fmt.Sprintf("no common algorithm for the %s: the server offers only %s, which is considered weak or is unknown; "+
			"if the operator can't change that, name one in the connection's algorithms",
			n.What, safename.Quote(strings.Join(n.RequestedAlgorithms, ", ")))
		return failure.Permanent(&worded{text, n})
	}
	// What the library says itself begins so; the rest comes from the connection.
	told := strings.HasPrefix(strings.TrimPrefix(err.Error(), "ssh: handshake failed: "), "ssh: ")
	switch {
	case told && s.offered != nil, strings.Contains(err.Error(), "disconnect, reason 14"):
		text := ""
		if len(s.offered) > 0 {
			text = fmt.Sprintf(" (it takes %s)", safename.Quote(strings.Join(s.offered, ", ")))
		}
		text = fmt.Sprintf("the server refuses the login of user %s; check username, password and private_key%s", safename.Quote(user), text)
		refused := error(&worded{text, err})                     // the library's words are about messages of the protocol
		if strings.Contains(err.Error(), "disconnect, reason") { // the server's words
			refused = fmt.Errorf("%s: %w", text, &connerr.Hostile{Err: err})
		}
		return failure.Permanent(failure.WithClass(refused, failure.Login))
	case !told && s.offered != nil && errors.Is(s.net.cause(), io.EOF):
		return &hungUpError{&connerr.LostError{Err: io.EOF}}
	case s.net.cause() != nil:
		return &connerr.LostError{Err: s.net.cause()}
	}
	return &connerr.Hostile{Err: err}
}

// report logs the negotiated properties, and collects the warnings.
func (s *Conn) report(log *slog.Logger, check *hostKeyCheck) {
	algorithms := s.ssh.(ssh.AlgorithmsConnMetadata).Algorithms()
	log.Debug("connected", "server", safename.Quote(string(s.ssh.ServerVersion())), "host_key", check.seen,
		"key_exchange", algorithms.KeyExchange, "cipher", algorithms.Read.Cipher)
	s.known = []any{"server", safename.Quote(string(s.ssh.ServerVersion())), "host_key", check.seen[len(check.seen)-1],
		"key_exchange", algorithms.KeyExchange, "cipher", algorithms.Read.Cipher, "mac", algorithms.Read.MAC}
	if check.first {
		log.Warn("the server's host key is trusted because it is the first that was seen (TrustOnFirstUse)", "host_key", check.seen[len(check.seen)-1])
	}
	if check.insecure && !check.matched {
		s.given = append(s.given, "the server's host key "+check.seen[len(check.seen)-1]+
			" is not checked (insecure_ignore_host_key): whoever controls the network can read and change everything")
	}
	if isInsecure(algorithms) {
		s.given = append(s.given, fmt.Sprintf("the connection uses an algorithm that is considered weak, as its configuration allows: "+
			"key exchange %s, host key %s, cipher %s, MAC %q", algorithms.KeyExchange, algorithms.HostKey, algorithms.Write.Cipher, algorithms.Write.MAC))
	}
}

// A tail keeps the end of a server's output that is not part of the protocol.
type tail struct {
	mu   sync.Mutex
	last []byte
}

const (
	tailSize = 512
	tailKept = 8 << 10 // more than is shown, so that no part of a secret is
)

// Write stores the end of p.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = append(t.last, p[max(0, len(p)-tailKept):]...)
	t.last = slices.Delete(t.last, 0, max(0, len(t.last)-tailKept))
	return len(p), nil
}

// shown returns the stored output, without line ends and secrets.
func (t *tail) shown(redact func(string) string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := redact(string(t.last))
	return strings.TrimSpace(text[max(0, len(text)-tailSize):])
}

// worded is an error with a text for human readers.
type worded struct {
	text string
	err  error
}

func (e *worded) Error() string { return e.text }
func (e *worded) Unwrap() error { return e.err }
