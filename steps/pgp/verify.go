package pgp

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path"
	"strings"
	"time"

	pgperrors "github.com/ProtonMail/go-crypto/openpgp/errors"
	openpgp "github.com/ProtonMail/go-crypto/openpgp/v2"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/transfer"
)

// Verify is the step pgp.verify: it checks the signature of one file, which
// stands in a file of its own, in a message with the content, or below a
// clearsigned text. What it finds out is an output, on which a job can branch;
// the step fails on it only if require asks it to.
//
// The content of a signed message is written only if output_path is given, and
// gets its final name only if the signature is valid.
type Verify struct {
	Keys Keys // where keys are looked up
	// KeepFree is how many bytes of the disk stay free while the content of a
	// signed message is written; 0 means 16 MiB, and below 0 none.
	KeepFree int64
}

// VerifyConfig is the configuration of pgp.verify.
type VerifyConfig struct {
	SourcePath            string      `json:"source_path" courier:"required,path" doc:"The signed file: the content if detached_signature_path is given, otherwise a signed message or a clearsigned text."`
	DetachedSignaturePath string      `json:"detached_signature_path" courier:"path,at_most_one=content" doc:"The file with the signature of the input, binary or armored. Default: the signature is in the input."`
	SignerKeyIDs          []string    `json:"signer_key_ids" doc:"The keys whose signatures count. Default: all keys that the host knows."`
	Require               Requirement `json:"require" default:"nothing" enum:"nothing,valid" doc:"nothing: the outcome is only reported; valid: the step fails unless the signature is valid."`
	OutputPath            string      `json:"output_path" courier:"path,at_most_one=content" doc:"Where the content of a signed message is written if its signature is valid, or with a slash at its end the directory for it. Default: it is not written."`
	MaxBytes              int64       `json:"max_bytes" min:"0" doc:"The largest size of the content of a compressed message. Default: 1 GiB or 100 times the size of the input, whichever is more."`
}

// Requirement is what pgp.verify asks for.
type Requirement string

// The values of [Requirement].
const (
	RequireNothing Requirement = "nothing"
	RequireValid   Requirement = "valid"
)

// VerifyOutput is the output of pgp.verify.
type VerifyOutput struct {
	VerifyStatus VerifyStatus `json:"verify_status" doc:"valid, invalid, unknown_signer, expired_key or revoked_key"`
	Valid        bool         `json:"valid" doc:"whether verify_status is valid"`
	// Reason says what is wrong, for people.
	Reason string `json:"reason,omitempty" doc:"why the signature is not valid"`
	// The first valid signature. Both are missing unless Valid.
	SignerFingerprint string     `json:"signer_fingerprint,omitempty" doc:"key of the first valid signature"`
	SignedAt          *time.Time `json:"signed_at,omitempty" doc:"when that signature says it was made"`
	// SignerFingerprints are the keys of all valid signatures.
	SignerFingerprints []string `json:"signer_fingerprints,omitempty" doc:"keys of all valid signatures"`
	VerifiedFile       string   `json:"verified_file,omitempty" doc:"path of the content, if output_path is given and the signature is valid"`
	Size               int64    `json:"size,omitempty" doc:"of the content that the signature covers, in bytes, if it is valid"`
}

// Execute implements [courier.Step].
func (v *Verify) Execute(ctx context.Context, job *courier.Context, cfg VerifyConfig) (VerifyOutput, error) {
	in, err := job.Open(cfg.SourcePath)
	if err != nil {
		return VerifyOutput{}, fmt.Errorf("input: %w", err)
	}
	defer in.Close()
	c := &checking{job: job, cfg: cfg, in: in, signed: cfg.SourcePath, ring: new(ring)}
	c.verifier = &verifier{keys: &loader{job: job, keys: v.Keys}, ids: cfg.SignerKeyIDs, field: "signer_key_ids", ring: c.ring}
	if err := c.verifier.prepare(ctx); err != nil {
		return VerifyOutput{}, err
	}
	if cfg.OutputPath == "" {
		return c.outcome(ctx, io.Discard)
	}
	target, err := place(job, cfg.OutputPath, verifiedName(cfg.SourcePath))
	if err != nil {
		return VerifyOutput{}, err
	}
	if err := distinct(job, in, target); err != nil {
		return VerifyOutput{}, err
	}
	w, err := job.Create(target)
	if err != nil {
		return VerifyOutput{}, fmt.Errorf("output: %w", err)
	}
	defer w.Close()
	to, err := onDisk(ctx, job, w, target, v.KeepFree, "pgp.Verify")
	if err != nil {
		return VerifyOutput{}, err
	}
	defer to.guard.End()
	out, err := c.outcome(ctx, to)
	if err != nil || !out.Valid {
		return out, err
	}
	if err := w.Commit(); err != nil {
		return VerifyOutput{}, fmt.Errorf("output: %w", err)
	}
	out.VerifiedFile, err = job.Path(target)
	return out, err
}

// Validate implements [courier.Validator]: the paths are allowed, absolute
// inputs are there, and so are the keys of the signers.
// What was found out about the keys is logged.
func (v *Verify) Validate(ctx context.Context, job *courier.Context, cfg VerifyConfig) error {
	var errs []error
	if err := checkPaths(job, cfg.SourcePath, cfg.OutputPath); err != nil {
		errs = append(errs, err)
	}
	if sig := cfg.DetachedSignaturePath; sig != "" && !job.Unresolved("detached_signature_path") {
		if err := checkInput(job, sig); err != nil {
			errs = append(errs, fmt.Errorf("signature: %w", err))
		}
	}
	if !job.Unresolved("signer_key_ids") {
		l := &loader{job: job, keys: v.Keys}
		signers, err := l.loadAll(ctx, cfg.SignerKeyIDs, toVerify)
		if err != nil {
			errs = append(errs, fmt.Errorf("signer: %w", err))
		}
		l.report("verification", signers...)
	}
	if len(errs) == 0 {
		return nil
	}
	return joined(errs)
}

// Cleanup implements [courier.Cleaner].
func (v *Verify) Cleanup(_ context.Context, job *courier.Context, cfg VerifyConfig) error {
	if cfg.OutputPath == "" {
		return nil
	}
	return cleanup(job, cfg.OutputPath, verifiedName(cfg.SourcePath))
}

// verifiedName is the name of the content in a directory.
func verifiedName(input string) string {
	base := baseName(input)
	switch ext := path.Ext(base); strings.ToLower(ext) {
	case ".signed", ".pgp", ".gpg", ".asc":
		if base != ext {
			return strings.TrimSuffix(base, ext)
		}
	}
	return base + ".verified"
}

// A checking is one file while its signature is being checked.
type checking struct {
	job      *courier.Context
	cfg      VerifyConfig
	in       *os.File
	signed   string // the file that an error is about
	size     int64  // of in
	ring     *ring
	verifier *verifier
	src      *source // may be nil
	content  *kept   // may be nil
	inner    *inner  // may be nil
	packets  *toll   // may be nil
}

// A kept reader keeps its error, which the library does not always pass on.
type kept struct {
	r   io.Reader
	err error
}

func (k *kept) Read(p []byte) (int, error) {
	n, err := k.r.Read(p)
	if err != nil && err != io.EOF {
		k.err = err
	}
	return n, err
}

// outcome checks the signature, writes the content to w, and makes what was
// found out an output or a failure.
func (c *checking) outcome(ctx context.Context, w io.Writer) (VerifyOutput, error) {
	found, size, err := c.verify(ctx, w)
	switch {
	case ctx.Err() != nil:
		return VerifyOutput{}, context.Cause(ctx)
	case c.verifier.hostErr != nil:
		return VerifyOutput{}, c.verifier.hostErr
	case err != nil && c.src != nil && c.src.err != nil:
		err = c.src.err
	case err != nil && c.content != nil && c.content.err != nil:
		err = c.content.err
	}
	if m, ok := errors.AsType[messageError](err); ok {
		found, err = verdict{status: StatusInvalid, why: "it " + m.Error()}, nil
	}
	if err != nil {
		return VerifyOutput{}, err
	}
	out := VerifyOutput{VerifyStatus: found.status, Valid: found.status == StatusValid, Reason: found.why}
	switch found.status {
	case StatusValid:
		out.SignerFingerprints, out.SignerFingerprint, out.SignedAt, out.Size = found.signers, found.signers[0], new(found.at), size
	case StatusUnsigned, StatusUnsafe:
		out.VerifyStatus = StatusInvalid
	}
	if c.cfg.Require == RequireValid && !out.Valid {
		return VerifyOutput{}, permanentf("signature of %q: is not accepted (%s): %s; require is \"valid\"%s", c.signed, out.VerifyStatus, found.why, c.nothing())
	}
	return out, nil
}

// nothing ends a failure.
func (c *checking) nothing() string {
	if c.cfg.OutputPath == "" {
		return ""
	}
	return "; nothing was written under the output's name"
}

// verify reads all that is signed.
func (c *checking) verify(ctx context.Context, w io.Writer) (verdict, int64, error) {
	info, err := c.in.Stat()
	if err != nil {
		return verdict{}, 0, fmt.Errorf("input: %w", err)
	}
	c.size = info.Size()
	defer func() { c.inner.Close() }()
	buffered := bufio.NewWriterSize(w, bufSize)
	var details *openpgp.MessageDetails
	var size int64
	err = guard(func() error {
		content, err := c.open(ctx, buffered)
		if err != nil {
			return err
		}
		details = content.details
		to := &limited{w: content.to, left: c.limit()}
		body := &toll{r: details.UnverifiedBody}
		size, err = transfer.Copy(ctx, to, body, func(done int64) {
			c.job.Progress(min(done, c.size), c.size, c.cfg.SourcePath)
		})
		switch {
		case c.packets.failed() != nil:
			return c.packets.err
		case body.err != nil:
			return body.err
		case to.full:
			return about("holds more than %d bytes; raise max_bytes if this is right", c.limit())
		case to.err != nil:
			return outputError(to.err)
		}
		return unreadable(err)
	})
	if err != nil {
		return verdict{}, 0, err
	}
	if err := buffered.Flush(); err != nil {
		return verdict{}, 0, outputError(err)
	}
	c.job.Progress(c.size, c.size, c.cfg.SourcePath)
	return c.verifier.verdict(details), size, nil
}

// limit is the largest size of the content.
func (c *checking) limit() int64 {
	if c.cfg.DetachedSignaturePath != "" {
		return math.MaxInt64
	}
	return limitFor(c.cfg.MaxBytes, c.size)
}

// An opened file is one whose signature is checked as it is read.
type opened struct {
	details *openpgp.MessageDetails
	to      io.Writer // what becomes of the content that is read
}

// open finds the signature in any of its forms.
func (c *checking) open(ctx context.Context, w io.Writer) (opened, error) {
	if c.cfg.DetachedSignaturePath != "" {
		return c.detached(ctx)
	}
	head := make([]byte, headSize)
	n, err := c.in.ReadAt(head, 0)
	if err != nil && err != io.EOF {
		return opened{}, fmt.Errorf("input: %w", err)
	}
	if isClearsigned(head[:n]) {
		return c.clearsigned(ctx, w)
	}
	return c.inline(ctx, w)
}

func (c *checking) detached(ctx context.Context) (opened, error) {
	f, err := c.job.Open(c.cfg.DetachedSignaturePath)
	if err != nil {
		return opened{}, fmt.Errorf("signature: %w", err)
	}
	defer f.Close()
	sig, err := signaturePackets(transfer.NewReader(ctx, f, nil))
	if err != nil {
		return opened{}, inFile("signature", c.cfg.DetachedSignaturePath, err)
	}
	d, err := c.withSignature(transfer.NewReader(ctx, c.in, nil), sig)
	return opened{d, io.Discard}, inFile("signature", c.cfg.DetachedSignaturePath, err)
}

// inFile says which of two files a messageError is about.
func inFile(what, name string, err error) error {
	if m, ok := errors.AsType[messageError](err); ok {
		return about("has a %s (%q) that %w", what, name, m.error)
	}
	return err
}

// withSignature reads content by the side of its signature.
func (c *checking) withSignature(content io.Reader, sig []byte) (*openpgp.MessageDetails, error) {
	c.content = &kept{r: content}
	d, err := openpgp.VerifyDetachedSignatureReader(c.ring, c.content, bytes.NewReader(sig), reading(math.MaxInt64))
	if errors.Is(err, pgperrors.ErrUnknownIssuer) {
		return nil, about("holds no signature, or none of a kind that can be checked")
	}
	return d, unreadable(err)
}

// clearsigned reads the file twice: to find the signature, and for the text.
func (c *checking) clearsigned(ctx context.Context, w io.Writer) (opened, error) {
	sig, err := clearSignature(transfer.NewReader(ctx, c.in, nil))
	if err != nil {
		return opened{}, err
	}
	if _, err := c.in.Seek(0, io.SeekStart); err != nil {
		return opened{}, fmt.Errorf("input: %w", err)
	}
	d, err := c.withSignature(newTextReader(transfer.NewReader(ctx, c.in, nil), w), sig)
	return opened{d, io.Discard}, err
}

func (c *checking) inline(ctx context.Context, w io.Writer) (opened, error) {
	src, err := newSource(transfer.NewReader(ctx, c.in, nil), armorMessage)
	if err != nil {
		return opened{}, err
	}
	c.src = src
	// The context is looked at above the buffer as well: see message.open.
	if c.inner, err = openPlain(src, decompressed(c.limit())); err != nil {
		return opened{}, unreadable(err)
	}
	c.packets = &toll{r: transfer.NewReader(ctx, c.inner, nil)}
	d, err := openpgp.ReadMessage(c.packets, c.ring, nil, reading(nested(c.cfg.MaxBytes, c.limit())))
	switch {
	case c.packets.err != nil:
		return opened{}, c.packets.err
	case errors.Is(err, pgperrors.ErrKeyIncorrect) || err == nil && d.IsEncrypted:
		return opened{}, about("is encrypted; pgp.decrypt decrypts it and checks its signature")
	case err == io.EOF:
		return opened{}, about("holds no content")
	case err != nil:
		return opened{}, unreadable(err)
	}
	return opened{d, w}, nil
}

// unreadable tells what an error of the library means in what is not encrypted.
func unreadable(err error) error {
	var malformed pgperrors.ErrMalformedMessage
	var unsupported pgperrors.UnsupportedError
	var message messageError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &message):
		return message
	case errors.Is(err, pgperrors.ErrMessageTooLarge):
		return about("unpacks to more than is allowed; raise max_bytes if this is right")
	case errors.As(err, &malformed):
		return about("holds something besides one complete message, or is cut short")
	case errors.As(err, &unsupported):
		return about("uses what is not supported: %s", plain(string(unsupported), 100))
	}
	return about("is damaged or cut short")
}
