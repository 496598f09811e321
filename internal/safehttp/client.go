// Package safehttp is the HTTP client of the built-in steps, for URLs that may
// come from anybody and servers that may do anything.
//
// It connects only to public addresses, and to those that the host application
// allows. The address is looked at when the socket is about to be connected, so
// a name that has one address when it is checked and another when it is used
// gains nothing. Redirects are limited, go through the same guard, and take
// neither credentials nor a client certificate nor an unsafe method to another
// origin; from a public address they lead to public addresses only, whatever
// else is allowed. TLS is at least 1.2 and always verified.
// Neither proxies of the environment nor cookies nor automatic decompression
// are used. Headers are limited in size and in time, and a body must arrive
// with some speed.
//
// Messages show no more of a URL than its origin, and text of a server only in
// quotes.
package safehttp

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"syscall"
	"time"
)

// Options say what a [Client] may reach. The zero value allows public addresses
// by https.
type Options struct {
	Networks     []netip.Prefix // networks that may be reached although they are not public
	TrustedHosts []string       // hosts that may be reached wherever they are, as in Only
	// Only are the hosts that may be asked at all: names, addresses, or
	// "*.example.com" for all names below. Nil means any.
	Only       []string
	AllowPlain bool // allow http without TLS
	// Setting names the options of the host application that allow more, for errors.
	Setting string

	// Lookup finds the addresses of a name. Nil means the system's resolver.
	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)
	// Dial connects to an address "ip:port" that the guard has let pass. Nil
	// means [net.Dialer.DialContext].
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)

	RootCAs        *x509.CertPool    // who may vouch for servers; nil means the system's
	Certificates   []tls.Certificate // what is shown to servers that ask for one
	ConnectTimeout time.Duration     // for a connection with TLS; 0 means 30 s

	redirected bool // by a public address, which messages tell
}

const (
	defaultConnectTimeout = 30 * time.Second
	maxHeaderBytes        = 64 << 10
	idleConnTimeout       = 60 * time.Second
	maxIdlePerHost        = 4
)

// A Client makes requests. It may be used by several goroutines, and must be
// closed.
type Client struct {
	opt    Options
	routes [4]*http.Transport // by route.index

	base context.Context // ends with Close
	end  context.CancelFunc

	mu    sync.Mutex
	conns map[*conn]struct{}
}

// New returns a client.
func New(opt Options) *Client {
	if opt.ConnectTimeout <= 0 {
		opt.ConnectTimeout = defaultConnectTimeout
	}
	c := &Client{opt: opt, conns: make(map[*conn]struct{})}
	c.base, c.end = context.WithCancel(context.Background())
	for _, way := range []route{{}, {away: true}, {public: true}, {away: true, public: true}} {
		c.routes[way.index()] = c.transport(way)
	}
	return c
}

// A route is what redirects have made of a request. Each has connections of its
// own, so that none is used again where it must not be.
type route struct {
	away   bool // it has left its origin: no client certificate is shown
	public bool // a public address has redirected it: only such may be reached
}

func (w route) index() int {
	i := 0
	if w.away {
		i = 1
	}
	if w.public {
		i += 2
	}
	return i
}

// along returns the options for requests of a route.
func (o *Options) along(w route) Options {
	opt := *o
	if w.away {
		opt.Certificates = nil
	}
	if w.public {
		opt.Networks, opt.TrustedHosts, opt.redirected = nil, nil, true
	}
	return opt
}

// transport returns that of a route.
func (c *Client) transport(w route) *http.Transport {
	opt := c.opt.along(w)
	http1 := new(http.Protocols)
	http1.SetHTTP1(true)
	return &http.Transport{
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			k, err := c.dial(ctx, &opt, network, addr)
			if err != nil {
				return nil, err
			}
			return k, nil
		},
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: opt.RootCAs, Certificates: opt.Certificates},
		TLSHandshakeTimeout:    opt.ConnectTimeout,
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxHeaderBytes,
		IdleConnTimeout:        idleConnTimeout,
		MaxIdleConnsPerHost:    maxIdlePerHost,
		Protocols:              http1,
	}
}

// Close closes all connections, also those in use. The client can't be used
// any more.
func (c *Client) Close() error {
	c.end()
	for _, t := range c.routes {
		t.CloseIdleConnections()
	}
	c.mu.Lock()
	open := make([]*conn, 0, len(c.conns))
	for k := range c.conns {
		open = append(open, k)
	}
	c.mu.Unlock()
	for _, k := range open {
		k.Close()
	}
	return nil
}

// A conn is known to its client until it is closed.
type conn struct {
	net.Conn
	client *Client
	public bool // the address is public, or not known
}

// isPublic reports whether a connection of a transport leads to a public address.
// One that can't be told counts as public, from which less is followed.
func isPublic(k net.Conn) bool {
	if secure, ok := k.(*tls.Conn); ok {
		k = secure.NetConn()
	}
	own, ok := k.(*conn)
	return !ok || own.public
}

// Close closes the connection and forgets it.
func (k *conn) Close() error {
	k.client.mu.Lock()
	delete(k.client.conns, k)
	k.client.mu.Unlock()
	return k.Conn.Close()
}

// errClosed is the error of a client that was closed.
var errClosed = errors.New("the HTTP client is closed")

// dial connects to the host and port of a URL.
func (c *Client) dial(ctx context.Context, opt *Options, network, addr string) (*conn, error) {
	ctx, cancel := context.WithTimeout(ctx, c.opt.ConnectTimeout)
	defer cancel()
	stop := context.AfterFunc(c.base, cancel)
	defer stop()
	raw, ip, err := opt.connect(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	k := &conn{Conn: raw, client: c, public: !ip.IsValid() || Public(ip)}
	c.mu.Lock()
	closed := c.base.Err() != nil
	if !closed {
		c.conns[k] = struct{}{}
	}
	c.mu.Unlock()
	if closed {
		raw.Close()
		return nil, errClosed
	}
	return k, nil
}

// connect connects to an address that the guard allows, and tells it; the zero
// address if it is not known.
func (o *Options) connect(ctx context.Context, network, addr string) (net.Conn, netip.Addr, error) {
	none := netip.Addr{}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, none, err
	}
	d := &net.Dialer{}
	if !o.trusts(host) {
		d.ControlContext = func(_ context.Context, network, address string, _ syscall.RawConn) error {
			return o.control(network, address)
		}
	}
	if o.Lookup == nil && o.Dial == nil {
		k, err := d.DialContext(ctx, network, addr)
		if err != nil {
			return nil, none, err
		}
		at, _ := netip.ParseAddrPort(k.RemoteAddr().String())
		return k, at.Addr(), nil
	}
	dial := o.Dial
	if dial == nil {
		dial = d.DialContext
	}
	ips, err := o.resolve(ctx, host)
	if err != nil {
		return nil, none, err
	}
	var first error
	for _, ip := range ips {
		k, err := dial(ctx, network, net.JoinHostPort(ip.String(), port))
		if err == nil {
			return k, ip, nil
		}
		if first == nil {
			first = err
		}
	}
	return nil, none, first
}
