package pgpstream

import (
	"bufio"
	"context"
	"crypto/cipher"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strings"
	"sync/atomic"

	pgperrors "github.com/ProtonMail/go-crypto/openpgp/errors"
	openpgp "github.com/ProtonMail/go-crypto/openpgp/v2"

	"github.com/courierhq/courier/internal/transfer"
)

// DecryptOptions are the options of [NewDecrypter].
type DecryptOptions struct {
	Keys        KeySource
	PrivateKeys []string // ids of the keys to try; empty means those that the message names
	// Signers are the ids of the keys whose signatures count; empty means all keys of Keys.
	Signers          []string
	IgnoreSignatures bool // the status is then [StatusNotChecked]
	// MaxBytes is the maximum size of the content; 0 means 1 GiB or 100 times the size of the
	// message, whichever is more.
	MaxBytes int64
	Progress func(read int64) // called with the bytes read of the message; may be nil
	Settings SettingNames
}

// A Decrypter reads one encrypted message. Close must be called.
type Decrypter struct {
	in   io.ReadSeeker
	o    DecryptOptions
	size int64        // of in
	read atomic.Int64 // bytes of in, in the reading that decrypts

	src       *messageReader
	keys      *messageKeys
	checker   *signatureChecker // nil if signatures are ignored
	plaintext *plaintextReader  // nil if the library decrypts
	packets   *packetLimiter    // that the library reads
	body      *packetLimiter    // the content; nil before it is read
	details   *openpgp.MessageDetails
}

// Decrypted is the result of decrypting a message.
type Decrypted struct {
	Size      int64 // bytes of the content
	Signature Signature
	// Name is the file name in the message, if it is valid on every system. No signature covers
	// it.
	Name string
}

// NewDecrypter reads a message, binary or armored, up to its encrypted data, and finds the key
// that decrypts it. It reads message from its beginning, sometimes twice.
func NewDecrypter(ctx context.Context, message io.ReadSeeker, o DecryptOptions) (*Decrypter, error) {
	o.Settings = o.Settings.orDefault()
	d := &Decrypter{in: message, o: o}
	if err := d.open(ctx); err != nil {
		return nil, d.cause(ctx, err)
	}
	return d, nil
}

// Close ends the goroutines. It may be called more than once, and on a nil Decrypter.
func (d *Decrypter) Close() {
	if d != nil {
		d.plaintext.Close()
	}
}

// Decrypt writes the content to w and makes all checks. The written content must not be used
// unless the error is nil. It may be called once.
func (d *Decrypter) Decrypt(ctx context.Context, w io.Writer) (Decrypted, error) {
	out, err := d.decrypt(ctx, w)
	if err != nil {
		return Decrypted{}, d.cause(ctx, err)
	}
	return out, nil
}

// cause returns the error that ended the reading in place of err, since the library hides it.
func (d *Decrypter) cause(ctx context.Context, err error) error {
	d.Close()
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case d.sourceErr() != nil:
		return d.sourceErr()
	case d.src != nil && d.src.err != nil:
		return d.src.err
	}
	return err
}

// sourceErr returns an error of the key source that occurred while the library was reading, since
// the library hides it.
func (d *Decrypter) sourceErr() error {
	if d.checker == nil {
		return nil
	}
	return d.checker.sourceErr
}

// maxBytes returns the maximum size of the content.
func (d *Decrypter) maxBytes() int64 { return contentLimit(d.o.MaxBytes, d.size) }

// contentLimit returns the maximum size of the content of a message with the given size, unless a
// limit is configured.
func contentLimit(configured, size int64) int64 {
	const least, factor = 1 << 30, 100
	switch {
	case configured > 0:
		return configured
	case size > math.MaxInt64/factor:
		return math.MaxInt64
	}
	return max(least, size*factor)
}

// sizeOf returns the size of r, and seeks to its beginning.
func sizeOf(r io.Seeker) (int64, error) {
	size, err := r.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = r.Seek(0, io.SeekStart)
	}
	if err != nil {
		return 0, fmt.Errorf("input: %w", err)
	}
	return size, nil
}

// open reads the message up to the encrypted data and finds the key that decrypts it.
func (d *Decrypter) open(ctx context.Context) error {
	var err error
	if d.size, err = sizeOf(d.in); err != nil {
		return err
	}
	if err := d.rewind(ctx); err != nil {
		return err
	}
	h, err := readHeader(d.src)
	if err != nil {
		return err
	}
	keys, err := h.privateKeys(ctx, d.o.Keys, d.o.PrivateKeys, d.o.Settings)
	if err != nil {
		return KeyError{err}
	}
	d.keys = &messageKeys{start: h.start}
	attempts := 0
	for _, k := range keys {
		attempts += h.attempts(k.entity)
		d.keys.private = append(d.keys.private, k.entity)
	}
	if attempts > maxAttempts {
		return messageErrorf("would take %d attempts to open with these keys, and %d are allowed; give fewer %s", attempts, maxAttempts, d.o.Settings.PrivateKeys)
	}
	if !d.o.IgnoreSignatures {
		d.checker = &signatureChecker{source: d.o.Keys, ids: d.o.Signers, settings: d.o.Settings, keys: d.keys}
		if err := d.checker.prepare(ctx); err != nil {
			return err
		}
	}
	if c, own := h.openSessionKey(keys); c != nil {
		err = d.readPlaintext(ctx, h, c, own)
	} else {
		err = d.readByLibrary(ctx)
	}
	if err == nil {
		err = d.sourceErr()
	}
	return err
}

// rewind starts to read the message from its beginning.
func (d *Decrypter) rewind(ctx context.Context) error {
	d.src = nil
	if _, err := d.in.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("input: %w", err)
	}
	src, err := newMessageReader(transfer.NewReader(ctx, d.in, d.read.Store), armorMessage)
	if _, ok := errors.AsType[MessageError](err); err != nil && !ok {
		err = fmt.Errorf("input: %w", err)
	}
	if err != nil {
		return err
	}
	d.src = src
	return nil
}

// readByLibrary makes the library read and decrypt all of the message.
func (d *Decrypter) readByLibrary(ctx context.Context) error {
	if err := d.rewind(ctx); err != nil {
		return err
	}
	d.keys.src = d.src
	err := catchAbort(func() (err error) {
		// The context is looked at above the buffer as well: see readPlaintext.
		d.packets = &packetLimiter{r: transfer.NewReader(ctx, d.src, nil)}
		d.details, err = openpgp.ReadMessage(d.packets, d.keys, nil, reading(packetsLimit(d.maxBytes())))
		if d.packets.err != nil {
			return d.packets.err
		}
		return decryptionError(err)
	})
	if err == nil && !d.details.IsEncrypted { // the second reading can't differ, but the file could
		return messageErrorf("is not encrypted")
	}
	return err
}

// readPlaintext decrypts with the session key c, and makes the library read the decrypted
// packets.
func (d *Decrypter) readPlaintext(ctx context.Context, h *messageHeader, c cipher.Block, own openpgp.Key) error {
	var err error
	if d.plaintext, err = decryptPackets(h.seipd.Contents, c, packetsLimit(d.maxBytes())); err != nil {
		return d.contentError(ctx, err)
	}
	err = catchAbort(func() error {
		// The context is looked at above the buffers as well: a few bytes in
		// them can unpack to minutes of work.
		d.packets = &packetLimiter{r: transfer.NewReader(ctx, d.plaintext, nil)}
		d.details, err = openpgp.ReadMessage(d.packets, d.keys, nil, reading(nestedLimit(d.o.MaxBytes, d.maxBytes())))
		if d.packets.err != nil {
			err = d.packets.err
		}
		return err
	})
	if err == nil && d.details.IsEncrypted {
		err = pgperrors.ErrMalformedMessage("encrypted twice")
	}
	if err != nil {
		return d.contentError(ctx, err)
	}
	// For the recipients that a signature names.
	d.details.IsEncrypted, d.details.DecryptedWith = true, own
	return nil
}

func (d *Decrypter) decrypt(ctx context.Context, w io.Writer) (Decrypted, error) {
	var out Decrypted
	buffered := bufio.NewWriterSize(w, bufSize)
	to := &limitedWriter{w: buffered, left: d.maxBytes()}
	body := &packetLimiter{r: d.details.UnverifiedBody}
	d.body = body
	size, err := transfer.Copy(ctx, to, body, func(int64) {
		if d.o.Progress != nil {
			d.o.Progress(d.read.Load())
		}
	})
	switch {
	case to.exceeded:
		return out, messageErrorf("holds more than %d bytes; raise %s if this is right", d.maxBytes(), d.o.Settings.MaxBytes)
	case to.err != nil:
		return out, outputError(to.err)
	case d.packets.err != nil:
		return out, d.contentError(ctx, d.packets.err)
	case body.err != nil:
		return out, d.contentError(ctx, body.err)
	case err != nil:
		return out, d.contentError(ctx, err)
	}
	if d.plaintext != nil {
		if !d.plaintext.seipd.checked() {
			return out, messageErrorf("goes on after its end")
		}
		d.plaintext.Close()
	}
	// Both are consequences of the end of the body; that nothing unchecked is
	// ever used must not depend on that.
	if n, err := d.src.Read(make([]byte, 1)); n > 0 || err != io.EOF {
		return out, messageErrorf("holds something besides one complete message")
	}
	found := Signature{Status: StatusNotChecked, Problem: "signatures are not verified"}
	if d.checker != nil {
		found = d.checker.result(d.details)
		if found.Status == StatusUnsigned {
			found = found.orUnreadable(unreadableSignature(d.first(ctx)))
		}
	}
	if err := d.sourceErr(); err != nil {
		return out, err
	}
	if err := buffered.Flush(); err != nil {
		return out, outputError(err)
	}
	return Decrypted{Size: size, Signature: found, Name: harmlessName(d.details.LiteralData.FileName)}, nil
}

// first returns the beginning of the decrypted packets, after the whole message has been read and
// checked. If the library has decrypted them, first reads the message again.
func (d *Decrypter) first(ctx context.Context) []byte {
	if d.plaintext != nil {
		return d.packets.head
	}
	if d.rewind(ctx) != nil {
		return nil
	}
	h, err := readHeader(d.src)
	if err != nil {
		return nil
	}
	decrypted, err := h.data.Decrypt(d.details.DecryptedWithAlgorithm, d.details.SessionKey)
	if err != nil {
		return nil
	}
	head, n := make([]byte, headBytes), 0
	in, err := readPackets(decrypted, packetsLimit(d.maxBytes()))
	if err == nil {
		n, _ = io.ReadFull(in, head)
	}
	in.Close()
	return head[:n]
}

// contentError explains an error that occurred while the message was read.
func (d *Decrypter) contentError(ctx context.Context, err error) error {
	if d.plaintext == nil {
		return decryptionError(err)
	}
	if d.plaintext.checkIntegrity(ctx) != nil {
		return decryptionError(errIntegrity)
	}
	if _, ok := errors.AsType[MessageError](err); ok {
		return err
	}
	switch {
	case errors.Is(err, pgperrors.ErrMessageTooLarge):
		return messageErrorf("unpacks to more than %d bytes, or to more than %d of nested compressed data; raise %s if this is right",
			d.maxBytes(), nestedLimit(d.o.MaxBytes, d.maxBytes()), d.o.Settings.MaxBytes)
	case errors.Is(err, pgperrors.ErrKeyIncorrect):
		return messageErrorf("holds another encrypted message, not content")
	}
	if e := decryptionError(err); e.Error() != decryptionError(errIntegrity).Error() {
		return e
	}
	// The library hides that the limit for compressed data in others was the reason.
	const block = 1 << 20 // it reads less at once
	if nested := nestedLimit(d.o.MaxBytes, d.maxBytes()); d.body != nil && d.body.read > nested-block {
		return messageErrorf("unpacks to more than %d bytes of nested compressed data, or holds something that is not one complete message; raise %s if so much is right",
			nested, d.o.Settings.MaxBytes)
	}
	return messageErrorf("holds something that is not one complete message")
}

// decryptionError turns an error of the library into one that says what to do. Inside encrypted
// data the library gives no details.
func decryptionError(err error) error {
	var malformed pgperrors.ErrMalformedMessage
	var structural pgperrors.StructuralError
	var unsupported pgperrors.UnsupportedError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &malformed), errors.As(err, &structural):
		return messageErrorf("holds something besides one complete message, or is damaged")
	case errors.As(err, &unsupported):
		return messageErrorf("uses what is not supported: %s", notSupported(unsupported))
	case errors.Is(err, pgperrors.ErrKeyIncorrect):
		return messageErrorf("is damaged, encrypted to another key with the same id, or encrypted with another cipher than AES, 3DES and CAST5: its session key can't be opened")
	}
	return messageErrorf("is damaged, cut short or was changed on its way: its integrity check does not hold")
}

// A limitedWriter accepts at most a given number of bytes.
type limitedWriter struct {
	w        io.Writer
	left     int64
	exceeded bool
	err      error // of w
}

var errLimit = errors.New("the limit is reached")

func (l *limitedWriter) Write(p []byte) (int, error) {
	if int64(len(p)) > l.left {
		l.exceeded = true
		return 0, errLimit
	}
	l.left -= int64(len(p))
	n, err := l.w.Write(p)
	if err != nil {
		l.err = err
	}
	return n, err
}

// harmlessName returns a file name from a message if it is valid on every system, and ""
// otherwise.
func harmlessName(name string) string {
	const longest = 200
	switch {
	case name == "", len(name) > longest, name != Printable(name, longest),
		strings.ContainsAny(name, `/\:*?"<>|`), strings.Trim(name, ". ") != name,
		deviceName.MatchString(name), name == "_CONSOLE": // GnuPG: for the eyes only
		return ""
	}
	return name
}

// deviceName matches names that Windows treats as devices.
var deviceName = regexp.MustCompile(`(?i)^(con|prn|aux|nul|com[0-9]|lpt[0-9])(\.|$)`)
