package chromium

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// A pipe carries requests to the browser, and answers and events back. Each message
// is JSON and ends with a zero byte.
type pipe struct {
	in   *os.File
	done chan struct{} // closed once no message comes any more

	mu      sync.Mutex
	last    int                      // number of the last request
	waiting map[int]chan message     // for the answers, by request
	events  map[string]func(message) // by session
	err     error                    // why no message comes any more
}

// A message is a request, an answer or an event.
type message struct {
	ID        int             `json:"id,omitempty"`
	SessionID string          `json:"sessionId,omitempty"`
	Method    string          `json:"method,omitempty"`
	Params    json.RawMessage `json:"params,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"`
	Error     *struct {
		Message string `json:"message"`
		Data    string `json:"data"`
	} `json:"error,omitempty"`
}

func newPipe(in, out *os.File) *pipe {
	p := &pipe{in: in, done: make(chan struct{}), waiting: make(map[int]chan message), events: make(map[string]func(message))}
	go p.read(out)
	return p
}

// close gives up; the browser sees that nobody talks to it any more, and ends.
func (p *pipe) close() {
	p.in.Close()
	<-p.done
}

// listen has f called with each event of a session, one at a time, until it is nil.
// The function must not wait for the browser.
func (p *pipe) listen(session string, f func(message)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if f == nil {
		delete(p.events, session)
		return
	}
	p.events[session] = f
}

func (p *pipe) read(out *os.File) {
	defer out.Close()
	r := bufio.NewReaderSize(out, 1<<16)
	var err error
	for err == nil {
		var text []byte
		if text, err = r.ReadBytes(0); err == nil {
			err = p.take(bytes.TrimSuffix(text, []byte{0}))
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = fmt.Errorf("the browser has ended or closed its pipe: %w", err)
	close(p.done)
}

// take hands a message to who waits for it.
func (p *pipe) take(text []byte) error {
	var m message
	if err := json.Unmarshal(text, &m); err != nil {
		return err
	}
	p.mu.Lock()
	answer, event := p.waiting[m.ID], p.events[m.SessionID]
	delete(p.waiting, m.ID)
	p.mu.Unlock()
	switch {
	case answer != nil:
		answer <- m
	case m.Method != "" && event != nil:
		event(m)
	}
	return nil
}

// call makes a request in a session, or of the browser itself, and puts the answer
// into result unless that is nil.
func (p *pipe) call(ctx context.Context, session, method string, params, result any) error {
	m, err := p.exchange(ctx, session, method, params)
	switch {
	case err != nil:
	case m.Error != nil && m.Error.Data != "":
		err = errors.New(m.Error.Message + ": " + m.Error.Data)
	case m.Error != nil:
		err = errors.New(m.Error.Message)
	case result != nil:
		err = json.Unmarshal(m.Result, result)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	return nil
}

func (p *pipe) exchange(ctx context.Context, session, method string, params any) (message, error) {
	id, answer, err := p.send(session, method, params)
	if err != nil {
		return message{}, err
	}
	select {
	case m := <-answer:
		return m, nil
	case <-p.done:
		return message{}, p.err
	case <-ctx.Done():
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.waiting, id)
		return message{}, fmt.Errorf("no answer in time: %w", ctx.Err())
	}
}

// send writes a request. The answer comes by the channel.
func (p *pipe) send(session, method string, params any) (int, chan message, error) {
	raw, err := json.Marshal(params)
	if err != nil {
		return 0, nil, err
	}
	if params == nil {
		raw = nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last++
	text, err := json.Marshal(message{ID: p.last, SessionID: session, Method: method, Params: raw})
	if err != nil {
		return 0, nil, err
	}
	answer := make(chan message, 1)
	p.waiting[p.last] = answer
	p.in.SetWriteDeadline(time.Now().Add(Timeout))
	if _, err := p.in.Write(append(text, 0)); err != nil {
		delete(p.waiting, p.last)
		return 0, nil, err
	}
	return p.last, answer, nil
}
