package sftp

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"golang.org/x/crypto/ssh"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/remote"
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

// FuzzConnections reads anything as a file of connections. What is accepted can
// be used, and neither an error nor a formatted connection shows a credential.
func FuzzConnections(f *testing.F) {
	pin := "SHA256:" + strings.Repeat("A", 43)
	for _, s := range []string{
		`{"acme":{"host":"files.example.com","username":"u","password":"canary-one-two","host_keys":["` + pin + `"],"connect_timeout_seconds":1.5,"keep_alive_seconds":0}}`,
		`{"a":{"host":"h","port":65536,"username":"u","private_key":"canary-one-two","passphrase":"canary-three"}}`,
		`{"a":{"host":"h","username":"u","password":["canary-one-two"]},"b":{"pasword":"canary-one-two"}}`,
		`{"a":{"host":"h","username":"u","password":"canary-one-two","channels":9,"algorithms":{"ciphers":["arcfour"]}}}`,
		`{"a":{"host":"h","username":"u","password":"canary-one-two","operation_timeout_seconds":1e300,"connect_timeout_seconds":1e-300}}`,
		`{"a":{"host":"h","username":"u","password":"canary-one-two","host_keys":["` + fuzzKeyText(fuzzKey(f, 1)) + `"],"known_hosts":"x"}}`,
		`{"a":{"host":"h\u001b","username":"u","password":"secret:acme"}}`, `{"a":null}`, `[]`, ``, "{\"a\":{\"host\":\"h\",\"username\":\"u\",\"password\":\"p\xe4ss-one-two\"}}",
		`{"a":{"Password":"canary-one-two","host":1}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var loose map[string]map[string]any
		json.Unmarshal(text, &loose)
		m, err := remote.ParseConnections(text, Connection.checkAmong)
		shown := ""
		if err != nil {
			if shown = err.Error(); !isPlain(shown) {
				t.Errorf("the error is %q", shown)
			}
		}
		for id, c := range m {
			shown += fmt.Sprintf("%v %+v %#v %s", c, c, c, c)
			full, err := c.withDefaults()
			if err != nil || full.Port == 0 || full.ConnectTimeout <= 0 || full.OperationTimeout <= 0 || *full.KeepAlive < 0 {
				t.Errorf("connection %q is accepted: %v", id, err)
			}
			if want, ok := loose[id]["connect_timeout_seconds"].(float64); ok && want > 0 && c.ConnectTimeout == 0 {
				t.Errorf("a timeout of %v s is taken for none", want)
			}
		}
		if !utf8.Valid(text) && err == nil {
			t.Error("text that is not UTF-8 is accepted, and so altered")
		}
		for _, fields := range loose {
			for _, name := range []string{"password", "private_key", "passphrase"} {
				if s, ok := fields[name].(string); ok && len(s) >= 8 && strings.Count(string(text), s) == 1 && strings.Contains(shown, s) {
					t.Errorf("%s %q is shown in %q", name, s, shown)
				}
			}
		}
	})
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
		c := Connection{Host: "h", HostKeys: []string{text}}
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
		again, err := Connection{HostKeys: []string{pin.fingerprint}}.parsePins()
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
		h, err := Connection{Host: "h", KnownHosts: file}.hostKeyCheck([]string{ssh.KeyAlgoED25519, ssh.KeyAlgoRSASHA512})
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
		if h, err = (Connection{Host: "h", KnownHosts: file, HostKeys: []string{ssh.FingerprintSHA256(ours)}, InsecureIgnoreHostKey: true}).hostKeyCheck(nil); err == nil && h.accept(ours) == nil {
			t.Errorf("a revoked key is accepted")
		}
	})
}

// FuzzWire writes an entry of a listing and a status as a server does, and reads
// them back, whole and cut off.
func FuzzWire(f *testing.F) {
	f.Add("name", "-rw-r--r-- 1 0 0 5 Jan 1 00:00 name", uint32(attrSize|attrPermissions|attrTimes), uint64(5), uint32(modeRegular|0o644), uint32(1e9), uint8(0), uint16(3))
	f.Add("d", "drwx", uint32(attrExtended|attrOwner), uint64(1)<<63, uint32(0), uint32(0), uint8(2), uint16(60))
	f.Add("", "l", uint32(0xffffffff), uint64(1), uint32(modeLink), uint32(7), uint8(255), uint16(9))
	f.Fuzz(func(t *testing.T, name, long string, flags uint32, size uint64, mode, mtime uint32, extended uint8, cut uint16) {
		want := entry{name: name, attrs: attrs{flags: flags}}
		p := packet{}.string(name).string(long).uint32(flags)
		if flags&attrSize != 0 {
			p, want.attrs.size = p.uint64(size), size
		}
		if flags&attrOwner != 0 {
			p = p.uint64(size)
		}
		if flags&attrPermissions != 0 {
			p, want.attrs.mode = p.uint32(mode), mode
		}
		if flags&attrTimes != 0 {
			p, want.attrs.mtime = p.uint32(mode).uint32(mtime), mtime
		}
		if flags&attrExtended != 0 {
			p = p.uint32(uint32(extended))
			for range extended {
				p = p.string(name).string(long)
			}
		}
		s := scanner{rest: append(append(packet{}, p...), "rest"...)}
		got := s.entry()
		if want.attrs.mode&modeType == 0 && long != "" {
			switch long[0] {
			case 'd':
				want.attrs.mode |= modeDir
			case 'l':
				want.attrs.mode |= modeLink
			}
		}
		if got != want || s.bad || string(s.rest) != "rest" {
			t.Errorf("%+v is read as %+v, bad %t, rest %q", want, got, s.bad, s.rest)
		}
		if n, err := got.attrs.fileSize(); err == nil && (n < 0 || uint64(n) != want.attrs.size) {
			t.Errorf("size %d of %d", n, size)
		}
		s = scanner{rest: p[:min(int(cut), len(p)-1)]}
		if s.entry(); !s.bad || len(s.rest) > 0 {
			t.Errorf("cut off at %d of %d, the entry is read", cut, len(p))
		}
		err := answer{body: packet{}.uint32(flags).string(name)}.status()
		if flags == statusOK && err != nil || flags != statusOK && (err == nil || !isPlain(err.Error()) || len(err.Error()) > 1000) {
			t.Errorf("status %d is %v", flags, err)
		}
	})
}
