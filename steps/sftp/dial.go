package sftp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/safename"
)

// errConnectTimeout is the cause with which connecting ends after
// Connection.ConnectTimeout.
var errConnectTimeout = errors.New("the server was not ready in time")

// dial opens a session.
func dial(ctx context.Context, job *courier.Context, id string, c Connection) (*session, error) {
	s := &session{id: id, addr: c.address()}
	fault := func(err error) error { return s.fault("connect", "", err) }
	c, err := c.withDefaults()
	if err != nil {
		return nil, fault(courier.Permanent(err))
	}
	config, check, err := c.clientConfig(ctx, job)
	if err != nil {
		return nil, fault(err)
	}
	timeout, cancel := context.WithTimeoutCause(ctx, c.ConnectTimeout,
		fmt.Errorf("%w, which is %v (connect_timeout_seconds)", errConnectTimeout, c.ConnectTimeout))
	defer cancel()
	for _, algorithms := range check.attempts() {
		config.HostKeyAlgorithms = algorithms
		if err = s.connect(timeout, c, config, check); !check.mayRetry(err) {
			break
		}
	}
	if check.mayRetry(err) && len(check.seen) > 0 {
		err = check.refusal()
	}
	if err != nil {
		return nil, fault(ended(timeout, err))
	}
	s.report(job.Log(), check)
	return s, nil
}

// mayRetry reports whether a handshake ended with err so that one with another
// type of host key may succeed.
func (h *hostKeyCheck) mayRetry(err error) bool {
	n, ok := errors.AsType[*ssh.AlgorithmNegotiationError](err)
	return ok && n.What == "host key" || err != nil && h.err == errHostKey
}

// clientConfig prepares what all handshakes have in common.
func (c Connection) clientConfig(ctx context.Context, job *courier.Context) (*ssh.ClientConfig, *hostKeyCheck, error) {
	algorithms, err := c.Algorithms.resolve()
	if err != nil {
		return nil, nil, courier.Permanent(err)
	}
	check, err := c.hostKeyCheck(algorithms.HostKeys)
	if err != nil {
		return nil, nil, courier.Permanent(err)
	}
	auth, err := c.auth(ctx, job)
	if err != nil {
		return nil, nil, err
	}
	return &ssh.ClientConfig{
		Config: ssh.Config{
			KeyExchanges: algorithms.KeyExchanges,
			Ciphers:      algorithms.Ciphers,
			MACs:         algorithms.MACs,
		},
		User:            c.Username,
		Auth:            auth,
		ClientVersion:   "SSH-2.0-Courier",
		HostKeyCallback: check.verify,
	}, check, nil
}

// auth returns the ways to log in, the private key first.
func (c Connection) auth(ctx context.Context, job *courier.Context) ([]ssh.AuthMethod, error) {
	password, err := secret(ctx, job, "password", c.Password)
	if err != nil {
		return nil, err
	}
	key, err := secret(ctx, job, "private_key", c.PrivateKey)
	if err != nil {
		return nil, err
	}
	passphrase, err := secret(ctx, job, "passphrase", c.Passphrase)
	if err != nil {
		return nil, err
	}
	var methods []ssh.AuthMethod
	if key != "" {
		signer, err := parseKey(key, passphrase)
		if err != nil {
			return nil, courier.Permanent(err)
		}
		methods = append(methods, ssh.PublicKeys(signer))
	}
	if password != "" {
		methods = append(methods, ssh.Password(password), ssh.KeyboardInteractive(answerHidden(password)))
	}
	return methods, nil
}

func parseKey(key, passphrase string) (ssh.Signer, error) {
	signer, err := ssh.ParsePrivateKey([]byte(key))
	if _, encrypted := errors.AsType[*ssh.PassphraseMissingError](err); encrypted {
		if passphrase == "" {
			return nil, errors.New("private_key is encrypted, and passphrase is missing")
		}
		if signer, err = ssh.ParsePrivateKeyWithPassphrase([]byte(key), []byte(passphrase)); err != nil {
			return nil, errors.New("private_key can't be decrypted; check passphrase")
		}
	}
	if err != nil {
		return nil, errors.New("private_key can't be read; it must be the whole text of a key file in OpenSSH's or another PEM form")
	}
	return signer, nil
}

// errQuestions ends a login in which the server asks for more than is known.
var errQuestions = errors.New("the server asks for more than a password")

// answerHidden answers the one question that asks for a password. Whatever
// else the server asks stays unanswered.
func answerHidden(password string) ssh.KeyboardInteractiveChallenge {
	asked := false
	return func(_, _ string, questions []string, echos []bool) ([]string, error) {
		if len(questions) == 0 {
			return nil, nil
		}
		if asked || len(questions) != 1 || echos[0] {
			return nil, errQuestions
		}
		asked = true
		return []string{password}, nil
	}
}

// connect makes one attempt. It leaves nothing open unless it succeeds.
func (s *session) connect(ctx context.Context, c Connection, config *ssh.ClientConfig, check *hostKeyCheck) error {
	conn, err := c.Dial(ctx, "tcp", s.addr)
	if err != nil {
		return presentable(err)
	}
	s.conn = newLiveConn(conn)
	stop := context.AfterFunc(ctx, func() { s.conn.Close() })
	err = s.handshake(c, config, check)
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		s.conn.Close()
		s.running.Wait()
		return err
	}
	s.serve(*c.KeepAlive)
	return nil
}

// handshake takes the connection through SSH's and SFTP's beginnings.
func (s *session) handshake(c Connection, config *ssh.ClientConfig, check *hostKeyCheck) error {
	check.err = nil
	conn, channels, requests, err := ssh.NewClientConn(s.conn, s.addr, config)
	if err != nil {
		return s.handshakeError(err, config.User, check)
	}
	s.ssh = conn
	s.running.Go(func() { ssh.DiscardRequests(requests) })
	s.running.Go(func() {
		for ch := range channels {
			ch.Reject(ssh.Prohibited, "no channels are accepted")
		}
	})
	s.silence = c.OperationTimeout
	s.lanes = lanes{width: c.Channels, opening: newToken()}
	live := s.conn
	s.client = nil
	s.client, err = s.openClient(newFate(func() { live.Close() }))
	return err
}

// openClient opens a channel with SFTP on it.
func (s *session) openClient(f *fate) (*client, error) {
	ch, requests, err := s.ssh.OpenChannel("session", nil)
	if err != nil {
		if refused, ok := errors.AsType[*ssh.OpenChannelError](err); ok {
			return nil, fmt.Errorf("the server refuses a session: %w", &hostile{refused})
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
		err = courier.Permanent(errors.New("the account may not use SFTP: the server refuses the subsystem; ask the server's operator"))
	}
	var c *client
	if err == nil {
		c, err = newClient(ch, f, s.silence, s.explainLost, s.client)
	}
	if err != nil {
		ch.Close()
		if words := stderr.String(); words != "" {
			err = fmt.Errorf("%w (the server's words: %s)", err, safename.Quote(words))
		}
		return nil, err
	}
	return c, nil
}

// serve starts what serves the connection from now on.
func (s *session) serve(keepAlive time.Duration) {
	s.conn.roll(keepAliveMisses * keepAlive)
	s.running.Go(s.client.receive)
	if keepAlive > 0 {
		s.running.Go(func() { s.keepAlive(keepAlive) })
	}
}

// handshakeError explains why SSH's handshake or the login did not succeed.
func (s *session) handshakeError(err error, user string, check *hostKeyCheck) error {
	if check.err != nil {
		return check.err
	}
	if errors.Is(err, errQuestions) {
		return courier.Permanent(fmt.Errorf("%w to log in user %s; use an account that logs in with a password or key alone", errQuestions, safename.Quote(user)))
	}
	if n, ok := errors.AsType[*ssh.AlgorithmNegotiationError](err); ok {
		text := fmt.Sprintf("no common algorithm for the %s: the server offers only %s, which is considered weak or is unknown; "+
			"if the operator can't change that, name one in the connection's algorithms",
			n.What, safename.Quote(strings.Join(n.RequestedAlgorithms, ", ")))
		return courier.Permanent(&worded{text, n})
	}
	if text := err.Error(); strings.Contains(text, "unable to authenticate") || strings.Contains(text, "disconnect, reason 14") ||
		strings.Contains(text, "disconnect, reason 2:") && len(check.seen) > 0 {
		return courier.Permanent(fmt.Errorf("the server refuses the login of user %s; check username, password and private_key: %w",
			safename.Quote(user), &hostile{err}))
	}
	if cause := s.conn.cause(); cause != nil {
		return &lostError{cause}
	}
	return &hostile{err}
}

// report writes down what was agreed on, and collects what to warn about.
func (s *session) report(log *slog.Logger, check *hostKeyCheck) {
	log = log.With("connection", s.id, "host", s.addr)
	algorithms := s.ssh.(ssh.AlgorithmsConnMetadata).Algorithms()
	log.Debug("connected", "server", safename.Quote(string(s.ssh.ServerVersion())), "host_key", check.seen,
		"key_exchange", algorithms.KeyExchange, "cipher", algorithms.Read.Cipher,
		"read_bytes", s.readChunk, "write_bytes", s.writeChunk)
	if check.insecure && !check.matched {
		s.warnings = append(s.warnings, "the server's host key "+check.seen[len(check.seen)-1]+
			" is not checked (insecure_ignore_host_key): whoever controls the network can read and change everything")
	}
	if isInsecure(algorithms) {
		s.warnings = append(s.warnings, fmt.Sprintf("the connection uses an algorithm that is considered weak, as its configuration allows: "+
			"key exchange %s, host key %s, cipher %s, MAC %q", algorithms.KeyExchange, algorithms.HostKey, algorithms.Write.Cipher, algorithms.Write.MAC))
	}
}

// A tail keeps the last words of a server that says something where nothing is
// expected.
type tail struct {
	mu   sync.Mutex
	last []byte
}

const tailSize = 512

// Write keeps the end of p.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = append(t.last, p[max(0, len(p)-tailSize):]...)
	t.last = slices.Delete(t.last, 0, max(0, len(t.last)-tailSize))
	return len(p), nil
}

// String returns what was kept, without line ends.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.last))
}

var _ net.Conn = (*liveConn)(nil)
