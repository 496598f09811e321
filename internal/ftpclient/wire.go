package ftpclient

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/courierhq/courier/internal/connerr"
	"github.com/courierhq/courier/internal/failure"
	"github.com/courierhq/courier/internal/safename"
)

// The limits of a reply. A server could send bytes for ever.
const (
	maxLine       = 8 << 10  // bytes
	maxReplyLines = 1_000    // of one reply
	maxReply      = 64 << 10 // bytes of one reply
	maxMarks      = 10       // preliminary replies in a row
)

// A reply is the server's reply to a command.
type reply struct {
	code  int
	lines []string // without the code, the last one included
}

func (r reply) text() string { return strings.Join(r.lines, "\n") }

// A ReplyError says that the server has refused a command. The session can still be used.
type ReplyError struct {
	Code    int
	text    string
	missing bool // the command was about something that has to be there
}

// Error quotes the text of the server.
func (e *ReplyError) Error() string {
	return fmt.Sprintf("the server refuses: %d %s", e.Code, safename.Quote(e.text))
}

// Is reports whether e may mean that the file does not exist.
func (e *ReplyError) Is(target error) bool { return e.missing && target == fs.ErrNotExist }

// Passing reports whether the text describes a temporary state, although the code is permanent.
func (e *ReplyError) Passing() bool {
	text := strings.ToLower(e.text)
	for _, word := range []string{"too many", "maximum", "busy", "being used", "in use", "try again", "later", "temporar", "lock"} {
		if strings.Contains(text, word) {
			return true
		}
	}
	return false
}

// denied reports whether the text is about permissions, not about a missing file.
func (e *ReplyError) denied() bool {
	text := strings.ToLower(e.text)
	for _, word := range []string{"no such", "not found", "not exist", "cannot find", "can't find"} {
		if strings.Contains(text, word) {
			return false
		}
	}
	for _, word := range []string{"permission", "denied", "not permitted", "not allowed", "forbidden", "privilege"} {
		if strings.Contains(text, word) {
			return true
		}
	}
	return false
}

// IsReply reports whether err is a refusal by the server, after which the connection can still be
// used.
func IsReply(err error) bool {
	_, ok := errors.AsType[*ReplyError](err)
	return ok
}

// A protocolError is an error for a violation of the FTP protocol.
type protocolError struct{ text string }

func (e *protocolError) Error() string {
	return "the server does not speak FTP as it should: " + e.text
}

func broken(format string, args ...any) error { return &protocolError{fmt.Sprintf(format, args...)} }

// A liveConn is a connection on which each read and each write has a time limit.
type liveConn struct {
	net.Conn
	silence atomic.Int64 // in nanoseconds
	heard   atomic.Int64 // when the last byte came, in nanoseconds since begin
	begin   time.Time
	once    sync.Once
}

func newLiveConn(c net.Conn, silence time.Duration) *liveConn {
	l := &liveConn{Conn: c, begin: time.Now()}
	l.silence.Store(int64(silence))
	return l
}

// Read reads data that arrives within the time limit.
func (c *liveConn) Read(p []byte) (int, error) {
	c.Conn.SetReadDeadline(time.Now().Add(time.Duration(c.silence.Load())))
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.heard.Store(int64(time.Since(c.begin)))
	}
	return n, err
}

// Write writes p in parts, so that a slow connection is not mistaken for a dead one.
func (c *liveConn) Write(p []byte) (int, error) {
	const part = 256 << 10
	done := 0
	for {
		c.Conn.SetWriteDeadline(time.Now().Add(time.Duration(c.silence.Load())))
		n, err := c.Conn.Write(p[done:min(len(p), done+part)])
		done += n
		if err != nil || done == len(p) {
			return done, err
		}
	}
}

// Close closes the connection once.
func (c *liveConn) Close() error {
	err := net.ErrClosed
	c.once.Do(func() { err = c.Conn.Close() })
	return err
}

// CloseWrite tells the other side that no more data follows.
func (c *liveConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// quiet returns the time since the last byte arrived.
func (c *liveConn) quiet() time.Duration {
	return time.Since(c.begin) - time.Duration(c.heard.Load())
}

// A controlConn is the control connection.
type controlConn struct {
	net.Conn // with TLS, where that is in use
	r        *bufio.Reader
	redact   func(string) string
}

func newControlConn(c net.Conn, redact func(string) string) *controlConn {
	return &controlConn{c, bufio.NewReaderSize(c, 4096), redact}
}

// quote returns text from the server, which may repeat secrets, for a message.
func (l *controlConn) quote(text string) string { return safename.Quote(l.redact(text)) }

// send sends one command. The text cannot contain a second command.
func (l *controlConn) send(verb, argument string) error {
	text := verb
	if argument != "" {
		text += " " + argument
	}
	if err := CheckArgument("the command "+verb, text); err != nil {
		return failure.Permanent(err)
	}
	// A reply to a command that was not sent yet would from now on be taken for
	// one to the command before.
	if n := l.r.Buffered(); n > 0 {
		ahead, _ := l.r.Peek(n)
		if strings.HasPrefix(string(ahead), "421") {
			return &connerr.LostError{Err: fmt.Errorf("the server has said %s", l.quote(strings.TrimSpace(string(ahead))))}
		}
		return broken("it says something without being asked: %s", l.quote(string(ahead)))
	}
	if _, err := l.Write([]byte(text + "\r\n")); err != nil {
		return &connerr.LostError{Err: err}
	}
	return nil
}

// receive reads one reply.
func (l *controlConn) receive() (reply, error) {
	first, err := l.readLine()
	if err != nil {
		return reply{}, err
	}
	code, rest, more := parseReply(first)
	if code == 0 {
		return reply{}, broken("its reply %s has no code", l.quote(first))
	}
	r := reply{code: code, lines: []string{rest}}
	size := len(first)
	for more {
		text, err := l.readLine()
		if err != nil {
			return reply{}, err
		}
		if size += len(text); size > maxReply || len(r.lines) == maxReplyLines {
			return reply{}, broken("a reply with code %d has more than %d lines or %d KiB", code, maxReplyLines, maxReply>>10)
		}
		if c, last, on := parseReply(text); c == code && !on {
			text, more = last, false
		}
		r.lines = append(r.lines, text)
	}
	if code == 421 {
		return r, &connerr.LostError{Err: &endedError{&ReplyError{Code: r.code, text: l.redact(r.text())}}}
	}
	return r, nil
}

// An endedError is the last reply of the server in a session.
type endedError struct{ said *ReplyError }

func (e *endedError) Error() string {
	return fmt.Sprintf("the server has ended the session: %d %s", e.said.Code, safename.Quote(e.said.text))
}

// parseReply splits a line into code and text. The code is 0 unless the line is the first or last
// of a reply; more is set if other lines follow.
func parseReply(text string) (code int, rest string, more bool) {
	if len(text) < 3 || text[0] < '1' || text[0] > '5' {
		return 0, "", false
	}
	for i := range 3 {
		if text[i] < '0' || text[i] > '9' {
			return 0, "", false
		}
		code = code*10 + int(text[i]-'0')
	}
	switch {
	case len(text) == 3:
		return code, "", false
	case text[3] == '-':
		return code, text[4:], true
	case text[3] == ' ':
		return code, text[4:], false
	}
	return 0, "", false
}

// readLine reads a line without its line end.
func (l *controlConn) readLine() (string, error) {
	var text []byte
	for {
		part, err := l.r.ReadSlice('\n')
		text = append(text, part...)
		if len(text) > maxLine {
			return "", broken("a line of a reply has more than %d KiB", maxLine>>10)
		}
		switch {
		case err == nil:
			return strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r"), nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return "", &connerr.LostError{Err: err}
		}
	}
}

// command sends a command and returns the reply to it, skipping preliminary replies. A code of
// 400 or more is a *ReplyError.
//
// The first command of a reused session may find that the server has ended the session meanwhile.
// Then the session is opened again, once.
func (s *Conn) command(ctx context.Context, verb, argument string) (reply, error) {
	if !s.unproven {
		return s.exchange(ctx, verb, argument)
	}
	s.unproven = false
	asking := asks[verb]
	var r reply
	var err error
	if asking {
		r, err = s.exchange(ctx, verb, argument)
	} else {
		err = s.Noop(ctx)
	}
	if connerr.IsLost(err) && !errors.Is(err, os.ErrDeadlineExceeded) && ctx.Err() == nil {
		if err := s.Reconnect(ctx); err != nil {
			return reply{}, err
		}
		asking, err = false, nil
	}
	if asking || err != nil {
		return r, err
	}
	return s.exchange(ctx, verb, argument)
}

// asks lists the commands that change nothing. They can be sent again if a server may have
// carried them out before it ended the session.
var asks = map[string]bool{"MLST": true, "SIZE": true, "MDTM": true, "PWD": true, "EPSV": true, "PASV": true}

// exchange is command for a session that is known to work.
func (s *Conn) exchange(ctx context.Context, verb, argument string) (reply, error) {
	if err := s.say(ctx, verb, argument); err != nil {
		return reply{}, err
	}
	for range maxMarks {
		r, err := s.hear(ctx)
		if err != nil || r.code >= 200 {
			return r, err
		}
	}
	return reply{}, s.End(broken("it only ever begins to answer %s", verb))
}

// say sends a command. An error ends the session, unless the command is invalid and cannot be
// sent.
func (s *Conn) say(ctx context.Context, verb, argument string) error {
	if err := s.Cause(); err != nil {
		return connerr.Ended(ctx, err)
	}
	s.limit(s.c.OperationTimeout)
	err := s.line.send(verb, argument)
	if err != nil && !failure.IsPermanent(err) {
		err = s.End(err)
	}
	return connerr.Ended(ctx, err)
}

// hear reads a reply. An error other than a refusal ends the session.
func (s *Conn) hear(ctx context.Context) (reply, error) {
	watch := time.AfterFunc(s.c.OperationTimeout, func() { s.End(&connerr.LostError{Err: os.ErrDeadlineExceeded}) })
	defer watch.Stop()
	r, err := s.line.receive()
	if err != nil {
		return r, connerr.Ended(ctx, s.End(err))
	}
	if r.code >= 400 {
		return r, &ReplyError{Code: r.code, text: s.c.Redact(r.text())}
	}
	return r, nil
}

// limit sets how long to wait for the server.
func (s *Conn) limit(silence time.Duration) { s.net.silence.Store(int64(silence)) }
