package sftpclient

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/courierhq/courier/internal/failure"
	"github.com/courierhq/courier/internal/nearest"

	"golang.org/x/crypto/ssh"

	"github.com/courierhq/courier/internal/safename"
)

// parsePins parses Config.HostKeys.
func (c Config) parsePins() ([]hostKey, error) { return parseHostKeys("host_keys", c.HostKeys) }

func parseHostKeys(field string, texts []string) ([]hostKey, error) {
	keys := make([]hostKey, len(texts))
	for i, text := range texts {
		mark, rest := cutMark(strings.TrimSpace(text))
		keys[i].mark = mark
		if sum, ok := strings.CutPrefix(rest, "SHA256:"); ok {
			b, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(sum, "="))
			if err != nil || len(b) != 32 {
				return nil, fmt.Errorf("%s[%d]: %s is not a SHA-256 fingerprint; one has 43 characters after the colon", field, i, safename.Quote(text))
			}
			keys[i].fingerprint = "SHA256:" + base64.RawStdEncoding.EncodeToString(b)
			continue
		}
		key, _, _, more, err := ssh.ParseAuthorizedKey([]byte(rest))
		if err != nil || len(bytes.TrimSpace(more)) > 0 {
			return nil, fmt.Errorf("%s[%d]: %s is neither a fingerprint such as \"SHA256:...\" nor a public key such as \"ssh-ed25519 AAAA...\"", field, i, safename.Quote(text))
		}
		keys[i].key, keys[i].fingerprint = key, ssh.FingerprintSHA256(key)
	}
	return keys, nil
}

// A hostKeyCheck decides whether the host key of one server is accepted.
type hostKeyCheck struct {
	addr     string    // "host:port"
	host     string    // its name, as certificates have it
	pins     []hostKey // of the configuration, or of the store
	known    []hostKey // of the file, for the name and the port
	alone    []hostKey // of the file, for the name without the port
	file     string    // empty without one
	insecure bool

	allowed []string     // algorithms that may be negotiated at all
	store   HostKeyStore // of keys that are trusted on first use; may be nil
	first   bool         // nothing is known of the server, so any key is trusted
	last    ssh.PublicKey
	seen    []string // keys that the server presented, for people
	matched bool     // the last key presented was one that is known
	err     error    // why the last key was refused; nil if it was not
}

func (c Config) hostKeyCheck(allowed []string) (*hostKeyCheck, error) {
	h := &hostKeyCheck{addr: c.Addr, host: hostOf(c.Addr), insecure: c.InsecureIgnoreHostKey, file: c.KnownHosts, allowed: allowed}
	var err error
	if h.pins, err = c.parsePins(); err != nil {
		return nil, err
	}
	if c.KnownHosts != "" {
		if h.known, h.alone, err = c.knownKeys(); err != nil {
			return nil, err
		}
	}
	return h, nil
}

// knownKeys returns the keys for the server in the known_hosts file.
func (c Config) knownKeys() (known, alone []hostKey, err error) {
	file, err := readKnownHosts(c.KnownHosts)
	if err == nil {
		known, alone, err = file.keys(c.Addr)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("known_hosts: %w", err)
	}
	return known, alone, nil
}

// families are the algorithms of each type of key, in order of preference.
var families = [][]string{
	{ssh.KeyAlgoED25519},
	{ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521},
	{ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256, ssh.KeyAlgoRSA},
}

// attempts returns the algorithms to offer, one list for each handshake, to be tried until a key
// is accepted. A server may have keys of several types and presents only one of the negotiated
// type, so the types of the known keys come first. A fingerprint does not show the type of its
// key.
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
	if slices.ContainsFunc(h.pins, func(p hostKey) bool { return p.key == nil }) {
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

// knownAlgorithms returns the algorithms of the keys that are known in full. The algorithms for
// certificates come first if authorities are known, or if a revocation may concern an authority.
func (h *hostKeyCheck) knownAlgorithms() []string {
	var plain []string
	certified := false
	for _, k := range slices.Concat(h.known, h.alone, h.pins) {
		switch {
		case k.mark != "":
			certified = true
		case k.key == nil:
		case k.key.Type() == ssh.KeyAlgoRSA:
			plain = append(plain, ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256, ssh.KeyAlgoRSA)
		default:
			plain = append(plain, k.key.Type())
		}
	}
	if !certified {
		return plain
	}
	var all []string
	for _, a := range h.allowed {
		if strings.Contains(a, "-cert-") {
			all = append(all, a)
		}
	}
	return append(all, plain...)
}

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
	in := h.file
	verdict := judge(h.known, h.host, key)
	if verdict == unknownKey && judge(h.alone, h.host, key) != unknownKey {
		verdict = judge(h.alone, h.host, key)
	}
	switch judge(h.pins, h.host, key) {
	case revokedKey:
		verdict, in = revokedKey, h.pinned()
	case trustedKey:
		if verdict != revokedKey {
			verdict = trustedKey
		}
	}
	if verdict == revokedKey {
		return failure.Permanent(&hostKeyError{fmt.Sprintf("the server's host key %s is marked as revoked in %s; nothing was sent to the server", describeKey(key), in)})
	}
	h.matched = verdict == trustedKey
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

// refusal explains why none of the presented keys was accepted.
func (h *hostKeyCheck) refusal() error {
	keys := make([]string, len(h.seen)) // without their types, which would make the text long
	for i, k := range h.seen {
		keys[i], _, _ = strings.Cut(k, " ")
	}
	presented := strings.Join(keys, " and ")
	var expected []string
	for _, k := range slices.Concat(h.pins, h.known) {
		switch {
		case k.mark == markAuthority:
			expected = append(expected, "any certified by "+k.fingerprint)
		case k.mark == "":
			expected = append(expected, k.fingerprint)
		}
	}
	const advice = "compare with what the server's operator gives you by another way; if it agrees, "
	var text string
	switch {
	case len(expected) > 0:
		text = fmt.Sprintf("the server's host key has changed, or another server is at this address: expected %s, but it presents %s; "+
			"ask the server's operator, by another way, for the new key and the address, which may be a retired one; only if both agree, replace the entry in %s",
			strings.Join(expected, " or "), presented, h.place())
	case h.file != "":
		text = fmt.Sprintf("the server is not in %s, so its identity can't be checked; it presents %s; %sadd it there or to the connection's host_keys",
			h.file, presented, advice)
	default:
		text = fmt.Sprintf("no host key is configured, so the server's identity can't be checked; it presents %s; %sset the connection's \"host_keys\": [%q], or known_hosts to a file in OpenSSH's form",
			presented, advice, keys[0])
	}
	return failure.Permanent(&hostKeyError{text + "; no credentials were sent"})
}

// A hostKeyError says why a server's key was not accepted. It has the class of refused logins,
// but does not match [failure.ErrLogin], which is about the credentials of the client.
type hostKeyError struct{ text string }

func (e *hostKeyError) Error() string      { return e.text }
func (e *hostKeyError) ErrorClass() string { return failure.Login }

func (h *hostKeyCheck) place() string {
	switch {
	case h.file == "":
		return h.pinned()
	case len(h.pins) == 0:
		return h.file
	}
	return h.pinned() + " or " + h.file
}

// pinned returns the source of h.pins.
func (h *hostKeyCheck) pinned() string {
	if h.store != nil {
		return "the store of TrustOnFirstUse"
	}
	return "the connection's host_keys"
}

// resolve fills in the defaults of the algorithms, and checks the names.
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
				return a, fmt.Errorf("algorithms.%s: unknown algorithm %s; %s", list.name, safename.Quote(name), nearest.DidYouMean(name, all))
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
