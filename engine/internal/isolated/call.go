package isolated

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/stepcall"
	"github.com/courierhq/courier/internal/jsontext"
	"github.com/courierhq/courier/internal/procgroup"
)

// A call is one in a child, as the parent sees it.
type call struct {
	ctx      context.Context
	job      *courier.Context
	cfg      courier.ContextConfig // of job
	limits   courier.Isolation
	maxFrame int

	cmd    *exec.Cmd
	group  *procgroup.Group
	stderr ends
	conn   *conn
	nonce  string

	begun   chan struct{} // closed when the child was told what to call
	greeted chan struct{} // closed when the child has said hello
	done    chan *outcome
	broken  chan error    // why nothing more is received: io.EOF if the child has closed its pipe
	over    chan struct{} // closed when nobody waits for the child any more
	asking  context.Context
	told    sync.Once
	asks    chan struct{} // room for the questions that are answered at once
}

// maxAsks is how many questions of a child are answered at once.
const maxAsks = 16

// run makes the call.
func (c *call) run(b *begin) (json.RawMessage, error) {
	if err := c.ctx.Err(); err != nil {
		return nil, context.Cause(c.ctx)
	}
	if !Supported {
		return nil, courier.Permanent(ErrUnsupported)
	}
	if !called.Load() {
		return nil, courier.Permanent(ErrNotCalled)
	}
	dir, err := c.makeDir()
	if err != nil {
		return nil, fmt.Errorf("the directory of the step's process: %w", err)
	}
	defer func() {
		if err := os.RemoveAll(dir); err != nil {
			c.job.Log().Warn("remove the directory of the step's process", "error", err)
		}
	}()
	in, out, ended, err := c.start(dir)
	if err != nil {
		return nil, fmt.Errorf("the step's process can't be started: %w", err)
	}
	var cancel context.CancelFunc
	c.asking, cancel = context.WithCancel(c.ctx)
	defer cancel()
	received, gone := make(chan struct{}), make(chan struct{})
	go func() {
		<-ended
		in.SetReadDeadline(time.Now().Add(lastWords)) // the pipe may be open in a process that has left the group
		close(gone)
	}()
	go func() {
		defer close(received)
		c.broken <- c.receive()
	}()
	go func() {
		defer close(c.begun)
		_ = c.begin(b, dir) // an error means that the child has ended
	}()
	go c.sayAlive(b.Silence / 4)
	o, err := c.await(gone)
	close(c.over)
	cancel()
	out.Close()
	in.Close() // after which nothing is received
	<-received
	return c.result(o, err)
}

// result is what the call returns.
func (c *call) result(o *outcome, err error) (json.RawMessage, error) {
	switch {
	case err != nil:
		return nil, err
	case o.Panic != "":
		return nil, &stepcall.PanicError{What: o.Panic, Stack: o.Stack}
	}
	failed := o.Error.error(context.Cause(c.ctx))
	if err := jsontext.CheckStorable(o.Outputs); err != nil { // the child should have refused it
		if failed == nil {
			failed = courier.Permanent(fmt.Errorf("the work is done, but its output can't be stored: it %w", err))
		}
		return nil, failed
	}
	return o.Outputs, failed
}

// DirPrefix begins the names of the directories in which children work, beside those of
// executions.
const DirPrefix = "isolated-"

// makeDir makes the child's directory: beside the workspace, where no other user comes, or
// else among temporary files.
func (c *call) makeDir() (string, error) {
	above := ""
	if c.cfg.Workspace != "" {
		above = filepath.Dir(c.cfg.Workspace)
	}
	dir, err := os.MkdirTemp(above, DirPrefix)
	if err != nil && above != "" {
		dir, err = os.MkdirTemp("", DirPrefix)
	}
	if err == nil {
		dir, err = filepath.Abs(dir)
	}
	return dir, err
}

// passed are variables of the environment that say where the system has what every program
// needs, and in which form it writes.
var passed = []string{"PATH", "TZ", "ZONEINFO", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "LC_MESSAGES", "LC_TIME", "SSL_CERT_FILE", "SSL_CERT_DIR"}

// environment returns that of a child whose temporary files go to dir. The engine itself is
// not configured by what it passes on.
func environment(dir string, names []string) []string {
	env := []string{"TMPDIR=" + dir}
	for _, v := range new(exec.Cmd).Environ() {
		name, _, _ := strings.Cut(v, "=")
		if name != "TMPDIR" && (slices.Contains(passed, name) || slices.Contains(names, name)) {
			env = append(env, v)
		}
	}
	return env
}

// lastWords is how long what a child has sent is read after its end, and how long a child
// may take to end after it has closed its pipe.
const lastWords = time.Second

// waitDelay is how long the child's standard error may stay open in a process that has left
// the group.
const waitDelay = 250 * time.Millisecond

// start starts the child. It returns the parent's ends of the pipes.
func (c *call) start(dir string) (in, out *os.File, ended <-chan error, err error) {
	path, err := executable()
	if err != nil {
		return nil, nil, nil, err
	}
	childIn, out, err := os.Pipe()
	if err != nil {
		return nil, nil, nil, err
	}
	in, childOut, err := os.Pipe()
	if err != nil {
		childIn.Close()
		out.Close()
		return nil, nil, nil, err
	}
	c.cmd = &exec.Cmd{
		Path: path, Args: append([]string{os.Args[0], marker}, os.Args[1:]...), Env: environment(dir, c.limits.Env),
		ExtraFiles: []*os.File{childIn, childOut}, Stderr: &c.stderr, WaitDelay: waitDelay,
	}
	c.group = procgroup.New(c.cmd)
	c.begun, c.over = make(chan struct{}), make(chan struct{})
	c.greeted, c.asks, c.nonce = make(chan struct{}), make(chan struct{}, maxAsks), rand.Text()
	c.conn = newConn(in, out, c.maxFrame)
	ended, err = c.group.Start(c.cmd.Start)
	childIn.Close()
	childOut.Close()
	if err != nil {
		in.Close()
		out.Close()
	}
	return in, out, ended, err
}

// begin says what is to be called.
func (c *call) begin(b *begin, dir string) error {
	cpu := int64((c.limits.CPU + time.Second - 1) / time.Second)
	if err := c.conn.send(&frame{Hello: &hello{Nonce: c.nonce, Memory: c.limits.Memory, CPU: cpu, Dir: dir}}); err != nil {
		return err
	}
	b.Context = sent(&c.cfg)
	b.Level, b.Redact, b.Exact = lowestLevel(c.job.Log()), !c.cfg.Redactor.Empty(), c.cfg.OnFile != nil
	return c.conn.send(&frame{Begin: b})
}

// sayAlive tells the child at an interval that the worker is at work. A worker that is stopped
// loses its leases, and then its children must not go on.
func (c *call) sayAlive(every time.Duration) {
	<-c.begun
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			_ = c.conn.send(&frame{Alive: true})
		case <-c.over:
			return
		}
	}
}

// errUnexpected says that a frame has nothing in it that a child sends at that time.
var errUnexpected = fmt.Errorf("%w: unexpected frame", errFrame)

// receive takes what the child sends until the outcome, and says why it takes no more.
func (c *call) receive() (err error) {
	defer func() {
		if p := recover(); p != nil { // of a log's handler, for example
			err = fmt.Errorf("panic in the worker: %v", p)
		}
	}()
	f, err := c.conn.receive()
	switch {
	case err != nil:
		return err
	case f.Astray:
		return errLate
	case f.Hello == nil || f.Hello.Nonce != c.nonce:
		return errUnexpected
	}
	close(c.greeted)
	for {
		f, err := c.conn.receive()
		switch {
		case err != nil:
			return err
		case f.Outcome != nil:
			c.done <- f.Outcome
			return nil
		case f.Report != nil:
			_ = remote(c.job).Take(*f.Report) // one that can be refused comes as a question
		case f.Log != nil:
			f.Log.writeTo(c.job.Log())
		case f.Ask != nil:
			select {
			case c.asks <- struct{}{}:
			case <-c.over:
				continue
			}
			go func() {
				defer func() { <-c.asks }()
				a := c.answer(f.Ask)
				if a.ID = f.Ask.ID; c.ctx.Err() != nil {
					c.cancel() // before the step goes on
				}
				_ = c.conn.send(&frame{Answer: a})
			}()
		default:
			return errUnexpected
		}
	}
}

// answer answers a question.
func (c *call) answer(q *question) (a *answer) {
	defer func() {
		if p := recover(); p != nil { // of the host's function for secrets, for example
			what, _ := stepcall.Panicked(p)
			a = &answer{Error: failureOf(errors.New(what), nil)}
		}
	}()
	a = &answer{}
	var err error
	switch {
	case q.Secret != nil:
		var secret string
		secret, err = c.job.Secret(c.asking, *q.Secret)
		a.Bytes = []byte(secret)
	case q.Value != nil && c.cfg.Values != nil:
		if v, ok := c.cfg.Values.Value(q.Value[0], q.Value[1]); ok {
			a.Value, err = jsontext.AppendAny(nil, v)
		}
	case q.Keys && c.cfg.Values != nil:
		a.Keys = c.cfg.Values.Keys()
	case q.Redact != nil:
		a.Bytes = []byte(c.job.Redact(string(q.Redact)))
	case q.File != nil && c.cfg.OnFile != nil:
		err = c.cfg.OnFile(q.File[0], q.File[1])
	case q.Report != nil:
		err = remote(c.job).Take(*q.Report)
	}
	a.Error = failureOf(err, context.Cause(c.ctx))
	return a
}

// cancel tells the child that the context has ended, and then has its group get SIGTERM, if
// the limits say so. A child that has not said hello would die of the signal.
func (c *call) cancel() {
	<-c.begun
	c.told.Do(func() {
		cause := context.Cause(c.ctx)
		_ = c.conn.send(&frame{Cancel: failureOf(cause, cause)})
		if !c.limits.Terminate {
			return
		}
		select {
		case <-c.greeted:
			c.group.Terminate()
		case <-c.over:
		}
	})
}

// await waits for the outcome, or for what takes its place. When it returns, nothing of the
// child's group is left.
func (c *call) await(gone <-chan struct{}) (*outcome, error) {
	cancelled, greeted := c.ctx.Done(), (<-chan struct{})(c.greeted)
	late := time.NewTimer(goneAfter)
	defer late.Stop()
	grace := time.NewTimer(0)
	grace.Stop()
	defer grace.Stop()
	for {
		select {
		case o := <-c.done:
			c.end(gone)
			return o, nil
		case err := <-c.broken:
			return c.afterBreak(err, gone)
		case <-greeted:
			greeted = nil
			late.Stop()
		case <-late.C:
			c.end(gone)
			return nil, fmt.Errorf("the step's process did not begin within %v: the machine is overloaded, or %w", goneAfter, errLate)
		case <-cancelled:
			cancelled = nil
			grace.Reset(c.limits.Grace)
			go c.cancel()
		case <-grace.C:
			c.end(gone)
			select {
			case o := <-c.done: // in the last moment
				return o, nil
			default:
			}
			return nil, courier.WithClass(fmt.Errorf("the step's process did not stop within %v and was killed", c.limits.Grace), courier.ReasonCrashed)
		}
	}
}

// end ends the child with all that it has started.
func (c *call) end(gone <-chan struct{}) {
	c.group.Kill()
	<-gone
}

// afterBreak returns the outcome of a child from which nothing more is received: one that
// it has sent before, or an error.
func (c *call) afterBreak(err error, gone <-chan struct{}) (*outcome, error) {
	if errors.Is(err, io.EOF) || errors.Is(err, os.ErrDeadlineExceeded) { // it has ended, or is about to; how is of interest
		select {
		case <-gone:
		case <-time.After(lastWords):
			c.end(gone)
		}
		return nil, c.crash()
	}
	select {
	case o := <-c.done:
		c.end(gone)
		return o, nil
	default:
	}
	c.end(gone)
	if errors.Is(err, errLate) {
		return nil, courier.Permanent(err)
	}
	return nil, courier.WithClass(fmt.Errorf("the step's process was killed, because its messages can't be read: %w", err), courier.ReasonCrashed)
}

// ends takes text and keeps its beginning and its end.
type ends struct {
	mu   sync.Mutex
	head []byte
	tail []byte
}

// keptEnd is how many bytes of text are kept at each end.
const keptEnd = 8 << 10

func (e *ends) Write(b []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := len(b)
	first := min(n, keptEnd-len(e.head))
	e.head = append(e.head, b[:first]...)
	e.tail = append(e.tail, b[first:]...)
	if over := len(e.tail) - keptEnd; over > 0 {
		e.tail = append(e.tail[:0], e.tail[over:]...)
	}
	return n, nil
}

// text returns what was kept.
func (e *ends) text() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return string(bytes.ToValidUTF8(append(slices.Clip(e.head), e.tail...), []byte("\uFFFD")))
}
