package sftpserver

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"
)

var errLogin = errors.New("permission denied")

// A conn is a client's connection.
type conn struct {
	server  *Server
	net     net.Conn
	ctx     context.Context // ends with the connection
	dropped atomic.Bool     // no further operation may have an effect
}

// serveConn serves a connection to its end, and leaves closing it to the caller.
func (s *Server) serveConn(nc net.Conn) {
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	c := &conn{server: s, net: nc, ctx: ctx}

	timeout := time.AfterFunc(s.opt.LoginTimeout, func() {
		cancel()
		nc.Close()
	})
	defer timeout.Stop()
	if err := c.do(Op{Method: "connect", Path: nc.RemoteAddr().String()}, nil); err != nil {
		return
	}
	sc, channels, requests, err := ssh.NewServerConn(nc, c.config())
	if err != nil {
		return
	}
	defer sc.Close()
	timeout.Stop()

	var running sync.WaitGroup
	running.Go(func() { ssh.DiscardRequests(requests) })
	var sessions atomic.Int32
	for ch := range channels {
		switch {
		case ch.ChannelType() != "session":
			ch.Reject(ssh.UnknownChannelType, "only sessions are served")
		case int(sessions.Load()) >= s.opt.MaxSessions:
			ch.Reject(ssh.ResourceShortage, "too many sessions")
		default:
			sessions.Add(1)
			running.Go(func() {
				defer sessions.Add(-1)
				c.serveChannel(ch)
			})
		}
	}
	cancel()
	running.Wait()
}

// config returns the server's configuration with the login of this connection.
func (c *conn) config() *ssh.ServerConfig {
	config := *c.server.config
	opt := &c.server.opt
	if len(opt.Users) > 0 {
		if opt.KeyboardInteractive && config.KeyboardInteractiveCallback == nil {
			config.KeyboardInteractiveCallback = c.askPassword
		}
		if !opt.KeyboardInteractive && config.PasswordCallback == nil {
			config.PasswordCallback = c.checkPassword
		}
	}
	if len(opt.AuthorizedKeys) > 0 && config.PublicKeyCallback == nil {
		config.PublicKeyCallback = c.checkKey
	}
	return &config
}

func (c *conn) checkPassword(client ssh.ConnMetadata, password []byte) (*ssh.Permissions, error) {
	want, known := c.server.opt.Users[client.User()]
	a, b := sha256.Sum256(password), sha256.Sum256([]byte(want))
	if subtle.ConstantTimeCompare(a[:], b[:]) != 1 || !known {
		return nil, errLogin
	}
	return nil, c.login(client)
}

func (c *conn) askPassword(client ssh.ConnMetadata, ask ssh.KeyboardInteractiveChallenge) (*ssh.Permissions, error) {
	answers, err := ask("", "", []string{"Password: "}, []bool{false})
	if err != nil {
		return nil, err
	}
	if len(answers) != 1 {
		return nil, errLogin
	}
	return c.checkPassword(client, []byte(answers[0]))
}

func (c *conn) checkKey(client ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
	offered := key.Marshal()
	for _, k := range c.server.opt.AuthorizedKeys {
		if subtle.ConstantTimeCompare(offered, k.Marshal()) == 1 {
			return nil, c.login(client)
		}
	}
	return nil, errLogin
}

func (c *conn) login(client ssh.ConnMetadata) error {
	return c.do(Op{Method: "login", Path: client.User()}, nil)
}

// serveChannel serves an SSH session, which may become an SFTP session once.
func (c *conn) serveChannel(ch ssh.NewChannel) {
	if err := c.do(Op{Method: "session"}, nil); err != nil {
		ch.Reject(ssh.Prohibited, err.Error())
		return
	}
	channel, requests, err := ch.Accept()
	if err != nil {
		return
	}
	defer channel.Close()

	var serving sync.WaitGroup
	started := false
	for r := range requests {
		ok := !started && r.Type == "subsystem" && isSFTP(r.Payload) &&
			c.do(Op{Method: "sftp"}, nil) == nil
		if r.WantReply {
			r.Reply(ok, nil)
		}
		if ok {
			started = true
			serving.Go(func() {
				defer channel.Close()
				c.serve(channel)
				channel.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{0}))
			})
		}
	}
	serving.Wait()
}

func isSFTP(payload []byte) bool {
	var subsystem struct{ Name string }
	return ssh.Unmarshal(payload, &subsystem) == nil && subsystem.Name == "sftp"
}
