// Package inetd gives every connection to a process of its own, which ends with
// it, as the program of that name does. For tests against real servers: there is
// no daemon that could outlive the test.
package inetd

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// A Server listens on a loopback port.
type Server struct {
	log      *os.File
	command  func() *exec.Cmd
	listener net.Listener
	serving  sync.WaitGroup

	mu      sync.Mutex
	stopped bool
	running map[*exec.Cmd]bool
}

// Start begins to listen until the test ends. The command is made for each
// connection, which is its standard input and output. What it says by standard
// error goes to the file called log in dir, which is shown if the test fails.
func Start(t testing.TB, dir string, command func() *exec.Cmd) (*Server, error) {
	s := &Server{command: command, running: make(map[*exec.Cmd]bool)}
	var err error
	if s.log, err = os.OpenFile(filepath.Join(dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
		return nil, err
	}
	if s.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		s.log.Close()
		return nil, err
	}
	t.Cleanup(func() {
		s.stop()
		if t.Failed() {
			text, _ := os.ReadFile(s.log.Name())
			t.Logf("log of %s:\n%s", s.Addr(), text)
		}
		s.log.Close()
	})
	s.serving.Go(s.serve)
	return s, nil
}

// Addr is where the server listens.
func (s *Server) Addr() *net.TCPAddr { return s.listener.Addr().(*net.TCPAddr) }

func (s *Server) serve() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		file, err := conn.(*net.TCPConn).File()
		conn.Close()
		if err != nil {
			fmt.Fprintf(s.log, "connection: %v\n", err)
			continue
		}
		s.launch(file)
		file.Close()
	}
}

func (s *Server) launch(conn *os.File) {
	cmd := s.command()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = conn, conn, s.log
	group(cmd)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return
	}
	if err := cmd.Start(); err != nil {
		fmt.Fprintf(s.log, "start: %v\n", err)
		return
	}
	s.running[cmd] = true
	s.serving.Go(func() {
		cmd.Wait()
		s.mu.Lock()
		defer s.mu.Unlock()
		end(cmd) // what it has left
		delete(s.running, cmd)
	})
}

// stop ends the connections and waits for their processes.
func (s *Server) stop() {
	s.listener.Close()
	s.mu.Lock()
	s.stopped = true
	s.mu.Unlock()
	s.Cut()
	s.serving.Wait()
}

// Cut ends all connections, as if the machine were switched off.
func (s *Server) Cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for cmd := range s.running {
		end(cmd)
	}
}
