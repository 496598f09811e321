package mail

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/courierhq/courier"
)

// A hostile server costs no more than some time and memory, and sees no password
// without encryption; its words come out on one line, without what it was told.
func TestHostileServers(t *testing.T) {
	auth := base64.StdEncoding.EncodeToString([]byte("\x00ops\x00pa55word"))
	endless := func(c net.Conn, text string) {
		block := []byte(strings.Repeat(text, 1<<16/len(text)))
		for {
			if _, err := c.Write(block); err != nil {
				return
			}
		}
	}
	for name, script := range map[string]func(c net.Conn, r *bufio.Reader){
		"silence":              func(_ net.Conn, r *bufio.Reader) { r.ReadByte() },
		"a banner without end": func(c net.Conn, _ *bufio.Reader) { endless(c, "220-hello\r\n") },
		"a line without end":   func(c net.Conn, _ *bufio.Reader) { endless(c, "220 hello ") },
		"a reply without end": func(c net.Conn, r *bufio.Reader) {
			fmt.Fprint(c, "220 a\r\n")
			r.ReadString('\n')
			endless(c, "250-A\r\n")
		},
		"nothing but NUL bytes": func(c net.Conn, _ *bufio.Reader) { endless(c, "\x00") },
		"a slow drip": func(c net.Conn, _ *bufio.Reader) {
			for _, err := c.Write([]byte("2")); err == nil; _, err = c.Write([]byte("2")) {
				time.Sleep(20 * time.Millisecond)
			}
		},
		"STARTTLS stripped": func(c net.Conn, r *bufio.Reader) {
			fmt.Fprint(c, "220 a\r\n")
			r.ReadString('\n')
			fmt.Fprint(c, "250-a\r\n250 AUTH PLAIN LOGIN\r\n")
			if line, _ := r.ReadString('\n'); strings.HasPrefix(line, "AUTH") {
				t.Errorf("the password was sent in the open: %q", line)
			}
		},
		"replies injected after STARTTLS": func(c net.Conn, r *bufio.Reader) {
			fmt.Fprint(c, "220 a\r\n")
			r.ReadString('\n')
			fmt.Fprint(c, "250-a\r\n250 STARTTLS\r\n")
			r.ReadString('\n')
			fmt.Fprint(c, "220 go on\r\n250-a\r\n250 AUTH PLAIN\r\n235 welcome\r\n250 ok\r\n250 ok\r\n250 ok\r\n354 go\r\n250 ok\r\n")
			for line, err := r.ReadString('\n'); err == nil; line, err = r.ReadString('\n') {
				if strings.HasPrefix(line, "AUTH") || strings.HasPrefix(line, "MAIL") {
					t.Errorf("it went on in the open: %q", line)
				}
			}
		},
		"control characters": func(c net.Conn, _ *bufio.Reader) {
			fmt.Fprintf(c, "554 \x1b[2J\x07 pa55word %s %s\r\n", auth, strings.Repeat("x", 5000))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			done := make(chan struct{})
			go func() {
				defer close(done)
				c, err := l.Accept()
				if err != nil {
					return
				}
				defer c.Close()
				_ = c.SetDeadline(time.Now().Add(10 * time.Second))
				script(c, bufio.NewReader(c))
			}()
			began := time.Now()
			err = send(t, Options{
				Host: "localhost", Port: l.Addr().(*net.TCPAddr).Port, From: "a@example.com", Timeout: 300 * time.Millisecond,
				Username: "ops", Password: func(context.Context) (string, error) { return "pa55word", nil },
			}, sample)
			l.Close()
			if took := time.Since(began); took > 8*time.Second {
				t.Errorf("it took %v", took)
			}
			if err == nil {
				t.Fatal("the message was sent")
			}
			text := err.Error()
			if len(text) > 700 || strings.Contains(text, "pa55word") || strings.Contains(text, auth) || strings.ContainsFunc(text, unicode.IsControl) {
				t.Errorf("the error is %q", text)
			}
			<-done
		})
	}
}

// What a server sends takes no more memory than it may send.
func TestGuardedMemory(t *testing.T) {
	near, far := net.Pipe()
	go func() {
		defer far.Close()
		block := make([]byte, 64<<10)
		for _, err := far.Write(block); err == nil; _, err = far.Write(block) {
		}
	}()
	g := &guarded{Conn: near, left: maxAnswers, stop: func() bool { return true }}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	n, err := bufio.NewReader(g).ReadString('\n')
	runtime.ReadMemStats(&after)
	g.Close()
	if len(n) != maxAnswers || !errors.Is(err, errTooMuch) {
		t.Errorf("%d bytes were read, %v", len(n), err)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 20*maxAnswers {
		t.Errorf("%d bytes were allocated", used)
	}
}

// A message that is cancelled ends at once, whatever the server does.
func TestSendIsCancelled(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		cancel(courier.ErrCancelled)
		bufio.NewReader(c).ReadByte()
	}()
	m, err := New(Options{Host: "localhost", Port: l.Addr().(*net.TCPAddr).Port, From: "a@example.com", Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := m.Send(ctx, sample); !errors.Is(err, courier.ErrCancelled) || time.Since(began) > 10*time.Second {
		t.Errorf("after %v: %v", time.Since(began), err)
	}
}
