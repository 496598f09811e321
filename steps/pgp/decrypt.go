package pgp

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/pgpstream"
)

// Decrypt is the step pgp.decrypt: it decrypts one OpenPGP message, binary or armored, and checks
// its signature. A message without an integrity check is refused.
//
// The output gets its final name only after the whole message has been verified. On any error
// nothing appears under that name, and an existing file stays. Decrypting again overwrites the
// output with the same content.
type Decrypt struct {
	Keys Keys // where keys are looked up
	// KeepFree is the number of bytes of the disk that stay free while the plaintext is written.
	// 0 means 16 MiB, and below 0 means none.
	KeepFree int64
}

// DecryptConfig is the configuration of pgp.decrypt.
type DecryptConfig struct {
	SourcePath    string       `json:"source_path" alias:"input_path" courier:"required,path" doc:"The encrypted file. AES, 3DES and CAST5 are read; Blowfish, IDEA, Twofish, Camellia, and messages without an integrity check are refused. Text content (gpg --textmode) keeps its CRLF line ends, which gpg converts to those of the system."`
	OutputPath    string       `json:"output_path" courier:"path" doc:"The decrypted file, or with a slash at its end the directory for it. Default: the input's name without .pgp, .gpg or .asc, otherwise with .dec, in the attempt's own directory."`
	PrivateKeyIDs []string     `json:"private_key_ids" doc:"The private keys to try, of any kind up to 8,192 bits. Default: those that the message names."`
	Verify        Verification `json:"verify" enum:"optional,required,off" doc:"Whether the signature is checked: off, optional or required. Default: required if signer_key_ids is given, otherwise optional."`
	SignerKeyIDs  []string     `json:"signer_key_ids" doc:"The keys whose signatures count. Default: all keys that the host knows. Signatures by DSA, secp256k1 and RSA below 2,048 bits, and those with SHA-1, MD5 or RIPEMD-160, are never valid."`
	MaxBytes      int64        `json:"max_bytes" min:"0" doc:"The largest content in bytes. Default: 1 GiB or 100 times the size of the input, whichever is more."`
}

// DecryptOutput is the output of pgp.decrypt.
type DecryptOutput struct {
	DecryptedFile string `json:"decrypted_file" file:"output_path" doc:"path of the plaintext"`
	Size          int64  `json:"size" doc:"of what was written, in bytes"`

	VerifyStatus VerifyStatus `json:"verify_status" doc:"valid, unsigned, unknown_signer, expired_key, revoked_key, unsafe or not_checked"`
	// The first valid signature: the fingerprint of the signer's key, and the time that the
	// signer claims. Both are missing unless VerifyStatus is "valid".
	SignerFingerprint string     `json:"signer_fingerprint,omitempty" doc:"key of the first valid signature"`
	SignedAt          *time.Time `json:"signed_at,omitempty" doc:"the time in the signature"`
	// SignerFingerprints are the fingerprints of the keys of all valid signatures.
	SignerFingerprints []string `json:"signer_fingerprints,omitempty" doc:"keys of all valid signatures"`
	// OriginalName is the file name inside the message, if the name is harmless. No signature
	// covers it, so the step itself never uses it.
	OriginalName string `json:"original_name,omitempty" doc:"file name in the message, if it is harmless; no signature covers it"`
}

// Execute implements [courier.Step].
func (d *Decrypt) Execute(ctx context.Context, job *courier.Context, cfg DecryptConfig) (DecryptOutput, error) {
	var out DecryptOutput
	target, err := place(job, cfg.OutputPath, decryptedName(cfg.SourcePath))
	if err != nil {
		return out, err
	}
	in, err := job.Files().Open(cfg.SourcePath)
	if err != nil {
		return out, fmt.Errorf("input: %w", err)
	}
	defer in.Close()
	if err := distinct(job, in, target); err != nil {
		return out, err
	}

	info, err := in.Stat()
	if err != nil {
		return out, fmt.Errorf("input: %w", err)
	}
	verify := cfg.verification()
	message, err := pgpstream.NewDecrypter(ctx, in, pgpstream.DecryptOptions{
		Keys: &loader{job: job, keys: d.Keys}, PrivateKeys: cfg.PrivateKeyIDs,
		Signers: cfg.SignerKeyIDs, IgnoreSignatures: verify == VerifyOff,
		MaxBytes: cfg.MaxBytes, Settings: settings,
		Progress: func(read int64) { job.Progress(read, info.Size(), cfg.SourcePath) },
	})
	if err != nil {
		return out, cfg.explain(err)
	}
	defer message.Close()
	w, err := job.Files().Create(target)
	if err != nil {
		return out, fmt.Errorf("output: %w", err)
	}
	defer w.Close()
	to, err := onDisk(ctx, job, w, target, d.KeepFree, "pgp.Decrypt")
	if err != nil {
		return out, err
	}
	defer to.guard.End()
	found, err := message.Decrypt(ctx, to)
	if err != nil {
		return out, cfg.explain(err)
	}
	if !verify.accepts(found.Signature.Status) {
		return out, cfg.refused("was decrypted, but not accepted: %s (verify is %q)", found.Signature.Problem, verify)
	}
	job.Progress(info.Size(), info.Size(), cfg.SourcePath)
	if err := w.Commit(); err != nil {
		return out, fmt.Errorf("output: %w", err)
	}
	out = DecryptOutput{Size: found.Size, VerifyStatus: VerifyStatus(found.Signature.Status), OriginalName: found.Name}
	if signers := found.Signature.Signers; len(signers) > 0 {
		out.SignerFingerprints, out.SignerFingerprint, out.SignedAt = signers, signers[0], new(found.Signature.Time)
	}
	out.DecryptedFile, err = job.Files().Path(target)
	return out, err
}

// explain turns an error of the message or its keys into an error of the step.
func (cfg *DecryptConfig) explain(err error) error {
	if _, ok := errors.AsType[pgpstream.MessageError](err); ok {
		return cfg.refused("%w", err)
	}
	if _, ok := errors.AsType[pgpstream.KeyError](err); ok {
		return fmt.Errorf("input %q: %w", cfg.SourcePath, err)
	}
	return err
}

// refused returns the error of a message that no further attempt can decrypt.
func (cfg *DecryptConfig) refused(format string, args ...any) error {
	return permanentf("input %q: %w; nothing was written under the output's name", cfg.SourcePath, fmt.Errorf(format, args...))
}

// Validate implements [courier.Validator]. It checks that the paths are allowed, that an absolute
// input exists, that the keys exist and are suitable, and that the passphrases are right. The
// findings about the keys are logged.
func (d *Decrypt) Validate(ctx context.Context, job *courier.Context, cfg DecryptConfig) error {
	var errs []error
	if err := checkPaths(job, cfg.SourcePath, cfg.OutputPath); err != nil {
		errs = append(errs, err)
	}
	l := &loader{job: job, keys: d.Keys}
	if !job.Unresolved("private_key_ids") {
		for _, id := range cfg.PrivateKeyIDs {
			key, err := l.Key(ctx, id)
			if err == nil && !key.HasPrivate() {
				err = permanentf("%v is there without its private part", key)
			}
			if err == nil && key.Locked() {
				key, err = l.Unlock(ctx, key)
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("private key: %w", err))
				continue
			}
			l.report(ctx, "decryption", key)
		}
	}
	if !job.Unresolved("signer_key_ids") && cfg.Verify != VerifyOff {
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
func (d *Decrypt) Cleanup(_ context.Context, job *courier.Context, cfg DecryptConfig) error {
	return cleanup(job, cfg.OutputPath, decryptedName(cfg.SourcePath))
}

// decryptedName returns the default name of a decrypted file.
func decryptedName(input string) string { return without(input, ".dec", ".pgp", ".gpg", ".asc") }

// without returns the name of a file without its extension, if the extension is in extensions.
// Otherwise it appends more.
func without(input, more string, extensions ...string) string {
	base := baseName(input)
	if ext := path.Ext(base); base != ext && slices.Contains(extensions, strings.ToLower(ext)) {
		return strings.TrimSuffix(base, ext)
	}
	return base + more
}
