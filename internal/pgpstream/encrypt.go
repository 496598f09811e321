package pgpstream

import (
	"bufio"
	"context"
	"io"
)

// EncryptOptions are the options of [Encrypt].
type EncryptOptions struct {
	Recipients  []*Key // at least one; any of them can decrypt the message
	Signer      *Key   // with its private part, not locked; nil means that nobody signs
	Armor       bool   // write text
	Compression Compression
	// NoAEAD always uses MDC, the integrity check that every program supports, even if all
	// recipients support an AEAD mode.
	NoAEAD   bool
	Progress func(done int64) // called with the bytes of the content; may be nil
}

// Compression is the compression inside a message.
type Compression int

// The values of [Compression].
const (
	Uncompressed Compression = iota
	ZIP
	ZLIB
)

// Encrypt encrypts content to all recipients, and writes the message to w. The cipher is AES-256,
// or AES-128 if the key of a recipient excludes AES-256. Each message has a session key of its
// own, so the same content never gives the same message.
func Encrypt(ctx context.Context, w io.Writer, content io.Reader, o EncryptOptions) error {
	buffered := bufio.NewWriterSize(w, bufSize)
	var text io.WriteCloser = nopCloser{buffered}
	if o.Armor {
		text = newArmorWriter(buffered, armorMessage)
	}
	m, err := newMessageWriter(o)
	if err != nil {
		return err
	}
	defer m.abandon()
	if err := m.open(text); err != nil {
		return outputError(err)
	}
	if err := copyContent(ctx, m.content, content, o.Progress); err != nil {
		return err
	}
	if err := m.close(); err != nil {
		return outputError(err)
	}
	if err := text.Close(); err != nil {
		return outputError(err)
	}
	return outputError(buffered.Flush())
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }
