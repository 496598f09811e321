package sftp

import (
	"context"
	"net"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/connerr"
	"github.com/courierhq/courier/internal/connfile"
	"github.com/courierhq/courier/internal/sftpclient"
)

// dial opens a session.
func dial(ctx context.Context, job *courier.Context, all Connections, id string, c Connection) (*session, error) {
	return dialVia(ctx, job, all, id, c, sftpclient.Dial)
}

// dialVia opens a session, or only the SSH connection if other connections are
// reached through it. Above are the ids of the connections that wait for this
// one.
func dialVia(ctx context.Context, job *courier.Context, all Connections, id string, c Connection, dial func(context.Context, sftpclient.Config) (*sftpclient.Conn, error), above ...string) (*session, error) {
	s := &session{id: id, addr: c.address(), redact: job.Redact, limits: c.limits()}
	config, err := c.config(ctx, job)
	if err == nil {
		config.Log = job.Log().With("connection", id, "host", s.addr)
		if c.Jump != "" {
			config.Dial = through(job, all, c.Jump, append(above, id))
		}
		s.Conn, err = dial(ctx, config)
	}
	if err != nil {
		return nil, s.fault("connect", "", err)
	}
	return s, nil
}

// config returns c with its secrets, as the client's configuration.
func (c Connection) config(ctx context.Context, job *courier.Context) (sftpclient.Config, error) {
	c, err := c.withDefaults()
	if err != nil {
		return sftpclient.Config{}, courier.Permanent(err)
	}
	for _, f := range []struct {
		field string
		text  *string
	}{
		{"password", &c.Password}, {"private_key", &c.PrivateKey}, {"passphrase", &c.Passphrase}, {"certificate", &c.Certificate},
	} {
		if *f.text, err = connfile.Secret(ctx, job, f.field, *f.text); err != nil {
			return sftpclient.Config{}, err
		}
	}
	return sftpclient.Config{
		Addr: c.address(), Username: c.Username,
		Password: c.Password, PrivateKey: c.PrivateKey, Passphrase: c.Passphrase, Certificate: c.Certificate,
		AgentSocket: c.AgentSocket, Agent: c.Agent, Challenge: c.Challenge,
		HostKeys: c.HostKeys, KnownHosts: c.KnownHosts, TrustOnFirstUse: c.TrustOnFirstUse,
		ForgetHostKey: job.DryRun(), InsecureIgnoreHostKey: c.InsecureIgnoreHostKey,
		Algorithms:     sftpclient.Algorithms(c.Algorithms),
		ConnectTimeout: c.ConnectTimeout, KeepAlive: *c.KeepAlive, OperationTimeout: c.OperationTimeout, Channels: c.Channels,
		Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := c.Dial(ctx, network, addr)
			if err != nil {
				return nil, connerr.Presentable(err)
			}
			return conn, nil
		},
		Redact: job.Redact,
	}, nil
}
