package pgp

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"

	"github.com/ProtonMail/go-crypto/openpgp/packet"
	openpgp "github.com/ProtonMail/go-crypto/openpgp/v2"

	"github.com/courierhq/courier"
)

// Encrypt is the step pgp.encrypt: it encrypts one file to all of the
// recipients, any of whom can then decrypt it, and signs it if a signing key is
// given. The cipher is AES-256, or AES-128 if a recipient's key rules that out,
// always with the integrity check that GnuPG knows (MDC).
//
// The output has its final name only when it is complete. Encrypting again
// overwrites it: the bytes differ, since each message has a key of its own, and
// the content is the same.
type Encrypt struct {
	Keys Keys // where keys are looked up
}

// EncryptConfig is the configuration of pgp.encrypt.
type EncryptConfig struct {
	InputPath       string      `json:"input_path" courier:"required" doc:"The file to encrypt."`
	OutputPath      string      `json:"output_path" doc:"The encrypted file, or with a slash at its end the directory for it. Default: the input's name with .pgp, in the attempt's own directory."`
	RecipientKeyIDs []string    `json:"recipient_key_ids" courier:"required" doc:"The keys that can decrypt the file, one or more: names, fingerprints or key ids."`
	SigningKeyID    string      `json:"signing_key_id" doc:"The private key that signs the file. Default: the file is not signed."`
	OutputFormat    Format      `json:"output_format" default:"binary" doc:"binary, or armored: a text file."`
	Compression     Compression `json:"compression" default:"none" doc:"Compression inside the message: none, zip or zlib."`
}

// Format is the form of a message as a file.
type Format string

// The values of [Format].
const (
	Binary  Format = "binary"
	Armored Format = "armored"
)

// UnmarshalText refuses other values.
func (f *Format) UnmarshalText(text []byte) (err error) {
	*f, err = oneOf(text, Binary, Armored)
	return err
}

// Compression is the compression inside a message.
type Compression string

// The values of [Compression].
const (
	CompressionNone Compression = "none"
	CompressionZip  Compression = "zip"
	CompressionZlib Compression = "zlib"
)

// UnmarshalText refuses other values.
func (c *Compression) UnmarshalText(text []byte) (err error) {
	*c, err = oneOf(text, CompressionNone, CompressionZip, CompressionZlib)
	return err
}

func (c Compression) algorithm() packet.CompressionAlgo {
	switch c {
	case CompressionZip:
		return packet.CompressionZIP
	case CompressionZlib:
		return packet.CompressionZLIB
	}
	return packet.CompressionNone
}

// EncryptOutput is the output of pgp.encrypt.
type EncryptOutput struct {
	EncryptedFile string   `json:"encrypted_file" doc:"path of the message"`
	Size          int64    `json:"size" doc:"of the message, in bytes"`
	Recipients    []string `json:"recipients" doc:"fingerprints of the keys that can decrypt it, each once"`
	// SignerFingerprint is the key that signed; missing if none did.
	SignerFingerprint string `json:"signer_fingerprint,omitempty" doc:"the key that signed, if one did"`
}

// Execute implements [courier.Step].
func (e *Encrypt) Execute(ctx context.Context, job *courier.Context, cfg EncryptConfig) (EncryptOutput, error) {
	var out EncryptOutput
	target, err := place(job, cfg.OutputPath, baseName(cfg.InputPath)+".pgp")
	if err != nil {
		return out, err
	}
	to, signer, err := e.load(ctx, &loader{job: job, keys: e.Keys}, cfg)
	if err != nil {
		return out, err
	}
	in, err := job.Open(cfg.InputPath)
	if err != nil {
		return out, fmt.Errorf("input: %w", err)
	}
	defer in.Close()
	if err := distinct(job, in, target); err != nil {
		return out, err
	}
	w, err := job.Create(target)
	if err != nil {
		return out, fmt.Errorf("output: %w", err)
	}
	defer w.Close()
	if err := write(ctx, job, cfg, w, in, to, signer); err != nil {
		return out, err
	}
	info, err := w.Stat()
	if err == nil {
		err = w.Commit()
	}
	if err != nil {
		return out, fmt.Errorf("output: %w", err)
	}
	out.Size = info.Size()
	for _, key := range to {
		out.Recipients = append(out.Recipients, fingerprint(key.PrimaryKey))
	}
	for _, key := range signer {
		out.SignerFingerprint = fingerprint(key.PrimaryKey)
	}
	out.EncryptedFile, err = job.Path(target)
	return out, err
}

// Validate implements [courier.Validator]: the paths are allowed, an absolute
// input is there, the keys are there and fit, and the passphrase is right.
func (e *Encrypt) Validate(ctx context.Context, job *courier.Context, cfg EncryptConfig) error {
	var errs []error
	if err := checkPaths(job, cfg.InputPath, cfg.OutputPath); err != nil {
		errs = append(errs, err)
	}
	if job.Unresolved("recipient_key_ids") {
		cfg.RecipientKeyIDs = nil
	}
	if job.Unresolved("signing_key_id") {
		cfg.SigningKeyID = ""
	}
	if _, _, err := e.load(ctx, &loader{job: job, keys: e.Keys}, cfg); err != nil {
		errs = append(errs, err)
	}
	if len(errs) == 0 {
		return nil
	}
	return joined(errs)
}

// Cleanup implements [courier.Cleaner].
func (e *Encrypt) Cleanup(_ context.Context, job *courier.Context, cfg EncryptConfig) error {
	return cleanup(job, cfg.OutputPath, baseName(cfg.InputPath)+".pgp")
}

// load finds the keys; signer holds one key or none.
func (e *Encrypt) load(ctx context.Context, l *loader, cfg EncryptConfig) (to, signer []*loaded, err error) {
	var errs []error
	if to, err = l.loadAll(ctx, cfg.RecipientKeyIDs, toEncrypt); err != nil {
		errs = append(errs, fmt.Errorf("recipients: %w", err))
	}
	if cfg.SigningKeyID != "" {
		if signer, err = l.loadAll(ctx, []string{cfg.SigningKeyID}, toSign); err != nil {
			errs = append(errs, fmt.Errorf("signing key: %w", err))
		}
	}
	if len(errs) > 0 {
		return nil, nil, joined(errs)
	}
	return to, signer, nil
}

// write encrypts in to w.
func write(ctx context.Context, job *courier.Context, cfg EncryptConfig, w io.Writer, in *os.File, to, signer []*loaded) error {
	buffered := bufio.NewWriterSize(w, bufSize)
	var text io.WriteCloser = nopCloser{buffered}
	if cfg.OutputFormat == Armored {
		text = newArmorWriter(buffered, armorMessage)
	}
	plaintext, err := encrypter(text, cfg, to, signer)
	if err != nil {
		return fmt.Errorf("output: %w", err)
	}
	if err := copyInput(ctx, job, cfg.InputPath, plaintext, in); err != nil {
		return err
	}
	if err := plaintext.Close(); err != nil {
		return fmt.Errorf("output: %w", err)
	}
	if err := text.Close(); err != nil {
		return fmt.Errorf("output: %w", err)
	}
	if err := buffered.Flush(); err != nil {
		return fmt.Errorf("output: %w", err)
	}
	return nil
}

// encrypter returns a writer for the content of a message that goes to w.
func encrypter(w io.Writer, cfg EncryptConfig, to, signer []*loaded) (io.WriteCloser, error) {
	conf := policy()
	conf.DefaultCompressionAlgo = cfg.Compression.algorithm()
	recipients := make([]*openpgp.Entity, len(to))
	for i, key := range to {
		recipients[i] = key.Entity
		// What the key says of itself would choose between AEAD, which GnuPG
		// can't read, and MDC, and overrule the compression asked for.
		if sig, err := key.PrimarySelfSignature(conf.Now(), conf); err == nil {
			sig.SEIPDv2 = false
			sig.PreferredCompression = []uint8{uint8(conf.DefaultCompressionAlgo)}
		}
	}
	var signers []*openpgp.Entity
	for _, key := range signer {
		signers = append(signers, key.Entity)
	}
	return openpgp.EncryptWithParams(w, recipients, nil, &openpgp.EncryptParams{Signers: signers, Config: conf})
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }
