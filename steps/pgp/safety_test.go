package pgp_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp/eddsa"
	"github.com/ProtonMail/go-crypto/openpgp/packet"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/test/pgptest"
	"github.com/courierhq/courier/steps/pgp"
)

// writeLarge makes a file that does not compress without holding it.
func (b *bench) writeLarge(name string, mib int) {
	b.Helper()
	b.write(name, nil)
	f, err := os.OpenFile(filepath.Join(b.dir, name), os.O_WRONLY, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	block := pgptest.Noise(1 << 20)
	for i := range mib {
		block[0] = byte(i)
		if _, err := f.Write(block); err != nil {
			b.Fatal(err)
		}
	}
}

// TestLarge watches memory and progress while large files go through.
func TestLarge(t *testing.T) {
	b := newBench(t)
	b.key("us")
	defer debug.SetGCPercent(debug.SetGCPercent(10))
	watch := func(what string, mib int64, execute func() error) {
		t.Helper()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		before, most := m.HeapAlloc, uint64(0)
		stop, done := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(done)
			for {
				select {
				case <-stop:
					return
				case <-time.After(2 * time.Millisecond):
					runtime.ReadMemStats(&m)
					most = max(most, m.HeapAlloc)
				}
			}
		}()
		b.moved = nil
		err := execute()
		close(stop)
		<-done
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		const bound = 12 << 20
		if most > before+bound {
			t.Errorf("%s: %d KiB of memory for %d MiB", what, (most-before)>>10, mib)
		}
		last := b.moved[len(b.moved)-1]
		if len(b.moved) < int(mib) || last.Done != last.Total || last.Total < mib<<20 || last.Bytes != last.Total {
			t.Errorf("%s: %d reports, the last %+v", what, len(b.moved), last)
		}
	}
	for format, mib := range map[string]int{"binary": 32, "armored": 12} {
		b.writeLarge("a.bin", mib)
		watch("encrypt "+format, int64(mib), func() error {
			return second(b.encrypt(map[string]any{"source_path": "a.bin", "output_path": "a.pgp", "recipient_key_ids": []string{"us"}, "signing_key_id": "us", "output_format": format}))
		})
		watch("decrypt "+format, int64(mib), func() error {
			return second(b.decrypt(map[string]any{"source_path": "a.pgp", "output_path": "b.bin", "signer_key_ids": []string{"us"}}))
		})
		if !sameFiles(t, filepath.Join(b.dir, "a.bin"), filepath.Join(b.dir, "b.bin")) {
			t.Error("the content differs")
		}
	}
}

func sameFiles(t *testing.T, a, b string) bool {
	t.Helper()
	x, err1 := os.ReadFile(a)
	y, err2 := os.ReadFile(b)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	return bytes.Equal(x, y)
}

// TestCancel ends the context in the middle of a large file, and of a bomb that
// makes much output of little input.
func TestCancel(t *testing.T) {
	b := newBench(t)
	us := pgptest.NewEntity(t, "us", func(c *packet.Config) { c.DefaultCompressionAlgo = packet.CompressionZLIB })
	b.add("us", us)
	b.writeLarge("a.bin", 8)
	if _, err := b.encrypt(map[string]any{"source_path": "a.bin", "output_path": "a.pgp", "recipient_key_ids": []string{"us"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.encrypt(map[string]any{"source_path": "a.bin", "output_path": "a.asc", "recipient_key_ids": []string{"us"}, "output_format": "armored"}); err != nil {
		t.Fatal(err)
	}
	b.write("zeros", make([]byte, 8<<20))
	if _, err := b.encrypt(map[string]any{"source_path": "zeros", "output_path": "bomb.pgp", "recipient_key_ids": []string{"us"}, "compression": "zlib"}); err != nil {
		t.Fatal(err)
	}
	before := fmt.Sprint(b.files())
	reason := errors.New("enough")
	for _, c := range []struct{ key, input string }{
		{"pgp.encrypt", "a.bin"}, {"pgp.encrypt", "zeros"},
		{"pgp.decrypt", "a.pgp"}, {"pgp.decrypt", "a.asc"}, {"pgp.decrypt", "bomb.pgp"},
	} {
		cfg := map[string]any{"source_path": c.input, "output_path": "final"}
		if c.key == "pgp.encrypt" {
			cfg["recipient_key_ids"], cfg["compression"] = []string{"us"}, "zip"
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		var ended time.Time
		b.moved, b.onMove = nil, func() {
			if len(b.moved) == 10 {
				ended = time.Now()
				cancel(reason)
			}
		}
		typ, _ := b.reg.Lookup(c.key)
		_, err := typ.Execute(ctx, b.job(), mustJSON(t, cfg))
		cancel(nil)
		if !errors.Is(err, reason) || courier.IsPermanent(err) {
			t.Errorf("%s %s: %v", c.key, c.input, err)
		}
		if d := time.Since(ended); d > time.Second || len(b.moved) > 11 {
			t.Errorf("%s %s: stopped after %v", c.key, c.input, d)
		}
		if got := fmt.Sprint(b.files()); got != before {
			t.Errorf("%s %s: files = %s", c.key, c.input, got)
		}
	}
}

// TestCancelEmptyWork ends the context while the library unpacks packets that
// mean nothing, and nobody else has a say.
func TestCancelEmptyWork(t *testing.T) {
	b := newBench(t)
	us := b.key("us")
	key := pgptest.Noise(32)
	sub, _ := us.EncryptionKey(time.Now(), nil)
	var out bytes.Buffer
	if err := packet.SerializeEncryptedKey(&out, sub.PublicKey, packet.CipherAES256, key, nil); err != nil {
		t.Fatal(err)
	}
	w, err := packet.SerializeSymmetricallyEncrypted(&out, packet.CipherAES256, false, packet.CipherSuite{}, key, nil)
	for range 2 { // what is in the inner one nobody counts
		if err == nil {
			w, err = packet.SerializeCompressed(w, packet.CompressionZLIB, &packet.CompressionConfig{Level: 1})
		}
	}
	markers := bytes.Repeat([]byte("\xca\x03PGP"), 200_000)
	for range 64 {
		if err == nil {
			_, err = w.Write(markers)
		}
	}
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	b.write("in.pgp", out.Bytes())
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	start := time.Now()
	_, err = run[pgp.DecryptOutput](ctx, b, "pgp.decrypt", map[string]any{"source_path": "in.pgp"})
	if d := time.Since(start); !errors.Is(err, context.DeadlineExceeded) || d > time.Second {
		t.Errorf("%v after %v", err, d)
	}
}

// TestKilled finds what a process left behind that ended in the middle.
func TestKilled(t *testing.T) {
	for _, output := range []string{"", "out/final", "out/"} {
		b := newBench(t)
		us := b.key("us")
		b.write("a.txt", []byte("a"))
		b.write("a.txt.pgp", pgptest.Seal(t, []byte("a"), us, nil))
		for key, target := range map[string]string{"pgp.encrypt": "a.txt.pgp", "pgp.decrypt": "a.txt"} {
			dir := output
			if output == "" {
				dir = "2/%d/"
			}
			for b.attempt = 1; b.attempt <= 3; b.attempt++ {
				name := dir
				if strings.Contains(dir, "%d") {
					name = fmt.Sprintf(dir, b.attempt)
				}
				if strings.HasSuffix(name, "/") {
					name += target
				}
				w, err := b.job().Files().Create(name)
				if err != nil {
					t.Fatal(err)
				}
				w.File.Close() // without discarding it
			}
			cfg := map[string]any{"source_path": "a.txt", "output_path": output}
			if key == "pgp.decrypt" {
				cfg["source_path"] = "a.txt.pgp"
			} else {
				cfg["recipient_key_ids"] = []string{"us"}
			}
			b.attempt = 4
			b.cleanup(key, cfg)
			b.wantFiles("a.txt", "a.txt.pgp")
		}
	}
}

// TestInputGrows expects that a file is not taken for complete while somebody
// still writes it.
func TestInputGrows(t *testing.T) {
	b := newBench(t)
	b.key("us")
	b.write("a.bin", pgptest.Noise(1<<20))
	file := filepath.Join(b.dir, "a.bin")
	job := courier.NewContext(courier.ContextConfig{Workspace: b.dir, OnProgress: func(p courier.Progress) {
		f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
		if err == nil && p.Done < 3<<20 {
			f.Write(make([]byte, 300_000))
		}
		f.Close()
	}})
	defer job.Close()
	typ, _ := b.reg.Lookup("pgp.encrypt")
	_, err := typ.Execute(t.Context(), job, mustJSON(t, map[string]any{"source_path": "a.bin", "recipient_key_ids": []string{"us"}}))
	if err == nil || !strings.Contains(err.Error(), "changed while it was read") || courier.IsPermanent(err) {
		t.Errorf("error = %v", err)
	}
	b.wantFiles("a.bin")
}

// TestFileSystemFails has no room for the output.
func TestFileSystemFails(t *testing.T) {
	b := newBench(t)
	us := b.key("us")
	b.write("a.txt", []byte("a"))
	b.write("in.pgp", pgptest.Seal(t, []byte("a"), us, nil))
	b.write("dir/final/x", nil)
	long := strings.Repeat("n", 300)
	for _, output := range []string{"a.txt/final", long} {
		for _, err := range []error{
			second(b.encrypt(map[string]any{"source_path": "a.txt", "output_path": output, "recipient_key_ids": []string{"us"}})),
			second(b.decrypt(map[string]any{"source_path": "in.pgp", "output_path": output})),
		} {
			if err == nil || !strings.Contains(err.Error(), "output: ") || courier.IsPermanent(err) {
				t.Errorf("%.20s: %v", output, err)
			}
		}
	}
	b.wantFiles("a.txt", "dir/final/x", "in.pgp")
}

// TestSecretsStaySecret fails in many ways and looks for passphrases and
// private keys in everything that comes out.
func TestSecretsStaySecret(t *testing.T) {
	b := newBench(t)
	const passphrase, wrong = "canary-passphrase-5317", "wrong-canary-9041"
	e := pgptest.NewEntity(t, "us", nil)
	secret := bytes.Clone(e.PrivateKey.PrivateKey.(*eddsa.PrivateKey).MarshalByteSecret())
	message := pgptest.SignedBy(t, e, nil, e)
	if err := e.EncryptPrivateKeys([]byte(passphrase), nil); err != nil {
		t.Fatal(err)
	}
	data := pgptest.Private(t, e)
	broken := bytes.Clone(data)
	broken[len(broken)-100] ^= 1
	for name, k := range map[string]pgp.Key{
		"us": {Data: data, Passphrase: "right"}, "wrong": {Data: data, Passphrase: "wrong"},
		"gone": {Data: data, Passphrase: "gone"}, "none": {Data: data},
		"broken": {Data: broken, Passphrase: "right"},
	} {
		b.reg = courier.Registry{}
		pgp.Register(&b.reg, oneKey{k})
		b.secrets = map[string]string{"right": passphrase, "wrong": wrong}
		var said strings.Builder
		fmt.Fprintf(&said, "%v %+v %#v %v", k, k, k, b.keys)
		damaged := bytes.Clone(message)
		damaged[len(damaged)-5]++
		b.write("in.pgp", message)
		b.write("damaged.pgp", damaged)
		b.write("a.txt", []byte("a"))
		decrypt := map[string]any{"source_path": "in.pgp", "private_key_ids": []string{"us"}, "signer_key_ids": []string{"us"}}
		encrypt := map[string]any{"source_path": "a.txt", "recipient_key_ids": []string{"us"}, "signing_key_id": "us"}
		for _, input := range []string{"in.pgp", "damaged.pgp", "a.txt", "nothing"} {
			decrypt["source_path"] = input
			out, err := b.decrypt(decrypt)
			fmt.Fprintf(&said, "%+v %v %+v\n", out, err, err)
		}
		out, err := b.encrypt(encrypt)
		fmt.Fprintf(&said, "%s %+v %v %v %v\n", name, out, err, b.validate("pgp.encrypt", encrypt), b.validate("pgp.decrypt", decrypt))
		if name == "us" && err != nil {
			t.Error(err)
		}
		for _, f := range signForms[4:] {
			sign := map[string]any{"source_path": "a.txt", "output_path": "signed", "signing_key_id": "us", "signature_type": f.mode, "output_format": f.format}
			signed, err := b.sign(sign)
			fmt.Fprintf(&said, "%+v %v %v\n", signed, err, b.validate("pgp.sign", sign))
			for _, verify := range []map[string]any{{"source_path": "a.txt", "detached_signature_path": "signed"}, {"source_path": "damaged.pgp"}} {
				found, err := b.verify(verify)
				fmt.Fprintf(&said, "%+v %v %v\n", found, err, b.validate("pgp.verify", verify))
			}
		}
		text := said.String() + b.log.String() + fmt.Sprint(b.moved)
		for _, f := range b.files() {
			text += f + string(b.read(f))
		}
		for what, canary := range map[string]string{
			"passphrase": passphrase, "wrong passphrase": wrong,
			"private key": string(secret), "private key in hex": hex.EncodeToString(secret),
			"private key in HEX": strings.ToUpper(hex.EncodeToString(secret)), "private key in base64": base64.StdEncoding.EncodeToString(secret)[:40],
			"private key as numbers": strings.Trim(fmt.Sprint(secret), "[]"),
			"locked key in hex":      hex.EncodeToString(data[len(data)/2:][:16]), "locked key": string(data[len(data)/2:][:16]),
		} {
			if strings.Contains(text, canary) {
				t.Errorf("%s: the %s is in:\n%s", name, what, text)
			}
		}
	}
}

// oneKey is a vault with one key under any name.
type oneKey struct{ key pgp.Key }

func (o oneKey) Key(context.Context, string) (pgp.Key, error) { return o.key, nil }

// TestParallel runs steps with the same keys in one execution at a time.
func TestParallel(t *testing.T) {
	b := newBench(t)
	e := pgptest.NewEntity(t, "us", nil)
	message := pgptest.SignedBy(t, e, nil, e)
	if err := e.EncryptPrivateKeys([]byte("p"), nil); err != nil {
		t.Fatal(err)
	}
	if err := b.keys.Add("us", pgp.Key{Data: pgptest.Private(t, e), Passphrase: "p"}); err != nil {
		t.Fatal(err)
	}
	b.write("in.pgp", message)
	var kept courier.Resources
	defer kept.Close()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			job := courier.NewContext(courier.ContextConfig{
				Execution: "e", Iteration: []int{i}, Workspace: b.dir, Resources: &kept,
				Secrets: func(context.Context, courier.SecretRequest) (string, error) { return "p", nil },
			})
			defer job.Close()
			key, cfg := "pgp.decrypt", map[string]any{"source_path": "in.pgp", "signer_key_ids": []string{"us"}}
			if i%2 == 1 {
				key, cfg = "pgp.encrypt", map[string]any{"source_path": "in.pgp", "recipient_key_ids": []string{"us"}, "signing_key_id": "us"}
			}
			typ, _ := b.reg.Lookup(key)
			if _, err := typ.Execute(t.Context(), job, mustJSON(t, cfg)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}
