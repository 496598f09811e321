package sftpclient

import "sync"

// A batch is a series of requests that are sent in one go, without waiting for
// the answer to one before the next. A server takes them in this order, and
// those about the same file one after the other, as the protocol demands of it.
type batch struct {
	text  []byte
	ends  []int // of the packets in text
	calls []*call
}

// Texts are used again, for what they hold are whole files where these are
// small.
var Texts = sync.Pool{New: func() any { return new([]byte) }}

// add adds a request. The data of its answer goes to into, which is nil unless
// the request is to read.
func (b *batch) add(p packet, into []byte) {
	b.text = append(b.text, p...)
	b.ends = append(b.ends, len(b.text))
	b.calls = append(b.calls, newCall(into))
}

// send sends the batch. The calls get the answers in any order.
func (b *batch) send(c *Client) ([]*call, error) {
	begin := 0
	for i, end := range b.ends {
		id, err := c.register(b.calls[i])
		if err != nil {
			return nil, err
		}
		packet(b.text[begin:end]).seal(id)
		begin = end
	}
	return b.calls, c.write(b.text)
}
