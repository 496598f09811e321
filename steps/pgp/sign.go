package pgp

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/courierhq/courier"
)

// Sign is the step pgp.sign: it signs one file, with a signature in a file of
// its own, in a message that holds the content too, or as text that people can
// read.
//
// The output has its final name only when it is complete. Signing again
// overwrites it: the signature has another time, and covers the same content.
type Sign struct {
	Keys Keys // where keys are looked up
}

// SignConfig is the configuration of pgp.sign.
type SignConfig struct {
	SourcePath    string        `json:"source_path" courier:"required,path" doc:"The file to sign."`
	OutputPath    string        `json:"output_path" courier:"path" doc:"The signature or the signed message, or with a slash at its end the directory for it. Default: the input's name with .sig if signature_type is detached, otherwise with .signed, in the attempt's own directory."`
	SigningKeyID  string        `json:"signing_key_id" courier:"required" doc:"The private key that signs: its name, fingerprint or key id."`
	SignatureType SignatureType `json:"signature_type" default:"detached" enum:"detached,inline,clearsign" doc:"detached: the output is the signature alone; inline: a message with the content in it; clearsign: the text with its signature below, for text files only."`
	OutputFormat  Format        `json:"output_format" default:"binary" enum:"binary,armored" doc:"binary, or armored: a text file. What clearsign makes is always one."`
}

// SignatureType is where a signature stands.
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
	Size              int64     `json:"size" doc:"of that file, in bytes"`
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
	var sig *signer
	file, size, err := produce(job, cfg.SourcePath, target, func(w io.Writer, in *os.File) (err error) {
		if sig, err = newSigner(key, cfg.SignatureType == SignClearsign); err != nil {
			return err
		}
		return (&signing{job: job, cfg: cfg, in: in, sig: sig}).write(ctx, w)
	})
	if err != nil {
		return out, err
	}
	return SignOutput{file, size, fingerprint(key.PrimaryKey), sig.signedAt()}, nil
}

// Validate implements [courier.Validator]: the paths are allowed, an absolute
// input is there, the key is there and can sign, and the passphrase is right.
// What was found out about the keys is logged.
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
			l.report("signature", key)
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

// signedName is the default name of what is made from the input.
func signedName(cfg SignConfig) string {
	if cfg.SignatureType == SignInline || cfg.SignatureType == SignClearsign {
		return baseName(cfg.SourcePath) + ".signed"
	}
	return baseName(cfg.SourcePath) + ".sig"
}

func (s *Sign) load(ctx context.Context, l *loader, cfg SignConfig) (*loaded, error) {
	keys, err := l.loadAll(ctx, []string{cfg.SigningKeyID}, toSign)
	if err != nil {
		return nil, fmt.Errorf("signing key: %w", err)
	}
	return keys[0], nil
}

// A signing is one file while it is being signed.
type signing struct {
	job *courier.Context
	cfg SignConfig
	in  *os.File
	sig *signer
}

// write writes the whole output to w.
func (s *signing) write(ctx context.Context, w io.Writer) error {
	buffered := bufio.NewWriterSize(w, bufSize)
	var err error
	switch {
	case s.cfg.SignatureType == SignClearsign:
		err = s.clear(ctx, buffered)
	case s.cfg.OutputFormat == Armored:
		kind := armorSignature
		if s.cfg.SignatureType == SignInline {
			kind = armorMessage
		}
		text := newArmorWriter(buffered, kind)
		if err = s.packets(ctx, text); err == nil {
			err = outputError(text.Close())
		}
	default:
		err = s.packets(ctx, buffered)
	}
	if err != nil {
		return err
	}
	return outputError(buffered.Flush())
}

func outputError(err error) error {
	if err != nil {
		return fmt.Errorf("output: %w", err)
	}
	return nil
}

// packets writes the signature, and with signature_type inline what it covers.
func (s *signing) packets(ctx context.Context, w io.Writer) error {
	if s.cfg.SignatureType != SignInline {
		if err := s.copy(ctx, s.sig); err != nil {
			return err
		}
		return outputError(s.sig.sign(w, nil))
	}
	if err := s.sig.announce(w); err != nil {
		return outputError(err)
	}
	content, err := newLiteralWriter(w)
	if err != nil {
		return outputError(err)
	}
	if err := s.copy(ctx, io.MultiWriter(s.sig, content)); err != nil {
		return err
	}
	if err := content.Close(); err != nil {
		return outputError(err)
	}
	return outputError(s.sig.sign(w, nil))
}

// clear writes the text with the signature below.
func (s *signing) clear(ctx context.Context, w *bufio.Writer) error {
	text, err := newTextWriter(w, s.sig)
	if err != nil {
		return outputError(err)
	}
	if err := s.copy(ctx, text); err != nil {
		return s.explain(err)
	}
	if err := text.Close(); err != nil {
		return s.explain(err)
	}
	var sig bytes.Buffer
	if err := s.sig.sign(&sig, nil); err != nil {
		return outputError(err)
	}
	armor := newArmorWriter(w, armorSignature)
	if _, err := armor.Write(sig.Bytes()); err != nil {
		return outputError(err)
	}
	return outputError(armor.Close())
}

// explain tells what is wrong with the input from what is wrong with the output.
func (s *signing) explain(err error) error {
	if m, ok := err.(messageError); ok {
		return permanentf("input %q: %w", s.cfg.SourcePath, m)
	}
	return err
}

// copy reads the whole input.
func (s *signing) copy(ctx context.Context, w io.Writer) error {
	return copyInput(ctx, s.job, s.cfg.SourcePath, w, s.in)
}
