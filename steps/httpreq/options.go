package httpreq

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/netip"
	"time"

	"github.com/courierhq/courier/internal/safehttp"
	"github.com/courierhq/courier/internal/transfer"
)

// Options are what the host application allows. The zero value allows requests over https to any
// public address.
type Options struct {
	// Networks are non-public addresses that may be requested, such as 10.1.0.0/16.
	Networks []netip.Prefix
	// TrustedHosts are names or addresses of hosts that may be requested whatever their addresses
	// are; "*.corp.example" means all names below corp.example. Whoever controls such a name in
	// the DNS decides which address is requested.
	TrustedHosts []string
	// Hosts are the only hosts that may be requested, in the form of TrustedHosts. Nil means any
	// host. Since a job may send any secret that it can refer to, use Hosts to prevent that
	// secrets are sent to other hosts.
	Hosts []string
	// AllowPlain allows http without TLS.
	AllowPlain bool

	// NoTrace prevents that the trace context of the execution is sent to the requested hosts as
	// the header traceparent (W3C Trace Context).
	NoTrace bool

	// MaxBytes limits a response that is written to a file. 0 means 10 GiB.
	MaxBytes int64
	// MaxOutput limits a response that becomes an output. 0 means 1 MiB.
	MaxOutput int64

	// KeepFree is the number of bytes of the disk that stay free when a response is written to a
	// file, as far as the system reports the free space. 0 means 16 MiB, less than 0 means none.
	KeepFree int64
	// MinRate is the minimum number of bytes per second that the content of a request or response
	// must move, on average over five minutes. 0 means 1024, less than 0 means no limit.
	MinRate int64

	// RootCAs are the authorities that certify servers; nil means the authorities of the system.
	// Certificates are presented to servers that request a client certificate.
	RootCAs      *x509.CertPool
	Certificates []tls.Certificate

	// ConnectTimeout limits connecting, TLS included. 0 means 30 s.
	ConnectTimeout time.Duration

	// Lookup resolves a host name; nil means the system's resolver. Dial connects to an allowed
	// address "ip:port"; nil means [net.Dialer.DialContext].
	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)
	Dial   func(ctx context.Context, network, addr string) (net.Conn, error)
}

const (
	defaultMaxBytes  = 10 << 30
	defaultMaxOutput = 1 << 20
)

func (o *Options) client() safehttp.Options {
	return safehttp.Options{
		Networks: o.Networks, TrustedHosts: o.TrustedHosts, Only: o.Hosts, AllowPlain: o.AllowPlain,
		Lookup: o.Lookup, Dial: o.Dial, RootCAs: o.RootCAs, Certificates: o.Certificates, ConnectTimeout: o.ConnectTimeout,
		Setting: "httpreq.Options",
	}
}

// limits returns the limits for the content of one exchange. The size is limited by limit.
func (o *Options) limits() transfer.Limits {
	return transfer.Limits{MaxBytes: -1, KeepFree: o.KeepFree, MinRate: o.MinRate}
}

// limit returns the maximum number of bytes of a response's content.
func (o *Options) limit(cfg *RequestConfig) int64 {
	most := o.MaxOutput
	if most <= 0 {
		most = defaultMaxOutput
	}
	if cfg.OutputPath != "" {
		if most = o.MaxBytes; most <= 0 {
			most = defaultMaxBytes
		}
	}
	if cfg.MaxBytes > 0 {
		most = min(most, cfg.MaxBytes)
	}
	return most
}
