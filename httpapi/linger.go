package httpapi

import (
	"context"
	"io"
	"net/http"
	"time"
)

const (
	discarded = 256 << 10 // net/http itself reads up to this much of an unread body
	lingers   = 64 << 20  // bytes of a refused request that are read and discarded
)

// unread reports whether the client may still be sending a body. In HTTP/2 a request can be refused
// without closing its connection.
func (c *call) unread() bool {
	return !c.whole && c.r.ProtoMajor == 1 && c.r.Body != nil && c.r.Body != http.NoBody && (c.cut || c.r.ContentLength < 0 || c.r.ContentLength > discarded)
}

// refuse answers by write, and then discards the rest of the body. Many clients read the answer
// only after they have sent the whole body. If the connection were closed before that, it would be
// reset and the answer lost (RFC 9112, 9.6). The rest is read as long as a body may stand still, up
// to the size of an upload or 64 MiB. Then the connection is closed. Below a middleware whose
// writer has no Unwrap, the connection is closed after the answer.
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
