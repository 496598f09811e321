// Package pgpstream encrypts, decrypts, signs and verifies streams in the format
// OpenPGP (RFC 4880, and RFC 9580 where all recipients offer it), in the form that
// GnuPG and the products of partners read and write. It is built on go-crypto, and
// reads and writes the packets of large messages itself, since that is faster.
//
// [Encrypt] and [Sign] write, [Decrypter], [Verify] and [VerifyDetached] read. They
// take keys as [Key], or ask a [KeySource] for the keys that a message names. They
// know neither files nor names of files: where output lies, and when it gets its
// name, is decided by the caller.
//
// # Plaintext before it is checked
//
// Messages are written with AES and an integrity check, and read only with one. The
// check is at the end of a message. So [Decrypter.Decrypt] and [Verify] write content
// before it is checked: it must not be used until they have returned, and must be
// thrown away after an error. Decrypt returns no error only if
//
//   - the integrity check holds, over all of the encrypted data,
//   - the message was complete, and nothing follows it or its armor,
//   - the content has no more than MaxBytes bytes,
//   - all signatures have been examined, if they were asked for.
//
// What the examination has found is in a [Signature]. It is no error: a caller that
// wants a valid signature looks at its Status. A signature is valid if it fits the
// content, its key was good when it was made and is neither expired nor revoked today,
// and neither of them depends on SHA-1, MD5 or RIPEMD-160.
//
// # Limits
//
// A message is taken to be hostile. Besides MaxBytes, the recipients that it names,
// the attempts to open it, the bytes before its content, its signatures, and its
// packets in proportion to what they hold are limited. Memory does not depend on the
// size of a message. No error about encrypted data depends on their content before
// their integrity check holds.
//
// # Errors
//
// An error that the message itself is the reason for is or wraps a [MessageError],
// which no further attempt cures. A [KeyError] is about the keys that should open a
// message. Errors of a key that can't be used are marked as permanent by package
// failure. Those of a KeySource and of readers come as they are, mostly wrapped; those
// of a writer begin with "output: ". When ctx ends, its cause is returned.
//
// # Concurrency and ownership
//
// The functions may be called by several goroutines, with different keys. A Key and a
// Decrypter are for one goroutine at a time. Up to seven goroutines work on a message;
// they end before the functions return, or with [Decrypter.Close]. Progress and the
// methods of a KeySource are called in the goroutine of the caller. Readers and
// writers are not closed.
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

// bufSize is the size of the buffers below and above the OpenPGP layer, which
// itself reads and writes in small pieces.
const bufSize = 128 << 10

// A KeySource finds the keys that are named by options and messages.
type KeySource interface {
	// Key returns the key that goes by id: what options call it, or the fingerprint
	// or key id (40, 64 or 16 upper case hexadecimal digits) by which a message names
	// a key or a subkey. Each call returns a Key of its own.
	//
	// The error for an unknown key matches [ErrUnknownKey].
	Key(ctx context.Context, id string) (*Key, error)

	// Unlock returns a key that Key has returned, with private parts that are not
	// locked. It is asked only for keys that fit a message.
	Unlock(ctx context.Context, key *Key) (*Key, error)
}

// ErrUnknownKey is matched by the errors of a [KeySource] for a key that is not there.
var ErrUnknownKey = errors.New("there is no such key")

// SettingNames are what errors call settings, so that they tell a user what to
// change. An empty one is called like the field of the options.
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

// A MessageError says what is wrong with a message, or with content that can't be
// signed in the way that was asked for. Its text goes on after the name of the file,
// such as "is cut short". It holds nothing that could act on a terminal.
type MessageError struct{ err error }

// Error implements error.
func (e MessageError) Error() string { return e.err.Error() }

// Unwrap returns the error below.
func (e MessageError) Unwrap() error { return e.err }

func messageErrorf(format string, args ...any) error {
	return MessageError{fmt.Errorf(format, args...)}
}

// ErrEncrypted is wrapped by the [MessageError] of [Verify] about an encrypted message.
var ErrEncrypted = errors.New("is encrypted")

// ErrInSignature is matched by an error of [VerifyDetached] that is about the
// signature and not about the content.
var ErrInSignature = errors.New("the detached signature can't be read")

// signatureError marks an error as one about a detached signature. Its text stays.
type signatureError struct{ error }

func (e signatureError) Is(target error) bool { return target == ErrInSignature }
func (e signatureError) Unwrap() error        { return e.error }

// A KeyError says that no private key opens a message, or that one of them could not
// be found or unlocked. It wraps the error of the [KeySource] if there is one.
type KeyError struct{ err error }

// Error implements error.
func (e KeyError) Error() string { return e.err.Error() }

// Unwrap returns the error below.
func (e KeyError) Unwrap() error { return e.err }

// permanentf is fmt.Errorf for what repeating can't cure.
func permanentf(format string, args ...any) error {
	return failure.Permanent(fmt.Errorf(format, args...))
}

// outputError marks an error of the writer. A [MessageError] stays as it is.
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

// A writeErrorKeeper keeps the error of a writer, to tell it from one of a reader.
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

// Printable makes text from outside fit for an error or a log: one line without
// control characters, of at most n runes and three dots.
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
