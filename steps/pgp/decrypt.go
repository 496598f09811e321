package pgp

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	openpgp "github.com/ProtonMail/go-crypto/openpgp/v2"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/transfer"
)

// Decrypt is the step pgp.decrypt: it decrypts one OpenPGP message, binary or
// armored, and checks its signature. A message without integrity check is
// refused.
//
// The output has its final name only when the whole message was found good:
// on any error nothing appears under that name, and what was there before
// stays. Decrypting again overwrites the output with the same content.
type Decrypt struct {
	Keys Keys // where keys are looked up
	// KeepFree is how many bytes of the disk stay free while the plaintext is
	// written; 0 means 16 MiB, and below 0 none.
	KeepFree int64
}

// DecryptConfig is the configuration of pgp.decrypt.
type DecryptConfig struct {
	SourcePath    string       `json:"source_path" courier:"required,path" doc:"The encrypted file."`
	OutputPath    string       `json:"output_path" courier:"path" doc:"The decrypted file, or with a slash at its end the directory for it. Default: the input's name without .pgp, .gpg or .asc, otherwise with .dec, in the attempt's own directory."`
	PrivateKeyIDs []string     `json:"private_key_ids" doc:"The private keys to try. Default: those that the message names."`
	Verify        Verification `json:"verify" enum:"optional,required,off" doc:"What is asked of the signature: off, optional or required. Default: required if signer_key_ids is given, otherwise optional."`
	SignerKeyIDs  []string     `json:"signer_key_ids" doc:"The keys whose signatures count. Default: all keys that the host knows."`
	MaxBytes      int64        `json:"max_bytes" min:"0" doc:"The largest size of the decrypted file. Default: 1 GiB or 100 times the size of the input, whichever is more."`
}

// DecryptOutput is the output of pgp.decrypt.
type DecryptOutput struct {
	DecryptedFile string `json:"decrypted_file" file:"output_path" doc:"path of the plaintext"`
	Size          int64  `json:"size" doc:"of the plaintext, in bytes"`

	VerifyStatus VerifyStatus `json:"verify_status" doc:"valid, unsigned, unknown_signer, expired_key, revoked_key, unsafe or not_checked"`
	// The first valid signature: the fingerprint of the signer's key, and the
	// time that the signer states. Both are missing unless VerifyStatus is
	// "valid".
	SignerFingerprint string     `json:"signer_fingerprint,omitempty" doc:"key of the first valid signature"`
	SignedAt          *time.Time `json:"signed_at,omitempty" doc:"when that signature says it was made"`
	// SignerFingerprints are the keys of all valid signatures.
	SignerFingerprints []string `json:"signer_fingerprints,omitempty" doc:"keys of all valid signatures"`
	// OriginalName is the file name inside the message if it is a harmless
	// one. No signature covers it, so it is never used by the step itself.
	OriginalName string `json:"original_name,omitempty" doc:"file name inside the message, if it is harmless; no signature covers it"`
}

// Execute implements [courier.Step].
func (d *Decrypt) Execute(ctx context.Context, job *courier.Context, cfg DecryptConfig) (DecryptOutput, error) {
	var out DecryptOutput
	target, err := place(job, cfg.OutputPath, decryptedName(cfg.SourcePath))
	if err != nil {
		return out, err
	}
	in, err := job.Open(cfg.SourcePath)
	if err != nil {
		return out, fmt.Errorf("input: %w", err)
	}
	defer in.Close()
	if err := distinct(job, in, target); err != nil {
		return out, err
	}

	m := &message{job: job, cfg: cfg, keys: loader{job: job, keys: d.Keys}, in: in}
	defer func() { m.inner.Close() }()
	if err := m.open(ctx); err != nil {
		return out, m.explain(ctx, err)
	}
	w, err := job.Create(target)
	if err != nil {
		return out, fmt.Errorf("output: %w", err)
	}
	defer w.Close()
	to, err := onDisk(ctx, job, w, target, d.KeepFree, "pgp.Decrypt")
	if err != nil {
		return out, err
	}
	defer to.guard.End()
	if out, err = m.decrypt(ctx, to); err != nil {
		return DecryptOutput{}, m.explain(ctx, err)
	}
	if err := w.Commit(); err != nil {
		return DecryptOutput{}, fmt.Errorf("output: %w", err)
	}
	out.DecryptedFile, err = job.Path(target)
	return out, err
}

// Validate implements [courier.Validator]: the paths are allowed, an absolute
// input is there, the keys are there and fit, and the passphrases are right.
// What was found out about the keys is logged.
func (d *Decrypt) Validate(ctx context.Context, job *courier.Context, cfg DecryptConfig) error {
	var errs []error
	if err := checkPaths(job, cfg.SourcePath, cfg.OutputPath); err != nil {
		errs = append(errs, err)
	}
	l := loader{job: job, keys: d.Keys}
	if !job.Unresolved("private_key_ids") {
		for _, id := range cfg.PrivateKeyIDs {
			key, err := l.find(ctx, id)
			if err == nil && !hasPrivate(key.Entity) {
				err = permanentf("%s is there without its private part", key.label())
			}
			if err == nil {
				key, err = l.unlock(ctx, key)
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("private key: %w", err))
				continue
			}
			l.report("decryption", key)
		}
	}
	if !job.Unresolved("signer_key_ids") && cfg.Verify != VerifyOff {
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
func (d *Decrypt) Cleanup(_ context.Context, job *courier.Context, cfg DecryptConfig) error {
	return cleanup(job, cfg.OutputPath, decryptedName(cfg.SourcePath))
}

// decryptedName is the default name of a decrypted file.
func decryptedName(input string) string {
	base := baseName(input)
	switch ext := path.Ext(base); strings.ToLower(ext) {
	case ".pgp", ".gpg", ".asc":
		if base != ext {
			return strings.TrimSuffix(base, ext)
		}
	}
	return base + ".dec"
}

// A message is one message while it is being decrypted.
type message struct {
	job  *courier.Context
	cfg  DecryptConfig
	keys loader
	in   *os.File
	size int64        // of in
	read atomic.Int64 // bytes of in, in the reading that decrypts

	src      *source
	ring     *ring
	verifier *verifier // nil if signatures are not looked at
	inner    *inner    // nil if the library decrypts
	packets  *toll     // that the library reads
	details  *openpgp.MessageDetails
}

// explain makes an error of the step out of one that came up while the message
// was read: what ended the reading comes first, since the library hides it.
func (m *message) explain(ctx context.Context, err error) error {
	m.inner.Close()
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case m.hostErr() != nil:
		return m.hostErr()
	case m.src != nil && m.src.err != nil:
		err = m.src.err
	}
	if _, ok := errors.AsType[messageError](err); ok {
		return permanentf("input %q: %w; nothing was written under the output's name", m.cfg.SourcePath, err)
	}
	return err
}

// hostErr is an error of the host while the library read, which it hides.
func (m *message) hostErr() error {
	if m.verifier == nil {
		return nil
	}
	return m.verifier.hostErr
}

// limit is the largest size of the plaintext.
func (m *message) limit() int64 { return limitFor(m.cfg.MaxBytes, m.size) }

// limitFor is the largest size of what comes out of a file of a size, unless
// the configuration sets one.
func limitFor(configured, size int64) int64 {
	const least, factor = 1 << 30, 100
	switch {
	case configured > 0:
		return configured
	case size > math.MaxInt64/factor:
		return math.MaxInt64
	}
	return max(least, size*factor)
}

// open reads the message up to the encrypted data and opens it.
func (m *message) open(ctx context.Context) error {
	info, err := m.in.Stat()
	if err != nil {
		return fmt.Errorf("input: %w", err)
	}
	m.size = info.Size()
	if err := m.rewind(ctx); err != nil {
		return err
	}
	env, err := readEnvelope(m.src)
	if err != nil {
		return err
	}
	keys, err := env.openers(ctx, &m.keys, m.cfg.PrivateKeyIDs)
	if err != nil {
		return fmt.Errorf("input %q: %w", m.cfg.SourcePath, err)
	}
	m.ring = &ring{start: env.start}
	trials := 0
	for _, k := range keys {
		trials += env.trials(k.Entity)
		m.ring.private = append(m.ring.private, k.Entity)
	}
	if trials > maxTrials {
		return about("would take %d attempts to open with these keys, and %d are allowed; give fewer private_key_ids", trials, maxTrials)
	}
	if err := m.setSigners(ctx); err != nil {
		return err
	}
	if c, own := env.session(keys); c != nil {
		err = m.openInside(ctx, env, c, own)
	} else {
		err = m.openAgain(ctx)
	}
	if err == nil {
		err = m.hostErr()
	}
	return err
}

// openAgain makes the library read all of the message from its beginning.
func (m *message) openAgain(ctx context.Context) error {
	if err := m.rewind(ctx); err != nil {
		return err
	}
	m.ring.src = m.src
	err := guard(func() (err error) {
		// The context is looked at above the buffer as well: see openInside.
		m.packets = &toll{r: transfer.NewReader(ctx, m.src, nil)}
		m.details, err = openpgp.ReadMessage(m.packets, m.ring, nil, reading(decompressed(m.limit())))
		if m.packets.err != nil {
			return m.packets.err
		}
		return damaged(err)
	})
	if err == nil && !m.details.IsEncrypted { // the second reading can't differ, but the file could
		return about("is not encrypted")
	}
	return err
}

// setSigners tells the ring whose signatures count.
func (m *message) setSigners(ctx context.Context) error {
	if m.cfg.Verify == "" {
		m.cfg.Verify = VerifyOptional
		if len(m.cfg.SignerKeyIDs) > 0 {
			m.cfg.Verify = VerifyRequired
		}
	}
	if m.cfg.Verify == VerifyOff {
		return nil
	}
	m.verifier = &verifier{keys: &m.keys, ids: m.cfg.SignerKeyIDs, field: "signer_key_ids", ring: m.ring}
	return m.verifier.prepare(ctx)
}

// verdict looks at the signatures after the body was read to its end.
func (m *message) verdict() verdict {
	if m.verifier == nil {
		return verdict{status: StatusNotChecked, why: "signatures are not verified"}
	}
	return m.verifier.verdict(m.details)
}

// judge turns a verdict into the step's failure, or nil.
func (m *message) judge(v verdict) error {
	if err := m.hostErr(); err != nil {
		return err
	}
	switch {
	case v.status == StatusValid, v.status == StatusNotChecked && m.cfg.Verify == VerifyOff:
		return nil
	case m.cfg.Verify == VerifyOptional && v.status != StatusInvalid:
		return nil
	}
	return about("was decrypted, but not accepted: %s (verify is %q)", v.why, m.cfg.Verify)
}

// decompressed is the limit for the packets that hold a plaintext of n bytes.
func decompressed(n int64) int64 {
	const overhead = 1 << 20 // headers and signatures
	return n + min(overhead, math.MaxInt64-n)
}

func (m *message) rewind(ctx context.Context) error {
	m.src = nil
	if _, err := m.in.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("input: %w", err)
	}
	src, err := newSource(transfer.NewReader(ctx, m.in, m.read.Store), armorMessage)
	if err != nil {
		return fmt.Errorf("input: %w", err)
	}
	m.src = src
	return nil
}

// decrypt writes the content to w and checks everything there is to check.
// What it has written is not to be used unless its error is nil.
func (m *message) decrypt(ctx context.Context, w io.Writer) (DecryptOutput, error) {
	var out DecryptOutput
	buffered := bufio.NewWriterSize(w, bufSize)
	to := &limited{w: buffered, left: m.limit()}
	body := &toll{r: m.details.UnverifiedBody}
	size, err := transfer.Copy(ctx, to, body, func(int64) {
		m.job.Progress(m.read.Load(), m.size, m.cfg.SourcePath)
	})
	switch {
	case to.full:
		return out, about("holds more than %d bytes; raise max_bytes if this is right", m.limit())
	case to.err != nil:
		return out, fmt.Errorf("output: %w", to.err)
	case m.packets.err != nil:
		return out, m.broken(ctx, m.packets.err)
	case body.err != nil:
		return out, m.broken(ctx, body.err)
	case err != nil:
		return out, m.broken(ctx, err)
	}
	if m.inner != nil {
		if !m.inner.sealed.checked() {
			return out, about("goes on after its end")
		}
		m.inner.Close()
	}
	// Both are consequences of the end of the body; that nothing unchecked is
	// ever published must not depend on that.
	if n, err := m.src.Read(make([]byte, 1)); n > 0 || err != io.EOF {
		return out, about("holds something besides one complete message")
	}
	found := m.verdict()
	if err := m.judge(found); err != nil {
		return out, err
	}
	if err := buffered.Flush(); err != nil {
		return out, fmt.Errorf("output: %w", err)
	}
	m.job.Progress(m.size, m.size, m.cfg.SourcePath)
	out = DecryptOutput{Size: size, VerifyStatus: found.status, OriginalName: harmless(m.details.LiteralData.FileName)}
	if len(found.signers) > 0 {
		out.SignerFingerprints = found.signers
		out.SignerFingerprint = found.signers[0]
		out.SignedAt = new(found.at)
	}
	return out, nil
}

// limited is a writer that refuses to take more than it may.
type limited struct {
	w    io.Writer
	left int64
	full bool
	err  error // of w
}

var errFull = errors.New("the limit is reached")

func (l *limited) Write(p []byte) (int, error) {
	if int64(len(p)) > l.left {
		l.full = true
		return 0, errFull
	}
	l.left -= int64(len(p))
	n, err := l.w.Write(p)
	if err != nil {
		l.err = err
	}
	return n, err
}

// harmless returns a file name from a message if it can be used as a name on
// any system, and nothing otherwise.
func harmless(name string) string {
	const longest = 200
	switch {
	case name == "", len(name) > longest, name != plain(name, longest),
		strings.ContainsAny(name, `/\:*?"<>|`), strings.Trim(name, ". ") != name,
		deviceName.MatchString(name), name == "_CONSOLE": // GnuPG: for the eyes only
		return ""
	}
	return name
}

// deviceName is what Windows takes for a device.
var deviceName = regexp.MustCompile(`(?i)^(con|prn|aux|nul|com[0-9]|lpt[0-9])(\.|$)`)
