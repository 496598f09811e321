package isolated

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/jsontext"
	"github.com/courierhq/courier/internal/stepcontext"
)

// A frame is what one side sends: its length in four bytes, and that many bytes of JSON.
// One of its fields is set.
type frame struct {
	Hello   *hello              `json:"hello,omitempty"`   // the first of each side
	Begin   *begin              `json:"begin,omitempty"`   // to the child, once
	Cancel  *failure            `json:"cancel,omitempty"`  // to the child: the context has ended
	Ask     *question           `json:"ask,omitempty"`     // to the parent
	Answer  *answer             `json:"answer,omitempty"`  // to the child
	Alive   bool                `json:"alive,omitempty"`   // to the child: the parent is at work
	Report  *stepcontext.Report `json:"report,omitempty"`  // to the parent
	Log     *record             `json:"log,omitempty"`     // to the parent
	Outcome *outcome            `json:"outcome,omitempty"` // to the parent, the last one
	// Astray says that the child has gone on with the program of the host.
	Astray bool `json:"astray,omitempty"`
}

// A hello shows that the other side is what it should be: the child repeats the nonce.
type hello struct {
	Nonce  string `json:"nonce"`
	Memory int64  `json:"memory,omitempty"` // limit in bytes, beyond what the program has; 0 for none
	CPU    int64  `json:"cpu,omitempty"`    // limit in seconds; 0 for none
	Dir    string `json:"dir,omitempty"`    // in which the step is called
}

// A begin says what the child is to call.
type begin struct {
	Method    string          `json:"method"`
	Type      string          `json:"type"`
	Config    json.RawMessage `json:"config,omitempty"`
	Context   contextConfig   `json:"context"`
	MaxOutput int             `json:"max_output"`
	Level     int             `json:"level"`   // from which on log records are wanted
	Redact    bool            `json:"redact"`  // the parent knows secrets that the child doesn't
	Silence   time.Duration   `json:"silence"` // after which without a frame the child ends itself
	Exact     bool            `json:"exact"`   // each file operation is asked for, and all progress is sent
}

// A question is one to the parent that has an answer. One of its fields besides ID is set.
type question struct {
	ID     int64               `json:"id"`
	Secret *string             `json:"secret,omitempty"`
	Value  *[2]string          `json:"value,omitempty"` // head and name
	Keys   bool                `json:"keys,omitempty"`
	Redact []byte              `json:"redact,omitempty"`
	File   *[2]string          `json:"file,omitempty"` // operation and name
	Report *stepcontext.Report `json:"report,omitempty"`
}

// An answer is that to the question with its ID.
type answer struct {
	ID    int64           `json:"id"`
	Bytes []byte          `json:"bytes,omitempty"`
	Value json.RawMessage `json:"value,omitempty"`
	Keys  []string        `json:"keys,omitempty"`
	Error *failure        `json:"error,omitempty"`
}

// An outcome is that of the call.
type outcome struct {
	Outputs json.RawMessage `json:"outputs,omitempty"`
	Error   *failure        `json:"error,omitempty"`
	Panic   string          `json:"panic,omitempty"` // what happened in place of a return
	Stack   string          `json:"stack,omitempty"`
}

// minFrame is the least limit of the bytes of a frame.
const minFrame = 64 << 20

// lengthSize is how many bytes the length of a frame has.
const lengthSize = 4

// errFrame is matched by the errors of frames that can't be read.
var errFrame = errors.New("broken frame")

// A conn sends and receives frames. Send may be called by several goroutines.
type conn struct {
	r    *bufio.Reader
	most int // bytes of a frame that is received

	mu sync.Mutex
	w  io.Writer
}

func newConn(r io.Reader, w io.Writer, most int) *conn {
	return &conn{r: bufio.NewReader(r), w: w, most: most}
}

// send sends a frame.
func (c *conn) send(f *frame) error {
	var b bytes.Buffer
	b.Write(make([]byte, lengthSize))
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // outputs stay as they are
	if err := enc.Encode(f); err != nil {
		return err
	}
	binary.BigEndian.PutUint32(b.Bytes(), uint32(b.Len()-lengthSize))
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err := c.w.Write(b.Bytes())
	return err
}

// receive returns the next frame. The error is io.EOF if the other side has closed its end
// between two frames. Memory is taken as the bytes come, whatever the length says.
func (c *conn) receive() (*frame, error) {
	var head [lengthSize]byte
	if _, err := io.ReadFull(c.r, head[:]); errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, fmt.Errorf("%w: it ends in its length", errFrame)
	} else if err != nil {
		return nil, err
	}
	n := int64(binary.BigEndian.Uint32(head[:]))
	if n == 0 || n > int64(c.most) {
		return nil, fmt.Errorf("%w: it has a length of %d bytes, and 1 to %d are permitted", errFrame, n, c.most)
	}
	var body bytes.Buffer
	if got, err := io.CopyN(&body, c.r, n); errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: it ends after %d of %d bytes", errFrame, got, n)
	} else if err != nil {
		return nil, err
	}
	f := new(frame)
	if err := jsontext.Decode(body.Bytes(), f); err != nil {
		return nil, fmt.Errorf("%w: %w", errFrame, err)
	}
	return f, nil
}

// A failure is an error on its way to the other process: its text and what it means.
type failure struct {
	Text      string         `json:"text"`
	Class     courier.Reason `json:"class,omitempty"`
	Permanent bool           `json:"permanent,omitempty"`
	Kinds     []int          `json:"kinds,omitempty"` // indexes in kinds of the errors that it matches
	Cause     bool           `json:"cause,omitempty"` // it matches the cause with which the context has ended
}

// kinds are the errors that are known on both sides.
var kinds = []error{
	context.Canceled, context.DeadlineExceeded, courier.ErrNotFound, courier.ErrConflict, courier.ErrLeaseLost,
	courier.ErrCancelled, courier.ErrStopped, courier.ErrTimeout, courier.ErrInvalid,
}

// failureOf returns what is sent of an error; nil for nil.
func failureOf(err, cause error) *failure {
	if err == nil {
		return nil
	}
	f := &failure{Text: err.Error(), Class: courier.ClassOf(err), Permanent: courier.IsPermanent(err), Cause: cause != nil && errors.Is(err, cause)}
	for i, kind := range kinds {
		if errors.Is(err, kind) {
			f.Kinds = append(f.Kinds, i)
		}
	}
	return f
}

// error returns the error that was sent; nil for nil.
func (f *failure) error(cause error) error {
	if f == nil {
		return nil
	}
	e := &remoteError{failure: f}
	if f.Cause {
		e.cause = cause
	}
	if f.Permanent {
		return courier.Permanent(e)
	}
	return e
}

// A remoteError is an error of the other process.
type remoteError struct {
	*failure
	cause error // nil if the error does not match it
}

func (e *remoteError) Error() string { return e.Text }

// ErrorClass is the class that the error had.
func (e *remoteError) ErrorClass() string { return string(e.Class) }

// Is reports whether the error matched target.
func (e *remoteError) Is(target error) bool {
	if e.cause != nil && errors.Is(e.cause, target) {
		return true
	}
	for _, i := range e.Kinds {
		if i >= 0 && i < len(kinds) && kinds[i] == target {
			return true
		}
	}
	return false
}
