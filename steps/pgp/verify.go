package pgp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/pgpstream"
)

// Verify is the step pgp.verify: it checks the signature of one file, which is in a separate
// file, in a message with the content, or below a clear-signed text. The result is an output, on
// which a job can branch. The step fails because of the result only if require says so.
//
// The content of a signed message is written only if output_path is given, and
// gets its final name only if the signature is valid.
type Verify struct {
	Keys Keys // where keys are looked up
	// KeepFree is the number of bytes of the disk that stay free while the content of a signed
	// message is written. 0 means 16 MiB, and below 0 means none.
	KeepFree int64
}

// VerifyConfig is the configuration of pgp.verify.
type VerifyConfig struct {
	SourcePath            string      `json:"source_path" alias:"input_path" courier:"required,path" doc:"The signed file: the content if detached_signature_path is given, otherwise a signed message or a clearsigned text."`
	DetachedSignaturePath string      `json:"detached_signature_path" courier:"path,at_most_one=content" doc:"The file with the signature, binary or armored. Default: the signature is in the input."`
	SignerKeyIDs          []string    `json:"signer_key_ids" doc:"The keys whose signatures count. Default: all keys that the host knows. Signatures by DSA, secp256k1 and RSA below 2,048 bits, and those with SHA-1, MD5 or RIPEMD-160, are never valid."`
	Require               Requirement `json:"require" default:"nothing" enum:"nothing,valid" doc:"nothing: the outcome is only reported; valid: the step fails unless the signature is valid."`
	OutputPath            string      `json:"output_path" courier:"path,at_most_one=content" doc:"Where the content of a signed message is written if its signature is valid, or with a slash at its end the directory for it. Default: it is not written."`
	MaxBytes              int64       `json:"max_bytes" min:"0" doc:"The largest content in bytes. Default: 1 GiB or 100 times the size of the input, whichever is more."`
}

// Requirement is the result that pgp.verify requires.
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
	// Reason says what is wrong, for human readers.
	Reason string `json:"reason,omitempty" doc:"why the signature is not valid"`
	// The first valid signature. Both are missing unless Valid.
	SignerFingerprint string     `json:"signer_fingerprint,omitempty" doc:"key of the first valid signature"`
	SignedAt          *time.Time `json:"signed_at,omitempty" doc:"the time in the signature"`
	// SignerFingerprints are the fingerprints of the keys of all valid signatures.
	SignerFingerprints []string `json:"signer_fingerprints,omitempty" doc:"keys of all valid signatures"`
	VerifiedFile       string   `json:"verified_file,omitempty" doc:"path of the content, if output_path is given and the signature is valid"`
	Size               int64    `json:"size,omitempty" doc:"of the content that the signature covers, in bytes, if it is valid"`
}

// Execute implements [courier.Step].
func (v *Verify) Execute(ctx context.Context, job *courier.Context, cfg VerifyConfig) (VerifyOutput, error) {
	in, err := job.Files().Open(cfg.SourcePath)
	if err != nil {
		return VerifyOutput{}, fmt.Errorf("input: %w", err)
	}
	defer in.Close()
	if cfg.OutputPath == "" {
		return v.check(ctx, job, cfg, io.Discard, in)
	}
	target, err := place(job, cfg.OutputPath, verifiedName(cfg.SourcePath))
	if err != nil {
		return VerifyOutput{}, err
	}
	if err := distinct(job, in, target); err != nil {
		return VerifyOutput{}, err
	}
	w, err := job.Files().Create(target)
	if err != nil {
		return VerifyOutput{}, fmt.Errorf("output: %w", err)
	}
	defer w.Close()
	to, err := onDisk(ctx, job, w, target, v.KeepFree, "pgp.Verify")
	if err != nil {
		return VerifyOutput{}, err
	}
	defer to.guard.End()
	out, err := v.check(ctx, job, cfg, to, in)
	if err != nil || !out.Valid {
		return out, err
	}
	if err := w.Commit(); err != nil {
		return VerifyOutput{}, fmt.Errorf("output: %w", err)
	}
	out.VerifiedFile, err = job.Files().Path(target)
	return out, err
}

// Validate implements [courier.Validator]. It checks that the paths are allowed, that absolute
// inputs exist, and that the keys of the signers exist. The findings about the keys are logged.
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
		signers, err := l.loadAll(ctx, cfg.SignerKeyIDs, pgpstream.ForVerification)
		if err != nil {
			errs = append(errs, fmt.Errorf("signer: %w", err))
		}
		l.report(ctx, "verification", signers...)
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

// verifiedName returns the name of the content in a directory.
func verifiedName(input string) string {
	return without(input, ".verified", ".signed", ".pgp", ".gpg", ".asc")
}

// check checks the signature, writes the content to w, and turns the result into an output or an
// error.
func (v *Verify) check(ctx context.Context, job *courier.Context, cfg VerifyConfig, w io.Writer, in *os.File) (VerifyOutput, error) {
	found, size, err := v.find(ctx, job, cfg, w, in)
	if message, ok := errors.AsType[pgpstream.MessageError](err); ok {
		found, err = pgpstream.Signature{Status: pgpstream.StatusInvalid, Problem: cfg.problem(err, message)}, nil
	}
	if err != nil {
		return VerifyOutput{}, err
	}
	out := VerifyOutput{VerifyStatus: VerifyStatus(found.Status), Valid: found.Status == pgpstream.StatusValid, Reason: found.Problem}
	switch found.Status {
	case pgpstream.StatusValid:
		out.SignerFingerprints, out.SignerFingerprint, out.SignedAt, out.Size = found.Signers, found.Signers[0], new(found.Time), size
	case pgpstream.StatusUnsigned, pgpstream.StatusUnsafe:
		out.VerifyStatus = StatusInvalid
	}
	if cfg.Require == RequireValid && !out.Valid {
		nothing := ""
		if cfg.OutputPath != "" {
			nothing = "; nothing was written under the output's name"
		}
		return VerifyOutput{}, permanentf("signature of %q: is not accepted (%s): %s; require is \"valid\"%s", cfg.SourcePath, out.VerifyStatus, found.Problem, nothing)
	}
	return out, nil
}

// problem returns the reason in the output for a file that cannot be read as a signed file.
func (cfg *VerifyConfig) problem(err error, message pgpstream.MessageError) string {
	switch {
	case errors.Is(err, pgpstream.ErrInSignature):
		return fmt.Sprintf("it has a signature (%q) that %v", cfg.DetachedSignaturePath, message)
	case errors.Is(err, pgpstream.ErrEncrypted):
		return "it " + message.Error() + "; pgp.decrypt decrypts it and checks its signature"
	}
	return "it " + message.Error()
}

// find examines the signature, which is in a separate file or in the input.
func (v *Verify) find(ctx context.Context, job *courier.Context, cfg VerifyConfig, w io.Writer, in *os.File) (pgpstream.Signature, int64, error) {
	info, err := in.Stat()
	if err != nil {
		return pgpstream.Signature{}, 0, fmt.Errorf("input: %w", err)
	}
	options := pgpstream.VerifyOptions{
		Keys: &loader{job: job, keys: v.Keys}, Signers: cfg.SignerKeyIDs, MaxBytes: cfg.MaxBytes, Settings: settings,
		Progress: func(done int64) { job.Progress(min(done, info.Size()), info.Size(), cfg.SourcePath) },
	}
	var found pgpstream.Signature
	var size int64
	if cfg.DetachedSignaturePath == "" {
		found, size, err = pgpstream.Verify(ctx, w, in, options)
	} else {
		signature, opening := job.Files().Open(cfg.DetachedSignaturePath)
		if opening != nil {
			return pgpstream.Signature{}, 0, fmt.Errorf("signature: %w", opening)
		}
		defer signature.Close()
		found, size, err = pgpstream.VerifyDetached(ctx, in, signature, options)
	}
	if err == nil {
		job.Progress(info.Size(), info.Size(), cfg.SourcePath)
	}
	return found, size, err
}
