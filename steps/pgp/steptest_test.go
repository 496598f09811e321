package pgp_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/test/pgptest"
	"github.com/courierhq/courier/internal/test/raced"
	"github.com/courierhq/courier/steps/pgp"
	"github.com/courierhq/courier/steps/steptest"
)

// TestContract holds the steps against the contract for retries.
func TestContract(t *testing.T) {
	data := string(pgptest.Noise(100_000))
	var keys []string
	for _, c := range []struct {
		key, format, output string
		old                 bool
	}{
		{"pgp.encrypt", "binary", "out/final", true},
		{"pgp.encrypt", "armored", "", false},
		{"pgp.decrypt", "armored", "out/final", true},
		{"pgp.decrypt", "binary", "", false},
	} {
		keys = append(keys, c.key)
		t.Run(strings.Join([]string{c.key, c.format, c.output}, " "), func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.key("us")
			b.write("a.txt", []byte(data))
			if _, err := b.encrypt(map[string]any{"source_path": "a.txt", "output_path": "a.pgp", "recipient_key_ids": []string{"us"}, "signing_key_id": "us", "output_format": c.format}); err != nil {
				t.Fatal(err)
			}
			message := string(b.read("a.pgp"))
			var one sync.Mutex
			steptest.Run(t, steptest.Case{
				Packages: []string{steptest.All},
				Register: func(r *courier.Registry) { pgp.Register(r, b.keys) },
				Key:      c.key,
				Setup: func(w *steptest.World) {
					if c.old {
						w.Write(c.output, "old")
					}
					if c.key == "pgp.decrypt" {
						w.Write("a.pgp", message)
						w.Config = map[string]any{"source_path": "a.pgp", "output_path": c.output, "verify": "required"}
						return
					}
					w.Write("a.txt", data)
					w.Config = map[string]any{"source_path": "a.txt", "output_path": c.output, "recipient_key_ids": []string{"us"}, "signing_key_id": "us", "output_format": c.format}
				},
				Content: func(name string, content []byte) string {
					text := string(content)
					if c.key == "pgp.decrypt" || text == data || text == "old" {
						return text
					}
					one.Lock()
					defer one.Unlock()
					return b.opened(content)
				},
				Outputs: func(_ *steptest.World, out map[string]any) {
					if c.key == "pgp.encrypt" {
						delete(out, "size") // two encryptions of one text have not one size
					}
				},
				Tidy:   true,
				Places: raced.Or(2, 10),
			})
		})
	}
	keys = append(keys, contractOfSignatures(t)...)
	var r courier.Registry
	pgp.Register(&r, new(pgp.Keyring))
	steptest.Cover(t, &r, keys...)
}

// contractOfSignatures returns the keys of the steps that it has cases for.
func contractOfSignatures(t *testing.T) []string {
	text := strings.Repeat("a line of text\n", 5_000)
	var keys []string
	for _, c := range []struct {
		key, mode, format, output string
		old                       bool
	}{
		{"pgp.sign", "detached", "binary", "out/final", true},
		{"pgp.sign", "inline", "armored", "", false},
		{"pgp.sign", "clearsign", "", "out/to/", true},
		{"pgp.verify", "detached", "armored", "", false},
		{"pgp.verify", "inline", "binary", "out/final", true},
		{"pgp.verify", "clearsign", "", "out/final", false},
	} {
		keys = append(keys, c.key)
		t.Run(strings.Join([]string{c.key, c.mode, c.format, c.output}, " "), func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			us := b.key("us")
			b.write("a.txt", []byte(text))
			verify := b.signed("a.txt", "us", c.mode, c.format)
			signed := string(b.read("signed"))
			var one sync.Mutex
			steptest.Run(t, steptest.Case{
				Packages: []string{steptest.All},
				Register: func(r *courier.Registry) { pgp.Register(r, b.keys) },
				Key:      c.key,
				Setup: func(w *steptest.World) {
					if c.old {
						w.Write(c.output+strings.Repeat("a.txt.signed", strings.Count(c.output[4:], "/")), "old")
					}
					w.Write("a.txt", text)
					if c.key == "pgp.sign" {
						w.Config = map[string]any{"source_path": "a.txt", "output_path": c.output, "signing_key_id": "us", "signature_type": c.mode, "output_format": c.format}
						return
					}
					w.Write("signed", signed)
					w.Config = map[string]any{"output_path": c.output, "require": "valid"}
					for k, v := range verify {
						w.Config.(map[string]any)[k] = v
					}
				},
				Content: func(name string, content []byte) string {
					if s := string(content); s == text || s == signed || s == "old" || c.key == "pgp.verify" {
						return s
					}
					one.Lock()
					defer one.Unlock()
					b.write("signed", content)
					out, err := b.verify(verify)
					return fmt.Sprintf("valid %v by %s, %v", out.Valid, pgptest.Fingerprint(us), err)
				},
				Outputs: func(_ *steptest.World, out map[string]any) {
					if c.key == "pgp.sign" {
						delete(out, "signed_at")
						delete(out, "size") // two signatures of one content have not one size
					}
				},
				Tidy:   true,
				Places: raced.Or(1, 5),
			})
		})
	}
	return keys
}

// opened is the plaintext of a message, or why it has none.
func (b *bench) opened(message []byte) string {
	b.write("check.pgp", message)
	out, err := b.decrypt(map[string]any{"source_path": "check.pgp", "output_path": "check", "verify": "required"})
	if err != nil {
		return fmt.Sprintf("%d bytes that are no message: %v", len(message), err)
	}
	return fmt.Sprintf("signed by %s: %s", out.SignerFingerprint, b.read("check"))
}
