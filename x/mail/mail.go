// Package mail sends the messages of subscriptions of kind email by SMTP.
//
//	m, err := mail.New(mail.Options{Host: "smtp.example.com", From: "courier@example.com", Username: "courier", Password: password})
//	...
//	e := engine.New(s, registry, &engine.Options{Mailer: m})
//
// The package is a separate module, so that only its users link an SMTP library.
package mail

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"time"

	gomail "github.com/wneessen/go-mail"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/notify"
)

// A TLS says how connections are encrypted.
type TLS string

// The ways to encrypt.
const (
	StartTLS TLS = ""         // STARTTLS; nothing is sent without it
	Implicit TLS = "implicit" // from the first byte
	None     TLS = "none"     // not at all; for servers on the same machine
)

// Options are the settings of a [Mailer]. Host and From are required.
type Options struct {
	Host string
	Port int    // 0 means 587, or 465 for Implicit, or 25 for None
	From string // an address such as "Courier <courier@example.com>"
	TLS  TLS
	// Username and Password are for authentication; an empty Username means none. Password is
	// called for every message, so the password can change.
	Username string
	Password func(ctx context.Context) (string, error)
	// RootCAs are the authorities that certify the server; nil means the authorities of the
	// system.
	RootCAs *x509.CertPool
	// Timeout is the timeout of each operation of the connection; 0 means 15 seconds. A whole
	// message takes at most eight times as long.
	Timeout time.Duration
}

// A Mailer sends messages, each over its own connection. It may be used by several goroutines.
type Mailer struct{ opt Options }

var _ notify.Mailer = (*Mailer)(nil)

// New returns a mailer. It does not connect yet.
func New(opt Options) (*Mailer, error) {
	switch {
	case opt.Host == "":
		return nil, fmt.Errorf("mailer: Options.Host is missing: %w", courier.ErrInvalid)
	case opt.TLS != StartTLS && opt.TLS != Implicit && opt.TLS != None:
		return nil, fmt.Errorf("mailer: TLS %q is unknown; it must be StartTLS, Implicit or None: %w", opt.TLS, courier.ErrInvalid)
	case opt.Username != "" && opt.Password == nil:
		return nil, fmt.Errorf("mailer: there is a user name and no password: %w", courier.ErrInvalid)
	case opt.Username != "" && opt.TLS == None:
		return nil, fmt.Errorf("mailer: a password would be sent without encryption; use StartTLS or Implicit: %w", courier.ErrInvalid)
	case opt.Port < 0 || opt.Port > 65535:
		return nil, fmt.Errorf("mailer: %d is not a port: %w", opt.Port, courier.ErrInvalid)
	}
	if err := gomail.NewMsg().From(opt.From); err != nil {
		return nil, fmt.Errorf("mailer: Options.From %q is not an address: %w", opt.From, courier.ErrInvalid)
	}
	if opt.Timeout <= 0 {
		opt.Timeout = 15 * time.Second
	}
	if opt.Port == 0 {
		opt.Port = map[TLS]int{StartTLS: 587, Implicit: 465, None: 25}[opt.TLS]
	}
	return &Mailer{opt}, nil
}

// Send sends a message. If the server refuses it permanently, the error is marked with
// [courier.Permanent].
func (m *Mailer) Send(ctx context.Context, mail notify.Mail) error {
	msg, err := m.message(mail)
	if err != nil {
		return courier.Permanent(fmt.Errorf("mail: %w", err))
	}
	ctx, cancel := context.WithTimeout(ctx, mostOperations*m.opt.Timeout)
	defer cancel()
	client, password, err := m.client(ctx)
	if err != nil {
		return fmt.Errorf("mail: %w", err)
	}
	if err := client.DialAndSendWithContext(ctx, msg); err != nil {
		const permanent = 500
		refused, ok := errors.AsType[*gomail.SendError](err)
		text := fmt.Errorf("mail through %s: %s", m.opt.Host, clean(err.Error(), m.opt.Username, password))
		if ctx.Err() != nil {
			text = fmt.Errorf("mail through %s: %w", m.opt.Host, context.Cause(ctx))
		}
		if ok && refused.ErrorCode() >= permanent {
			return courier.Permanent(text)
		}
		return text
	}
	return nil
}

// message returns the message to send. Every attempt has the same Message-ID, so that mail
// systems recognise a repetition.
func (m *Mailer) message(mail notify.Mail) (*gomail.Msg, error) {
	msg := gomail.NewMsg()
	if err := msg.From(m.opt.From); err != nil {
		return nil, err
	}
	if err := msg.To(mail.To...); err != nil {
		return nil, err
	}
	msg.Subject(mail.Subject)
	msg.SetMessageIDWithValue(mail.ID + "@" + m.opt.Host)
	msg.SetDate()
	msg.SetGenHeader("Auto-Submitted", "auto-generated")
	msg.SetBodyString(gomail.TypeTextPlain, mail.Text)
	if mail.HTML != "" {
		msg.AddAlternativeString(gomail.TypeTextHTML, mail.HTML)
	}
	return msg, nil
}

// client returns a client for one message, and its password.
func (m *Mailer) client(ctx context.Context) (_ *gomail.Client, password string, err error) {
	o := &m.opt
	cfg := &tls.Config{ServerName: o.Host, RootCAs: o.RootCAs, MinVersion: tls.VersionTLS12}
	list := []gomail.Option{gomail.WithPort(o.Port), gomail.WithTimeout(o.Timeout), gomail.WithTLSConfig(cfg)}
	switch o.TLS {
	case Implicit: // dial encrypts; the library must know that
		list = append(list, gomail.WithTLSPolicy(gomail.TLSOpportunistic))
	case None:
		list = append(list, gomail.WithTLSPolicy(gomail.NoTLS))
	default:
		list = append(list, gomail.WithTLSPolicy(gomail.TLSMandatory))
	}
	if o.Username != "" {
		if password, err = o.Password(ctx); err != nil {
			return nil, "", fmt.Errorf("password: %w", err)
		}
		list = append(list, gomail.WithSMTPAuth(gomail.SMTPAuthAutoDiscover), gomail.WithUsername(o.Username), gomail.WithPassword(password))
	}
	list = append(list, gomail.WithDialContextFunc(func(dialing context.Context, network, address string) (net.Conn, error) {
		return dial(ctx, dialing, network, address, o.TLS, cfg)
	}))
	c, err := gomail.NewClient(o.Host, list...)
	return c, password, err
}
