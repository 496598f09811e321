// Package ftpserver is an FTP server for tests. It serves a directory, with or
// without TLS, and does on demand what real servers do only rarely: fail, lie,
// hang, break off, and say what no server should say.
package ftpserver

import (
	"bufio"
	"crypto/tls"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
)

// Keys for tests. The certificate of the server is issued by itself for
// "files.example.com", "localhost", 127.0.0.1, ::1 and 192.0.2.1, that of the
// client by itself. They are valid from 1999 to 2199, so also in a bubble of
// testing/synctest.
var (
	//go:embed testdata/server.crt
	ServerCertificate string
	//go:embed testdata/server.key
	ServerKey string
	//go:embed testdata/client.crt
	ClientCertificate string
	//go:embed testdata/client.key
	ClientKey string
)

// Options say what a server offers and what goes wrong with it. The zero value
// is a server without TLS and without users.
type Options struct {
	Users map[string]string // passwords by name

	// TLS is the server's configuration; nil means that there is no TLS.
	TLS      *tls.Config
	Implicit bool // TLS from the first byte
	// RequireReuse refuses connections for content that don't resume the TLS
	// session of the commands.
	RequireReuse bool

	NoMLSD       bool // neither MLSD nor MLST
	NoEPSV       bool
	NoSize       bool // neither SIZE nor MDTM
	SizesAll     bool // SIZE and MDTM answer for directories too
	NoRest       bool
	NoRenameOver bool   // RNTO onto an existing file is refused
	PassiveHost  string // what PASV names in place of 192,0,2,1, in its form

	// Fault is called before each command is carried out, with the verb and the
	// argument. An error is its outcome; nil means that nothing fails.
	Fault func(verb, argument string) error
	// Answer may carry out a command in place of the server, and reports whether
	// it has. Nil means that it never does.
	Answer func(c *Conn, verb, argument string) bool
	// Content may wrap a connection for content of c before it is used; with TLS
	// it lies below that. Nil means that none is wrapped.
	Content func(c *Conn, verb string, conn net.Conn) net.Conn
	// Greeting replaces the first reply; "-" is none at all.
	Greeting string

	// Listen opens a port for content and returns its number. Nil means one of
	// 127.0.0.1.
	Listen func() (net.Listener, int, error)
}

// A Server serves FTP.
type Server struct {
	opt  Options
	root *os.Root

	mu       sync.Mutex
	closed   bool
	listener net.Listener
	open     map[io.Closer]struct{}
	commands []string
	logins   int
	running  sync.WaitGroup
}

// New returns a server for the directory dir, which is made if there is none.
func New(dir string, opt *Options) (*Server, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	s := &Server{opt: *opt, root: root, open: make(map[io.Closer]struct{})}
	if s.opt.Listen == nil {
		s.opt.Listen = func() (net.Listener, int, error) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return nil, 0, err
			}
			return l, l.Addr().(*net.TCPAddr).Port, nil
		}
	}
	return s, nil
}

// Config returns a TLS configuration with the server's key for tests.
func Config() *tls.Config {
	pair, err := tls.X509KeyPair([]byte(ServerCertificate), []byte(ServerKey))
	if err != nil {
		panic(err) // the key is part of the program
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}}
}

// Serve serves the connections that l accepts until Close.
func (s *Server) Serve(l net.Listener) error {
	s.mu.Lock()
	s.listener = l
	closed := s.closed
	s.mu.Unlock()
	if closed {
		l.Close()
	}
	for {
		conn, err := l.Accept()
		if err != nil {
			s.running.Wait()
			if errors.Is(err, net.ErrClosed) {
				return nil
			}
			return err
		}
		if !s.track(conn) {
			conn.Close()
			continue
		}
		s.running.Go(func() {
			defer s.forget(conn)
			s.serve(conn)
		})
	}
}

func (s *Server) track(c io.Closer) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.open[c] = struct{}{}
	return true
}

func (s *Server) forget(c io.Closer) {
	c.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, c)
}

// Cut ends all connections, as if the machine were switched off.
func (s *Server) Cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.open {
		c.Close()
	}
}

// Close ends all connections and stops Serve.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true
	l := s.listener
	for c := range s.open {
		c.Close()
	}
	s.mu.Unlock()
	if l != nil {
		l.Close()
	}
	s.running.Wait()
	return s.root.Close()
}

// Commands lists the commands so far, without passwords.
func (s *Server) Commands() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.commands...)
}

// Logins is how often somebody logged in.
func (s *Server) Logins() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.logins
}

// A Conn is the connection of a client.
type Conn struct {
	s       *Server
	raw     net.Conn
	conn    net.Conn // with TLS, where that is in use
	r       *bufio.Reader
	user    string
	in      bool // logged in
	private bool // content is encrypted
	dir     string
	from    string // of RNFR
	rest    int64
	passive net.Listener
	active  string // address of the client
}

func (s *Server) serve(conn net.Conn) {
	c := &Conn{s: s, raw: conn, conn: conn, r: bufio.NewReader(conn), dir: "/"}
	defer c.closePassive()
	if s.opt.Implicit && !c.secure() {
		return
	}
	switch s.opt.Greeting {
	case "-":
	case "":
		c.Reply("220 ready")
	default:
		c.Raw(s.opt.Greeting)
	}
	for {
		text, err := c.r.ReadString('\n')
		if err != nil {
			return
		}
		verb, argument, _ := strings.Cut(strings.TrimRight(text, "\r\n"), " ")
		verb = strings.ToUpper(verb)
		c.note(verb, argument)
		if s.opt.Fault != nil {
			if err := s.opt.Fault(verb, argument); err != nil {
				c.Reply("451 " + oneLine(err.Error()))
				continue
			}
		}
		if s.opt.Answer != nil && s.opt.Answer(c, verb, argument) {
			continue
		}
		if !c.obey(verb, argument) {
			return
		}
	}
}

func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\r' || r == '\n' {
			return ' '
		}
		return r
	}, text)
}

func (c *Conn) note(verb, argument string) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if verb == "PASS" {
		argument = "***"
	}
	c.s.commands = append(c.s.commands, strings.TrimSpace(verb+" "+argument))
}

// secure begins TLS.
func (c *Conn) secure() bool {
	t := tls.Server(c.raw, c.s.opt.TLS)
	if t.Handshake() != nil {
		return false
	}
	c.conn, c.r = t, bufio.NewReader(t)
	return true
}

// Reply sends lines, each with its end.
func (c *Conn) Reply(lines ...string) {
	fmt.Fprint(c.conn, strings.Join(lines, "\r\n")+"\r\n")
}

// Raw sends text as it is.
func (c *Conn) Raw(text string) { fmt.Fprint(c.conn, text) }

// Close ends the connection.
func (c *Conn) Close() { c.raw.Close() }
