package pgpstream

import (
	"bufio"
	"context"
	"crypto/cipher"
	"io"

	pgperrors "github.com/ProtonMail/go-crypto/openpgp/errors"
	"github.com/ProtonMail/go-crypto/openpgp/packet"

	"github.com/courierhq/courier/internal/readahead"
	"github.com/courierhq/courier/internal/transfer"
)

// A plaintextReader reads the packets inside the encrypted data of a message, or the packets of a
// message that is not encrypted. It unpacks one compressed packet.
type plaintextReader struct {
	seipd      *seipdReader      // nil if the message is not encrypted
	compressed *packetReader     // nil if no packet is compressed
	ahead      *readahead.Reader // of what is unpacked
	rest       *bufio.Reader     // of the packets, or of what follows the compressed one
}

// decryptPackets decrypts the content of an encrypted packet, and unpacks at most limit bytes of
// it. Close must be called, also after an error.
func decryptPackets(r io.Reader, c cipher.Block, limit int64) (*plaintextReader, error) {
	in := &plaintextReader{seipd: newSEIPDReader(r, c)}
	in.rest = bufio.NewReaderSize(in.seipd, bufSize)
	return in, in.unpack(limit)
}

// readPackets is decryptPackets for packets that are not encrypted.
func readPackets(r io.Reader, limit int64) (*plaintextReader, error) {
	in := &plaintextReader{rest: bufio.NewReaderSize(r, bufSize)}
	return in, in.unpack(limit)
}

// unpack starts to unpack compressed data.
func (in *plaintextReader) unpack(limit int64) error {
	first, err := in.rest.Peek(1)
	if err != nil {
		return early(err)
	}
	const oldFormat = 0x80
	if old := first[0] >> 2 & 15; first[0] != newFormat|tagCompressed && (first[0]&newFormat != oldFormat || old != tagCompressed) {
		return nil
	}
	if _, in.compressed, err = readPacket(in.rest); err != nil {
		return err
	}
	content, err := unpacked(in.compressed)
	if err != nil {
		return err
	}
	in.ahead = readahead.New(&packet.LimitReader{R: content, N: limit}, bufSize)
	return nil
}

// Read implements io.Reader. It returns io.EOF only if the integrity check succeeds.
func (in *plaintextReader) Read(p []byte) (int, error) {
	if in.ahead == nil {
		return in.rest.Read(p)
	}
	n, err := in.ahead.Read(p)
	if err != io.EOF {
		return n, err
	}
	// Programs may leave something behind the compressed data in their packet,
	// but nothing behind that.
	if _, err := io.Copy(io.Discard, in.compressed); err != nil {
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

// Close ends the goroutines. It may be called on a nil plaintextReader.
func (in *plaintextReader) Close() {
	if in != nil {
		in.ahead.Close()
		in.seipd.Close()
	}
}

// checkIntegrity reads the rest of the encrypted data and returns nil if its integrity check
// succeeds. Only then may errors depend on the content: otherwise an attacker who changes
// messages could learn their content from the errors.
func (in *plaintextReader) checkIntegrity(ctx context.Context) error {
	in.ahead.Close()
	_, err := io.Copy(io.Discard, transfer.NewReader(ctx, in.seipd, nil))
	return err
}
