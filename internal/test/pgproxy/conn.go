package pgproxy

import (
	"bufio"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	dialTimeout = 10 * time.Second
	linger      = 3 * time.Second // that the ends of a cut connection have to notice
)

// drop is the action for what arrives on a connection that is cut.
const drop Action = -1

// A conn is a client's connection and the one to the server that belongs to it.
type conn struct {
	number         int
	client, server side

	over   chan struct{} // closed when the connection is cut or closed
	once   sync.Once
	ending bool // a message was the last one; under Proxy.judging
}

// A side is one end of a conn.
type side struct {
	*net.TCPConn
	sent  atomic.Int64 // messages that came from there
	write sync.Mutex   // held while a message is written, so that it is whole
}

func (s *side) send(raw []byte) error {
	s.write.Lock()
	defer s.write.Unlock()
	_, err := s.Write(raw)
	return err
}

// finish tells the other end that nothing more will come.
func (s *side) finish() {
	s.write.Lock()
	defer s.write.Unlock()
	s.CloseWrite()
}

// cut ends the connection. Both ends are told so, and what they still send is
// thrown away for a while: to close a socket at once could take back what was
// delivered before.
func (c *conn) cut() {
	c.once.Do(func() { close(c.over) })
	c.client.SetDeadline(time.Now().Add(linger))
	c.server.SetDeadline(time.Now().Add(linger))
	c.client.finish()
	c.server.finish()
}

func (c *conn) close() {
	c.once.Do(func() { close(c.over) })
	c.client.Close()
	c.server.Close()
}

func (c *conn) isOver() bool {
	select {
	case <-c.over:
		return true
	default:
		return false
	}
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		p.count++
		c := &conn{number: p.count, over: make(chan struct{})}
		p.mu.Unlock()
		c.client.TCPConn = client.(*net.TCPConn)
		p.running.Go(func() { p.serve(c) })
	}
}

// serve connects the client to the server until both have ended. A client whose
// server cannot be reached sees its connection reset.
func (p *Proxy) serve(c *conn) {
	d := net.Dialer{Timeout: dialTimeout}
	server, err := d.DialContext(p.ctx, "tcp", p.target)
	if err != nil {
		c.client.SetLinger(0)
		c.client.Close()
		return
	}
	c.server.TCPConn = server.(*net.TCPConn)
	p.mu.Lock()
	p.conns[c] = true
	p.mu.Unlock()
	defer func() {
		c.close()
		p.mu.Lock()
		delete(p.conns, c)
		p.mu.Unlock()
	}()
	if p.ctx.Err() != nil { // Close may not have seen it
		return
	}
	var answers sync.WaitGroup
	answers.Go(func() { p.forward(c, &c.server, &c.client, false) })
	p.forward(c, &c.client, &c.server, true)
	answers.Wait()
}

// forward delivers the messages of one direction. If opening is set, they begin
// with those that have no type.
func (p *Proxy) forward(c *conn, from, to *side, opening bool) {
	r := bufio.NewReader(from)
	for goes := true; goes; {
		f, err := readFrame(r, opening)
		switch {
		case errors.Is(err, errFrame):
			c.cut()
			goes = false
		case err != nil:
			if p.unblocked(c) {
				to.finish()
			}
			return
		case opening && f.asks():
			goes = p.deliver(c, from, nil, f) && p.deliver(c, &c.server, from, declined)
		default:
			goes = p.deliver(c, from, to, f)
			opening = false
		}
	}
	io.Copy(io.Discard, from)
}

// deliver delivers a message, if it is judged so, and reports whether the
// connection goes on. What is for the proxy itself goes to nil.
func (p *Proxy) deliver(c *conn, from, to *side, f frame) bool {
	deliver, last := p.judge(c, Message{
		Conn:       c.number,
		N:          int(from.sent.Add(1)),
		FromServer: from == &c.server,
		Type:       f.kind(),
		Body:       f.body(),
	})
	if deliver && to != nil && to.send(f.raw) != nil {
		last = true
	}
	if last {
		c.cut()
	}
	return deliver && !last
}

// judge decides about a message when its time has come: whether to deliver it,
// and whether the connection ends with it.
func (p *Proxy) judge(c *conn, m Message) (deliver, last bool) {
	for fresh := true; ; {
		action, wait := p.decide(c, m, fresh)
		if wait == nil {
			return action == Pass || action == CutAfter, action > Pass
		}
		fresh = fresh && action != Stall
		select {
		case <-wait:
		case <-c.over:
		}
	}
}

// decide returns what is to be done with a message, now or, if there is a
// channel, when that is closed. The message is fresh until it has been stalled.
func (p *Proxy) decide(c *conn, m Message, fresh bool) (Action, chan struct{}) {
	p.judging.Lock()
	defer p.judging.Unlock()
	gate, stall := p.gates()
	if c.ending || c.isOver() {
		return drop, nil
	}
	if gate != nil {
		return Pass, gate
	}
	action := Pass
	if fresh && p.f != nil {
		action = p.f(m)
	}
	if action == Stall {
		return Stall, stall // of the time before f, which may tell others to release it
	}
	c.ending = action != Pass
	return action, nil
}

func (p *Proxy) gates() (gate, stall chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.gate, p.stall
}

// unblocked waits until nothing is blocked and reports whether the connection
// is still there.
func (p *Proxy) unblocked(c *conn) bool {
	for !c.isOver() {
		gate, _ := p.gates()
		if gate == nil {
			return true
		}
		select {
		case <-gate:
		case <-c.over:
		}
	}
	return false
}
