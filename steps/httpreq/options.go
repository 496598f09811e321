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

// Options are what the host application allows. The zero value allows requests
// by https to any public address.
type Options struct {
	// Networks are addresses that may be requested although they are not
	// public, such as 10.1.0.0/16.
	Networks []netip.Prefix
	// TrustedHosts are names, or addresses, of hosts that may be requested
	// wherever they are; "*.corp.example" stands for all names below. Whoever
	// controls such a name in the DNS decides which address it leads to.
	TrustedHosts []string
	// Hosts are the only ones that may be requested at all, in the form of
	// TrustedHosts. Nil means any. Since a job may send any secret that it can
	// refer to, this is what keeps secrets from going elsewhere.
	Hosts []string
	// AllowPlain allows http without TLS.
	AllowPlain bool

	// NoTrace keeps the trace context of the execution, which goes along as the header
	// traceparent (W3C Trace Context), from the hosts that are requested.
	NoTrace bool

	// MaxBytes limits a response that is written to a file. 0 means 10 GiB.
	MaxBytes int64
	// MaxOutput limits a response that becomes an output. 0 means 1 MiB.
	MaxOutput int64

	// KeepFree is how many bytes of the disk stay free of responses that are
	// written to a file, as far as the system tells. 0 means 16 MiB, less than 0
	// none.
	KeepFree int64
	// MinRate is how many bytes per second the content of a request or response
	// must move at least, on average over five minutes. 0 means 1024, less than
	// 0 no limit.
	MinRate int64

	// RootCAs are the authorities that certify servers; nil means those of the system. Certificates
	// are shown to servers that ask for one.
	RootCAs      *x509.CertPool
	Certificates []tls.Certificate

	// ConnectTimeout limits connecting, TLS included. 0 means 30 s.
	ConnectTimeout time.Duration

	// Lookup finds the addresses of a name; nil means the system's resolver.
	// Dial connects to an address "ip:port" that was found to be allowed; nil
	// means [net.Dialer.DialContext].
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

// limits bound what the content of one exchange may cost. How large it may be is
// up to limit.
func (o *Options) limits() transfer.Limits {
	return transfer.Limits{MaxBytes: -1, KeepFree: o.KeepFree, MinRate: o.MinRate}
}

// limit is the most bytes of a response's content.
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
