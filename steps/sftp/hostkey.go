package sftp

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/skeema/knownhosts"
	"golang.org/x/crypto/ssh"
	xknownhosts "golang.org/x/crypto/ssh/knownhosts"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/safename"
)

// A pin is one of Connection.HostKeys.
type pin struct {
	fingerprint string        // "SHA256:..."
	key         ssh.PublicKey // nil if only the fingerprint is known
}

func (c Connection) parsePins() ([]pin, error) {
	pins := make([]pin, len(c.HostKeys))
	for i, text := range c.HostKeys {
		text = strings.TrimSpace(text)
		if sum, ok := strings.CutPrefix(text, "SHA256:"); ok {
			b, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(sum, "="))
			if err != nil || len(b) != 32 {
				return nil, fmt.Errorf("host_keys[%d]: %s is not a SHA-256 fingerprint; one has 43 characters after the colon", i, safename.Quote(text))
			}
			pins[i].fingerprint = "SHA256:" + base64.RawStdEncoding.EncodeToString(b)
			continue
		}
		key, _, _, rest, err := ssh.ParseAuthorizedKey([]byte(text))
		if err != nil || len(bytes.TrimSpace(rest)) > 0 {
			return nil, fmt.Errorf("host_keys[%d]: %s is neither a fingerprint such as \"SHA256:...\" nor a public key such as \"ssh-ed25519 AAAA...\"", i, safename.Quote(text))
		}
		pins[i] = pin{ssh.FingerprintSHA256(key), key}
	}
	return pins, nil
}

// A hostKeyCheck decides whether the host key of one server is accepted.
type hostKeyCheck struct {
	addr     string // "host:port"
	pins     []pin
	known    *knownhosts.HostKeyDB // nil without a file
	file     string                // of known
	insecure bool

	allowed []string     // algorithms that may be negotiated at all
	store   HostKeyStore // of keys that are trusted on first use; may be nil
	first   bool         // nothing is known of the server, so any key is trusted
	last    ssh.PublicKey
	seen    []string // keys that the server presented, for people
	matched bool     // the last key presented was one that is known
	err     error    // why the last key was refused; nil if it was not
}

func (c Connection) hostKeyCheck(allowed []string) (*hostKeyCheck, error) {
	h := &hostKeyCheck{addr: c.address(), insecure: c.InsecureIgnoreHostKey, file: c.KnownHosts, allowed: allowed}
	var err error
	if h.pins, err = c.parsePins(); err != nil {
		return nil, err
	}
	if c.KnownHosts != "" {
		if h.known, err = knownhosts.NewDB(c.KnownHosts); err != nil {
			return nil, fmt.Errorf("known_hosts: %w", err)
		}
	}
	return h, nil
}

// families are the algorithms of each type of key, the preferred first.
var families = [][]string{
	{ssh.KeyAlgoED25519},
	{ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521},
	{ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256, ssh.KeyAlgoRSA},
}

// attempts returns the algorithms to offer, in one list for each handshake to
// try until a key is accepted. A server has keys of several types and presents
// only one of the type that is negotiated, so the types of the known keys come
// first. A fingerprint doesn't tell its type.
func (h *hostKeyCheck) attempts() [][]string {
	var lists [][]string
	add := func(algorithms []string) {
		algorithms = slices.DeleteFunc(slices.Clone(algorithms), func(a string) bool {
			return !slices.Contains(h.allowed, a) || slices.ContainsFunc(lists, func(l []string) bool { return slices.Contains(l, a) })
		})
		if len(algorithms) > 0 {
			lists = append(lists, algorithms)
		}
	}
	add(h.knownAlgorithms())
	if slices.ContainsFunc(h.pins, func(p pin) bool { return p.key == nil }) {
		for _, f := range families {
			add(f)
		}
	}
	// If nothing else helps, the key that is there instead is worth knowing.
	var others []string
	for _, f := range families {
		others = append(others, f...)
	}
	for _, a := range h.allowed {
		if !strings.Contains(a, "-cert-") && !slices.Contains(others, a) {
			others = append(others, a)
		}
	}
	add(others)
	return lists
}

// knownAlgorithms returns those for the keys that are known in full.
func (h *hostKeyCheck) knownAlgorithms() []string {
	var all []string
	if h.known != nil {
		all = h.known.HostKeyAlgorithms(h.addr)
	}
	for _, p := range h.pins {
		switch {
		case p.key == nil:
		case p.key.Type() == ssh.KeyAlgoRSA:
			all = append(all, ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256, ssh.KeyAlgoRSA)
		default:
			all = append(all, p.key.Type())
		}
	}
	return all
}

// anywhere stands for the address of the server, which is not looked up in
// known_hosts: only its name is.
var anywhere = &net.TCPAddr{IP: net.IPv4zero}

// errHostKey says that another key of the server may be accepted.
var errHostKey = errors.New("host key not accepted")

// verify is an [ssh.HostKeyCallback].
func (h *hostKeyCheck) verify(_ string, _ net.Addr, key ssh.PublicKey) error {
	h.err = h.accept(key)
	return h.err
}

func (h *hostKeyCheck) accept(key ssh.PublicKey) error {
	h.matched = false
	if what := describeKey(key); !slices.Contains(h.seen, what) {
		h.seen = append(h.seen, what)
	}
	if h.known != nil {
		err := h.known.HostKeyCallback()(h.addr, anywhere, key)
		if _, revoked := errors.AsType[*xknownhosts.RevokedError](err); revoked {
			return courier.Permanent(fmt.Errorf("the server's host key %s is marked as revoked in %s; nothing was sent to the server", describeKey(key), h.file))
		}
		h.matched = err == nil
	}
	for _, p := range h.pins {
		h.matched = h.matched || p.fingerprint == ssh.FingerprintSHA256(key)
	}
	h.last = key
	if h.matched || h.insecure || h.first {
		return nil
	}
	return errHostKey
}

func describeKey(key ssh.PublicKey) string {
	if cert, ok := key.(*ssh.Certificate); ok {
		key = cert.Key
	}
	return ssh.FingerprintSHA256(key) + " (" + key.Type() + ")"
}

// refusal explains why no key that the server presented was accepted.
func (h *hostKeyCheck) refusal() error {
	presented := strings.Join(h.seen, ", ")
	var expected []string
	for _, p := range h.pins {
		expected = append(expected, p.fingerprint)
	}
	if h.known != nil {
		for _, k := range h.known.HostKeys(h.addr) {
			what := describeKey(k.PublicKey)
			if k.Cert {
				what = "any certified by " + what
			}
			expected = append(expected, what)
		}
	}
	const advice = "compare with what the server's operator gives you by another way; if it agrees, "
	first, _, _ := strings.Cut(presented, " ")
	var text string
	switch {
	case len(expected) > 0:
		text = fmt.Sprintf("the server's host key has changed, or this is another server: expected %s, but it presents %s; %sreplace the entry in %s",
			strings.Join(expected, " or "), presented, advice, h.place())
	case h.known != nil:
		text = fmt.Sprintf("the server is not in %s, so its identity can't be checked; it presents %s; %sadd it there or to host_keys",
			h.file, presented, advice)
	default:
		text = fmt.Sprintf("no host key is configured, so the server's identity can't be checked; it presents %s; %sset \"host_keys\": [%q], or known_hosts to a file in OpenSSH's form",
			presented, advice, first)
	}
	return courier.Permanent(errors.New(text + "; no credentials were sent"))
}

func (h *hostKeyCheck) place() string {
	switch {
	case h.known == nil:
		return "host_keys"
	case len(h.pins) == 0:
		return h.file
	}
	return "host_keys or " + h.file
}

// resolve fills in what may be negotiated, and checks the names.
func (a Algorithms) resolve() (Algorithms, error) {
	secure, insecure := ssh.SupportedAlgorithms(), ssh.InsecureAlgorithms()
	for _, list := range []struct {
		name             string
		chosen           *[]string
		secure, insecure []string
	}{
		{"key_exchanges", &a.KeyExchanges, secure.KeyExchanges, insecure.KeyExchanges},
		{"ciphers", &a.Ciphers, secure.Ciphers, insecure.Ciphers},
		{"macs", &a.MACs, secure.MACs, insecure.MACs},
		{"host_keys", &a.HostKeys, secure.HostKeys, insecure.HostKeys},
	} {
		if len(*list.chosen) == 0 {
			*list.chosen = list.secure
		}
		all := slices.Concat(list.secure, list.insecure)
		for _, name := range *list.chosen {
			if !slices.Contains(all, name) {
				return a, fmt.Errorf("algorithms.%s: unknown algorithm %s; %s", list.name, safename.Quote(name), courier.DidYouMean(name, all))
			}
		}
	}
	return a, nil
}

// isInsecure reports whether one of the negotiated algorithms is considered
// weak.
func isInsecure(n ssh.NegotiatedAlgorithms) bool {
	weak := ssh.InsecureAlgorithms()
	return slices.Contains(weak.KeyExchanges, n.KeyExchange) || slices.Contains(weak.HostKeys, n.HostKey) ||
		slices.Contains(weak.Ciphers, n.Read.Cipher) || slices.Contains(weak.Ciphers, n.Write.Cipher) ||
		slices.Contains(weak.MACs, n.Read.MAC) || slices.Contains(weak.MACs, n.Write.MAC)
}
