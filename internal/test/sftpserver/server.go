// Package sftpserver is an SFTP server that serves one directory of the file
// system, inside the process that needs it: the tests of Courier's SFTP steps,
// and example programs that have to run without anything installed.
//
// It is a real server. Clients authenticate with passwords or public keys, and
// no request reaches outside the directory: neither through ".." nor through
// symbolic links, which are followed only as long as they stay inside and can't
// be made by clients. New files get mode 0600, new directories 0700.
//
// It is also a server that misbehaves on demand. [Options] has hooks that fail,
// delay, hang or fake any operation, and that lie about names, sizes and times;
// [Server.Ops] tells what clients asked for. [NewHostile] goes further and lets
// a test write the packets of its answers itself. Connections that break at a
// certain byte are made with a listener of package memnet, with which a server
// also works in a testing/synctest bubble.
package sftpserver

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

const (
	defaultLoginTimeout = 30 * time.Second
	defaultMaxSessions  = 10
)

// Options configure a server. At least one of Users and AuthorizedKeys is
// needed; everything else may be left zero.
type Options struct {
	Users               map[string]string // passwords by user name
	AuthorizedKeys      []ssh.PublicKey   // whoever holds one of them may log in, under any user name
	KeyboardInteractive bool              // passwords are asked for by the keyboard-interactive method instead of the password method

	HostKeys     []ssh.Signer            // keys of the server; none means one new Ed25519 key
	Configure    func(*ssh.ServerConfig) // changes the SSH configuration before it is used, for example its algorithms or banner; may be nil
	LoginTimeout time.Duration           // from the connection until the login is done; 0 means 30 s
	MaxSessions  int                     // SFTP sessions at a time on a connection; 0 means 10, as in OpenSSH

	MaxRead        int  // bytes in an answer to a read request, which are fewer than asked for if need be; 0 means 255 KiB
	NoPosixRename  bool // doesn't offer posix-rename@openssh.com, so that renaming never replaces a file
	NoFsync        bool // doesn't offer fsync@openssh.com
	NoLimits       bool // doesn't offer limits@openssh.com, which tells clients that packets of 256 KiB are welcome
	RenameReplaces bool // plain renames replace existing files silently, as some servers do

	Home string // the directory that a login begins in and that relative paths start from; empty means "/"

	// Fault is called before an operation. An error fails the operation, which
	// then has no effect: [ErrDrop], [ErrHang] and [ErrSkip] have meanings of
	// their own, other errors are sent to the client, with the status code that
	// [fs.ErrNotExist], [fs.ErrPermission], [io.EOF] or an error of package sftp
	// calls for. Fault may sleep, or wait for [Op.Done]. It is called for one
	// operation of an SFTP session after the other, in the client's order, but
	// for several sessions at a time. Nil means no faults.
	Fault func(Op) error

	// FaultAfter is like Fault, but is called when an operation has succeeded,
	// before the client is told. The effect stays.
	FaultAfter func(Op) error

	// Names rewrites a listing. It is given the sorted names of a directory; what
	// it returns is sent as it is, hostile or not, in that order. Names of files
	// that don't exist are given the attributes of an empty file. It may be nil.
	Names func(dir string, names []string) []string

	// Attrs changes what listings and the stat requests tell about a file or
	// directory. The path is absolute. It may be nil.
	Attrs func(path string, a *Attrs)
}

// Attrs are the attributes of a file that clients get to see.
type Attrs struct {
	Size    int64       // bytes; a negative size reaches clients as one of 2^63 or more
	Mode    os.FileMode // type and permissions
	ModTime time.Time   // sent in seconds since 1970, modulo 2^32
}

// A Server serves SFTP sessions. It is safe for concurrent use.
type Server struct {
	opt    Options
	config *ssh.ServerConfig
	root   *os.Root // nil in a hostile server
	script *Script  // nil unless hostile
	log    opLog

	ctx  context.Context // ends with Close
	stop context.CancelFunc

	mu        sync.Mutex
	closed    bool
	listeners map[net.Listener]struct{}
	conns     map[net.Conn]struct{}
	running   sync.WaitGroup // Serve calls and connections; grows only under mu, while not closed
}

// New returns a server for the directory root, which is made, with mode 0700,
// if it doesn't exist. The server does nothing before [Server.Serve].
func New(root string, opt *Options) (*Server, error) {
	s, err := newServer(opt)
	if err != nil {
		return nil, fmt.Errorf("sftp server: %w", err)
	}
	if err := os.MkdirAll(root, 0o700); err != nil {
		return nil, fmt.Errorf("sftp server: %w", err)
	}
	if s.root, err = os.OpenRoot(root); err != nil {
		return nil, fmt.Errorf("sftp server: %w", err)
	}
	return s, nil
}

func newServer(opt *Options) (*Server, error) {
	if opt == nil {
		opt = &Options{}
	}
	s := &Server{
		opt:       *opt,
		listeners: make(map[net.Listener]struct{}),
		conns:     make(map[net.Conn]struct{}),
	}
	if s.opt.LoginTimeout <= 0 {
		s.opt.LoginTimeout = defaultLoginTimeout
	}
	if s.opt.MaxSessions <= 0 {
		s.opt.MaxSessions = defaultMaxSessions
	}
	if s.opt.MaxRead <= 0 || s.opt.MaxRead > maxData {
		s.opt.MaxRead = maxData
	}
	if len(s.opt.HostKeys) == 0 {
		_, key, err := ed25519.GenerateKey(nil)
		if err != nil {
			return nil, err
		}
		signer, err := ssh.NewSignerFromSigner(key)
		if err != nil {
			return nil, err
		}
		s.opt.HostKeys = []ssh.Signer{signer}
	}
	s.config = &ssh.ServerConfig{}
	for _, key := range s.opt.HostKeys {
		s.config.AddHostKey(key)
	}
	if s.opt.Configure != nil {
		s.opt.Configure(s.config)
	}
	if c := s.config; len(opt.Users) == 0 && len(opt.AuthorizedKeys) == 0 && !c.NoClientAuth &&
		c.PasswordCallback == nil && c.PublicKeyCallback == nil && c.KeyboardInteractiveCallback == nil {
		return nil, errors.New("nobody could log in; set Options.Users or Options.AuthorizedKeys")
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s, nil
}

// HostKey returns the first host key.
func (s *Server) HostKey() ssh.PublicKey { return s.opt.HostKeys[0].PublicKey() }

// KnownHostsLine returns the line of a known_hosts file that says that the
// host at addr, "host" or "host:port", has the first host key. It doesn't end
// in a newline.
func (s *Server) KnownHostsLine(addr string) string {
	return knownhosts.Line([]string{knownhosts.Normalize(addr)}, s.HostKey())
}

// Serve accepts connections from l and serves them until [Server.Close], after
// which it returns nil, or until accepting fails. It closes l. Serve may be
// called several times, with different listeners; once the server is closed it
// returns nil at once.
func (s *Server) Serve(l net.Listener) error {
	defer l.Close()
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.listeners[l] = struct{}{}
	s.running.Add(1)
	s.mu.Unlock()
	defer s.running.Done()

	for {
		c, err := l.Accept()
		if err == nil {
			s.start(c)
			continue
		}
		s.mu.Lock()
		closed := s.closed
		delete(s.listeners, l)
		s.mu.Unlock()
		if closed {
			return nil
		}
		return fmt.Errorf("sftp server: %w", err)
	}
}

// start serves c in a new goroutine, unless the server is closed.
func (s *Server) start(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		c.Close()
		return
	}
	s.conns[c] = struct{}{}
	s.running.Go(func() {
		s.serveConn(c)
		c.Close()
		s.mu.Lock()
		delete(s.conns, c)
		s.mu.Unlock()
	})
}

// Close stops accepting, ends all connections and operations, and waits for
// them: once Close has returned, the server touches no file and runs no hook.
// Closing twice is harmless.
func (s *Server) Close() error {
	s.mu.Lock()
	first := !s.closed
	s.closed = true
	var errs []error
	if first {
		s.stop()
		for l := range s.listeners {
			errs = append(errs, l.Close())
		}
		for c := range s.conns {
			c.Close()
		}
	}
	s.mu.Unlock()
	s.running.Wait()
	if first && s.root != nil {
		errs = append(errs, s.root.Close())
	}
	return errors.Join(errs...)
}
