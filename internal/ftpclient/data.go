package ftpclient

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/courierhq/courier/internal/connerr"
	"github.com/courierhq/courier/internal/safename"
)

// A channel is a data connection that is being made.
type channel struct {
	conn   net.Conn     // passive: made already
	accept net.Listener // active: the server will connect
}

// Close discards the channel.
func (ch *channel) Close() error {
	if ch.accept != nil {
		ch.accept.Close()
	}
	if ch.conn != nil {
		return ch.conn.Close()
	}
	return nil
}

// open prepares a data connection.
func (s *Conn) open(ctx context.Context) (*channel, error) {
	if s.c.Active {
		return s.listen(ctx)
	}
	port, err := s.passive(ctx)
	if err != nil {
		return nil, err
	}
	timeout, cancel := context.WithTimeoutCause(ctx, s.c.ConnectTimeout, errConnectTimeout)
	defer cancel()
	conn, err := s.dialTo(timeout, net.JoinHostPort(s.contentHost(), strconv.Itoa(port)))
	if err != nil {
		return nil, connerr.Ended(ctx, s.End(fmt.Errorf("data connection to port %d: %w; a firewall may be in the way, or the server may need a range of ports opened", port, connerr.Presentable(connerr.Ended(timeout, err)))))
	}
	return &channel{conn: conn}, nil
}

// contentHost returns the host for data connections, which is the host of the control connection.
// An address that the server sends is never used, since it may belong to anybody.
func (s *Conn) contentHost() string {
	if s.c.Dial != nil {
		return s.c.hostname()
	}
	return hostOf(s.net.RemoteAddr()).String()
}

func hostOf(a net.Addr) netip.Addr {
	if t, ok := a.(*net.TCPAddr); ok {
		return t.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}

// passive asks for the port to connect to.
func (s *Conn) passive(ctx context.Context) (int, error) {
	if !s.noEPSV && !s.c.DisableEPSV {
		r, err := s.command(ctx, "EPSV", "")
		if err == nil {
			return s.checkPort(parseEPSV(r.text()))
		}
		if !IsReply(err) {
			return 0, err
		}
		s.noEPSV = true
	}
	r, err := s.command(ctx, "PASV", "")
	if err != nil {
		return 0, err
	}
	return s.checkPort(parsePASV(r.text()))
}

func (s *Conn) checkPort(port int, err error) (int, error) {
	if err == nil && port < 1024 {
		err = broken("it names port %d for content, which belongs to another service", port)
	}
	if err != nil {
		return 0, s.End(err)
	}
	return port, nil
}

// parseEPSV parses "Entering Extended Passive Mode (|||6446|)".
func parseEPSV(text string) (int, error) {
	_, rest, ok := strings.Cut(text, "(")
	inside, _, ok2 := strings.Cut(rest, ")")
	if ok && ok2 && len(inside) > 4 {
		d := inside[:1]
		parts := strings.Split(inside, d)
		if len(parts) == 5 && parts[1] == "" && parts[2] == "" && parts[4] == "" {
			if port, err := strconv.ParseUint(parts[3], 10, 16); err == nil {
				return int(port), nil
			}
		}
	}
	return 0, broken("its reply to EPSV names no port: %s", safename.Quote(text))
}

// parsePASV parses "Entering Passive Mode (192,0,2,1,25,46)". Only the port is used. Some servers
// omit the brackets.
func parsePASV(text string) (int, error) {
	for field := range strings.FieldsFuncSeq(text, func(r rune) bool { return r != ',' && (r < '0' || r > '9') }) {
		numbers := strings.Split(strings.Trim(field, ","), ",")
		if len(numbers) != 6 {
			continue
		}
		var port uint64
		var err error
		for _, n := range numbers {
			var b uint64
			if b, err = strconv.ParseUint(n, 10, 8); err != nil {
				break
			}
			port = port<<8&0xffff | b
		}
		if err == nil {
			return int(port), nil
		}
	}
	return 0, broken("its reply to PASV names no port: %s", safename.Quote(text))
}

// listen waits for the server to connect, at the local address of the control connection.
func (s *Conn) listen(ctx context.Context) (*channel, error) {
	local := hostOf(s.net.LocalAddr())
	if !local.IsValid() {
		return nil, s.End(errors.New("active data connections need a direct connection to the server; set active to false"))
	}
	l, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(local, 0)))
	if err != nil {
		return nil, s.End(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	if local.Is4() {
		host := strings.ReplaceAll(local.String(), ".", ",")
		_, err = s.command(ctx, "PORT", fmt.Sprintf("%s,%d,%d", host, port>>8, port&0xff))
	} else {
		_, err = s.command(ctx, "EPRT", fmt.Sprintf("|2|%s|%d|", local.WithZone(""), port))
	}
	if err != nil {
		l.Close()
		return nil, err
	}
	return &channel{accept: l}, nil
}

// connected completes the channel: the server has connected, and the data connection is encrypted
// if the control connection is.
func (s *Conn) connected(ctx context.Context, ch *channel) (net.Conn, *liveConn, error) {
	if ch.accept != nil {
		conn, err := s.accept(ch.accept)
		if err != nil {
			return nil, nil, err
		}
		ch.conn = conn
		s.carry(conn)
	}
	raw := newLiveConn(ch.conn, s.c.OperationTimeout)
	if s.c.Security == SecurityNone {
		return raw, raw, nil
	}
	timeout, cancel := context.WithTimeout(ctx, s.c.ConnectTimeout)
	defer cancel()
	conn := tls.Client(raw, s.tls)
	if err := conn.HandshakeContext(timeout); err != nil {
		return nil, nil, s.explainTLS(connerr.Ended(ctx, err))
	}
	return conn, raw, nil
}

// accept accepts a connection from the server, and no other.
func (s *Conn) accept(l net.Listener) (net.Conn, error) {
	defer l.Close()
	l.(*net.TCPListener).SetDeadline(time.Now().Add(s.c.ConnectTimeout))
	for {
		conn, err := l.Accept()
		if err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) {
				err = errors.New("the server opens no data connection; a firewall may be in the way; set active to false")
			}
			return nil, err
		}
		if hostOf(conn.RemoteAddr()) == hostOf(s.net.RemoteAddr()) {
			return conn, nil
		}
		conn.Close()
	}
}

// farewell is how long the server may take to close a data connection after it has received
// everything.
const farewell = 10 * time.Second

// transfer sends a command that transfers content, and calls move with the data connection. If
// sending is set, the content is sent to the server.
//
// A refusal by the server is a *ReplyError; the session can still be used then. If move fails, or
// the connection breaks, the session has ended, unless the server has stated the reason.
func (s *Conn) transfer(ctx context.Context, verb, argument string, offset int64, sending bool, move func(net.Conn) error) error {
	ch, err := s.open(ctx)
	if err != nil {
		return err
	}
	s.carry(ch)
	defer func() {
		ch.Close()
		s.carry(nil)
	}()
	if offset > 0 {
		if _, err := s.command(ctx, "REST", strconv.FormatInt(offset, 10)); err != nil {
			if IsReply(err) {
				err = &RestartError{err}
			}
			return err
		}
	}
	if err := s.say(ctx, verb, argument); err != nil {
		return err
	}
	conn, raw, final, err := s.meet(ctx, ch)
	if err != nil {
		return err
	}
	err = move(conn)
	if err == nil && sending {
		err = hangUp(conn, raw)
	}
	conn.Close()
	raw.Close()
	if err != nil {
		return s.reason(ctx, err, final)
	}
	if !final {
		_, err = s.hear(ctx)
	}
	return err
}

// A RestartError says that the server refuses to start a transfer at an offset.
type RestartError struct{ err error }

// Error quotes the text of the server.
func (e *RestartError) Error() string {
	return "going on where an earlier attempt ended: " + e.err.Error()
}

// Unwrap returns the refusal.
func (e *RestartError) Unwrap() error { return e.err }

// meet waits until the server is ready for content. Some servers reply only after the data
// connection is encrypted. Others start the encryption only after the reply. So both happen at
// the same time. Final is set if the reply was the last one.
func (s *Conn) meet(ctx context.Context, ch *channel) (conn net.Conn, raw *liveConn, final bool, err error) {
	var failed error
	done := make(chan struct{})
	go func() {
		defer close(done)
		if conn, raw, failed = s.connected(ctx, ch); failed != nil {
			ch.Close() // the server learns of it
		}
	}()
	r, err := s.hear(ctx)
	if err != nil {
		ch.Close()
		<-done
		if !IsReply(err) && failed != nil && ctx.Err() == nil {
			err = failed
		}
		return nil, nil, false, err
	}
	<-done
	if failed != nil {
		return nil, nil, false, s.End(connerr.Ended(ctx, fmt.Errorf("connection for content: %w", failed)))
	}
	return conn, raw, r.code >= 200, nil
}

// hangUp closes a data connection over which content was sent. Closing it at once could lose the
// end of the content: unread data from the server, such as TLS 1.3 tickets, makes the system
// reset the connection.
func hangUp(conn net.Conn, raw *liveConn) error {
	if t, ok := conn.(*tls.Conn); ok {
		if err := t.CloseWrite(); err != nil {
			return err
		}
	}
	if err := raw.CloseWrite(); err != nil {
		return err
	}
	raw.silence.Store(int64(farewell))
	const limit = 1 << 20 // tickets and farewells take less
	io.Copy(io.Discard, io.LimitReader(conn, limit))
	return nil
}

// reason returns why content could not be transferred: the reply of the server, if one arrives
// soon, and otherwise err, which ends the session.
func (s *Conn) reason(ctx context.Context, err error, final bool) error {
	if final || ctx.Err() != nil || s.Cause() != nil || !connerr.IsLost(err) {
		return connerr.Ended(ctx, s.End(err))
	}
	const soon = 2 * time.Second
	watch := time.AfterFunc(soon, func() { s.End(err) })
	defer watch.Stop()
	if _, said := s.hear(ctx); IsReply(said) {
		return said
	}
	return connerr.Ended(ctx, s.End(err))
}

// A source reads content from a data connection, and distinguishes its end from its loss.
type source struct{ net.Conn }

// Read returns io.EOF only if the server has ended the content intentionally, as far as the
// connection shows that.
func (c source) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil && err != io.EOF {
		err = &connerr.LostError{Err: err}
	}
	return n, err
}

// A sink writes content to a data connection.
type sink struct{ net.Conn }

// Write marks errors as connection errors.
func (c sink) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if err != nil {
		err = &connerr.LostError{Err: err}
	}
	return n, err
}

// Retrieve calls read with the content of a remote file from offset. An error of read ends the
// session. See [RestartError] for an offset that the server refuses.
func (s *Conn) Retrieve(ctx context.Context, path string, offset int64, read func(io.Reader) error) error {
	return missing(s.transfer(ctx, "RETR", path, offset, false, func(c net.Conn) error { return read(source{c}) }))
}

// Store calls write with a writer for the content of a remote file. The content replaces an
// existing file; with add it is appended. An error of write ends the session.
func (s *Conn) Store(ctx context.Context, path string, add bool, write func(io.Writer) error) error {
	verb := "STOR"
	if add {
		verb = "APPE"
	}
	return s.transfer(ctx, verb, path, 0, true, func(c net.Conn) error { return write(sink{c}) })
}
