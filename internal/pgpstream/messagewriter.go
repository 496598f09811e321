package pgpstream

import (
	"crypto/aes"
	"crypto/rand"
	"io"
	"slices"

	"github.com/ProtonMail/go-crypto/openpgp/packet"
	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/zlib"
)

// A messageWriter writes an encrypted message: first the session key for each recipient, then the
// encrypted data. The encrypted data, which may be compressed, have the content between the two
// halves of its signature.
type messageWriter struct {
	compression Compression
	keys        []*packet.PublicKey // of the recipients
	recipients  []*packet.Recipient // for the signature
	cipher      packet.CipherFunction
	suite       packet.CipherSuite
	aead        bool
	sig         *signatureWriter // may be nil

	content io.Writer // takes what is to be encrypted, after open
	literal *packetWriter
	layers  []io.Closer // inside first, without literal
	inside  io.Writer   // what the literal and the signature are written to
	seipd   *seipdWriter
}

// newMessageWriter chooses algorithms that all recipients support.
func newMessageWriter(o EncryptOptions) (*messageWriter, error) {
	conf := policy()
	m := &messageWriter{compression: o.Compression, cipher: packet.CipherAES256, aead: !o.NoAEAD}
	suites := slices.Clone(aeadSuites)
	for _, k := range o.Recipients {
		sub, err := k.entity.EncryptionKeyWithError(conf.Now(), conf)
		if err != nil {
			return nil, permanentf("%s: has no key for encryption any more", k.label())
		}
		m.keys = append(m.keys, sub.PublicKey)
		m.recipients = append(m.recipients, &packet.Recipient{KeyVersion: k.entity.PrimaryKey.Version, Fingerprint: k.entity.PrimaryKey.Fingerprint})
		self, err := k.entity.PrimarySelfSignature(conf.Now(), conf)
		if err != nil {
			return nil, permanentf("%s: has no valid signature of its own", k.label())
		}
		if !slices.Contains(self.PreferredSymmetric, uint8(packet.CipherAES256)) {
			m.cipher = packet.CipherAES128
		}
		m.aead = m.aead && self.SEIPDv2
		suites = slices.DeleteFunc(suites, func(s [2]uint8) bool { return !slices.Contains(self.PreferredCipherSuites, s) })
	}
	if len(suites) == 0 {
		suites = [][2]uint8{{uint8(packet.CipherAES128), uint8(packet.AEADModeOCB)}} // which all must know
	}
	if m.aead {
		m.suite = packet.CipherSuite{Cipher: packet.CipherFunction(suites[0][0]), Mode: packet.AEADMode(suites[0][1])}
		m.cipher = m.suite.Cipher
	}
	if o.Signer != nil {
		var err error
		if m.sig, err = newSignatureWriter(o.Signer, false); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// aeadSuites are the ciphers and modes to choose from, in order of preference.
var aeadSuites = [][2]uint8{
	{uint8(packet.CipherAES256), uint8(packet.AEADModeGCM)},
	{uint8(packet.CipherAES256), uint8(packet.AEADModeOCB)},
	{uint8(packet.CipherAES256), uint8(packet.AEADModeEAX)},
	{uint8(packet.CipherAES128), uint8(packet.AEADModeGCM)},
	{uint8(packet.CipherAES128), uint8(packet.AEADModeOCB)},
	{uint8(packet.CipherAES128), uint8(packet.AEADModeEAX)},
}

// open writes everything before the content. After it abandon must be called.
func (m *messageWriter) open(w io.Writer) error {
	session := make([]byte, m.cipher.KeySize())
	defer clear(session)
	rand.Read(session)
	for _, k := range m.keys {
		if err := packet.SerializeEncryptedKeyAEAD(w, k, m.cipher, m.aead, session, policy()); err != nil {
			return err
		}
	}
	if err := m.encrypt(w, session); err != nil {
		return err
	}
	if err := m.compress(); err != nil {
		return err
	}
	if m.sig != nil {
		if err := m.sig.announce(m.inside); err != nil {
			return err
		}
	}
	var err error
	m.literal, err = newLiteralWriter(m.inside)
	m.content = m.literal
	if m.sig != nil {
		m.content = io.MultiWriter(m.sig, m.literal)
	}
	return err
}

func (m *messageWriter) encrypt(w io.Writer, session []byte) error {
	if m.aead {
		sealed, err := packet.SerializeSymmetricallyEncrypted(w, m.cipher, true, m.suite, session, policy())
		m.wrap(sealed)
		return err
	}
	c, err := aes.NewCipher(session)
	if err != nil {
		return err
	}
	m.seipd = newSEIPDWriter(w, c)
	m.wrap(m.seipd)
	return nil
}

// compressionLevel is the level that GnuPG uses.
const compressionLevel = 6

func (m *messageWriter) compress() error {
	if m.compression == Uncompressed {
		return nil
	}
	m.wrap(newPacketWriter(m.inside, tagCompressed))
	algorithm := packet.CompressionZIP
	if m.compression == ZLIB {
		algorithm = packet.CompressionZLIB
	}
	if _, err := m.inside.Write([]byte{byte(algorithm)}); err != nil {
		return err
	}
	if algorithm == packet.CompressionZLIB {
		z, err := zlib.NewWriterLevel(m.inside, compressionLevel)
		m.wrap(z)
		return err
	}
	z, err := flate.NewWriter(m.inside, compressionLevel)
	m.wrap(z)
	return err
}

// wrap makes w the writer for the following data.
func (m *messageWriter) wrap(w io.WriteCloser) {
	m.inside = w
	m.layers = append([]io.Closer{w}, m.layers...)
}

// close writes everything after the content.
func (m *messageWriter) close() error {
	if err := m.literal.Close(); err != nil {
		return err
	}
	if m.sig != nil {
		if err := m.sig.sign(m.inside, m.recipients); err != nil {
			return err
		}
	}
	for _, layer := range m.layers {
		if err := layer.Close(); err != nil {
			return err
		}
	}
	return nil
}

// abandon ends the goroutines. It must also be called after close.
func (m *messageWriter) abandon() {
	if m.seipd != nil {
		m.seipd.abandon()
	}
}
