package sftpclient

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/courierhq/courier/internal/glob"
	"github.com/courierhq/courier/internal/safename"
)

// The markers of a key in known_hosts, host_keys and a HostKeyStore. A key
// without a marker is a key of the server itself.
const (
	markAuthority = "@cert-authority" // of certificates for servers
	markRevoked   = "@revoked"        // no server may prove itself by it
)

// A hostKey is a known key, with its marker.
type hostKey struct {
	mark        string        // empty, markAuthority or markRevoked
	key         ssh.PublicKey // nil if only the fingerprint is known
	fingerprint string        // "SHA256:..."
}

// is reports whether h describes the public key k.
func (h hostKey) is(k ssh.PublicKey) bool {
	if h.key == nil {
		return h.fingerprint == ssh.FingerprintSHA256(k)
	}
	return bytes.Equal(h.key.Marshal(), k.Marshal())
}

// A knownHosts is the content of a file in the format of OpenSSH's known_hosts.
type knownHosts struct {
	file  string
	lines []knownLine
}

// A knownLine is a line of such a file.
type knownLine struct {
	hostKey
	number  int
	hosts   string // patterns, separated by commas, or a hashed name
	damaged error  // what is wrong with the line
}

// readKnownHosts reads a file. A line that cannot be read is an error only for
// the servers that it may concern; see [knownHosts.keys].
func readKnownHosts(file string) (*knownHosts, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	k := &knownHosts{file: file}
	number := 0
	for line := range strings.SplitSeq(string(text), "\n") {
		number++
		if line = strings.Trim(line, " \t\r"); line == "" || line[0] == '#' {
			continue
		}
		l := parseKnownLine(line)
		l.number = number
		k.lines = append(k.lines, l)
	}
	return k, nil
}

// nextField cuts off the first field of a line.
func nextField(text string) (field, rest string) {
	if i := strings.IndexAny(text, " \t"); i >= 0 {
		return text[:i], strings.TrimLeft(text[i:], " \t")
	}
	return text, ""
}

func parseKnownLine(text string) (l knownLine) {
	l.mark, text = cutMark(text)
	if l.hosts, text = nextField(text); strings.HasPrefix(l.hosts, "@") {
		l.hosts, l.damaged = "*", fmt.Errorf("%s is not a marker, or a second one", safename.Quote(l.hosts))
		return l
	}
	kind, text := nextField(text)
	blob, _ := nextField(text)
	if l.key, l.damaged = parsePublic(kind, blob); l.damaged == nil {
		l.fingerprint = ssh.FingerprintSHA256(l.key)
	}
	return l
}

// cutMark cuts off the marker that text begins with.
func cutMark(text string) (mark, rest string) {
	if first, rest := nextField(text); first == markAuthority || first == markRevoked {
		return first, rest
	}
	return "", text
}

func parsePublic(kind, blob string) (ssh.PublicKey, error) {
	b, err := base64.StdEncoding.DecodeString(blob)
	if err != nil || blob == "" {
		return nil, errors.New("it holds no public key")
	}
	key, err := ssh.ParsePublicKey(b)
	if err != nil {
		return nil, fmt.Errorf("its key can't be read: %w", err)
	}
	if _, cert := key.(*ssh.Certificate); cert || key.Type() != kind {
		return nil, fmt.Errorf("its key is of another type than %s", safename.Quote(kind))
	}
	return key, nil
}

// keys returns the keys in the file for the server at addr, "host:port", as
// OpenSSH uses them: lines for the name with the port, and if none of them has
// the server's key, lines for the name alone. The latter are in alone. They
// count only if the key matches.
//
// OpenSSH ignores a line that it cannot read. Here such a line is an error if
// it concerns the server, since it may revoke a key.
func (k *knownHosts) keys(addr string) (keys, alone []hostKey, err error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, nil, err
	}
	host = strings.ToLower(host)
	full := knownName(addr)
	for _, l := range k.lines {
		matches, bare := l.matches(full), port != "22" && l.matches(host)
		if (matches || bare) && l.damaged != nil {
			return nil, nil, fmt.Errorf("%s, line %d: %w; correct the line or remove it", k.file, l.number, l.damaged)
		}
		if matches {
			keys = append(keys, l.hostKey)
		}
		if bare {
			alone = append(alone, l.hostKey)
		}
	}
	return keys, alone, nil
}

// knownName returns the name of the server at addr, "host:port", in a
// known_hosts file.
func knownName(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	if host = strings.ToLower(host); port == "22" {
		return host
	}
	return "[" + host + "]:" + port
}

// matches reports whether a line concerns a server.
func (l knownLine) matches(name string) bool {
	if strings.HasPrefix(l.hosts, "|") {
		return matchHashed(l.hosts, name)
	}
	found := false
	for pattern := range strings.SplitSeq(l.hosts, ",") {
		not := strings.HasPrefix(pattern, "!")
		if !matchPattern(strings.ToLower(strings.TrimPrefix(pattern, "!")), name) {
			continue
		}
		if not {
			return false
		}
		found = true
	}
	return found
}

// matchHashed compares a name with the form "|1|SALT|HASH".
func matchHashed(hashed, name string) bool {
	parts := strings.Split(hashed, "|")
	if len(parts) != 4 || parts[1] != "1" {
		return false
	}
	salt, err1 := base64.StdEncoding.DecodeString(parts[2])
	want, err2 := base64.StdEncoding.DecodeString(parts[3])
	if err1 != nil || err2 != nil {
		return false
	}
	h := hmac.New(sha1.New, salt)
	h.Write([]byte(name))
	return hmac.Equal(h.Sum(nil), want)
}

// matchPattern compares a text with a pattern in which * matches any text and ?
// any one byte.
func matchPattern(pattern, text string) bool {
	return glob.MatchCharacters([]byte(pattern), []byte(text))
}

// A verdict is the result of comparing a presented key with the known keys.
type verdict int

const (
	unknownKey verdict = iota
	trustedKey
	revokedKey
)

// judge compares the key that the server called host presents with the known
// keys. A certificate is judged by its authority if an authority has issued it
// for the host, and otherwise by the key in it.
func judge(keys []hostKey, host string, key ssh.PublicKey) verdict {
	cert, _ := key.(*ssh.Certificate)
	plain := key
	if cert != nil {
		plain = cert.Key
	}
	about := func(mark string, k ssh.PublicKey) bool {
		return slices.ContainsFunc(keys, func(h hostKey) bool { return h.mark == mark && h.is(k) })
	}
	switch {
	case about(markRevoked, plain), cert != nil && about(markRevoked, cert.SignatureKey):
		return revokedKey
	case cert != nil && about(markAuthority, cert.SignatureKey) && checkHostCertificate(cert, host) == nil,
		about("", plain):
		return trustedKey
	}
	return unknownKey
}

// checkHostCertificate returns an error if a certificate is not valid for a
// host.
func checkHostCertificate(cert *ssh.Certificate, host string) error {
	if cert.CertType != ssh.HostCert {
		return errors.New("the certificate is one for users, not for hosts")
	}
	return new(ssh.CertChecker).CheckCert(strings.ToLower(host), cert)
}
