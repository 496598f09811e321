package ftpserver_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/courierhq/courier/internal/test/ftpserver"
)

// A client speaks to a server line by line, as the protocol's text says and
// not as Courier's own client does.
type client struct {
	t    *testing.T
	net  *ftpserver.Network
	conn net.Conn
	r    *bufio.Reader
	tls  *tls.Config // for content; nil means without TLS
}

// start starts a server with the user "ada" and connects.
func start(t *testing.T, opt ftpserver.Options) (*client, *ftpserver.Server, string) {
	t.Helper()
	dir, net := t.TempDir(), new(ftpserver.Network)
	opt.Users, opt.Listen = map[string]string{"ada": "secret"}, net.Listen
	s, err := ftpserver.New(dir, &opt)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	l := net.Commands()
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		if err := errors.Join(s.Close(), <-done); err != nil {
			t.Error(err)
		}
	})
	conn, err := net.DialContext(t.Context(), "tcp", "ftp:21")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &client{t: t, net: net, conn: conn, r: bufio.NewReader(conn)}, s, dir
}

// reply reads one, with its lines joined.
func (c *client) reply() string {
	c.t.Helper()
	var all []string
	for {
		text, err := c.r.ReadString('\n')
		if err != nil {
			return fmt.Sprint(strings.Join(all, "|"), err)
		}
		text = strings.TrimRight(text, "\r\n")
		all = append(all, text)
		if len(text) > 3 && text[3] == ' ' && (len(all) == 1 || text[:3] == all[0][:3]) {
			return strings.Join(all, "|")
		}
	}
}

// does sends commands and compares the beginnings of the replies, in turns.
func (c *client) does(script ...string) {
	c.t.Helper()
	for i := 0; i < len(script); i += 2 {
		fmt.Fprintf(c.conn, "%s\r\n", script[i])
		if got := c.reply(); !strings.HasPrefix(got, script[i+1]) {
			c.t.Errorf("%s: %q, want %q", script[i], got, script[i+1])
		}
	}
}

// content opens a passive connection, sends a command, and sends or receives.
func (c *client) content(command, send string) (string, string) {
	c.t.Helper()
	fmt.Fprint(c.conn, "EPSV\r\n")
	_, port, _ := strings.Cut(c.reply(), "(|||")
	port, _, _ = strings.Cut(port, "|)")
	conn, err := c.net.DialContext(c.t.Context(), "tcp", "ftp:"+port)
	if err != nil {
		return "", err.Error()
	}
	defer conn.Close()
	fmt.Fprintf(c.conn, "%s\r\n", command)
	if got := c.reply(); !strings.HasPrefix(got, "150 ") {
		return "", got
	}
	if c.tls != nil {
		conn = tls.Client(conn, c.tls)
	}
	if send != "" {
		io.WriteString(conn, send)
		conn.Close()
		return "", c.reply()
	}
	got, _ := io.ReadAll(conn)
	conn.Close()
	return string(got), c.reply()
}

func TestSession(t *testing.T) {
	c, s, dir := start(t, ftpserver.Options{})
	if got := c.reply(); got != "220 ready" {
		t.Errorf("the greeting is %q", got)
	}
	c.does("PWD", "530", "USER ada", "331", "PASS wrong", "530", "MKD x", "530", "USER ada", "331", "PASS secret", "230",
		"FEAT", "211-features| UTF8", "PWD", `257 "/"`, "MKD d", "257", "MKD d", "550", "CWD d", "250", "PWD", `257 "/d"`, "NONSENSE", "502")
	if _, got := c.content("STOR f", "content"); got != "226 all of it" {
		t.Errorf("STOR: %q", got)
	}
	if _, got := c.content("APPE f", ", and more"); got != "226 all of it" {
		t.Errorf("APPE: %q", got)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "d/f")); string(b) != "content, and more" || err != nil {
		t.Errorf("stored %q, %v", b, err)
	}
	c.does("SIZE f", "213 17", "MFMT 20240506070809 f", "213", "MDTM f", "213 20240506070809", "MLST f", "250-it is| type=file;size=17;modify=20240506070809; f",
		"SIZE /d", "550", "MDTM none", "550", "REST 9", "350")
	if got, end := c.content("RETR f", ""); got != "and more" || end != "226 all of it" {
		t.Errorf("RETR from 9: %q, %q", got, end)
	}
	if got, end := c.content("RETR /d/f", ""); got != "content, and more" || end != "226 all of it" {
		t.Errorf("RETR, from the beginning again: %q, %q", got, end)
	}
	if got, _ := c.content("MLSD", ""); got != "type=file;size=17;modify=20240506070809; f\r\n" {
		t.Errorf("MLSD: %q", got)
	}
	if got, _ := c.content("LIST", ""); got != "-rw-r--r-- 1 ada users 17 May  6 2024 f\r\n" {
		t.Errorf("LIST: %q", got)
	}
	c.does("RNFR none", "550", "RNFR f", "350", "RNTO g", "250", "DELE f", "550 no such file", "DELE /d", "550", "RMD g", "550", "CWD /", "250", "RMD d", "550", "DELE d/g", "250", "RMD d", "250", "QUIT", "221")
	if s.Logins() != 1 || !slices.Contains(s.Commands(), "PASS ***") || strings.Contains(fmt.Sprint(s.Commands()), "secret") {
		t.Errorf("%d logins, commands %q", s.Logins(), s.Commands())
	}
}

// No path leads out of the directory, links included.
func TestStaysInside(t *testing.T) {
	c, _, dir := start(t, ftpserver.Options{})
	c.reply()
	c.does("USER ada", "331", "PASS secret", "230")
	outside := filepath.Join(t.TempDir(), "f")
	if err := errors.Join(os.WriteFile(outside, []byte("outside"), 0o600), os.Symlink(filepath.Dir(outside), filepath.Join(dir, "link"))); err != nil {
		t.Fatal(err)
	}
	up := strings.Repeat("../", 20)
	c.does("SIZE link/f", "550", "SIZE "+up+outside[1:], "550", "MKD link/d", "550", "DELE link/f", "550", "CWD ../..", "250", "PWD", `257 "/"`, "RNFR link", "350", "RNTO "+up+"tmp/x", "550")
	if _, got := c.content("STOR link/f", "x"); !strings.HasPrefix(got, "550") {
		t.Errorf("STOR through a link: %q", got)
	}
	if b, err := os.ReadFile(outside); string(b) != "outside" || err != nil {
		t.Errorf("the file outside has %q, %v", b, err)
	}
}

// What a server is told to lack it lacks.
func TestLacks(t *testing.T) {
	c, _, dir := start(t, ftpserver.Options{NoMLSD: true, NoEPSV: true, NoSize: true, NoRest: true, NoRenameOver: true, PassiveHost: "10,9,8,7", Greeting: "220-wait\r\n220 go\r\n"})
	if got := c.reply(); got != "220-wait|220 go" {
		t.Errorf("the greeting is %q", got)
	}
	for _, name := range []string{"a", "b"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c.does("USER ada", "331", "PASS secret", "230", "MLSD", "500", "MLST a", "500", "EPSV", "502", "SIZE a", "502", "MDTM a", "502", "REST 1", "502",
		"RNFR a", "350", "RNTO b", "553", "PASV", "227 there (10,9,8,7,", "AUTH TLS", "502")
}

// Faults come before a command, answers in its place.
func TestMisbehaves(t *testing.T) {
	c, s, dir := start(t, ftpserver.Options{
		Fault: func(verb, argument string) error {
			if verb == "DELE" {
				return errors.New("a fault\r\n226 in two lines")
			}
			return nil
		},
		Answer: func(c *ftpserver.Conn, verb, argument string) bool {
			if verb == "SIZE" {
				c.Raw("213 -1\r\n")
			}
			if verb == "RETR" {
				c.Content(verb, func(conn net.Conn) error {
					io.WriteString(conn, "half")
					return errors.New("426 enough")
				})
			}
			return verb == "SIZE" || verb == "RETR"
		},
		Content: func(_ *ftpserver.Conn, verb string, conn net.Conn) net.Conn {
			if verb == "STOR" {
				return &short{conn, 3}
			}
			return conn
		},
	})
	c.reply()
	if err := os.WriteFile(filepath.Join(dir, "f"), []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.does("USER ada", "331", "PASS secret", "230", "DELE f", "451 a fault  226 in two lines", "SIZE f", "213 -1")
	if got, end := c.content("RETR f", ""); got != "half" || !strings.HasPrefix(end, "426 ") {
		t.Errorf("RETR: %q, %q", got, end)
	}
	if _, end := c.content("STOR g", "content"); !strings.HasPrefix(end, "426 ") {
		t.Errorf("STOR: %q", end)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "g")); string(b) != "con" || err != nil {
		t.Errorf("stored %q, %v", b, err)
	}
	s.Cut()
	if got := c.reply(); !strings.Contains(got, "EOF") && !strings.Contains(got, "reset") {
		t.Errorf("after a cut: %q", got)
	}
}

// short is a connection that breaks off when so many bytes have been read.
type short struct {
	net.Conn
	left int
}

func (s *short) Read(p []byte) (int, error) {
	if s.left == 0 {
		return 0, errors.New("broken off")
	}
	n, err := s.Conn.Read(p[:min(len(p), s.left)])
	s.left -= n
	return n, err
}

func TestTLS(t *testing.T) {
	for _, reuse := range []bool{false, true} {
		t.Run(strconv.FormatBool(reuse), func(t *testing.T) {
			roots := x509.NewCertPool()
			if !roots.AppendCertsFromPEM([]byte(ftpserver.ServerCertificate)) {
				t.Fatal("the certificate can't be read")
			}
			c, _, dir := start(t, ftpserver.Options{TLS: ftpserver.Config(), RequireReuse: true})
			if err := os.WriteFile(filepath.Join(dir, "f"), []byte("content"), 0o600); err != nil {
				t.Fatal(err)
			}
			c.reply()
			c.does("AUTH TLS", "234")
			config := &tls.Config{RootCAs: roots, ServerName: "files.example.com", MaxVersion: tls.VersionTLS12}
			if reuse {
				config.ClientSessionCache = tls.NewLRUClientSessionCache(1)
			}
			secure := tls.Client(c.conn, config)
			c.conn, c.r, c.tls = secure, bufio.NewReader(secure), config
			c.does("USER ada", "331", "PASS secret", "230", "PBSZ 0", "200", "PROT P", "200")
			got, end := c.content("RETR f", "")
			if want := map[bool]string{true: "content", false: ""}[reuse]; got != want || strings.HasPrefix(end, "226") != reuse {
				t.Errorf("with its session resumed %v: %q, %q", reuse, got, end)
			}
		})
	}
}

// The network refuses ports that nobody listens at, and notes who was called.
func TestNetwork(t *testing.T) {
	net := new(ftpserver.Network)
	l, port, err := net.Listen()
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	addr := "host:" + strconv.Itoa(port)
	conn, err := net.DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	if _, err := net.DialContext(context.Background(), "tcp", "host:9"); err == nil {
		t.Error("a port that nobody listens at was reached")
	}
	if got := net.Dials(); !slices.Equal(got, []string{addr, "host:9"}) {
		t.Errorf("called were %q", got)
	}
}
