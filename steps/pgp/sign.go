package pgp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/pgpstream"
)

// Sign is the step pgp.sign: it signs one file, with a signature in a separate
// file, in a message that also contains the content, or in a clear-signed text.
//
// The output gets its final name only when it is complete. Signing again
// overwrites it. The new signature has another time and covers the same
// content.
type Sign struct {
	Keys Keys // where keys are looked up
}

// SignConfig is the configuration of pgp.sign.
type SignConfig struct {
	SourcePath    string        `json:"source_path" alias:"input_path" courier:"required,path" doc:"The file to sign."`
	OutputPath    string        `json:"output_path" courier:"path" doc:"The signature or the signed message, or with a slash at its end the directory for it. Default: the input's name with .sig if signature_type is detached, otherwise with .signed, in the attempt's own directory."`
	SigningKeyID  string        `json:"signing_key_id" courier:"required" doc:"The private key that signs: its name, fingerprint or key id. DSA, secp256k1, and RSA below 2,048 or above 8,192 bits are refused."`
	SignatureType SignatureType `json:"signature_type" default:"detached" enum:"detached,inline,clearsign" doc:"detached: the signature alone; inline: a message with the content in it; clearsign: the text with its signature below, always armored, for text files only."`
	OutputFormat  Format        `json:"output_format" default:"binary" enum:"binary,armored" doc:"binary, or armored: a text file."`
}

// SignatureType says where the signature is placed.
type SignatureType string

// The values of [SignatureType].
const (
	SignDetached  SignatureType = "detached"
	SignInline    SignatureType = "inline"
	SignClearsign SignatureType = "clearsign"
)

// SignOutput is the output of pgp.sign.
type SignOutput struct {
	SignatureFile     string    `json:"signature_file" file:"output_path" doc:"path of the signature or the signed message"`
	Size              int64     `json:"size" doc:"of what was written, in bytes"`
	SignerFingerprint string    `json:"signer_fingerprint" doc:"the key that signed"`
	SignedAt          time.Time `json:"signed_at" doc:"the time in the signature"`
}

// Execute implements [courier.Step].
func (s *Sign) Execute(ctx context.Context, job *courier.Context, cfg SignConfig) (SignOutput, error) {
	var out SignOutput
	target, err := place(job, cfg.OutputPath, signedName(cfg))
	if err != nil {
		return out, err
	}
	key, err := s.load(ctx, &loader{job: job, keys: s.Keys}, cfg)
	if err != nil {
		return out, err
	}
	options := pgpstream.SignOptions{
		Key: key, Armor: cfg.OutputFormat == Armored,
		Form: map[SignatureType]pgpstream.SignatureForm{SignInline: pgpstream.Inline, SignClearsign: pgpstream.Clearsign}[cfg.SignatureType],
	}
	file, size, err := produce(job, cfg.SourcePath, target, func(w io.Writer, in *inputFile) (err error) {
		options.Progress = in.progress
		out.SignedAt, err = pgpstream.Sign(ctx, w, in, options)
		if _, ok := errors.AsType[pgpstream.MessageError](err); ok {
			err = permanentf("input %q: %w", cfg.SourcePath, err)
		}
		return err
	})
	if err != nil {
		return SignOutput{}, err
	}
	out.SignatureFile, out.Size, out.SignerFingerprint = file, size, key.Fingerprint()
	return out, nil
}

// Validate implements [courier.Validator]. It checks that the paths are
// allowed, that an absolute input exists, that the key exists and can sign, and
// that the passphrase is right. The findings about the keys are logged.
func (s *Sign) Validate(ctx context.Context, job *courier.Context, cfg SignConfig) error {
	var errs []error
	if err := checkPaths(job, cfg.SourcePath, cfg.OutputPath); err != nil {
		errs = append(errs, err)
	}
	if !job.Unresolved("signing_key_id") {
		l := &loader{job: job, keys: s.Keys}
		key, err := s.load(ctx, l, cfg)
		if err != nil {
			errs = append(errs, err)
		} else {
			l.report(ctx, "signature", key)
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return joined(errs)
}

// Cleanup implements [courier.Cleaner].
func (s *Sign) Cleanup(_ context.Context, job *courier.Context, cfg SignConfig) error {
	return cleanup(job, cfg.OutputPath, signedName(cfg))
}

// signedName returns the default name of the output.
func signedName(cfg SignConfig) string {
	if cfg.SignatureType == SignInline || cfg.SignatureType == SignClearsign {
		return baseName(cfg.SourcePath) + ".signed"
	}
	return baseName(cfg.SourcePath) + ".sig"
}

func (s *Sign) load(ctx context.Context, l *loader, cfg SignConfig) (*pgpstream.Key, error) {
	keys, err := l.loadAll(ctx, []string{cfg.SigningKeyID}, pgpstream.ForSigning)
	if err != nil {
		return nil, fmt.Errorf("signing key: %w", err)
	}
	return keys[0], nil
}
