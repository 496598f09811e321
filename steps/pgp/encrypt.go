package pgp

import (
	"context"
	"fmt"
	"io"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/pgpstream"
)

// Encrypt is the step pgp.encrypt: it encrypts one file to all of the
// recipients, any of whom can then decrypt it, and signs it if a signing key is
// given. The cipher is AES-256, or AES-128 if a recipient's key excludes
// AES-256. The integrity check is MDC, which every program supports, or the
// check of an AEAD mode if the keys of all recipients support AEAD.
//
// The output gets its final name only when it is complete. Encrypting again
// overwrites it. The content is the same, but the bytes differ, since each
// message has a key of its own.
type Encrypt struct {
	Keys Keys // where keys are looked up
}

// EncryptConfig is the configuration of pgp.encrypt.
type EncryptConfig struct {
	SourcePath      string      `json:"source_path" alias:"input_path" courier:"required,path" doc:"The file to encrypt."`
	OutputPath      string      `json:"output_path" courier:"path" doc:"The encrypted file, or with a slash at its end the directory for it. Default: the input's name with .pgp, in the attempt's own directory."`
	RecipientKeyIDs []string    `json:"recipient_key_ids" courier:"required" doc:"The keys that can decrypt the file, one or more: names, fingerprints or key ids. ElGamal, secp256k1, and RSA below 2,048 or above 8,192 bits are refused."`
	SigningKeyID    string      `json:"signing_key_id" doc:"The private key that signs the file, of a kind that pgp.sign takes. Default: the file is not signed."`
	OutputFormat    Format      `json:"output_format" default:"binary" enum:"binary,armored" doc:"binary, or armored: a text file."`
	Compression     Compression `json:"compression" default:"none" enum:"none,zip,zlib" doc:"Compression inside the message: none, zip or zlib."`
	AEAD            AEAD        `json:"aead" default:"auto" enum:"auto,off" doc:"auto: AES-GCM or another faster mode of RFC 9580, if the keys of all recipients offer it; off: the form that every program reads."`
}

// Format is the file format of a message.
type Format string

// The values of [Format].
const (
	Binary  Format = "binary"
	Armored Format = "armored"
)

// Compression is the compression inside a message.
type Compression string

// The values of [Compression].
const (
	CompressionNone Compression = "none"
	CompressionZip  Compression = "zip"
	CompressionZlib Compression = "zlib"
)

// AEAD says when a message is encrypted with AEAD as in RFC 9580.
type AEAD string

// The values of [AEAD].
const (
	AEADAuto AEAD = "auto"
	AEADOff  AEAD = "off"
)

// EncryptOutput is the output of pgp.encrypt.
type EncryptOutput struct {
	EncryptedFile string   `json:"encrypted_file" file:"output_path" doc:"path of the message"`
	Size          int64    `json:"size" doc:"of what was written, in bytes"`
	Recipients    []string `json:"recipients" doc:"fingerprints of the keys that can decrypt it, each once"`
	// SignerFingerprint is the fingerprint of the key that signed. It is
	// missing if the message is not signed.
	SignerFingerprint string `json:"signer_fingerprint,omitempty" doc:"the key that signed, if one did"`
}

// Execute implements [courier.Step].
func (e *Encrypt) Execute(ctx context.Context, job *courier.Context, cfg EncryptConfig) (EncryptOutput, error) {
	var out EncryptOutput
	target, err := place(job, cfg.OutputPath, baseName(cfg.SourcePath)+".pgp")
	if err != nil {
		return out, err
	}
	to, key, err := e.load(ctx, &loader{job: job, keys: e.Keys}, cfg)
	if err != nil {
		return out, err
	}
	options := pgpstream.EncryptOptions{
		Recipients: to, Signer: key, Armor: cfg.OutputFormat == Armored, NoAEAD: cfg.AEAD == AEADOff,
		Compression: map[Compression]pgpstream.Compression{CompressionZip: pgpstream.ZIP, CompressionZlib: pgpstream.ZLIB}[cfg.Compression],
	}
	out.EncryptedFile, out.Size, err = produce(job, cfg.SourcePath, target, func(w io.Writer, in *inputFile) error {
		options.Progress = in.progress
		return pgpstream.Encrypt(ctx, w, in, options)
	})
	if err != nil {
		return EncryptOutput{}, err
	}
	for _, k := range to {
		out.Recipients = append(out.Recipients, k.Fingerprint())
	}
	if key != nil {
		out.SignerFingerprint = key.Fingerprint()
	}
	return out, nil
}

// Validate implements [courier.Validator]. It checks that the paths are
// allowed, that an absolute input exists, that the keys exist and are suitable,
// and that the passphrase is right. The findings about the keys are logged.
func (e *Encrypt) Validate(ctx context.Context, job *courier.Context, cfg EncryptConfig) error {
	var errs []error
	if err := checkPaths(job, cfg.SourcePath, cfg.OutputPath); err != nil {
		errs = append(errs, err)
	}
	if job.Unresolved("recipient_key_ids") {
		cfg.RecipientKeyIDs = nil
	}
	if job.Unresolved("signing_key_id") {
		cfg.SigningKeyID = ""
	}
	l := &loader{job: job, keys: e.Keys}
	to, key, err := e.load(ctx, l, cfg)
	if err != nil {
		errs = append(errs, err)
	}
	if len(errs) > 0 {
		return joined(errs)
	}
	l.report(ctx, "encryption", to...)
	if key != nil {
		l.report(ctx, "signature", key)
	}
	return nil
}

// Cleanup implements [courier.Cleaner].
func (e *Encrypt) Cleanup(_ context.Context, job *courier.Context, cfg EncryptConfig) error {
	return cleanup(job, cfg.OutputPath, baseName(cfg.SourcePath)+".pgp")
}

// load finds the keys; key is nil if the message is not signed.
func (e *Encrypt) load(ctx context.Context, l *loader, cfg EncryptConfig) (to []*pgpstream.Key, key *pgpstream.Key, err error) {
	var errs []error
	if to, err = l.loadAll(ctx, cfg.RecipientKeyIDs, pgpstream.ForEncryption); err != nil {
		errs = append(errs, fmt.Errorf("recipients: %w", err))
	}
	if cfg.SigningKeyID != "" {
		signers, err := l.loadAll(ctx, []string{cfg.SigningKeyID}, pgpstream.ForSigning)
		if err != nil {
			errs = append(errs, fmt.Errorf("signing key: %w", err))
		} else {
			key = signers[0]
		}
	}
	if len(errs) > 0 {
		return nil, nil, joined(errs)
	}
	return to, key, nil
}
