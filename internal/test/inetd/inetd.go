// Package inetd gives every connection to a process of its own, which ends with
// it, or the listening socket to one process, as the program of that name does.
// For tests against real servers: there is no daemon that could outlive the test.
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
	listener *net.TCPListener
	socket   *os.File // for a program that accepts connections itself, nil otherwise
	serving  sync.WaitGroup

	mu      sync.Mutex
	stopped bool
	running map[*exec.Cmd]bool // whether it is left alone
}

// Start begins to listen until the test ends. The command is made for each
// connection, which is its standard input and output. What it says by standard
// error goes to the file called log in dir, which is shown if the test fails.
func Start(t testing.TB, dir string, command func() *exec.Cmd) (*Server, error) {
	s, err := listen(t, dir, command)
	if err != nil {
		return nil, err
	}
	s.serving.Go(s.serve)
	return s, nil
}

// StartWait is [Start] for a program that accepts connections itself. It runs once,
// its standard input is the listening socket, and it is started again after
// [Server.Cut]. If it ends by itself, connections are refused.
func StartWait(t testing.TB, dir string, command func() *exec.Cmd) (*Server, error) {
	s, err := listen(t, dir, command)
	if err != nil {
		return nil, err
	}
	if s.socket, err = s.listener.File(); err != nil {
		return nil, err
	}
	t.Cleanup(func() { s.socket.Close() })
	s.launch(s.socket)
	return s, nil
}

// listen returns a server that listens, and accepts nothing yet.
func listen(t testing.TB, dir string, command func() *exec.Cmd) (*Server, error) {
	s := &Server{command: command, running: make(map[*exec.Cmd]bool)}
	var err error
	if s.log, err = os.OpenFile(filepath.Join(dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
		return nil, err
	}
	if s.listener, err = net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}); err != nil {
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
	return s, nil
}

// Addr is where the server listens.
func (s *Server) Addr() *net.TCPAddr { return s.listener.Addr().(*net.TCPAddr) }

func (s *Server) serve() {
	for {
		conn, err := s.listener.AcceptTCP()
		if err != nil {
			return
		}
		file, err := conn.File()
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
	if s.socket != nil {
		cmd.Stdout = s.log
	}
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
		if s.socket != nil && s.running[cmd] {
			fmt.Fprintf(s.log, "%s has ended: %v\n", cmd.Path, cmd.ProcessState)
			s.listener.Close()
			s.socket.Close()
		}
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
	for cmd := range s.running {
		s.running[cmd] = false
		end(cmd)
	}
	again := s.socket != nil && !s.stopped
	s.mu.Unlock()
	if again {
		s.launch(s.socket)
	}
}
