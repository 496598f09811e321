package sftpclient

import (
	"crypto/ed25519"
	"encoding/base64"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"golang.org/x/crypto/ssh"

	"github.com/courierhq/courier"
)

// A fuzzKey is the host key made of a seed of 32 equal bytes.
func fuzzKey(f testing.TB, seed byte) ssh.PublicKey {
	private := ed25519.NewKeyFromSeed([]byte(strings.Repeat(string(rune(seed)), ed25519.SeedSize)))
	key, err := ssh.NewPublicKey(private.Public())
	if err != nil {
		f.Fatal(err)
	}
	return key
}

func fuzzKeyText(key ssh.PublicKey) string {
	return key.Type() + " " + base64.StdEncoding.EncodeToString(key.Marshal())
}

// isPlain reports whether text from outside is shown so that it can't act on a
// terminal.
func isPlain(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) && r != '\n' })
}

// FuzzHostKeys reads anything as one of host_keys. What is accepted stands for
// one key, and no other is accepted for it.
func FuzzHostKeys(f *testing.F) {
	ours, other := fuzzKey(f, 1), fuzzKey(f, 2)
	for _, s := range []string{ssh.FingerprintSHA256(ours), ssh.FingerprintSHA256(ours) + "=", fuzzKeyText(ours) + " comment", "  " + fuzzKeyText(ours) + "\n", fuzzKeyText(ours) + "\n" + fuzzKeyText(other),
		"no-pty " + fuzzKeyText(ours), "SHA256:", "SHA256:AAAA", "MD5:00:11", "ssh-ed25519", "ssh-rsa AAAAB3NzaC1yc2E=", "# comment", "", "\x1b[2J", "files.example.com " + fuzzKeyText(ours)} {
		f.Add(s)
	}
	print := regexp.MustCompile(`^SHA256:[A-Za-z0-9+/]{43}$`)
	f.Fuzz(func(t *testing.T, text string) {
		c := Config{Addr: "h:22", HostKeys: []string{text}}
		h, err := c.hostKeyCheck(nil)
		if err != nil {
			if !isPlain(err.Error()) || len(err.Error()) > 1500 {
				t.Errorf("the error is %q", err)
			}
			return
		}
		pin := h.pins[0]
		if !print.MatchString(pin.fingerprint) {
			t.Fatalf("%q is %q", text, pin.fingerprint)
		}
		again, err := Config{HostKeys: []string{pin.fingerprint}}.parsePins()
		if err != nil || again[0].fingerprint != pin.fingerprint {
			t.Errorf("%q is %q, then %v, %v", text, pin.fingerprint, again, err)
		}
		if pin.key != nil && h.accept(pin.key) != nil {
			t.Errorf("the key of %q is not accepted", text)
		}
		for _, key := range []ssh.PublicKey{ours, other} {
			if ok := h.accept(key) == nil; ok != (ssh.FingerprintSHA256(key) == pin.fingerprint) || ok != h.matched {
				t.Errorf("%q: %s is accepted: %t", text, ssh.FingerprintSHA256(key), ok)
			}
		}
	})
}

// FuzzKnownHosts reads anything as a known_hosts file. No key is accepted that
// the file does not hold, nor one that it revokes.
func FuzzKnownHosts(f *testing.F) {
	ours, other := fuzzKey(f, 1), fuzzKey(f, 2)
	for _, s := range []string{"h " + fuzzKeyText(ours), "h,g " + fuzzKeyText(other) + "\n", "[h]:22 " + fuzzKeyText(ours), "*,!h " + fuzzKeyText(ours), "@revoked h " + fuzzKeyText(ours) + "\nh " + fuzzKeyText(ours),
		"@cert-authority * " + fuzzKeyText(ours), "|1|AAAA|BBBB " + fuzzKeyText(ours), "h " + fuzzKeyText(ours) + "\nh " + fuzzKeyText(other), "# x\n\n", "h ssh-ed25519", "h ssh-rsa AAAA", "\x00", "@x h k"} {
		f.Add([]byte(s))
	}
	file := filepath.Join(f.TempDir(), "known_hosts")
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		h, err := Config{Addr: "h:22", KnownHosts: file}.hostKeyCheck([]string{ssh.KeyAlgoED25519, ssh.KeyAlgoRSASHA512})
		if err != nil {
			return
		}
		if len(h.attempts()) == 0 {
			t.Error("no algorithm is offered")
		}
		for _, key := range []ssh.PublicKey{ours, other} {
			err := h.accept(key)
			held := strings.Contains(string(text), strings.Fields(fuzzKeyText(key))[1])
			if err == nil && !held {
				t.Errorf("a key is accepted that is not in %q", text)
			}
			if err != nil && !isPlain(err.Error()) {
				t.Errorf("the error is %q", err)
			}
		}
		if err := h.refusal(); !courier.IsPermanent(err) || !isPlain(err.Error()) {
			t.Errorf("the refusal is %q", err)
		}
		if err := os.WriteFile(file, []byte("@revoked h "+fuzzKeyText(ours)+"\n"+string(text)), 0o600); err != nil {
			t.Fatal(err)
		}
		if h, err = (Config{Addr: "h:22", KnownHosts: file, HostKeys: []string{ssh.FingerprintSHA256(ours)}, InsecureIgnoreHostKey: true}).hostKeyCheck(nil); err == nil && h.accept(ours) == nil {
			t.Errorf("a revoked key is accepted")
		}
	})
}

// FuzzWire writes an entry of a listing and a status as a server does, and reads
// them back, whole and cut off.
func FuzzWire(f *testing.F) {
	f.Add("name", "-rw-r--r-- 1 0 0 5 Jan 1 00:00 name", uint32(AttrSize|AttrPermissions|AttrTimes), uint64(5), uint32(ModeRegular|0o644), uint32(1e9), uint8(0), uint16(3))
	f.Add("d", "drwx", uint32(attrExtended|attrOwner), uint64(1)<<63, uint32(0), uint32(0), uint8(2), uint16(60))
	f.Add("", "l", uint32(0xffffffff), uint64(1), uint32(modeLink), uint32(7), uint8(255), uint16(9))
	f.Fuzz(func(t *testing.T, name, long string, flags uint32, size uint64, mode, mtime uint32, extended uint8, cut uint16) {
		want := Entry{Name: name, Attrs: Attrs{Flags: flags}}
		p := packet{}.string(name).string(long).uint32(flags)
		if flags&AttrSize != 0 {
			p, want.Attrs.Size = p.uint64(size), size
		}
		if flags&attrOwner != 0 {
			p = p.uint64(size)
		}
		if flags&AttrPermissions != 0 {
			p, want.Attrs.Mode = p.uint32(mode), mode
		}
		if flags&AttrTimes != 0 {
			p, want.Attrs.Mtime = p.uint32(mode).uint32(mtime), mtime
		}
		if flags&attrExtended != 0 {
			p = p.uint32(uint32(extended))
			for range extended {
				p = p.string(name).string(long)
			}
		}
		s := scanner{rest: append(append(packet{}, p...), "rest"...)}
		got, plain := s.entry()
		if want.Attrs.Mode&ModeType == 0 && long != "" {
			switch long[0] {
			case 'd':
				want.Attrs.Mode |= ModeDir
			case 'l':
				want.Attrs.Mode |= modeLink
			}
		}
		if got != want || s.bad || string(s.rest) != "rest" {
			t.Errorf("%+v is read as %+v, bad %t, rest %q", want, got, s.bad, s.rest)
		}
		if n, err := got.Attrs.FileSize(); err == nil && (n < 0 || uint64(n) != want.Attrs.Size) {
			t.Errorf("size %d of %d", n, size)
		}
		s = scanner{rest: p[:min(int(cut), len(p)-1)]}
		if s.entry(); !s.bad || len(s.rest) > 0 {
			t.Errorf("cut off at %d of %d, the entry is read", cut, len(p))
		}
		if plain && (flags&(AttrSize|AttrPermissions|AttrTimes) != AttrSize|AttrPermissions|AttrTimes || path.Base(name) != name || mode&ModeType == 0) {
			t.Errorf("%q with the flags %x and the mode %o needs no note", name, flags, mode)
		}
		r := &request{typ: fxpRemove, call: new(call)}
		err := new(guard).refusal(r, fxpStatus, &scanner{rest: packet{}.uint32(flags).string(name)})
		if refused := r.call.status; err != nil || (flags == statusOK) != (refused == nil) || refused != nil && (!isPlain(refused.Error()) || len(refused.Error()) > 1000) {
			t.Errorf("status %d is %v, %v", flags, refused, err)
		}
	})
}
