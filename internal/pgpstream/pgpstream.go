// Package pgpstream encrypts, decrypts, signs and verifies streams in the OpenPGP format (RFC
// 4880, and RFC 9580 if all recipients support it), in the form that GnuPG and the products of
// partners read and write. It is built on go-crypto. It reads and writes the packets of large
// messages itself, since that is faster.
//
// [Encrypt] and [Sign] write, [Decrypter], [Verify] and [VerifyDetached] read. They take keys as
// [Key], or ask a [KeySource] for the keys that a message names. They do not use files or file
// names: the caller decides where the output is, and when it gets its name.
//
// # Plaintext before it is checked
//
// Messages are written with AES and an integrity check, and read only with one. The check is at
// the end of a message. So [Decrypter.Decrypt] and [Verify] write content before it is checked:
// it must not be used until they have returned, and must be discarded after an error. Decrypt
// returns a nil error only if
//
//   - the integrity check holds, over all of the encrypted data,
//   - the message was complete, and nothing follows it or its armor,
//   - the content has no more than MaxBytes bytes,
//   - all signatures have been examined, if they were asked for.
//
// The result of the examination is a [Signature]. An invalid signature is not an error: a caller
// that requires a valid signature must check its Status. A signature is valid if it matches the
// content, its key was valid when the signature was made and is neither expired nor revoked now,
// and neither signature nor key depends on SHA-1, MD5 or RIPEMD-160.
//
// # Limits
//
// A message is treated as hostile. Besides MaxBytes there are limits for the recipients that it
// names, the attempts to decrypt it, the bytes before its content, its signatures, and the number
// of packets relative to their content. Memory does not depend on the size of a message. Errors
// about encrypted data do not depend on the content before the integrity check has succeeded.
//
// # Errors
//
// An error that the message itself causes is or wraps a [MessageError]; further attempts cannot
// fix it. A [KeyError] is about the keys that should decrypt a message. Errors of an unusable key
// are marked as permanent by package failure. Errors of a KeySource and of readers are returned
// unchanged, mostly wrapped; errors of a writer begin with "output: ". When ctx ends, its cause
// is returned.
//
// # Concurrency and ownership
//
// The functions may be called by several goroutines, with different keys. A Key and a Decrypter
// must be used by one goroutine at a time. Up to seven goroutines work on a message; they end
// before the functions return, or with [Decrypter.Close]. Progress and the methods of a KeySource
// are called in the goroutine of the caller. Readers and writers are not closed.
package pgpstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/courierhq/courier/internal/failure"
	"github.com/courierhq/courier/internal/transfer"
)

// bufSize is the size of the buffers below and above the OpenPGP layer, which reads and writes in
// small pieces.
const bufSize = 128 << 10

// A KeySource finds the keys that options and messages name.
type KeySource interface {
	// Key returns the key called id. The id is a name in options, or the fingerprint or key id
	// (40, 64 or 16 upper-case hexadecimal digits) with which a message names a key or a subkey.
	// Each call returns a new Key.
	//
	// The error for an unknown key matches [ErrUnknownKey].
	Key(ctx context.Context, id string) (*Key, error)

	// Unlock returns a key from Key with unlocked private parts. It is called only for keys that
	// match a message.
	Unlock(ctx context.Context, key *Key) (*Key, error)
}

// ErrUnknownKey is matched by the errors of a [KeySource] for a key that does not exist.
var ErrUnknownKey = errors.New("there is no such key")

// SettingNames are the names of settings in errors, so that users can find the setting to change.
// An empty name means the name of the field in the options.
type SettingNames struct {
	MaxBytes    string
	PrivateKeys string
	Signers     string
}

func (n SettingNames) orDefault() SettingNames {
	for _, f := range []struct {
		name  *string
		field string
	}{{&n.MaxBytes, "MaxBytes"}, {&n.PrivateKeys, "PrivateKeys"}, {&n.Signers, "Signers"}} {
		if *f.name == "" {
			*f.name = f.field
		}
	}
	return n
}

// A MessageError says what is wrong with a message, or with content that cannot be signed in the
// requested way. Its text continues a sentence after the name of the file, such as "is cut
// short". It contains no characters that control a terminal.
type MessageError struct{ err error }

// Error implements error.
func (e MessageError) Error() string { return e.err.Error() }

// Unwrap returns the wrapped error.
func (e MessageError) Unwrap() error { return e.err }

func messageErrorf(format string, args ...any) error {
	return MessageError{fmt.Errorf(format, args...)}
}

// ErrEncrypted is wrapped by the [MessageError] of [Verify] about an encrypted message.
var ErrEncrypted = errors.New("is encrypted")

// ErrInSignature is matched by an error of [VerifyDetached] about the signature, not about the
// content.
var ErrInSignature = errors.New("the detached signature can't be read")

// signatureError marks an error as an error of a detached signature. Its text does not change.
type signatureError struct{ error }

func (e signatureError) Is(target error) bool { return target == ErrInSignature }
func (e signatureError) Unwrap() error        { return e.error }

// A KeyError says that no private key decrypts a message, or that one of the private keys could
// not be found or unlocked. It wraps the error of the [KeySource] if there is one.
type KeyError struct{ err error }

// Error implements error.
func (e KeyError) Error() string { return e.err.Error() }

// Unwrap returns the wrapped error.
func (e KeyError) Unwrap() error { return e.err }

// permanentf is fmt.Errorf for errors that a retry cannot fix.
func permanentf(format string, args ...any) error {
	return failure.Permanent(fmt.Errorf(format, args...))
}

// outputError marks an error of the writer. A [MessageError] does not change.
func outputError(err error) error {
	if _, ok := errors.AsType[MessageError](err); err == nil || ok {
		return err
	}
	return fmt.Errorf("output: %w", err)
}

// copyContent copies all of the content to w, which writes to the output.
func copyContent(ctx context.Context, w io.Writer, content io.Reader, progress func(done int64)) error {
	to := &writeErrorKeeper{w: w}
	_, err := transfer.Copy(ctx, to, content, progress)
	if err != nil && err == to.err {
		return outputError(err)
	}
	return err
}

// A writeErrorKeeper stores the error of a writer, to distinguish it from an error of a reader.
type writeErrorKeeper struct {
	w   io.Writer
	err error
}

func (k *writeErrorKeeper) Write(p []byte) (int, error) {
	n, err := k.w.Write(p)
	if err != nil {
		k.err = err
	}
	return n, err
}

// Printable makes text from outside suitable for an error or a log: one line without control
// characters, of at most n runes and three dots.
func Printable(s string, n int) string {
	s = strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
	if r := []rune(s); len(r) > n {
		s = string(r[:n]) + "..."
	}
	return s
}
