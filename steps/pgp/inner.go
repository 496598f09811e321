package pgp

import (
	"bufio"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"errors"
	"io"
	"time"

	pgperrors "github.com/ProtonMail/go-crypto/openpgp/errors"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
	openpgp "github.com/ProtonMail/go-crypto/openpgp/v2"

	"github.com/courierhq/courier/internal/transfer"
)

// session opens the session key with one of the private keys. The cipher is nil
// if the content is not encrypted in the one way that this package decrypts
// itself, or if no key opens it; the library tells then.
func (env *envelope) session(keys []*loaded) (cipher.Block, openpgp.Key) {
	if env.sealed == nil || env.sealed.Version != 1 {
		return nil, openpgp.Key{}
	}
	conf := reading(0)
	for _, sent := range env.keys {
		for _, k := range keys {
			for _, own := range k.DecryptionKeys(sent.KeyId, time.Time{}, conf) {
				if own.PrivateKey == nil || own.PrivateKey.Encrypted || own.PrivateKey.Dummy() || sent.Decrypt(own.PrivateKey, conf) != nil {
					continue
				}
				switch sent.CipherFunc {
				case packet.CipherAES128, packet.CipherAES192, packet.CipherAES256:
				default:
					return nil, openpgp.Key{}
				}
				if len(sent.Key) != sent.CipherFunc.KeySize() {
					continue
				}
				if c, err := aes.NewCipher(sent.Key); err == nil {
					return c, own
				}
			}
		}
	}
	return nil, openpgp.Key{}
}

// An inner is what the encrypted data of a message hold, or a message that is not
// encrypted: one compressed packet, or packets that the library reads.
type inner struct {
	sealed *unsealer     // nil if it is not encrypted
	packet *packetReader // that is compressed; nil if none is
	ahead  *aheadReader  // of what is in it
	rest   *bufio.Reader // what follows it
}

// openInner decrypts the content of an encrypted packet, of which at most limit
// bytes are unpacked. Close must be called, also after an error.
func openInner(r io.Reader, c cipher.Block, limit int64) (*inner, error) {
	in := &inner{sealed: newUnsealer(r, c)}
	in.rest = bufio.NewReaderSize(in.sealed, bufSize)
	return in, in.unpack(limit)
}

// openPlain is openInner for packets that are not encrypted.
func openPlain(r io.Reader, limit int64) (*inner, error) {
	in := &inner{rest: bufio.NewReaderSize(r, bufSize)}
	return in, in.unpack(limit)
}

// unpack begins to unpack what is compressed.
func (in *inner) unpack(limit int64) error {
	first, err := in.rest.Peek(1)
	if err != nil {
		return early(err)
	}
	const oldFormat = 0x80
	if old := first[0] >> 2 & 15; first[0] != newFormat|tagCompressed && (first[0]&newFormat != oldFormat || old != tagCompressed) {
		return nil
	}
	if _, in.packet, err = readPacket(in.rest); err != nil {
		return err
	}
	content, err := unpacked(in.packet)
	if err != nil {
		return err
	}
	in.ahead = readAhead(&packet.LimitReader{R: content, N: limit})
	return nil
}

// Read implements io.Reader. It ends with io.EOF only if the integrity check
// holds.
func (in *inner) Read(p []byte) (int, error) {
	if in.ahead == nil {
		return in.rest.Read(p)
	}
	n, err := in.ahead.Read(p)
	if err != io.EOF {
		return n, err
	}
	// Programs may leave something behind the compressed data in their packet,
	// but nothing behind that.
	if _, err := io.Copy(io.Discard, in.packet); err != nil {
		return n, err
	}
	if _, err := in.rest.ReadByte(); err != io.EOF {
		if err == nil {
			err = pgperrors.ErrMalformedMessage("more than one packet")
		}
		return n, err
	}
	return n, io.EOF
}

// Close ends the goroutines. Nil may be closed.
func (in *inner) Close() {
	if in != nil {
		in.ahead.Close()
		in.sealed.Close()
	}
}

// whole reads the rest of the encrypted data and returns nil if its integrity
// check holds. Only then anything is said about what is in it: other answers
// would help those who change messages to find out what is in them.
func (in *inner) whole(ctx context.Context) error {
	in.ahead.Close()
	_, err := io.Copy(io.Discard, transfer.NewReader(ctx, in.sealed, nil))
	return err
}

// openInside makes the library read what is encrypted.
func (m *message) openInside(ctx context.Context, env *envelope, c cipher.Block, own openpgp.Key) error {
	var err error
	if m.inner, err = openInner(env.sealed.Contents, c, decompressed(m.limit())); err != nil {
		return m.broken(ctx, err)
	}
	err = guard(func() error {
		// The context is looked at above the buffers as well: a few bytes in
		// them can unpack to minutes of work.
		m.packets = &toll{r: transfer.NewReader(ctx, m.inner, nil)}
		m.details, err = openpgp.ReadMessage(m.packets, m.ring, nil, reading(nested(m.cfg.MaxBytes, m.limit())))
		if m.packets.err != nil {
			err = m.packets.err
		}
		return err
	})
	if err == nil && m.details.IsEncrypted {
		err = pgperrors.ErrMalformedMessage("encrypted twice")
	}
	if err != nil {
		return m.broken(ctx, err)
	}
	// For the recipients that a signature names.
	m.details.IsEncrypted, m.details.DecryptedWith = true, own
	return nil
}

// broken tells what an error means that came up while the message was read.
func (m *message) broken(ctx context.Context, err error) error {
	if m.inner == nil {
		return damaged(err)
	}
	if m.inner.whole(ctx) != nil {
		return damaged(errIntegrity)
	}
	if _, ok := errors.AsType[messageError](err); ok {
		return err
	}
	switch {
	case errors.Is(err, pgperrors.ErrMessageTooLarge):
		return about("unpacks to more than %d bytes, or more than %d where compressed data are in others; raise max_bytes if this is right", m.limit(), nested(m.cfg.MaxBytes, m.limit()))
	case errors.Is(err, pgperrors.ErrKeyIncorrect):
		return about("holds another encrypted message, not content")
	}
	if e := damaged(err); e.Error() != damaged(errIntegrity).Error() {
		return e
	}
	return about("holds something that is not one complete message")
}
