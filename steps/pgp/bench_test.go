package pgp_test

import (
	"testing"
)

// BenchmarkSteps runs the steps on a file of 256 MiB that does not compress.
func BenchmarkSteps(b *testing.B) {
	const mib = 256
	w := newBench(b)
	w.key("us")
	w.writeLarge("a.bin", mib)
	for _, c := range []struct{ name, format, signer, verify string }{
		{"binary", "binary", "", "optional"},
		{"signed", "binary", "us", "required"},
		{"armored", "armored", "", "optional"},
	} {
		b.Run("encrypt/"+c.name, func(b *testing.B) {
			b.SetBytes(mib << 20)
			for b.Loop() {
				if _, err := w.encrypt(map[string]any{
					"source_path": "a.bin", "output_path": c.name, "recipient_key_ids": []string{"us"},
					"signing_key_id": c.signer, "output_format": c.format,
				}); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("decrypt/"+c.name, func(b *testing.B) {
			b.SetBytes(mib << 20)
			for b.Loop() {
				if _, err := w.decrypt(map[string]any{"source_path": c.name, "output_path": "b.bin", "verify": c.verify}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
