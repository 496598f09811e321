package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp/packet"
	openpgp "github.com/ProtonMail/go-crypto/openpgp/v2"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/steps/pgp"
)

// gnupgName is the program that most partners use.
const gnupgName = "gnupg"

// pgpBenches measures how fast files are encrypted and decrypted, beside GnuPG
// with the same key and the same files: incompressible content without
// compression, and log text with it. GnuPG encrypts to AES-256, and at its
// default level of compression. With -aead Courier's recipient has a key that
// offers authenticated encryption, which GnuPG's never use by default, and each
// decrypts what it encrypted itself.
func pgpBenches() []bench {
	var list []bench
	for _, form := range []pgpForm{
		{}, {name: "-armored", config: map[string]any{"output_format": "armored"}, args: []string{"--armor"}},
		{name: "-aead", aead: true},
		{name: "-compressed", text: true, config: map[string]any{"compression": "zlib"}},
	} {
		if !form.text {
			form.args = append(form.args, "-z", "0")
		}
		for _, way := range []string{"encrypt", "decrypt"} {
			list = append(list, bench{
				name: "pgp-" + way + form.name, figures: []figure{{unit: "MiB/s"}}, peers: []string{gnupgName},
				turn: func(ctx context.Context, h *harness, who string) ([]float64, error) {
					p, err := h.pgpFiles(ctx)
					if err != nil {
						return nil, err
					}
					rate, err := p.measure(ctx, who, way, form)
					return []float64{rate}, err
				},
			})
		}
	}
	return list
}

// A pgpForm is a form of messages.
type pgpForm struct {
	name   string
	text   bool           // the content is log text
	aead   bool           // Courier's messages are in the way of RFC 9580
	config map[string]any // of pgp.encrypt
	args   []string       // of gpg
}

// content is the name of the file with the content.
func (f pgpForm) content() string {
	if f.text {
		return "text"
	}
	return "random"
}

// A pgpWork is a directory with files, and a key that GnuPG and Courier have.
type pgpWork struct {
	dir  string
	home string // of GnuPG
	size int64  // of the files, in MiB
	reg  courier.Registry
}

// pgpFiles returns the files for all benches; the harness removes them.
func (h *harness) pgpFiles(ctx context.Context) (*pgpWork, error) {
	if h.pgp != nil {
		return h.pgp, nil
	}
	// In memory, so that what is measured is not the disk.
	base := "/dev/shm"
	if info, err := os.Stat(base); err != nil || !info.IsDir() {
		base = ""
	}
	dir, err := os.MkdirTemp(base, "courier-pgp-")
	if err != nil {
		return nil, err
	}
	home, err := os.MkdirTemp("", "g") // the agent's socket has a short name or none
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	p := &pgpWork{dir: dir, home: home, size: int64(h.scaled(1024))}
	if h.quick && !h.least {
		p.size = 256
	}
	for _, make := range []func() error{func() error { return p.makeKey(ctx) }, p.makeRandom, p.makeText} {
		if err := make(); err != nil {
			return nil, errors.Join(err, p.close())
		}
	}
	h.pgp = p
	return p, nil
}

func (p *pgpWork) close() error {
	err := p.run(context.Background(), "gpgconf", "--kill", "all")
	return errors.Join(err, os.RemoveAll(p.dir), os.RemoveAll(p.home))
}

// run runs one of GnuPG's programs.
func (p *pgpWork) run(ctx context.Context, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "GNUPGHOME="+p.home, "LC_ALL=C")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, bytes.TrimSpace(out))
	}
	return nil
}

func (p *pgpWork) gpg(ctx context.Context, args ...string) error {
	base := []string{"--batch", "--yes", "--no-tty", "--pinentry-mode", "loopback", "--passphrase", "", "--trust-model", "always"}
	return p.run(ctx, "gpg", append(base, args...)...)
}

func (p *pgpWork) makeKey(ctx context.Context) error {
	const name = "bench"
	key := filepath.Join(p.dir, "key")
	if err := p.gpg(ctx, "--quick-generate-key", name, "future-default", "default", "never"); err != nil {
		return err
	}
	if err := p.gpg(ctx, "--output", key, "--export-secret-keys", name); err != nil {
		return err
	}
	data, err := os.ReadFile(key)
	if err != nil {
		return err
	}
	var keys pgp.Keyring
	if err := keys.Add(name, pgp.Key{Data: data}); err != nil {
		return err
	}
	if err := addAEADKey(&keys); err != nil {
		return err
	}
	pgp.Register(&p.reg, &keys)
	return nil
}

// aeadKey is the id of a key that offers authenticated encryption.
const aeadKey = "aead"

func addAEADKey(keys *pgp.Keyring) error {
	e, err := openpgp.NewEntity(aeadKey, "", "", &packet.Config{
		Algorithm: packet.PubKeyAlgoEdDSA, Curve: packet.Curve25519, DefaultCipher: packet.CipherAES256,
		AEADConfig: &packet.AEADConfig{DefaultMode: packet.AEADModeGCM},
	})
	if err != nil {
		return err
	}
	var data bytes.Buffer
	if err := e.SerializePrivate(&data, nil); err != nil {
		return err
	}
	return keys.Add(aeadKey, pgp.Key{Data: data.Bytes()})
}

// makeRandom makes a file that does not compress.
func (p *pgpWork) makeRandom() error {
	r := rand.NewChaCha8([32]byte{1})
	block := make([]byte, 1<<20)
	return p.write("random", func() []byte {
		r.Read(block)
		return block
	})
}

// makeText makes a file like the log of a web server.
func (p *pgpWork) makeText() error {
	r := rand.New(rand.NewChaCha8([32]byte{2}))
	at := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
	var block []byte
	return p.write("text", func() []byte {
		block = block[:0]
		for len(block) < 1<<20 {
			at = at.Add(time.Duration(r.IntN(1000)) * time.Millisecond)
			block = fmt.Appendf(block, "%d.%d.%d.%d - - [%s] \"GET /orders/%d/items?page=%d HTTP/1.1\" %d %d \"-\" \"client/%d.%d\" %016x\n",
				r.IntN(256), r.IntN(256), r.IntN(256), r.IntN(256), at.Format("02/Jan/2006:15:04:05 -0700"),
				r.IntN(100_000), r.IntN(20), []int{200, 200, 200, 304, 404}[r.IntN(5)], r.IntN(50_000), r.IntN(9), r.IntN(30), r.Uint64())
		}
		return block[:1<<20]
	})
}

func (p *pgpWork) write(name string, block func() []byte) error {
	f, err := os.Create(filepath.Join(p.dir, name))
	if err != nil {
		return err
	}
	defer f.Close()
	w := bufio.NewWriterSize(f, 1<<20)
	for range p.size {
		if _, err := w.Write(block()); err != nil {
			return err
		}
	}
	return errors.Join(w.Flush(), f.Close())
}

// measure does the work once and returns its speed, in MiB of content per
// second. What is decrypted was encrypted by GnuPG.
func (p *pgpWork) measure(ctx context.Context, who, way string, form pgpForm) (float64, error) {
	message := form.content() + form.name + ".pgp"
	if form.aead && who == courierName {
		message = "aead.pgp"
	}
	encrypt := append(append([]string{"--cipher-algo", "AES256", "-r", "bench"}, form.args...), "--output")
	if _, err := os.Stat(filepath.Join(p.dir, message)); err != nil && way == "decrypt" && message == "aead.pgp" {
		if err := p.step(ctx, "encrypt", form.content(), message, form); err != nil {
			return 0, err
		}
	} else if err != nil && way == "decrypt" {
		args := append(encrypt, filepath.Join(p.dir, message), "--encrypt", filepath.Join(p.dir, form.content()))
		if err := p.gpg(ctx, args...); err != nil {
			return 0, err
		}
	}
	input := form.content()
	if way == "decrypt" {
		input = message
	}
	const output = "out"
	start := time.Now()
	var err error
	switch {
	case who == courierName:
		err = p.step(ctx, way, input, output, form)
	case way == "encrypt":
		err = p.gpg(ctx, append(encrypt, filepath.Join(p.dir, output), "--encrypt", filepath.Join(p.dir, input))...)
	default:
		err = p.gpg(ctx, "--output", filepath.Join(p.dir, output), "--decrypt", filepath.Join(p.dir, input))
	}
	if err == nil && who != courierName {
		err = syncFile(filepath.Join(p.dir, output)) // as Courier does
	}
	spent := time.Since(start)
	if err != nil {
		return 0, err
	}
	if err := p.check(ctx, way, form, output); err != nil {
		return 0, err
	}
	return float64(p.size) / spent.Seconds(), nil
}

// check makes sure that the work was done.
func (p *pgpWork) check(ctx context.Context, way string, form pgpForm, output string) error {
	file := filepath.Join(p.dir, output)
	defer os.Remove(file)
	if way == "encrypt" {
		info, err := os.Stat(file)
		if err == nil && info.Size() < p.size<<16 {
			err = fmt.Errorf("the message has only %d bytes", info.Size())
		}
		return err
	}
	return exec.CommandContext(ctx, "cmp", "--silent", file, filepath.Join(p.dir, form.content())).Run()
}

func syncFile(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// step runs pgp.encrypt or pgp.decrypt as an engine does.
func (p *pgpWork) step(ctx context.Context, way, input, output string, form pgpForm) error {
	cfg := map[string]any{"source_path": input, "output_path": output}
	if way == "encrypt" {
		cfg["recipient_key_ids"] = []string{"bench"}
		if form.aead {
			cfg["recipient_key_ids"] = []string{aeadKey}
		}
		for k, v := range form.config {
			cfg[k] = v
		}
	}
	raw, err := json.Marshal(cfg)
	if err != nil {
		return err
	}
	typ, ok := p.reg.Lookup("pgp." + way)
	if !ok {
		return fmt.Errorf("there is no step pgp.%s", way)
	}
	job := courier.NewContext(courier.ContextConfig{Job: "bench", Attempt: 1, Workspace: p.dir})
	defer job.Close()
	_, err = typ.Execute(ctx, job, raw)
	return err
}
