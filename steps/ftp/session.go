package ftp

import (
	"context"
	"errors"
	"log/slog"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/connerr"
	"github.com/courierhq/courier/internal/connfile"
	"github.com/courierhq/courier/internal/ftpclient"
	"github.com/courierhq/courier/internal/remote"
	"github.com/courierhq/courier/internal/transfer"
)

// A session is a login at an FTP server. It does one thing at a time, for one
// goroutine; other goroutines may only end it.
type session struct {
	*ftpclient.Conn
	id     string // of the connection
	addr   string // "host:port"
	limits transfer.Limits
}

// fault returns err as the failure of an operation on the session.
func (s *session) fault(op, path string, err error) error {
	return connerr.Fault(connerr.OperationError{Connection: s.id, Host: s.addr, Op: op, Path: path}, err, explain, newError)
}

// logIn logs in at the server of the connection called id.
func logIn(ctx context.Context, job *courier.Context, id string, c Connection) (*ftpclient.Conn, error) {
	config, err := c.config(ctx, job)
	if err == nil {
		config.Log = job.Log().With("connection", id, "host", c.address())
		var s *ftpclient.Conn
		if s, err = ftpclient.Dial(ctx, config); err == nil {
			return s, nil
		}
	}
	return nil, connerr.Fault(connerr.OperationError{Connection: id, Host: c.address(), Op: "connect"}, err, explain, newError)
}

// config returns c with its secrets, as the client's configuration.
func (c Connection) config(ctx context.Context, job *courier.Context) (ftpclient.Config, error) {
	c, err := c.withDefaults()
	if err != nil {
		return ftpclient.Config{}, courier.Permanent(err)
	}
	if c.Password, err = connfile.Secret(ctx, job, "password", c.Password); err == nil {
		err = courier.Permanent(ftpclient.CheckArgument("password", c.Password))
	}
	if err == nil {
		c.ClientKey, err = connfile.Secret(ctx, job, "client_key", c.ClientKey)
	}
	if err != nil {
		return ftpclient.Config{}, err
	}
	config := c.client()
	config.Redact = job.Redact
	config.Guard = func(ctx context.Context) (context.Context, func(int64), func()) {
		ctx, guard := c.limits().Listing().Guard(ctx)
		return ctx, guard.At, guard.End
	}
	return config, nil
}

// client is config without secrets and without the fields that belong to a job.
func (c Connection) client() ftpclient.Config {
	return ftpclient.Config{
		Addr: c.address(), Username: c.Username, Password: c.Password,
		Security: c.Security, CertificatePolicy: c.CertificatePolicy, PinnedCertificates: c.PinnedCertificates,
		Authorities: c.Authorities, ServerName: c.ServerName,
		ClientCertificate: c.ClientCertificate, ClientKey: c.ClientKey, MinTLS: c.MinTLS, MaxTLS: c.MaxTLS,
		Active: c.Active, DisableEPSV: c.DisableEPSV, DisableMLSD: c.DisableMLSD,
		ConnectTimeout: c.ConnectTimeout, OperationTimeout: c.OperationTimeout, MaxListing: remote.MaxListingBytes,
		Dial: c.Dial,
	}
}

// use calls f with a session of the connection called id. It opens a session if
// none is idle. While f runs, the end of ctx ends the session, so that f
// returns.
func use(ctx context.Context, job *courier.Context, c Connections, id string, f func(*session) error) error {
	return more(ctx, job, c, id, func(s *session) error {
		s.warn(job.Log())
		return f(s)
	})
}

// more is use for the second and later calls in an attempt: the warnings about
// insecure settings of the connection have already been logged.
func more(ctx context.Context, job *courier.Context, c Connections, id string, f func(*session) error) error {
	settings, err := connfile.Lookup(ctx, c.Connection, id)
	if err != nil {
		return err
	}
	p, err := courier.Keep(ctx, job, "ftp:"+id, func(context.Context) (*ftpclient.Pool, error) {
		full, err := settings.withDefaults()
		if err != nil {
			return nil, courier.Permanent(&Error{connerr.OperationError{Connection: id, Host: settings.address(), Op: "connect", Err: err}})
		}
		return ftpclient.NewPool(full.MaxSessions, *full.KeepAlive), nil
	})
	if err != nil {
		return err
	}
	login, err := p.Get(ctx, func(ctx context.Context) (*ftpclient.Conn, error) { return logIn(ctx, job, id, settings) })
	if err != nil {
		return err
	}
	s := &session{Conn: login, id: id, addr: settings.address(), limits: settings.limits()}
	stop := context.AfterFunc(ctx, func() { s.End(context.Cause(ctx)) })
	returned := false
	defer func() {
		if !stop() || !returned {
			s.End(ftpclient.ErrClosed)
		}
		p.Put(login)
	}()
	err = f(s)
	returned = true
	return err
}

// isLost reports whether err is the end of a connection, so that a new
// connection may succeed. This is the control connection, or a data connection
// if the server says so.
func isLost(err error) bool {
	if r, ok := errors.AsType[*ftpclient.ReplyError](err); ok {
		return r.Code == 425 || r.Code == 426
	}
	return connerr.IsLost(err)
}

// warn logs, at every use, the insecure settings of the connection.
func (s *session) warn(log *slog.Logger) {
	for _, text := range s.Warnings() {
		log.Warn(text, "connection", s.id, "host", s.addr)
	}
}
