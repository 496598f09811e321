package safehttp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/courierhq/courier/internal/safename"
)

// A RefusedError says that the guard refuses an address or a URL. Repeating
// does not help.
type RefusedError struct{ Reason string }

// Error says what was refused, and what would allow it.
func (e *RefusedError) Error() string { return e.Reason }

// refused are networks of hosts that are nobody's business outside of them:
// those of the machine itself, private ones, those of clouds' metadata
// services, and those through which one of these can be reached by another
// name.
var refused = prefixes(
	"0.0.0.0/8",        // this network
	"10.0.0.0/8",       // private
	"100.64.0.0/10",    // shared by a provider's customers; metadata of Alibaba Cloud
	"127.0.0.0/8",      // loopback
	"168.63.129.16/32", // Azure's own services on each of its hosts
	"169.254.0.0/16",   // link-local; metadata of most clouds
	"172.16.0.0/12",    // private
	"192.0.0.0/24",     // protocol assignments; metadata of Oracle Cloud
	"192.0.2.0/24",     // documentation
	"192.88.99.0/24",   // relays to IPv6
	"192.168.0.0/16",   // private
	"198.18.0.0/15",    // benchmarks
	"198.51.100.0/24",  // documentation
	"203.0.113.0/24",   // documentation
	"224.0.0.0/4",      // multicast
	"240.0.0.0/4",      // reserved, broadcast
	"2001::/23",        // Teredo and other assignments, which hold IPv4 addresses
	"2001:db8::/32",    // documentation
	"2002::/16",        // 6to4, which holds IPv4 addresses
	"3fff::/20",        // documentation
)

// unicast is the part of IPv6 from which public addresses come. Outside of it
// are loopback, link-local, unique local and multicast addresses, the metadata
// services in fd00::/8, and all forms that hold an IPv4 address.
var unicast = netip.MustParsePrefix("2000::/3")

func prefixes(texts ...string) []netip.Prefix {
	list := make([]netip.Prefix, len(texts))
	for i, t := range texts {
		list[i] = netip.MustParsePrefix(t)
	}
	return list
}

// Public reports whether ip is an address that anybody on the internet may
// reach.
func Public(ip netip.Addr) bool {
	ip = ip.Unmap().WithZone("")
	if !ip.IsValid() || ip.Is6() && !unicast.Contains(ip) {
		return false
	}
	return !slices.ContainsFunc(refused, func(p netip.Prefix) bool { return p.Contains(ip) })
}

// checkAddr returns nil if ip may be connected to.
func (o *Options) checkAddr(ip netip.Addr) error {
	plain := ip.Unmap().WithZone("")
	if Public(plain) || slices.ContainsFunc(o.Networks, func(p netip.Prefix) bool { return p.Contains(plain) }) {
		return nil
	}
	if o.redirected {
		return &RefusedError{fmt.Sprintf("the address %s is not public, and no redirect of a public server is followed to such a one; if jobs may reach it, give the URL that the redirect leads to", plain)}
	}
	return &RefusedError{fmt.Sprintf("the address %s is not public, so it is refused; if jobs may reach it, the host application has to allow its network or host%s", plain, o.setting())}
}

// control is asked with the address that a socket is about to be connected to,
// whatever name it was found under.
func (o *Options) control(_, address string) error {
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return &RefusedError{fmt.Sprintf("the address %s can't be understood, so it is refused", safename.Quote(address))}
	}
	return o.checkAddr(ap.Addr())
}

// trusts reports whether host may be reached wherever it is.
func (o *Options) trusts(host string) bool { return matches(o.TrustedHosts, host) }

// matches reports whether one of the patterns is host. A pattern is a name or
// an address, or begins with "*." and stands for all names below.
func matches(patterns []string, host string) bool {
	host = normal(host)
	return slices.ContainsFunc(patterns, func(p string) bool {
		p = normal(p)
		if rest, ok := strings.CutPrefix(p, "*."); ok {
			return rest != "" && strings.HasSuffix(host, "."+rest) && len(host) > len(rest)+1
		}
		return p == host
	})
}

// normal is the form in which the names of hosts are compared.
func normal(host string) string {
	return strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
}

// setting is the end of a message about what the host application may allow.
func (o *Options) setting() string {
	if o.Setting == "" {
		return ""
	}
	return " (" + o.Setting + ")"
}

// CheckURL returns nil if u may be requested, as far as its text tells. The
// error has all that is wrong, and shows no more of u than its origin.
func (o *Options) CheckURL(u *url.URL) error {
	return o.check(u, func(host string) error {
		if ip, err := netip.ParseAddr(host); err == nil && !o.trusts(host) {
			return o.checkAddr(ip)
		}
		return nil
	})
}

// check is CheckURL, where addr says what is wrong with the address of the host.
func (o *Options) check(u *url.URL, addr func(host string) error) error {
	var wrong []string
	refuse := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	host, named := u.Hostname(), false
	switch {
	case u.Scheme == "" || u.Opaque != "":
		refuse("the URL has no scheme; it has to begin with https://")
	case u.Scheme == "http" && !o.AllowPlain:
		refuse("http is refused, for it neither encrypts nor proves who answers; use https, or have the host application allow plain http%s", o.setting())
	case u.Scheme != "http" && u.Scheme != "https":
		refuse("the scheme %s is refused; use https", safename.Quote(u.Scheme))
	}
	if u.User != nil {
		refuse("the URL contains a user name or a password; give credentials in the fields for them")
	}
	switch {
	case host == "" && u.Scheme != "" && u.Opaque == "":
		refuse("the URL has no host")
	case strings.ContainsFunc(host, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '\\' || r == '@' || r == '%' }):
		refuse("the host %s is not the name or address of a host", safename.Quote(host))
	case o.Only != nil && host != "" && !matches(o.Only, host):
		refuse("the host %s is not among those that the host application allows%s", safename.Quote(host), o.setting())
	default:
		named = host != ""
	}
	if named {
		err := addr(host)
		if bad, ok := errors.AsType[*RefusedError](err); ok {
			refuse("%s", bad.Reason)
		} else if err != nil && len(wrong) == 0 {
			return err
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	return &RefusedError{strings.Join(wrong, "; ")}
}

// Check returns nil if u may be requested as things stand: CheckURL, and one of
// the addresses that its host has now. A name whose addresses can't be found is
// another error than a *[RefusedError].
func (o *Options) Check(ctx context.Context, u *url.URL) error {
	return o.check(u, func(host string) error {
		_, err := o.resolve(ctx, host)
		return err
	})
}

// Origin is the part of a URL that may be shown: neither its path nor its
// query, which may hold secrets.
func Origin(u *url.URL) string {
	host := u.Host
	if strings.ContainsFunc(host, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' }) {
		host = safename.Quote(host)
	}
	return u.Scheme + "://" + host
}

// sameOrigin reports whether what may be sent to a may be sent to b.
func sameOrigin(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && normal(a.Hostname()) == normal(b.Hostname()) && port(a) == port(b)
}

func port(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "http":
		return "80"
	}
	return "443"
}

// resolve finds the addresses of a host that may be connected to. Those that
// may not are left out, and if none is left, the error is about the first.
func (o *Options) resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	ips := []netip.Addr{}
	if ip, err := netip.ParseAddr(host); err == nil {
		ips = append(ips, ip)
	} else if ips, err = o.lookup(ctx, host); err != nil {
		return nil, err
	}
	if o.trusts(host) {
		return ips, nil
	}
	var errs []error
	allowed := slices.DeleteFunc(slices.Clone(ips), func(ip netip.Addr) bool {
		err := o.checkAddr(ip)
		if err != nil {
			errs = append(errs, err)
		}
		return err != nil
	})
	switch {
	case len(allowed) > 0:
		return allowed, nil
	case len(errs) > 0:
		return nil, errs[0]
	}
	return nil, errors.New("the name of the host has no addresses")
}

func (o *Options) lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	if o.Lookup != nil {
		return o.Lookup(ctx, host)
	}
	return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
}
