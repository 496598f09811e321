package ftpserver

import (
	"context"
	"net"
	"strconv"
	"sync"

	"github.com/courierhq/courier/internal/test/memnet"
)

// A Network is a network inside the process with one server, whose commands
// come at port 21. Its zero value is ready to use.
type Network struct {
	mu    sync.Mutex
	next  int
	ports map[int]*memnet.Listener
	link  func(port, n int) memnet.Link
	dials []string
}

// Commands returns the listener for commands.
func (n *Network) Commands() net.Listener { return n.listen(21) }

// Listen opens a port for content, as [Options.Listen] does.
func (n *Network) Listen() (net.Listener, int, error) {
	n.mu.Lock()
	n.next++
	port := 2000 + n.next%60_000
	n.mu.Unlock()
	return n.listen(port), port, nil
}

// SetLink makes link decide what happens to connections made from now on; it is
// given the port, and the number of the connection there, counting from 1.
func (n *Network) SetLink(link func(port, n int) memnet.Link) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.link = link
	for port, l := range n.ports {
		l.SetLink(func(i int) memnet.Link { return link(port, i) })
	}
}

func (n *Network) listen(port int) net.Listener {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := memnet.Listen()
	if n.link != nil {
		link := n.link
		l.SetLink(func(i int) memnet.Link { return link(port, i) })
	}
	if n.ports == nil {
		n.ports = make(map[int]*memnet.Listener)
	}
	n.ports[port] = l
	return l
}

// DialContext connects to the server at the port of addr, whatever the host.
func (n *Network) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	_, text, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	n.dials = append(n.dials, addr)
	l := n.ports[port]
	n.mu.Unlock()
	if l == nil {
		l = memnet.Listen()
		l.Close() // refuses
	}
	return l.DialContext(ctx, network, addr)
}

// Dials lists the addresses to which connections were made.
func (n *Network) Dials() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]string(nil), n.dials...)
}
