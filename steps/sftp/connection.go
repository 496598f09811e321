package sftp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/safename"
)

// Connections knows connections by the ids that job definitions use. It may be
// called by several goroutines. [Map] is the ready form.
type Connections interface {
	// Connection returns the connection called id. If there is none, the error
	// matches [courier.ErrNotFound].
	Connection(ctx context.Context, id string) (Connection, error)
}

// A Connection says how to reach an SFTP server and how to prove who is who.
// Credentials belong to the host in the same Connection: no step can send them
// elsewhere. Formatting or logging a Connection shows no credentials.
//
// At least one of HostKeys and KnownHosts is needed, or nothing works; the
// error shows what the server presents.
type Connection struct {
	Host     string `json:"host"`     // name or address
	Port     int    `json:"port"`     // 0 means 22
	Username string `json:"username"` // as the server knows it

	// Password, PrivateKey and Passphrase are the secret itself, or
	// "secret:NAME" for one that the engine's Secrets resolve. A text that
	// begins with "$secret:" stands for itself without the dollar sign.
	Password   string `json:"-"` // also answers a server that asks one hidden question
	PrivateKey string `json:"-"` // in PEM form, as OpenSSH writes it
	Passphrase string `json:"-"` // of PrivateKey

	// HostKeys are the server's keys: fingerprints such as "SHA256:pjZ...", or
	// public keys such as "ssh-ed25519 AAAA...". One of them must be presented.
	// A fingerprint doesn't tell the type of its key, so connecting to a server
	// with keys of several types may take several tries; a public key does.
	HostKeys []string `json:"host_keys"`
	// KnownHosts is the path of a file in the form of OpenSSH's known_hosts.
	// A key that it revokes is refused in any case.
	KnownHosts string `json:"known_hosts"`
	// InsecureIgnoreHostKey accepts any key, so that whoever controls the
	// network can read and change everything, credentials included. Every use
	// is logged as a warning.
	InsecureIgnoreHostKey bool `json:"insecure_ignore_host_key"`

	// ConnectTimeout limits everything from the first packet to the server's
	// readiness for requests. 0 means 30 s.
	ConnectTimeout time.Duration `json:"-"`
	// KeepAlive is how often an idle connection is checked; one on which
	// nothing arrives for three times as long counts as lost. Nil means 15 s,
	// 0 never.
	KeepAlive *time.Duration `json:"-"`
	// OperationTimeout is the longest time for which the server may leave all
	// requests unanswered. 0 means 5 minutes.
	OperationTimeout time.Duration `json:"-"`

	// Channels is over how many SSH channels a large file is moved. 0 means 1,
	// or 4 if the server is OpenSSH and far away, where that is several times
	// as fast. Servers that keep files elsewhere than in a file system may not
	// be able to write a file over more than one.
	Channels int `json:"channels"`

	Algorithms Algorithms `json:"algorithms"`

	// Dial makes the connection to the address "host:port", for example through
	// a proxy. Nil means [net.Dialer.DialContext].
	Dial func(ctx context.Context, network, addr string) (net.Conn, error) `json:"-"`
}

// Algorithms restrict what may be negotiated, in the order of preference and
// by the names of SSH. An empty list means all that are considered secure. An
// old algorithm that is not must be named; its use is logged as a warning.
type Algorithms struct {
	KeyExchanges []string `json:"key_exchanges"`
	Ciphers      []string `json:"ciphers"`
	MACs         []string `json:"macs"`
	HostKeys     []string `json:"host_keys"`
}

const (
	defaultPort             = 22
	defaultConnectTimeout   = 30 * time.Second
	defaultKeepAlive        = 15 * time.Second
	defaultOperationTimeout = 5 * time.Minute

	// maxChannels is the most that servers commonly open on a connection.
	maxChannels = 8

	// keepAliveMisses is after how many intervals without a byte a connection
	// counts as lost.
	keepAliveMisses = 3
)

// withDefaults checks c and fills in the defaults.
func (c Connection) withDefaults() (Connection, error) {
	switch {
	case c.Host == "":
		return c, errors.New("host is missing")
	case strings.ContainsFunc(c.Host, func(r rune) bool { return r <= ' ' || r == '/' || r == '@' }):
		return c, fmt.Errorf("host %s is not the name or address of a host", safename.Quote(c.Host))
	case c.Port < 0 || c.Port > 65535:
		return c, fmt.Errorf("port %d is out of range", c.Port)
	case c.Username == "":
		return c, errors.New("username is missing")
	case c.Password == "" && c.PrivateKey == "":
		return c, errors.New("password and private_key are both missing; one of them is needed to log in")
	case c.Passphrase != "" && c.PrivateKey == "":
		return c, errors.New("passphrase is given, but no private_key that it belongs to")
	case c.Channels < 0 || c.Channels > maxChannels:
		return c, fmt.Errorf("channels: %d is out of range; %d at most", c.Channels, maxChannels)
	case c.ConnectTimeout < 0 || c.OperationTimeout < 0 || c.KeepAlive != nil && *c.KeepAlive < 0:
		return c, errors.New("a timeout is negative")
	}
	if c.Port == 0 {
		c.Port = defaultPort
	}
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = defaultConnectTimeout
	}
	if c.OperationTimeout == 0 {
		c.OperationTimeout = defaultOperationTimeout
	}
	if c.KeepAlive == nil {
		c.KeepAlive = new(defaultKeepAlive)
	}
	if c.Dial == nil {
		c.Dial = (&net.Dialer{}).DialContext
	}
	return c, nil
}

// address returns "host:port".
func (c Connection) address() string {
	port := c.Port
	if port == 0 {
		port = defaultPort
	}
	return net.JoinHostPort(strings.Trim(c.Host, "[]"), strconv.Itoa(port))
}

// String returns user, host and port.
func (c Connection) String() string {
	return fmt.Sprintf("sftp://%s@%s", c.Username, c.address())
}

// Format writes what String returns, whatever the verb.
func (c Connection) Format(f fmt.State, _ rune) { fmt.Fprint(f, c.String()) }

// LogValue returns what String returns.
func (c Connection) LogValue() slog.Value { return slog.StringValue(c.String()) }

// UnmarshalJSON reads the form {"host": "files.example.com", "port": 22,
// "username": "acme", "password": "secret:acme", "host_keys": ["SHA256:..."]}.
// The names are those of the fields in snake case; times are numbers of
// seconds: connect_timeout_seconds, keep_alive_seconds,
// operation_timeout_seconds. Unknown names are errors.
func (c *Connection) UnmarshalJSON(text []byte) error {
	type plain Connection // without this method
	var f struct {
		plain
		Password                string   `json:"password"`
		PrivateKey              string   `json:"private_key"`
		Passphrase              string   `json:"passphrase"`
		ConnectTimeoutSeconds   float64  `json:"connect_timeout_seconds"`
		KeepAliveSeconds        *float64 `json:"keep_alive_seconds"`
		OperationTimeoutSeconds float64  `json:"operation_timeout_seconds"`
	}
	if err := decodeStrict(text, &f); err != nil {
		return err
	}
	*c = Connection(f.plain)
	c.Password, c.PrivateKey, c.Passphrase = f.Password, f.PrivateKey, f.Passphrase
	c.ConnectTimeout = seconds(f.ConnectTimeoutSeconds)
	c.OperationTimeout = seconds(f.OperationTimeoutSeconds)
	if f.KeepAliveSeconds != nil {
		c.KeepAlive = new(seconds(*f.KeepAliveSeconds))
	}
	return nil
}

// seconds keeps the sign of n, however small or large it is, since 0 means
// something else.
func seconds(n float64) time.Duration {
	const most = 1 << 62
	d := time.Duration(max(-most, min(n*float64(time.Second), most)))
	switch {
	case n > 0:
		return max(d, 1)
	case n < 0:
		return min(d, -1)
	}
	return 0
}

// decodeStrict decodes JSON into v and refuses unknown names.
func decodeStrict(text []byte, v any) error {
	if !utf8.Valid(text) {
		return errUTF8
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	err := dec.Decode(v)
	if err == nil {
		return nil
	}
	if t, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && t.Field != "" {
		return fmt.Errorf("%s: must be %s, not a JSON %s", strings.TrimPrefix(t.Field, "plain."), jsonKind(t.Type), t.Value)
	}
	message := strings.TrimPrefix(err.Error(), "json: ")
	if quoted, ok := strings.CutPrefix(message, "unknown field "); ok {
		if name, err := strconv.Unquote(quoted); err == nil {
			names := jsonNames(reflect.TypeOf(v).Elem())
			slices.Sort(names)
			names = slices.Compact(names) // host_keys are a field of the algorithms too
			return fmt.Errorf("unknown field %s; %s", safename.Quote(name), courier.DidYouMean(name, names))
		}
	}
	return errors.New(message)
}

// errUTF8 is about text in which package json would replace characters, such as
// those of a password.
var errUTF8 = errors.New("is not valid UTF-8; save the file in that form")

// jsonKind is how a message calls what JSON must have for a type.
func jsonKind(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "text"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		return "a list"
	case reflect.Struct, reflect.Map:
		return "an object"
	}
	return "a number"
}

// jsonNames lists the names that a struct and those in it have in JSON.
func jsonNames(t reflect.Type) []string {
	var names []string
	for f := range t.Fields() {
		name := f.Tag.Get("json")
		if name == "-" {
			continue
		}
		if name != "" {
			names = append(names, name)
		}
		if f.Type.Kind() == reflect.Struct {
			names = append(names, jsonNames(f.Type)...)
		}
	}
	return names
}

// A Map holds connections by id. It must not be changed while it is in use.
type Map map[string]Connection

var _ Connections = Map(nil)

// Connection returns the connection called id.
func (m Map) Connection(_ context.Context, id string) (Connection, error) {
	c, ok := m[id]
	if !ok {
		return c, &unknownConnection{fmt.Sprintf("no such connection; %s", courier.DidYouMean(id, slices.Sorted(maps.Keys(m))))}
	}
	return c, nil
}

// unknownConnection matches [courier.ErrNotFound] without repeating its text.
type unknownConnection struct{ text string }

func (e *unknownConnection) Error() string        { return e.text }
func (e *unknownConnection) Is(target error) bool { return target == courier.ErrNotFound }

// ReadConnections reads a JSON file that maps ids to connections, such as
// {"acme": {"host": "files.example.com", ...}}; see [Connection.UnmarshalJSON].
// All that is wrong with a connection by itself is reported here. The server is
// not asked, and secrets are not resolved.
func ReadConnections(path string) (Map, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("sftp connections: %w", err)
	}
	m, err := parseConnections(text)
	if err != nil {
		return nil, fmt.Errorf("sftp connections: %s: %w", path, err)
	}
	return m, nil
}

func parseConnections(text []byte) (Map, error) {
	if !utf8.Valid(text) {
		return nil, errUTF8
	}
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(text, &raw); err != nil {
		return nil, fmt.Errorf("must be a JSON object that maps ids to connections: %w", err)
	}
	m := make(Map, len(raw))
	var errs []error
	for _, id := range slices.Sorted(maps.Keys(raw)) {
		var c Connection
		err := json.Unmarshal(raw[id], &c)
		if err == nil {
			err = c.check()
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("connection %q: %w", id, err))
		}
		m[id] = c
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return m, nil
}

// check reports what is wrong with c by itself.
func (c Connection) check() error {
	if _, err := c.withDefaults(); err != nil {
		return err
	}
	if _, err := c.Algorithms.resolve(); err != nil {
		return err
	}
	_, err := c.parsePins()
	return err
}

// secret returns what the text of a credential stands for.
func secret(ctx context.Context, job *courier.Context, field, text string) (string, error) {
	if strings.HasPrefix(text, "$secret:") {
		return text[1:], nil
	}
	name, ok := strings.CutPrefix(text, "secret:")
	if !ok {
		return text, nil
	}
	value, err := job.Secret(ctx, name)
	if err != nil {
		return "", fmt.Errorf("%s: %w", field, err)
	}
	return value, nil
}
