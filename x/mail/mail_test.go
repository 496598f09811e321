package mail

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math/big"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net"
	netmail "net/mail"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/notify"
	"github.com/courierhq/courier/store/memstore"
)

// A server speaks as much SMTP as the tests need.
type server struct {
	net.Listener
	tls      *tls.Config
	roots    *x509.CertPool
	implicit bool
	plain    bool   // offers no STARTTLS
	refuse   string // the answer to RCPT, if not empty

	mu    sync.Mutex
	got   []string // messages
	said  []string // commands
	conns []net.Conn
	all   sync.WaitGroup
}

func serve(t *testing.T, change func(*server)) *server {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"localhost"},
		IsCA: true, BasicConstraintsValid: true,
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(raw)
	if err != nil {
		t.Fatal(err)
	}
	s := &server{roots: x509.NewCertPool(), tls: &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{raw}, PrivateKey: key}}}}
	s.roots.AddCert(cert)
	if change != nil {
		change(s)
	}
	if s.Listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	s.all.Go(func() {
		for {
			conn, err := s.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.conns = append(s.conns, conn)
			s.mu.Unlock()
			s.all.Go(func() { s.talk(conn) })
		}
	})
	t.Cleanup(func() {
		s.Close()
		s.mu.Lock()
		for _, c := range s.conns {
			c.Close() // some clients leave theirs open
		}
		s.mu.Unlock()
		s.all.Wait()
	})
	return s
}

// talk answers one client.
func (s *server) talk(conn net.Conn) {
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	if s.implicit {
		conn = tls.Server(conn, s.tls)
	}
	r := bufio.NewReader(conn)
	say := func(format string, args ...any) { fmt.Fprintf(conn, format+"\r\n", args...) }
	say("220 test")
	secure := s.implicit
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		line = strings.TrimRight(line, "\r\n")
		s.mu.Lock()
		s.said = append(s.said, line)
		s.mu.Unlock()
		word, _, _ := strings.Cut(strings.ToUpper(line), " ")
		switch word {
		case "EHLO", "HELO":
			say("250-test")
			if !secure && !s.plain {
				say("250-STARTTLS")
			}
			if secure {
				say("250-AUTH PLAIN")
			}
			say("250 8BITMIME")
		case "STARTTLS":
			say("220 go on")
			conn = tls.Server(conn, s.tls)
			r, secure = bufio.NewReader(conn), true
		case "AUTH":
			if want := base64.StdEncoding.EncodeToString([]byte("\x00ops\x00pa55word")); !strings.HasSuffix(line, want) {
				say("535 5.7.8 wrong")
				continue
			}
			say("235 welcome")
		case "RCPT":
			if s.refuse != "" {
				say("%s", s.refuse)
				continue
			}
			say("250 ok")
		case "DATA":
			say("354 go on")
			var text strings.Builder
			for {
				l, err := r.ReadString('\n')
				if err != nil {
					return
				}
				if l == ".\r\n" {
					break
				}
				text.WriteString(strings.TrimPrefix(l, "."))
			}
			s.mu.Lock()
			s.got = append(s.got, text.String())
			s.mu.Unlock()
			say("250 ok")
		case "QUIT":
			say("221 bye")
			return
		default:
			say("250 ok")
		}
	}
}

func (s *server) messages() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.got...)
}

func (s *server) options() Options {
	return Options{
		Host: "localhost", Port: s.Addr().(*net.TCPAddr).Port, From: "Courier <courier@example.com>", RootCAs: s.roots, Timeout: 5 * time.Second,
		Username: "ops", Password: func(context.Context) (string, error) { return "pa55word", nil },
	}
}

var sample = notify.Mail{
	ID: "018f-7", To: []string{"Öps <ops@example.com>", "b@example.com"}, Subject: "Courier: job \"ü\" failed",
	Text: ".a dot\nGrüße\n", HTML: "<p>Grüße</p>",
}

func send(t *testing.T, o Options, m notify.Mail) error {
	t.Helper()
	mailer, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return mailer.Send(t.Context(), m)
}

func TestSend(t *testing.T) {
	for name, change := range map[string]func(*server){
		"starttls": nil, "implicit": func(s *server) { s.implicit = true }, "none": func(s *server) { s.plain = true },
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, change)
			o := s.options()
			switch name {
			case "implicit":
				o.TLS = Implicit
			case "none":
				o.TLS, o.Username = None, ""
			}
			if err := send(t, o, sample); err != nil {
				t.Fatal(err)
			}
			got := s.messages()
			if len(got) != 1 {
				t.Fatalf("%d messages", len(got))
			}
			check(t, got[0])
		})
	}
}

// check compares a message with the sample.
func check(t *testing.T, text string) {
	t.Helper()
	msg, err := netmail.ReadMessage(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	subject, err := new(mime.WordDecoder).DecodeHeader(msg.Header.Get("Subject"))
	if err != nil || subject != sample.Subject {
		t.Errorf("subject %q, %v", subject, err)
	}
	if id := msg.Header.Get("Message-ID"); id != "<018f-7@localhost>" {
		t.Errorf("message id %q", id)
	}
	to, err := msg.Header.AddressList("To")
	if err != nil || len(to) != 2 || to[0].Name != "Öps" || to[1].Address != "b@example.com" {
		t.Errorf("to %v, %v", to, err)
	}
	_, params, err := mime.ParseMediaType(msg.Header.Get("Content-Type"))
	if err != nil {
		t.Fatal(err)
	}
	parts := multipart.NewReader(msg.Body, params["boundary"])
	for _, want := range []string{sample.Text, sample.HTML} {
		p, err := parts.NextRawPart()
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(quotedprintable.NewReader(p))
		if got := strings.ReplaceAll(string(body), "\r\n", "\n"); err != nil || strings.TrimSpace(got) != strings.TrimSpace(want) {
			t.Errorf("part %q, %v; want %q", got, err, want)
		}
	}
}

func TestSendFails(t *testing.T) {
	for name, tt := range map[string]struct {
		server    func(*server)
		change    func(*Options)
		mail      func(*notify.Mail)
		permanent bool
	}{
		"wrong password": {change: func(o *Options) { o.Password = func(context.Context) (string, error) { return "other", nil } }},
		"no password": {change: func(o *Options) {
			o.Password = func(context.Context) (string, error) { return "", errors.New("locked") }
		}},
		"unknown authority":    {change: func(o *Options) { o.RootCAs = x509.NewCertPool() }},
		"no encryption":        {server: func(s *server) { s.plain = true }},
		"nobody there":         {change: func(o *Options) { o.Port = 1 }},
		"mailbox full":         {server: func(s *server) { s.refuse = "452 4.2.2 full" }},
		"no such mailbox":      {server: func(s *server) { s.refuse = "550 5.1.1 no such user" }, permanent: true},
		"an address is broken": {mail: func(m *notify.Mail) { m.To = []string{"nobody"} }, permanent: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, tt.server)
			o, m := s.options(), sample
			if tt.change != nil {
				tt.change(&o)
			}
			if tt.mail != nil {
				tt.mail(&m)
			}
			err := send(t, o, m)
			if err == nil || courier.IsPermanent(err) != tt.permanent || strings.Contains(err.Error(), "pa55word") {
				t.Errorf("error %v, permanent %v; want permanent %v", err, courier.IsPermanent(err), tt.permanent)
			}
			if n := len(s.messages()); n != 0 {
				t.Errorf("%d messages were sent", n)
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			for _, line := range s.said {
				if name == "no encryption" && strings.HasPrefix(line, "AUTH") {
					t.Error("the password was sent without encryption")
				}
			}
		})
	}
}

func TestNewRefuses(t *testing.T) {
	good := Options{Host: "localhost", From: "a@example.com"}
	if _, err := New(good); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Options){
		"no host": func(o *Options) { o.Host = "" }, "no sender": func(o *Options) { o.From = "" }, "odd tls": func(o *Options) { o.TLS = "some" },
		"no password": func(o *Options) { o.Username = "a" }, "odd port": func(o *Options) { o.Port = 70000 },
		"open password": func(o *Options) {
			o.TLS, o.Username, o.Password = None, "a", func(context.Context) (string, error) { return "", nil }
		},
	} {
		o := good
		change(&o)
		if _, err := New(o); !errors.Is(err, courier.ErrInvalid) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// TestEngine has an engine tell of a failed job.
func TestEngine(t *testing.T) {
	s := serve(t, nil)
	m, err := New(s.options())
	if err != nil {
		t.Fatal(err)
	}
	reg := new(courier.Registry)
	courier.RegisterFunc(reg, "test.fail", func(context.Context, *courier.Context, struct{}) (struct{}, error) {
		return struct{}{}, errors.New("it broke")
	}, nil)
	e := engine.New(memstore.New(), reg, &engine.Options{Workspace: t.TempDir(), Mailer: m})
	if _, err := e.Jobs().Define(t.Context(), courier.Job{Name: "bad", Steps: []courier.StepSpec{{Type: "test.fail"}}}, nil); err != nil {
		t.Fatal(err)
	}
	_, err = e.Subscriptions().Set(t.Context(), notify.Subscription{
		Name: "ops", Kind: notify.KindEmail, Events: []courier.EventType{courier.EventJobFailed}, Email: &notify.EmailTarget{To: []string{"ops@example.com"}},
	}, courier.By{})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Enqueue(t.Context(), "bad", nil); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(20 * time.Second); len(s.messages()) == 0 && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
	}
	if err := e.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if got := s.messages(); len(got) != 1 || !strings.Contains(got[0], "it broke") || !strings.Contains(got[0], `Courier: job "bad" failed`) {
		t.Errorf("messages: %q", got)
	}
}
