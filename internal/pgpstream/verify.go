package pgpstream

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"

	pgperrors "github.com/ProtonMail/go-crypto/openpgp/errors"
	openpgp "github.com/ProtonMail/go-crypto/openpgp/v2"

	"github.com/courierhq/courier/internal/transfer"
)

// VerifyOptions are the options of [Verify] and [VerifyDetached].
type VerifyOptions struct {
	Keys KeySource
	// Signers are the ids of the keys whose signatures count; empty means all keys of Keys.
	Signers []string
	// MaxBytes is the maximum size of the content of a message; 0 means 1 GiB or 100 times the
	// size of the message, whichever is more. VerifyDetached has no limit.
	MaxBytes int64
	Progress func(done int64) // called with the bytes of the content; may be nil
	Settings SettingNames
}

// Verify reads a signed message, binary or armored, or a clear-signed text, and writes its
// content to w. It returns the result of checking the signature, and the size of the content. The
// written content must not be used unless the error is nil and the status is [StatusValid].
func Verify(ctx context.Context, w io.Writer, signed io.ReadSeeker, o VerifyOptions) (Signature, int64, error) {
	size, err := sizeOf(signed)
	if err != nil {
		return Signature{}, 0, err
	}
	v := newVerifier(o, contentLimit(o.MaxBytes, size))
	return v.verify(ctx, w, func(w io.Writer) (*openpgp.MessageDetails, io.Writer, error) {
		head := make([]byte, headSize)
		n, err := io.ReadFull(signed, head)
		if err == nil || err == io.EOF || err == io.ErrUnexpectedEOF {
			_, err = signed.Seek(0, io.SeekStart)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("input: %w", err)
		}
		if isClearsigned(head[:n]) {
			d, err := v.clearsigned(ctx, w, signed)
			return d, io.Discard, err
		}
		d, err := v.inline(ctx, signed)
		return d, w, err
	})
}

// VerifyDetached reads content and its signature, binary or armored. It returns the result of
// checking the signature, and the size of the content.
func VerifyDetached(ctx context.Context, content, signature io.Reader, o VerifyOptions) (Signature, int64, error) {
	v := newVerifier(o, math.MaxInt64)
	return v.verify(ctx, io.Discard, func(io.Writer) (*openpgp.MessageDetails, io.Writer, error) {
		sig, err := signaturePackets(transfer.NewReader(ctx, signature, nil))
		if err != nil {
			return nil, nil, inSignature(err)
		}
		d, err := v.withSignature(transfer.NewReader(ctx, content, nil), sig)
		return d, io.Discard, inSignature(err)
	})
}

// inSignature marks a MessageError as an error of the detached signature.
func inSignature(err error) error {
	if _, ok := errors.AsType[MessageError](err); ok {
		return signatureError{err}
	}
	return err
}

// A verifier checks the signature of one message or file.
type verifier struct {
	o         VerifyOptions
	limit     int64 // of the content
	keys      *messageKeys
	checker   *signatureChecker
	src       *messageReader   // may be nil
	content   *errorKeeper     // may be nil
	plaintext *plaintextReader // may be nil
	packets   *packetLimiter   // may be nil
	// unreadable is the reason why no detached signature can be read, or "".
	unreadable string
}

func newVerifier(o VerifyOptions, limit int64) *verifier {
	o.Settings = o.Settings.orDefault()
	keys := new(messageKeys)
	return &verifier{o: o, limit: limit, keys: keys, checker: &signatureChecker{source: o.Keys, ids: o.Signers, settings: o.Settings, keys: keys}}
}

// An errorKeeper stores the error of a reader, which the library does not always return.
type errorKeeper struct {
	r   io.Reader
	err error
}

func (k *errorKeeper) Read(p []byte) (int, error) {
	n, err := k.r.Read(p)
	if err != nil && err != io.EOF {
		k.err = err
	}
	return n, err
}

// An opener finds the signature. It returns the writer for the content that the library reads.
type opener func(w io.Writer) (*openpgp.MessageDetails, io.Writer, error)

// verify reads all signed content. It returns the error that ended the reading in place of the
// library's error, which hides it.
func (v *verifier) verify(ctx context.Context, w io.Writer, open opener) (Signature, int64, error) {
	if err := v.checker.prepare(ctx); err != nil {
		return Signature{}, 0, err
	}
	defer func() { v.plaintext.Close() }()
	found, size, err := v.readAll(ctx, w, open)
	switch {
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case v.checker.sourceErr != nil:
		err = v.checker.sourceErr
	case err != nil && v.src != nil && v.src.err != nil:
		err = v.src.err
	case err != nil && v.content != nil && v.content.err != nil:
		err = v.content.err
	}
	if err != nil {
		return Signature{}, 0, err
	}
	return found, size, nil
}

func (v *verifier) readAll(ctx context.Context, w io.Writer, open opener) (Signature, int64, error) {
	buffered := bufio.NewWriterSize(w, bufSize)
	var details *openpgp.MessageDetails
	var size int64
	err := catchAbort(func() error {
		d, content, err := open(buffered)
		if err != nil {
			return err
		}
		details = d
		to := &limitedWriter{w: content, left: v.limit}
		body := &packetLimiter{r: details.UnverifiedBody}
		size, err = transfer.Copy(ctx, to, body, v.o.Progress)
		switch {
		case v.packets.failed() != nil:
			return v.packets.err
		case body.err != nil:
			return body.err
		case to.exceeded:
			return messageErrorf("holds more than %d bytes; raise %s if this is right", v.limit, v.o.Settings.MaxBytes)
		case to.err != nil:
			return outputError(to.err)
		}
		return v.readError(err)
	})
	if err != nil {
		return Signature{}, 0, err
	}
	if err := buffered.Flush(); err != nil {
		return Signature{}, 0, outputError(err)
	}
	why := v.unreadable
	if v.packets != nil {
		why = unreadableSignature(v.packets.head)
	}
	return v.checker.result(details).orUnreadable(why), size, nil
}

// withSignature reads content together with its detached signature.
func (v *verifier) withSignature(content io.Reader, sig []byte) (*openpgp.MessageDetails, error) {
	v.content = &errorKeeper{r: content}
	d, err := openpgp.VerifyDetachedSignatureReader(v.keys, v.content, bytes.NewReader(sig), reading(math.MaxInt64))
	if errors.Is(err, pgperrors.ErrUnknownIssuer) {
		if v.unreadable = unreadableSignatures(sig); v.unreadable == "" {
			return nil, messageErrorf("holds no signature, or none of a kind that can be checked")
		}
		return &openpgp.MessageDetails{UnverifiedBody: v.content}, nil
	}
	return d, v.readError(err)
}

// clearsigned reads the text twice: first to find the signature, and then for the content, which
// it writes to w as it is read.
func (v *verifier) clearsigned(ctx context.Context, w io.Writer, signed io.ReadSeeker) (*openpgp.MessageDetails, error) {
	sig, err := clearSignature(transfer.NewReader(ctx, signed, nil))
	if err != nil {
		return nil, err
	}
	if _, err := signed.Seek(0, io.SeekStart); err != nil {
		return nil, fmt.Errorf("input: %w", err)
	}
	return v.withSignature(newTextReader(transfer.NewReader(ctx, signed, nil), w), sig)
}

// inline makes the library read a message that holds the content and its signature.
func (v *verifier) inline(ctx context.Context, signed io.Reader) (*openpgp.MessageDetails, error) {
	src, err := newMessageReader(transfer.NewReader(ctx, signed, nil), armorMessage)
	if err != nil {
		return nil, err
	}
	v.src = src
	// The context is looked at above the buffer as well: see Decrypter.readPlaintext.
	if v.plaintext, err = readPackets(src, packetsLimit(v.limit)); err != nil {
		return nil, v.readError(err)
	}
	v.packets = &packetLimiter{r: transfer.NewReader(ctx, v.plaintext, nil)}
	d, err := openpgp.ReadMessage(v.packets, v.keys, nil, reading(nestedLimit(v.o.MaxBytes, v.limit)))
	switch {
	case v.packets.err != nil:
		return nil, v.packets.err
	case errors.Is(err, pgperrors.ErrKeyIncorrect) || err == nil && d.IsEncrypted:
		return nil, MessageError{ErrEncrypted}
	case err == io.EOF:
		return nil, messageErrorf("holds no content")
	case err != nil:
		return nil, v.readError(err)
	}
	return d, nil
}

// readError explains an error of the library for data that is not encrypted.
func (v *verifier) readError(err error) error {
	var malformed pgperrors.ErrMalformedMessage
	var unsupported pgperrors.UnsupportedError
	var message MessageError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &message):
		return message
	case errors.Is(err, pgperrors.ErrMessageTooLarge):
		return messageErrorf("unpacks to more than is allowed; raise %s if this is right", v.o.Settings.MaxBytes)
	case errors.As(err, &malformed):
		return messageErrorf("holds something besides one complete message, or is cut short")
	case errors.As(err, &unsupported):
		return messageErrorf("uses what is not supported: %s", notSupported(unsupported))
	}
	return messageErrorf("is damaged or cut short")
}
