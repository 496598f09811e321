package pgpstream_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/ProtonMail/go-crypto/openpgp/packet"
	openpgp "github.com/ProtonMail/go-crypto/openpgp/v2"

	"github.com/courierhq/courier/internal/pgpstream"
	"github.com/courierhq/courier/internal/test/pgptest"
)

// FuzzDecrypt changes messages in any way. Nothing panics, and what is
// decrypted without an error was encrypted to the key by somebody, whole.
func FuzzDecrypt(f *testing.F) {
	list, err := openpgp.ReadArmoredKeyRing(bytes.NewReader(pgptest.ArmoredKey))
	if err != nil {
		f.Fatal(err)
	}
	us := list[0]
	contents := []string{"", "the content", strings.Repeat("much of the same, ", 200)}
	for _, content := range contents {
		for _, algo := range []packet.CompressionAlgo{packet.CompressionNone, packet.CompressionZLIB} {
			conf := &packet.Config{DefaultCipher: packet.CipherAES256, DefaultCompressionAlgo: algo}
			plain := pgptest.Seal(f, []byte(content), us, &openpgp.EncryptParams{Config: conf})
			signed := pgptest.Seal(f, []byte(content), us, &openpgp.EncryptParams{Config: conf, Signers: []*openpgp.Entity{us}})
			for _, m := range [][]byte{plain, signed, pgptest.Armor(f, signed), pgptest.WithoutMDC(f, us, []byte(content))} {
				f.Add(m)
			}
		}
	}
	b := newBench(f)
	b.keys["us"] = testKey{data: pgptest.ArmoredKey}
	f.Fuzz(func(t *testing.T, message []byte) {
		b.TB = t
		got, found, err := b.decrypt(message, pgpstream.DecryptOptions{PrivateKeys: []string{"us"}})
		if err == nil && !slices.Contains(contents, string(got)) {
			t.Errorf("decrypted %q: %+v", got, found)
		}
	})
}
