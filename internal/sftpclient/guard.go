package sftpclient

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/courierhq/courier/internal/failure"
	"github.com/courierhq/courier/internal/safename"
)

// A guard lies between a channel of a connection and the client of package sftp. It changes no
// packet. It matches each answer to its request, and refuses protocol violations that the client
// accepts: success in place of data, data of length zero, answers without a request, and packets
// and listings beyond the limits. For a [call] it records information that the client drops: the
// text of a refusal, which attributes were sent, and the original names. It makes two requests
// itself: it asks for the limits of the server, for which the client has no call, and it makes
// files durable, since the client waits for the answer to one request for a file before it sends
// the next.
//
// Only the client's receiving goroutine calls Read. One goroutine at a time calls Write, with the
// beginning of a packet or a whole packet.
type guard struct {
	ch      io.ReadWriter
	in      *bufio.Reader
	lost    func(error) error // explains an error of ch
	fail    func(error)       // ends the connection
	silence time.Duration     // longest time without an answer while one is due; 0 means for ever

	err   error  // with which Read has ended
	begun bool   // the version of the server is known
	whole []byte // a packet that was read as a whole
	ready []byte // what of it the client has not got
	left  int    // how much of a packet with data the client has not got
	data  int    // how much data is in that
	of    *request

	rest int  // how much of a packet the client still has to write
	held bool // it goes to out as a whole

	out struct {
		sync.Mutex
		text    []byte // packets that wait until those before are written
		part    []byte // the beginning of one
		spare   []byte
		writing bool // something is being written
		passing bool // it is a packet that is not held
		written *sync.Cond
		err     error
	}

	turn chan struct{} // holds its one token while no call is about to send its request

	mu       sync.Mutex
	own      uint32 // how many requests the guard has made
	next     *call  // which is about to send its request
	sending  *call  // whose request is being written
	requests map[uint32]*request
	listings map[string]*call // by the handle of the directory
	partial  map[part]*call   // which have got a part of their data, by where the next begins
	watch    *time.Timer
}

// A request is a request that has not been answered yet.
type request struct {
	typ    byte
	call   *call // nil if the client has made it by itself
	handle string
	off    int64     // of the data, in the file
	asked  int       // bytes of data
	own    *question // not nil if the guard has made it
}

// A question is a request of the guard itself.
type question struct {
	done chan struct{} // closed when the answer is there
	typ  byte          // of the answer
	body []byte
}

// A part is the requested range of a file.
type part struct {
	handle string
	off    int64
}

// A call is one use of the client. It begins with one request.
type call struct {
	typ  byte   // of the request
	path string // of the request, if it has one
	file string // the handle of a file that was opened
	off  int64  // of the data
	want int    // bytes of data that are asked for in all

	sent chan struct{} // closed when the request is written
	done chan struct{} // closed when the client has returned
	n    int           // what it has returned
	err  error

	// The guard sets these fields before it closes done.
	status *StatusError
	flags  uint32        // of the attributes
	got    int           // bytes of data that have come; guarded by guard.mu until done
	first  int           // bytes of data in the first answer
	moved  chan struct{} // gets a token with each part of the data
	listing
}

// A listing is a directory that is being read.
type listing struct {
	limit int             // bytes that are too many
	part  func(bytes int) // told how many have come
	stop  func(error)     // ends the reading
	few   bool            // one answer is enough
	bytes int             // that have come
	empty int             // answers in a row without an entry
	names int             // entries that have come
	shown int             // of them, those that the client returns
	infos []os.FileInfo   // what the client returns
	notes map[int]Entry   // entries that it returns otherwise than they came, by their position
}

func newGuard(ch io.ReadWriter, silence time.Duration, lost func(error) error, fail func(error)) *guard {
	g := &guard{
		ch: ch, in: bufio.NewReaderSize(laterError{ch}, 4<<10), lost: lost, fail: fail, silence: silence,
		turn:     NewToken(),
		requests: make(map[uint32]*request), listings: make(map[string]*call), partial: make(map[part]*call),
	}
	g.out.written = sync.NewCond(&g.out)
	return g
}

// heldBytes is the maximum length of a packet that is written together with others.
const heldBytes = 36 << 10

// Write writes a packet of the client, or its next part. If the packet must not be sent, only its
// caller gets the error. Another goroutine writes short packets. Packets that arrive while it
// writes are sent together, since each separate packet costs an SSH packet, and the server a
// wake-up.
func (g *guard) Write(p []byte) (int, error) {
	if g.rest == 0 {
		if err := g.begin(p); err != nil {
			return 0, err
		}
		g.held = g.begun && g.rest <= heldBytes
	}
	g.rest -= len(p)
	var err error
	if g.held {
		err = g.hold(p)
	} else {
		err = g.pass(p)
	}
	if g.rest == 0 || err != nil {
		g.mu.Lock()
		sent := g.sending
		g.sending = nil
		g.mu.Unlock()
		if sent != nil {
			close(sent.sent)
			g.turn <- struct{}{}
		}
	}
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

// hold stores p, the end of a packet, which another goroutine then writes.
func (g *guard) hold(p []byte) error {
	o := &g.out
	o.Lock()
	defer o.Unlock()
	if o.part = append(o.part, p...); g.rest > 0 {
		return o.err
	}
	o.text, o.part = append(o.text, o.part...), o.part[:0]
	g.writeOn()
	for len(o.text) > heldBytes && o.err == nil {
		o.written.Wait()
	}
	return o.err
}

// pass writes p after all stored data is written. Nothing is written between the parts of a
// packet.
func (g *guard) pass(p []byte) error {
	o := &g.out
	o.Lock()
	defer o.Unlock()
	for o.writing && !o.passing {
		o.written.Wait()
	}
	if o.err != nil {
		return o.err
	}
	o.writing, o.passing = true, true
	o.Unlock()
	_, err := g.ch.Write(p)
	err = g.broken(err)
	o.Lock()
	if o.err = err; err == nil && g.rest > 0 {
		return nil
	}
	o.writing, o.passing = false, false
	g.writeOn()
	o.written.Broadcast()
	return err
}

// writeOn starts a goroutine that writes the stored data, unless one is already writing. Out must
// be locked.
func (g *guard) writeOn() {
	if o := &g.out; !o.writing && len(o.text) > 0 && o.err == nil {
		o.writing = true
		go g.write()
	}
}

// write writes the stored data until none is left.
func (g *guard) write() {
	o := &g.out
	o.Lock()
	defer o.Unlock()
	for len(o.text) > 0 && o.err == nil {
		text := o.text
		o.text = o.spare[:0]
		o.Unlock()
		_, err := g.ch.Write(text)
		err = g.broken(err)
		o.Lock()
		o.spare, o.err = text, err
		o.written.Broadcast()
	}
	o.writing = false
	o.written.Broadcast()
}

// broken explains a write error, and ends the connection with it.
func (g *guard) broken(err error) error {
	if err == nil {
		return nil
	}
	if err = g.lost(err); g.begun {
		g.fail(err)
	}
	return err
}

// Close does nothing: the connection is closed elsewhere.
func (g *guard) Close() error { return nil }

// errNotAsked refuses a request that the client makes without being asked to.
var errNotAsked = errors.New("removes no directory in place of a file")

// begin records a packet whose beginning is p.
func (g *guard) begin(p []byte) error {
	s := scanner{rest: p}
	g.rest = 4 + int(s.uint32())
	typ := s.bytes(1)
	if s.bad {
		return errors.New("the beginning of a packet is too short")
	}
	if typ[0] == fxpInit {
		return nil
	}
	id := s.uint32()
	r := &request{typ: typ[0]}
	first := s.string() // a path, the name of an extension, or a handle
	switch r.typ {
	case fxpRead:
		r.handle, r.off, r.asked = first, int64(s.uint64()), int(s.uint32())
	case fxpWrite:
		r.off = int64(s.uint64())
	case fxpClose, fxpReaddir:
		r.handle = first
	case fxpExtended:
		first = s.string()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if r.typ == fxpReaddir || r.typ == fxpClose && g.listings[r.handle] != nil {
		r.call = g.listings[r.handle]
	} else if at := (part{r.handle, r.off}); r.typ == fxpRead && g.partial[at] != nil {
		r.call = g.partial[at]
		delete(g.partial, at)
	} else if n := g.next; n != nil && n.typ == r.typ && n.off == r.off && (n.path == "" || n.path == first) {
		r.call, g.next, g.sending = n, nil, n
	} else if r.typ == fxpRmdir {
		g.rest = 0
		return errNotAsked
	}
	if r.typ == fxpClose {
		delete(g.listings, r.handle)
	}
	g.note(id, r)
	return nil
}

// note stores a request until its answer arrives, and starts to wait for the answer.
func (g *guard) note(id uint32, r *request) {
	g.requests[id] = r
	switch {
	case g.silence <= 0:
	case g.watch == nil:
		g.watch = time.AfterFunc(g.silence, func() { g.fail(ErrSilence) })
	case len(g.requests) == 1:
		g.watch.Reset(g.silence)
	}
}

// take returns and removes the request with the id, whose answer has arrived.
func (g *guard) take(id uint32) *request {
	g.mu.Lock()
	defer g.mu.Unlock()
	r := g.requests[id]
	delete(g.requests, id)
	if g.watch != nil {
		if len(g.requests) == 0 {
			g.watch.Stop()
		} else {
			g.watch.Reset(g.silence)
		}
	}
	return r
}

// ended stops the watch for silence.
func (g *guard) ended() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.watch != nil {
		g.watch.Stop()
	}
}

// Read returns the server's data to the client.
func (g *guard) Read(p []byte) (int, error) {
	n, err := g.read(p)
	if err != nil {
		g.err = err
		if g.begun {
			g.fail(err)
		}
	}
	return n, err
}

func (g *guard) read(p []byte) (int, error) {
	for g.left == 0 && len(g.ready) == 0 {
		if err := g.packet(); err != nil {
			return 0, err
		}
	}
	if len(g.ready) > 0 {
		n := copy(p, g.ready)
		g.ready = g.ready[n:]
		return n, nil
	}
	n, err := g.in.Read(p[:min(len(p), g.left)])
	if err != nil {
		return n, g.lost(err)
	}
	if g.left -= n; g.left == 0 {
		g.came(g.of, g.data)
	}
	return n, nil
}

// came records that n bytes of data have arrived.
func (g *guard) came(r *request, n int) {
	if r.call == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	c := r.call
	if c.first == 0 {
		c.first = n
	}
	if c.got += n; c.got < c.want {
		g.partial[part{r.handle, c.off + int64(c.got)}] = c
	}
	select {
	case c.moved <- struct{}{}:
	default:
	}
}

// packet starts the next packet. A packet with data is passed through; any other packet is read
// and checked first.
func (g *guard) packet() error {
	b, err := g.in.Peek(4)
	if err != nil {
		return g.lost(err)
	}
	length := binary.BigEndian.Uint32(b)
	if length < 5 || length > maxPacket {
		more, _ := g.in.Peek(g.in.Buffered())
		return &protocolError{fmt.Sprintf("where a packet should begin it sends %s; a start-up script of the account may print text", safename.Quote(string(more)))}
	}
	if b, err = g.in.Peek(9); err != nil {
		return g.lost(err)
	}
	typ, id := b[4], binary.BigEndian.Uint32(b[5:])
	var r *request
	if g.begun {
		if r = g.take(id); r == nil {
			return &protocolError{"it answers a request that was not made"}
		}
		if typ == fxpData && r.typ == fxpRead {
			return g.stream(r, int(length))
		}
	}
	if cap(g.whole) < 4+int(length) {
		g.whole = make([]byte, 4+length)
	}
	g.whole = g.whole[:4+length]
	if _, err := io.ReadFull(g.in, g.whole); err != nil {
		return g.lost(err)
	}
	switch {
	case !g.begun:
		if err := version(typ, id); err != nil {
			return err
		}
		g.begun = true
	case r.own != nil:
		r.own.typ, r.own.body = typ, bytes.Clone(g.whole[9:])
		close(r.own.done)
		return nil
	default:
		if err := g.check(r, typ, g.whole[9:]); err != nil {
			return err
		}
	}
	g.ready = g.whole
	return nil
}

// stream passes a packet with data through, if it has at most the requested number of bytes.
func (g *guard) stream(r *request, length int) error {
	b, err := g.in.Peek(13)
	if length < 9 {
		return &protocolError{"an answer is too short"}
	} else if err != nil {
		return g.lost(err)
	}
	n := int64(binary.BigEndian.Uint32(b[9:]))
	if n == 0 || n > int64(length-9) || n > int64(r.asked) {
		return &protocolError{fmt.Sprintf("it sends %d bytes of data where %d were asked for", n, r.asked)}
	}
	g.of, g.data, g.left = r, int(n), 4+length
	return nil
}

// version checks the first packet, which has the version in place of the id.
func version(typ byte, v uint32) error {
	switch {
	case typ != fxpVersion:
		return &protocolError{fmt.Sprintf("its first packet has type %d", typ)}
	case v != version3:
		return &protocolError{fmt.Sprintf("it offers version %d instead of 3", v)}
	}
	return nil
}

// ask sends a request of the guard itself, which is an extension. Its id is 0 or one of the
// highest, since the ids of the client start with 1.
func (g *guard) ask(extension, handle string) *question {
	r := &request{typ: fxpExtended, own: &question{done: make(chan struct{})}}
	g.mu.Lock()
	id := -g.own
	g.own++
	g.note(id, r)
	g.mu.Unlock()
	p := append(binary.BigEndian.AppendUint32([]byte{0, 0, 0, 0, fxpExtended}, id), 0, 0, 0, byte(len(extension)))
	p = append(p, extension...)
	if handle != "" {
		p = append(binary.BigEndian.AppendUint32(p, uint32(len(handle))), handle...)
	}
	binary.BigEndian.PutUint32(p, uint32(len(p)-4))
	o := &g.out
	o.Lock()
	defer o.Unlock()
	o.text = append(o.text, p...)
	g.writeOn()
	return r.own
}

// answers maps requests to the types of their answers. Other requests, and refused requests, are
// answered with a status.
var answers = map[byte]byte{fxpOpen: fxpHandle, fxpOpendir: fxpHandle, fxpRead: fxpData, fxpReaddir: fxpName, fxpRealpath: fxpName, fxpStat: fxpAttrs, fxpLstat: fxpAttrs, fxpFstat: fxpAttrs}

// check checks the answer to a request.
func (g *guard) check(r *request, typ byte, body []byte) error {
	want, ok := answers[r.typ]
	if !ok {
		want = fxpStatus
	}
	s := &scanner{rest: body}
	switch {
	case typ == fxpStatus:
		return g.refusal(r, want, s)
	case typ != want:
		return &protocolError{fmt.Sprintf("it answers with a packet of type %d instead of %d", typ, want)}
	case typ == fxpHandle:
		h := s.string()
		if s.bad || len(h) > 256 {
			return &protocolError{"the handle of a file is damaged"}
		}
		switch {
		case r.call == nil:
		case r.typ == fxpOpendir:
			g.mu.Lock()
			g.listings[h] = r.call
			g.mu.Unlock()
		default:
			r.call.file = h
		}
	case r.typ == fxpRealpath:
		if n := s.uint32(); n != 1 {
			return &protocolError{"it answers with several names where one was asked for"}
		}
		if s.string() == "" {
			return &protocolError{"it answers without the name that was asked for"}
		}
	case typ == fxpName && r.call != nil:
		return r.call.entries(s)
	case typ == fxpAttrs && r.call != nil:
		r.call.flags = (&scanner{rest: body}).uint32()
	}
	return nil
}

// refusal records a status other than success.
func (g *guard) refusal(r *request, want byte, s *scanner) error {
	code := s.uint32()
	switch {
	case s.bad:
		return &protocolError{"a status is too short"}
	case code == statusOK && want != fxpStatus:
		return &protocolError{"it reports success without the answer"}
	case code == statusOK, r.call == nil, code == statusEOF && r.typ == fxpReaddir, r.typ == fxpClose && r.call.typ == fxpOpendir:
	default:
		r.call.status = &StatusError{code, s.string()} // old servers send no message
	}
	return nil
}

// maxEmptyParts is the maximum number of consecutive answers without an entry. A server could
// send them for ever.
const maxEmptyParts = 100

// entryBytes is the minimum number of bytes that an entry counts in the limit of a listing, which
// is its size in memory.
const entryBytes = 128

// entries checks a part of a listing.
func (c *call) entries(s *scanner) error {
	bytes := len(s.rest)
	n := s.uint32()
	for range n {
		before := len(s.rest)
		e, plain := s.entry()
		if s.bad {
			return &protocolError{"a listing is damaged"}
		}
		bytes += max(0, entryBytes-(before-len(s.rest)))
		c.names++
		if e.Name == "." || e.Name == ".." {
			continue // which the client leaves out
		}
		if !plain {
			if c.notes == nil {
				c.notes = make(map[int]Entry)
			}
			c.notes[c.shown] = e
		}
		c.shown++
	}
	if c.bytes += bytes; c.part != nil {
		c.part(c.bytes)
	}
	if c.empty++; n > 0 {
		c.empty = 0
	} else if c.empty > maxEmptyParts {
		return &protocolError{"its listing goes on without entries"}
	}
	switch {
	case c.few:
		c.stop(errEnough)
	case c.bytes > c.limit:
		c.stop(failure.Permanent(fmt.Errorf("the listing is longer than %d MiB; clean up the directory", c.limit>>20)))
	}
	return nil
}
