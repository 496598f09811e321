package sftp

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/courierhq/courier/internal/connfile"
	"golang.org/x/crypto/ssh"
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
		m, err := connfile.ParseConnections(text, func(string, *Connection) error { return nil }, checkAmong)
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
