package sftpclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"github.com/courierhq/courier/internal/connerr"
	"github.com/courierhq/courier/internal/failure"
)

// auth returns the authentication methods, the private key first, and a
// function that releases their resources.
func (c Config) auth(ctx context.Context) ([]ssh.AuthMethod, func(), error) {
	var signers []ssh.Signer
	if c.PrivateKey != "" {
		signer, err := parseKey(c.PrivateKey, c.Passphrase)
		if err == nil && c.Certificate != "" {
			signer, err = certify(signer, c.Certificate)
		}
		if err != nil {
			return nil, nil, failure.Permanent(err)
		}
		signers = append(signers, signer)
	}
	more, done, err := c.agentSigners(ctx)
	if err != nil {
		return nil, nil, err
	}
	var methods []ssh.AuthMethod
	if signers = append(signers, more...); len(signers) > 0 {
		methods = append(methods, ssh.PublicKeys(signers...))
	}
	if c.Password != "" {
		methods = append(methods, ssh.Password(c.Password))
	}
	switch {
	case c.Challenge != nil:
		methods = append(methods, ssh.KeyboardInteractive(func(_, instruction string, questions []string, echoed []bool) ([]string, error) {
			if len(questions) == 0 {
				return nil, nil
			}
			return c.Challenge(ctx, instruction, questions, echoed)
		}))
	case c.Password != "":
		methods = append(methods, ssh.KeyboardInteractive(answerHidden(c.Password)))
	}
	return methods, done, nil
}

// certify combines a private key with the certificate of its public key.
func certify(signer ssh.Signer, text string) (ssh.Signer, error) {
	key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(text))
	cert, ok := key.(*ssh.Certificate)
	if err != nil || !ok {
		return nil, errors.New("certificate can't be read; it must be the whole text of a file such as id_ed25519-cert.pub")
	}
	if cert.CertType != ssh.UserCert {
		return nil, errors.New("certificate is one for hosts, not for users")
	}
	s, err := ssh.NewCertSigner(cert, signer)
	if err != nil {
		return nil, errors.New("certificate belongs to another key than private_key")
	}
	return s, nil
}

// maxAgentKeys is the maximum number of keys of an agent that are tried.
// Servers end a connection after a few unknown keys.
const maxAgentKeys = 5

// agentSigners returns the keys of the agent, if there is one. They can be used
// until the returned function is called.
func (c Config) agentSigners(ctx context.Context) ([]ssh.Signer, func(), error) {
	a, err := agent.Agent(nil), error(nil)
	what := "agent"
	switch {
	case c.Agent != nil:
		a, err = c.Agent(ctx)
	case c.AgentSocket != "":
		what = "agent_socket"
		var conn net.Conn
		if conn, err = (&net.Dialer{}).DialContext(ctx, "unix", c.AgentSocket); err == nil {
			stop := context.AfterFunc(ctx, func() { conn.Close() })
			a = &socketAgent{agent.NewClient(conn), conn, stop}
		}
	default:
		return nil, func() {}, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", what, err)
	}
	done := func() {
		if closer, ok := a.(io.Closer); ok {
			closer.Close()
		}
	}
	signers, err := a.Signers()
	if err == nil && len(signers) == 0 {
		err = errors.New("it holds no keys; add one with ssh-add")
	}
	if err != nil {
		done()
		return nil, nil, fmt.Errorf("%s: %w", what, connerr.Ended(ctx, err))
	}
	return signers[:min(len(signers), maxAgentKeys)], done, nil
}

// A socketAgent is an agent with its own connection.
type socketAgent struct {
	agent.Agent
	conn net.Conn
	stop func() bool
}

// Close ends the connection.
func (a *socketAgent) Close() error {
	a.stop()
	return a.conn.Close()
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

// errQuestions ends a login if the server asks questions that cannot be
// answered.
var errQuestions = errors.New("the server asks for more than a password")

// answerHidden answers a single question that asks for a password. It answers
// no other questions.
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
