package pgpstream

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"time"
)

// SignOptions are the options of [Sign].
type SignOptions struct {
	Key      *Key // with its private part, not locked
	Form     SignatureForm
	Armor    bool             // write text; a clearsigned message is always text
	Progress func(done int64) // called with the bytes of the content; may be nil
}

// SignatureForm says where a signature is placed.
type SignatureForm int

// The values of [SignatureForm].
const (
	Detached  SignatureForm = iota // the output is the signature alone
	Inline                         // a message that holds the content and the signature
	Clearsign                      // the text with its signature below
)

// Sign signs content and writes the signature, or the signed message, to w. It returns the time
// in the signature. If content cannot be clear-signed, the error is a [MessageError].
func Sign(ctx context.Context, w io.Writer, content io.Reader, o SignOptions) (time.Time, error) {
	sig, err := newSignatureWriter(o.Key, o.Form == Clearsign)
	if err != nil {
		return time.Time{}, err
	}
	s := &signing{o: o, content: content, sig: sig}
	if err := s.write(ctx, w); err != nil {
		return time.Time{}, err
	}
	return sig.signedAt(), nil
}

// A signing is the state while one file is being signed.
type signing struct {
	o       SignOptions
	content io.Reader
	sig     *signatureWriter
}

// write writes the whole output to w.
func (s *signing) write(ctx context.Context, w io.Writer) error {
	buffered := bufio.NewWriterSize(w, bufSize)
	var err error
	switch {
	case s.o.Form == Clearsign:
		err = s.clearsign(ctx, buffered)
	case s.o.Armor:
		kind := armorSignature
		if s.o.Form == Inline {
			kind = armorMessage
		}
		text := newArmorWriter(buffered, kind)
		if err = s.packets(ctx, text); err == nil {
			err = outputError(text.Close())
		}
	default:
		err = s.packets(ctx, buffered)
	}
	if err != nil {
		return err
	}
	return outputError(buffered.Flush())
}

// packets writes the signature, and in an inline message the signed content.
func (s *signing) packets(ctx context.Context, w io.Writer) error {
	if s.o.Form != Inline {
		if err := s.copy(ctx, s.sig); err != nil {
			return err
		}
		return outputError(s.sig.sign(w, nil))
	}
	if err := s.sig.announce(w); err != nil {
		return outputError(err)
	}
	content, err := newLiteralWriter(w)
	if err != nil {
		return outputError(err)
	}
	if err := s.copy(ctx, io.MultiWriter(s.sig, content)); err != nil {
		return err
	}
	if err := content.Close(); err != nil {
		return outputError(err)
	}
	return outputError(s.sig.sign(w, nil))
}

// clearsign writes the text, followed by the signature.
func (s *signing) clearsign(ctx context.Context, w *bufio.Writer) error {
	text, err := newTextWriter(w, s.sig)
	if err != nil {
		return outputError(err)
	}
	if err := s.copy(ctx, text); err != nil {
		return err
	}
	if err := text.Close(); err != nil {
		return outputError(err)
	}
	var sig bytes.Buffer
	if err := s.sig.sign(&sig, nil); err != nil {
		return outputError(err)
	}
	armor := newArmorWriter(w, armorSignature)
	if _, err := armor.Write(sig.Bytes()); err != nil {
		return outputError(err)
	}
	return outputError(armor.Close())
}

// copy reads all of the content.
func (s *signing) copy(ctx context.Context, w io.Writer) error {
	return copyContent(ctx, w, s.content, s.o.Progress)
}
