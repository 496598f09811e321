package mail

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"net"
	"strings"
	"unicode"
)

const (
	mostOperations = 8       // times Options.Timeout, for a whole message
	maxAnswers     = 1 << 20 // bytes that a server may send, including TLS
)

var errTooMuch = errors.New("the server sends more than 1 MiB")

// A guarded connection ends with the message's context, and limits the bytes from the server: the
// reader of the answers keeps a whole line, or a whole answer of many lines, in memory.
type guarded struct {
	net.Conn
	left int
	stop func() bool
}

// Read reads while the server may send more.
func (g *guarded) Read(p []byte) (int, error) {
	if g.left <= 0 {
		return 0, errTooMuch
	}
	n, err := g.Conn.Read(p[:min(len(p), g.left)])
	g.left -= n
	return n, err
}

// Close closes the connection.
func (g *guarded) Close() error {
	g.stop()
	return g.Conn.Close()
}

// dial connects, with TLS from the first byte if requested. The connection is closed when ctx
// ends.
func dial(ctx, dialing context.Context, network, address string, how TLS, cfg *tls.Config) (net.Conn, error) {
	raw, err := new(net.Dialer).DialContext(dialing, network, address)
	if err != nil {
		return nil, err
	}
	g := &guarded{Conn: raw, left: maxAnswers, stop: context.AfterFunc(ctx, func() { raw.Close() })}
	if how != Implicit {
		return g, nil
	}
	secure := tls.Client(g, cfg)
	if err := secure.HandshakeContext(dialing); err != nil {
		g.Close()
		return nil, err
	}
	return secure, nil
}

// clean returns the part of an error's text that may be shown. The server wrote some of the text.
// The result has one line and a limited length, and does not contain the password in the forms in
// which it was sent.
func clean(text, user, password string) string {
	const most = 500
	if password != "" {
		for _, form := range []string{"\x00" + user + "\x00" + password, user + "\x00" + password, password} {
			encoded := base64.StdEncoding.EncodeToString([]byte(form))
			text = strings.ReplaceAll(text, encoded, "[secret]")
			text = strings.ReplaceAll(text, strings.TrimRight(encoded, "="), "[secret]")
		}
		text = strings.ReplaceAll(text, password, "[secret]")
	}
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))
	if runes := []rune(text); len(runes) > most {
		text = string(runes[:most]) + "…"
	}
	return text
}
