package ftpserver

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
)

// listen opens a port for content and tells its number.
func (c *Conn) listen(verb string) {
	c.closePassive()
	l, port, err := c.s.opt.Listen()
	if err != nil {
		c.Reply("425 no port")
		return
	}
	if !c.s.track(l) {
		l.Close()
	}
	c.passive, c.active = l, ""
	host := c.s.opt.PassiveHost
	if host == "" {
		host = "192,0,2,1"
	}
	if verb == "EPSV" {
		c.Reply(fmt.Sprintf("229 there (|||%d|)", port))
		return
	}
	c.Reply(fmt.Sprintf("227 there (%s,%d,%d).", host, port>>8, port&0xff))
}

func (c *Conn) closePassive() {
	if c.passive != nil {
		c.s.forget(c.passive)
		c.passive = nil
	}
}

// port notes where the client waits for content.
func (c *Conn) port(verb, argument string) {
	c.closePassive()
	var host string
	var port int
	if verb == "EPRT" {
		parts := strings.Split(argument, "|")
		if len(parts) != 5 {
			c.Reply("501 malformed")
			return
		}
		host = parts[2]
		port, _ = strconv.Atoi(parts[3])
	} else {
		parts := strings.Split(argument, ",")
		if len(parts) != 6 {
			c.Reply("501 malformed")
			return
		}
		high, _ := strconv.Atoi(parts[4])
		low, _ := strconv.Atoi(parts[5])
		host, port = strings.Join(parts[:4], "."), high<<8|low
	}
	c.active = net.JoinHostPort(host, strconv.Itoa(port))
	c.Reply("200 fine")
}

// errReuse refuses a connection for content with a TLS session of its own.
var errReuse = errors.New("522 the TLS session must be that of the commands")

// Content opens the connection for content, calls f with it, closes it, and
// replies. An error of f, or of its TLS, is replied as 426, or as it is if it
// begins with a code.
func (c *Conn) Content(verb string, f func(net.Conn) error) {
	raw, err := c.connect()
	if err != nil {
		c.Reply("425 no connection")
		return
	}
	if c.s.opt.Content != nil {
		raw = c.s.opt.Content(c, verb, raw)
	}
	if !c.s.track(raw) {
		raw.Close()
		return
	}
	defer c.s.forget(raw)
	c.Reply("150 here it comes")
	conn := raw
	if c.private && c.s.opt.TLS != nil {
		t := tls.Server(raw, c.s.opt.TLS)
		if err = t.Handshake(); err == nil && c.s.opt.RequireReuse && !t.ConnectionState().DidResume {
			err = errReuse
		}
		conn = t
	}
	if err == nil {
		err = f(conn)
	}
	if e := conn.Close(); err == nil && e != nil && verb != "STOR" && verb != "APPE" {
		err = e
	}
	switch {
	case err == nil:
		c.Reply("226 all of it")
	case hasCode(err.Error()):
		c.Reply(oneLine(err.Error()))
	default:
		c.Reply("426 " + oneLine(err.Error()))
	}
}

// hasCode reports whether a text begins with the code of a reply.
func hasCode(text string) bool {
	return len(text) > 4 && text[3] == ' ' && strings.Trim(text[:3], "0123456789") == ""
}

// connect waits for the client, or goes to it.
func (c *Conn) connect() (net.Conn, error) {
	if c.active != "" {
		return net.DialTimeout("tcp", c.active, 10*time.Second)
	}
	if c.passive == nil {
		return nil, errors.New("no port")
	}
	defer c.closePassive()
	l := c.passive
	watch := time.AfterFunc(10*time.Second, func() { l.Close() })
	defer watch.Stop()
	return l.Accept()
}
