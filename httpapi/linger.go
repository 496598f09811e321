package httpapi

import (
	"context"
	"io"
	"net/http"
	"time"
)

const (
	discarded = 256 << 10 // up to which size net/http itself reads what is left of a body
	lingers   = 64 << 20  // bytes that are thrown away of any refused request
)

// unread reports whether the client may be sending a body that nobody has read. By HTTP/2 a
// request is refused without its connection.
func (c *call) unread() bool {
	return !c.whole && c.r.ProtoMajor == 1 && c.r.Body != nil && c.r.Body != http.NoBody && (c.cut || c.r.ContentLength < 0 || c.r.ContentLength > discarded)
}

// refuse answers by write, and then reads on: many clients look for an answer when they have
// sent all, and a connection that ends before is reset, with the answer (RFC 9112, 9.6).
// What comes is thrown away, for as long as a body may stand still and up to the size of an
// upload, or 64 MiB. Then the connection ends. Below a middleware whose writer has no Unwrap it ends
// with the answer.
func (c *call) refuse(write func()) {
	ctl := http.NewResponseController(c.w)
	if !c.unread() || ctl.EnableFullDuplex() != nil {
		write()
		return
	}
	c.w.Header().Set("Connection", "close")
	write()
	if ctl.Flush() != nil || ctl.SetReadDeadline(time.Now().Add(c.h.bodyTimeout)) != nil {
		return
	}
	defer context.AfterFunc(c.h.closed, func() { _ = ctl.SetReadDeadline(time.Now()) })()
	_, _ = io.CopyN(io.Discard, c.r.Body, max(lingers, c.h.opt.MaxUpload+c.h.opt.MaxBody))
}
