package sftpclient

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/courierhq/courier/internal/connerr"
	"github.com/courierhq/courier/internal/safename"
)

// A Client speaks SFTP over one channel of an SSH connection. Any number of
// requests may be under way; several goroutines may use it.
//
// It shares its end with the other channels of the connection: after the first
// error of one of them, or when the server breaks the protocol, every request
// fails with that error.
type Client struct {
	*connState
	ch      io.ReadWriter
	in      *bufio.Reader
	ext     map[string]string // extensions of the server and their versions
	silence time.Duration     // longest time without an answer while one is due; 0 means for ever
	lost    func(error) error // explains an error of ch

	ReadChunk, WriteChunk int // most file data in a packet

	sending chan struct{} // holds its one token while nobody is sending
	drained chan struct{} // closed when no more answers come

	mu    sync.Mutex
	id    uint32
	calls map[uint32]*call // requests without an answer
	watch *time.Timer
	rtt   time.Duration // the shortest time that a request took; 0 before the first
	sync  time.Duration // how long the server took last to make a small file durable
}

// A connState is the end of a connection.
type connState struct {
	end  func()        // ends the connection; called once
	dead chan struct{} // closed when err is set
	mu   sync.Mutex
	err  error
}

func newConnState(end func()) *connState { return &connState{end: end, dead: make(chan struct{})} }

// fail ends the connection with err, unless it has ended before.
func (f *connState) fail(err error) {
	f.mu.Lock()
	first := f.err == nil
	if first {
		f.err = err
		close(f.dead)
	}
	f.mu.Unlock()
	if first {
		f.end()
	}
}

// Cause returns what the connection has ended with; nil while it lives.
func (f *connState) Cause() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// A call is a request that may still be without an answer.
type call struct {
	data   []byte // takes the data of the answer to a read request
	answer chan answer
}

type answer struct {
	typ  byte
	body []byte // after the id; nil if the answer is in call.data
	n    int    // bytes of call.data
}

func newCall(data []byte) *call { return &call{data: data, answer: make(chan answer, 1)} }

// A protocolError says that the server sent something that makes no sense.
type protocolError struct{ text string }

func (e *protocolError) Error() string { return "the server breaks the SFTP protocol: " + e.text }

// ErrSilence ends a client whose server is there but doesn't answer.
var ErrSilence = errors.New("the server has stopped answering requests")

// NewClient begins SFTP over ch, such as a pipe to a program that serves it, which
// the client closes when it comes to its end. Silence is the longest time without an
// answer while one is due; 0 means for ever.
func NewClient(ch io.ReadWriteCloser, silence time.Duration) (*Client, error) {
	state := newConnState(func() { ch.Close() })
	c, err := newClient(ch, state, silence, func(err error) error { return &connerr.LostError{Err: err} }, nil)
	if err != nil {
		ch.Close()
		return nil, err
	}
	go c.receive()
	return c, nil
}

// newClient exchanges versions with the server, and asks for its limits unless
// another client of the same server, like, knows them. The caller then runs
// receive until it returns.
func newClient(ch io.ReadWriter, f *connState, silence time.Duration, lost func(error) error, like *Client) (*Client, error) {
	c := prepareClient(ch, f, silence, lost)
	if err := c.version(); err != nil {
		return nil, err
	}
	if like != nil {
		c.ReadChunk, c.WriteChunk = like.ReadChunk, like.WriteChunk
	} else if c.ext[extLimits] == "1" {
		if err := c.limits(); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func prepareClient(ch io.ReadWriter, f *connState, silence time.Duration, lost func(error) error) *Client {
	c := &Client{
		connState: f, ch: ch, in: bufio.NewReaderSize(laterError{ch}, 4<<10), ext: make(map[string]string),
		silence: silence, lost: lost,
		ReadChunk: DefaultChunk, WriteChunk: DefaultChunk,
		sending: NewToken(), drained: make(chan struct{}),
		calls: make(map[uint32]*call),
	}
	return c
}

// A laterError reader puts off an error until there is no more to read. A channel
// of a lost connection reports that it can't ask for more together with what
// has come before.
type laterError struct{ r io.Reader }

// Read reads.
func (p laterError) Read(b []byte) (int, error) {
	n, err := p.r.Read(b)
	if n > 0 {
		err = nil
	}
	return n, err
}

// NewToken returns a channel that is used as a lock: whoever has taken its
// token gives it back. Other than for a mutex, one can wait for it and for
// something else.
func NewToken() chan struct{} {
	token := make(chan struct{}, 1)
	token <- struct{}{}
	return token
}

func (c *Client) version() error {
	init := newPacket(fxpInit, 0)
	init.seal(version3) // the version stands where other packets have their id
	if _, err := c.ch.Write(init); err != nil {
		return c.lost(err)
	}
	typ, body, err := c.next()
	if err != nil {
		return err
	}
	s := scanner{rest: body}
	if v := s.uint32(); typ != fxpVersion || s.bad {
		return &protocolError{fmt.Sprintf("its first packet has type %d", typ)}
	} else if v != version3 {
		return &protocolError{fmt.Sprintf("it offers version %d instead of 3", v)}
	}
	for len(s.rest) > 0 {
		name, version := s.string(), s.string()
		if s.bad {
			return &protocolError{"its list of extensions is damaged"}
		}
		c.ext[name] = version
	}
	return nil
}

// limits asks how large packets may be.
func (c *Client) limits() error {
	const id = 0
	p := newPacket(fxpExtended, 32).string(extLimits)
	p.seal(id)
	began := time.Now()
	if _, err := c.ch.Write(p); err != nil {
		return c.lost(err)
	}
	typ, body, err := c.next()
	c.rtt = time.Since(began)
	s := scanner{rest: body}
	switch got := s.uint32(); {
	case err != nil:
		return err
	case got != id || s.bad:
		return &protocolError{"it answers a request that was not made"}
	case typ != fxpExtendedReply:
		return nil // it has advertised what it doesn't do
	}
	s.uint64() // of a whole packet
	read, write := s.uint64(), s.uint64()
	if s.bad {
		return &protocolError{"its limits are damaged"}
	}
	c.ReadChunk, c.WriteChunk = chunkWithin(read), chunkWithin(write)
	return nil
}

// chunkWithin returns how much data to put into a packet where the server sets
// a limit; 0 means that it tells none.
func chunkWithin(limit uint64) int {
	if limit == 0 {
		return DefaultChunk
	}
	return int(max(minChunk, min(limit, maxChunk)))
}

// next reads a whole packet and returns what comes after its type.
func (c *Client) next() (typ byte, body []byte, err error) {
	length, err := c.head()
	if err != nil {
		return 0, nil, err
	}
	body = make([]byte, length)
	if _, err := io.ReadFull(c.in, body); err != nil {
		return 0, nil, c.lost(err)
	}
	return body[0], body[1:], nil
}

// head reads the length of the next packet.
func (c *Client) head() (int, error) {
	var b [4]byte
	if _, err := io.ReadFull(c.in, b[:]); err != nil {
		return 0, c.lost(err)
	}
	n := binary.BigEndian.Uint32(b[:])
	if n < 5 || n > maxPacket {
		more, _ := c.in.Peek(c.in.Buffered())
		return 0, &protocolError{fmt.Sprintf("where a packet should begin it sends %s; a start-up script of the account may print text",
			safename.Quote(string(b[:])+string(more)))}
	}
	return int(n), nil
}

// receive hands answers to the requests that wait for them until the channel
// ends or fail is called.
func (c *Client) receive() {
	defer close(c.drained)
	for {
		if err := c.receiveOne(); err != nil {
			c.fail(err)
			break
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = nil
	if c.watch != nil {
		c.watch.Stop()
	}
}

func (c *Client) receiveOne() error {
	length, err := c.head()
	if err != nil {
		return err
	}
	var b [5]byte
	if _, err := io.ReadFull(c.in, b[:]); err != nil {
		return c.lost(err)
	}
	typ, id := b[0], binary.BigEndian.Uint32(b[1:])
	cl := c.take(id)
	if cl == nil {
		return &protocolError{"it answers a request that was not made"}
	}
	a, rest := answer{typ: typ}, length-len(b)
	if typ == fxpData && cl.data != nil {
		a.n, err = c.readData(cl.data, rest)
	} else {
		a.body = make([]byte, rest)
		_, err = io.ReadFull(c.in, a.body)
	}
	if err != nil {
		return c.lost(err)
	}
	cl.answer <- a
	return nil
}

// readData reads an answer of rest bytes that holds data straight to where the
// data belongs.
func (c *Client) readData(data []byte, rest int) (int, error) {
	var b [4]byte
	if rest < len(b) {
		return 0, &protocolError{"an answer is too short"}
	}
	if _, err := io.ReadFull(c.in, b[:]); err != nil {
		return 0, err
	}
	n := int64(binary.BigEndian.Uint32(b[:]))
	rest -= len(b)
	if n == 0 || n > int64(rest) || n > int64(len(data)) {
		return 0, &protocolError{fmt.Sprintf("it sends %d bytes of data where %d were asked for", n, len(data))}
	}
	if _, err := io.ReadFull(c.in, data[:n]); err != nil {
		return 0, err
	}
	_, err := c.in.Discard(rest - int(n))
	return int(n), err
}

// take removes the call with the given id.
func (c *Client) take(id uint32) *call {
	c.mu.Lock()
	defer c.mu.Unlock()
	cl := c.calls[id]
	delete(c.calls, id)
	if c.watch != nil {
		if len(c.calls) == 0 {
			c.watch.Stop()
		} else {
			c.watch.Reset(c.silence)
		}
	}
	return cl
}

// send sends the request p, whose answer cl will get. When it returns, p may
// be used again.
func (c *Client) send(p packet, cl *call) error {
	id, err := c.register(cl)
	if err != nil {
		return err
	}
	p.seal(id)
	return c.write(p)
}

// write sends what is complete in itself.
func (c *Client) write(text []byte) error {
	select {
	case <-c.sending:
	case <-c.dead:
		return c.Cause()
	}
	_, err := c.ch.Write(text)
	c.sending <- struct{}{}
	if err != nil {
		c.fail(c.lost(err))
		return c.Cause()
	}
	return nil
}

func (c *Client) register(cl *call) (uint32, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.Cause(); err != nil {
		return 0, err
	}
	for c.id++; c.calls[c.id] != nil; c.id++ {
	}
	c.calls[c.id] = cl
	switch {
	case c.silence <= 0:
	case c.watch == nil:
		c.watch = time.AfterFunc(c.silence, func() { c.fail(ErrSilence) })
	case len(c.calls) == 1:
		c.watch.Reset(c.silence)
	}
	return c.id, nil
}

// wait waits for the answer to a request that was sent.
func (c *Client) wait(ctx context.Context, cl *call) (answer, error) {
	select {
	case a := <-cl.answer:
		return a, nil
	case <-ctx.Done():
		return answer{}, context.Cause(ctx)
	case <-c.dead:
	}
	select { // the answer may have been the last thing that came
	case a := <-cl.answer:
		return a, nil
	default:
		return answer{}, c.Cause()
	}
}

// expect waits for an answer of type want and returns what it says. The
// refusal of the request is a [*statusError].
func (c *Client) expect(ctx context.Context, cl *call, want byte) (*scanner, error) {
	a, err := c.wait(ctx, cl)
	if err != nil {
		return nil, err
	}
	s := &scanner{rest: a.body}
	switch {
	case a.typ == fxpStatus:
		err = a.status()
		if err == nil && want != fxpStatus {
			err = c.broken("it reports success without the answer")
		}
		return s, err
	case a.typ != want:
		return nil, c.broken(fmt.Sprintf("it answers with a packet of type %d instead of %d", a.typ, want))
	}
	return s, nil
}

// status returns what a status packet says; nil stands for success.
func (a answer) status() error {
	s := scanner{rest: a.body}
	code := s.uint32()
	if s.bad {
		return &protocolError{"a status is too short"}
	}
	if code == statusOK {
		return nil
	}
	return &StatusError{code, s.string()} // old servers send no message
}

// broken ends the client because of what the server sent.
func (c *Client) broken(text string) error {
	err := &protocolError{text}
	c.fail(err)
	return err
}

// do sends a request and waits for its answer.
func (c *Client) do(ctx context.Context, p packet, want byte) (*scanner, error) {
	begin := time.Now()
	cl := newCall(nil)
	if err := c.send(p, cl); err != nil {
		return nil, err
	}
	s, err := c.expect(ctx, cl, want)
	if took := time.Since(begin); err == nil || IsStatus(err) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.rtt == 0 || took < c.rtt {
			c.rtt = took
		}
	}
	return s, err
}

// distance returns how long the server takes to answer at least.
func (c *Client) distance() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rtt
}

// synced notes down how long the server took to make a small file durable.
func (c *Client) synced(took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sync = took
}

func (c *Client) syncTime() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sync
}
