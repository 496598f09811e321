package steps_test

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/courierhq/courier/internal/jsontext"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
	"golang.org/x/crypto/ssh"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/internal/test/ftpserver"
	"github.com/courierhq/courier/internal/test/memnet"
	"github.com/courierhq/courier/internal/test/sftpserver"
	"github.com/courierhq/courier/steps"
	"github.com/courierhq/courier/steps/azure"
	"github.com/courierhq/courier/steps/exec"
	"github.com/courierhq/courier/steps/ftp"
	"github.com/courierhq/courier/steps/httpreq"
	"github.com/courierhq/courier/steps/pgp"
	"github.com/courierhq/courier/steps/sftp"
)

// canaries are the secrets of the test, by what they are. Each is known to the
// engine under its name too, as "secret:NAME".
var canaries = map[string]string{
	"sftp-password": "canary sftp 7gQ2p", "sftp-wrong": `canary "sftp" \wrong/0Lx4+&%é`, "sftp-passphrase": "canary passphrase 3kW9", "sftp-key": "",
	"ftp-password": "canary ftp 9Zt1m", "ftp-wrong": `canary "ftp" \wrong/5Rb8+&%é`,
	"pgp-passphrase": "canary pgp 4Hv6s", "pgp-wrong": "canary pgp wrong 2Yd0", "zip-password": "canary zip 8Nc3f", "zip-wrong": "canary zip wrong 6Jq7",
	"http-token": "canary-token-1Xe5w", "http-header": "canary-header-9Ua4k", "http-password": `canary "http" \3Of2r/+&%é`, "http-query": "canary?query=7Pz8&b",
	"function-key": "canary-function-6Bi1d", "master-key": "canary-master-0Gs9v", "client-secret": "canary-client-5Tm3h", "access-token": "canary-access-2Ck7y",
	"exec-env": "canary env 4Wl6j", "exec-stdin": "canary stdin 8Eo0n",
	"travels": "canary-travels 2Lb7r", "travels-hard": `canary "travels" \8Zn4/+&%é`, "travels-hook": "whsec_Y2FuYXJ5LXRyYXZlbHMtd2ViaG9vay03UXc1eA==",
}

// The key of the canaries, locked by a passphrase in one round: as many as usual
// take the race detector seconds.
var (
	//go:embed testdata/canary_key
	canaryKey string
	//go:embed testdata/canary_key.pub
	canaryPublic string
)

// forms are the ways in which a secret may show: as it is, and as what is easily
// turned into it.
func forms(secret string) []string {
	quoted, _ := json.Marshal(secret)
	all := []string{
		secret, strings.Trim(string(quoted), `"`), strings.Trim(strconv.Quote(secret), `"`), strings.Trim(strings.ReplaceAll(string(quoted), "/", `\/`), `"`), url.QueryEscape(secret), url.PathEscape(secret), hex.EncodeToString([]byte(secret)), strings.ToUpper(hex.EncodeToString([]byte(secret))),
		strings.TrimRight(base64.StdEncoding.EncodeToString([]byte(secret)), "="), strings.TrimRight(base64.StdEncoding.EncodeToString([]byte(user+":"+secret)), "="),
	}
	for _, order := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
		var wide []byte
		for _, u := range utf16.Encode([]rune(secret)) {
			wide = order.AppendUint16(wide, u)
		}
		all = append(all, string(wide), hex.EncodeToString(wide), strings.TrimRight(base64.StdEncoding.EncodeToString(wide), "="))
	}
	return all
}

// shown returns the canaries in text.
func shown(text string) (names []string) {
	for name, secret := range canaries {
		for _, form := range forms(secret) {
			if secret != "" && strings.Contains(text, form) {
				names = append(names, name+" in "+text[max(0, strings.Index(text, form)-200):][:min(400, len(text)-max(0, strings.Index(text, form)-200))])
				break
			}
		}
	}
	return names
}

// A bird is a job whose secrets must not sing.
type bird struct {
	typ     string
	config  object
	state   courier.State // that it ends in
	mention string        // what its error must show, so that it fails for its reason
}

const ok, failed = courier.Completed, courier.Failed

// birds are successes and failures of all families.
var birds = map[string]bird{
	"sftp, literal password":       {"sftp.download", object{"connection_id": "literal", "remote_path": "f", "local_path": "f"}, ok, ""},
	"sftp, secret password":        {"sftp.list", object{"connection_id": "secret"}, ok, ""},
	"sftp, wrong password":         {"sftp.list", object{"connection_id": "wrong"}, failed, "password"},
	"sftp, password told later":    {"sftp.list", object{"connection_id": "literal", "remote_path": "tell"}, failed, "tell"},
	"sftp, key":                    {"sftp.upload", object{"connection_id": "key", "local_path": "$B/f", "remote_path": "up"}, ok, ""},
	"sftp, wrong passphrase":       {"sftp.list", object{"connection_id": "locked"}, failed, "passphrase"},
	"sftp, key that is none":       {"sftp.list", object{"connection_id": "nokey"}, failed, "private_key"},
	"sftp, password for a key":     {"sftp.list", object{"connection_id": "mixed"}, failed, "private_key"},
	"ftp, literal password":        {"ftp.download", object{"connection_id": "literal", "remote_path": "f", "local_path": "f"}, ok, ""},
	"ftp, secret password":         {"ftps.list", object{"connection_id": "secret"}, ok, ""},
	"ftp, password sent back":      {"ftp.list", object{"connection_id": "wrong"}, failed, "wrong name or"},
	"ftp, password told later":     {"ftp.upload", object{"connection_id": "literal", "local_path": "$B/f", "remote_path": "tell"}, failed, "tell"},
	"ftp, password when it ends":   {"ftp.delete", object{"connection_id": "literal", "remote_path": "bye"}, failed, "421"},
	"pgp, decrypted":               {"pgp.decrypt", object{"source_path": "$B/f.pgp", "output_path": "f", "private_key_ids": []string{"us"}}, ok, ""},
	"pgp, signed":                  {"pgp.sign", object{"source_path": "$B/f", "output_path": "f.sig", "signing_key_id": "us"}, ok, ""},
	"pgp, wrong passphrase":        {"pgp.decrypt", object{"source_path": "$B/f.pgp", "private_key_ids": []string{"wrong"}}, failed, "passphrase"},
	"pgp, not encrypted":           {"pgp.decrypt", object{"source_path": "$B/f", "private_key_ids": []string{"us"}}, failed, "OpenPGP"},
	"http, token":                  {"http.request", object{"url": "http://web/say", "bearer_token": "secret:http-token", "headers": object{"X-Key": "secret:http-header"}}, ok, ""},
	"http, password":               {"http.request", object{"url": "http://web/say", "username": user, "password": "secret:http-password", "query": object{"q": "secret:http-query"}}, ok, ""},
	"http, token sent back":        {"http.request", object{"url": "http://web/tell/500", "bearer_token": "secret:http-token", "headers": object{"X-Key": "secret:http-header"}}, failed, "500"},
	"http, password sent back":     {"http.request", object{"url": "http://web/tell/403", "username": user, "password": "secret:http-password", "query": object{"q": "secret:http-query"}}, failed, "403"},
	"http, token as an output":     {"http.request", object{"url": "http://web/tell/200", "bearer_token": "secret:http-token"}, failed, ""},
	"http, redirect with it":       {"http.request", object{"url": "http://web/redirect", "bearer_token": "secret:http-token", "max_redirects": 0}, failed, "302"},
	"http, token of the job":       {"http.request", object{"url": "http://web/tell/500", "bearer_token": canaries["http-token"]}, failed, "500"},
	"http, malformed URL":          {"http.request", object{"url": "http://web:x/\x7f", "query": object{"q": "secret:http-query"}}, failed, "URL"},
	"azure, function":              {"azure_function.execute", object{"connection_id": "literal", "function_name": "say"}, ok, ""},
	"azure, secret key":            {"azure_function.execute", object{"connection_id": "secret", "function_name": "say"}, ok, ""},
	"azure, key sent back":         {"azure_function.execute", object{"connection_id": "literal", "function_name": "tell"}, failed, "it has failed"},
	"azure, key as an output":      {"azure_function.execute", object{"connection_id": "literal", "function_name": "echo"}, ok, ""},
	"azure, token sent back":       {"azure_function.execute", object{"connection_id": "admin", "function_name": "say", "timeout_seconds": 1}, failed, ""},
	"azure, secret sent back":      {"azure_function.execute", object{"connection_id": "client", "function_name": "say", "timeout_seconds": 1}, failed, ""},
	"depot, secret as a name":      {"depot.fetch", object{"names": []string{"secret:http-token"}}, failed, "the execution has no input file"},
	"depot, secret as a result":    {"depot.keep", object{"source_path": "$B/f", "prefix": "secret:http-token"}, failed, "leave it out"},
	"exec, environment":            {"exec.run", object{"program": "sh", "args": []string{"-c", "test -n \"$TOKEN\" && cat >/dev/null"}, "env": object{"TOKEN": "secret:exec-env"}, "stdin": "secret:exec-stdin"}, ok, ""},
	"exec, told when it fails":     {"exec.run", object{"program": "sh", "args": []string{"-c", "echo $TOKEN >&2; cat >&2; exit 3"}, "env": object{"TOKEN": "secret:exec-env"}, "stdin": "secret:exec-stdin"}, failed, "3"},
	"exec, told as an output":      {"exec.run", object{"program": "sh", "args": []string{"-c", "echo $TOKEN"}, "env": object{"TOKEN": "secret:exec-env"}}, failed, ""},
	"file, password":               {"file.zip", object{"source_path": "$B/f", "output_path": "f.zip", "password": "secret:zip-password"}, ok, ""},
	"file, wrong password":         {"file.unzip", object{"archive_path": "$B/f.zip", "output_directory": "out", "password": "secret:zip-wrong"}, failed, "password"},
	"job, secret as a message":     {"job.fail", object{"message": "secret:exec-env"}, failed, "[secret exec-env]"},
	"file, secret where none fits": {"file.copy", object{"source_path": "secret:zip-password", "destination_path": "x"}, failed, "no such file"},
}

// A cage is an engine with all families, whose connections, keys and
// configurations hold canaries, and servers that tell them to whoever asks.
type cage struct {
	*couriertest.Harness
	log    bytes.Buffer
	mu     sync.Mutex
	events []courier.Event
	work   string
}

func newCage(t *testing.T) *cage {
	t.Helper()
	c := &cage{work: t.TempDir()}
	c.Harness = couriertest.New(t, &engine.Options{
		Workspace: c.work, Log: slog.New(slog.NewJSONHandler(&c.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Secrets: func(_ context.Context, q courier.SecretRequest) (string, error) {
			secret, ok := canaries[q.Name]
			if !ok {
				return "", errors.New("no such secret")
			}
			return secret, nil
		},
		Observers: []func(courier.Event){func(e courier.Event) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.events = append(c.events, e)
		}},
	})
	dir := t.TempDir()
	w := &world{dir: dir}
	t.Cleanup(func() {
		if err := w.close(); err != nil {
			t.Error(err)
		}
	})
	for _, name := range []string{"sftp/f", "ftp/f"} {
		s := site{world: w, TB: t}
		s.write(name, "content")
	}
	web := memnet.Listen()
	server := &http.Server{Handler: http.HandlerFunc(tell), ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)}
	w.serve(func() error { server.Serve(web); return nil }, server.Close)
	lookup := func(context.Context, string) ([]netip.Addr, error) {
		return []netip.Addr{netip.MustParseAddr("93.184.215.14")}, nil
	}
	at := azure.HTTP{AllowPlain: true, Lookup: lookup, Dial: web.DialContext}
	steps.Register(c.Registry, &steps.Options{
		Connections: sftpBirds(t, w), FTPConnections: ftpBirds(t, w), Keys: pgpBirds(t),
		HTTP: &httpreq.Options{AllowPlain: true, Lookup: lookup, Dial: web.DialContext},
		Exec: &exec.Options{Programs: map[string]exec.Program{"sh": {Path: "/bin/sh", AllowEnv: []string{"TOKEN"}}}},
		Azure: &azure.Options{HTTP: at, Connections: azure.Map{
			"literal": {URL: "http://app", FunctionKey: canaries["function-key"]},
			"secret":  {URL: "http://app", FunctionKey: "secret:function-key"},
			"admin":   {URL: "http://app", MasterKey: "secret:master-key", AppID: "app1", QueryURL: "http://query", Tokens: tokens{}},
			"client": {URL: "http://app", MasterKey: canaries["master-key"], AppID: "app1", QueryURL: "http://query", Tokens: &azure.ClientCredentials{
				Tenant: "tenant", ClientID: "client", Authority: "http://login", HTTP: at,
				Secret: func(context.Context) (string, error) { return canaries["client-secret"], nil },
			}},
		}},
		Depot: new(couriertest.Depot),
	})
	return c
}

// tokens always hands out the same one.
type tokens struct{}

func (tokens) Token(context.Context, string) (string, time.Time, error) {
	return canaries["access-token"], time.Now().Add(time.Hour), nil
}

// tell is a server that sends back all that it gets, where it is asked to.
func tell(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	all, _ := json.Marshal(object{"header": r.Header, "url": r.URL.String(), "body": string(body)})
	user, password, _ := r.BasicAuth()
	switch {
	case strings.HasSuffix(r.URL.Path, "/say"):
		fmt.Fprint(w, `{"done": true}`)
	case strings.HasSuffix(r.URL.Path, "/echo"), strings.HasSuffix(r.URL.Path, "/tell/200"):
		w.Header().Set("Content-Type", "application/json")
		w.Write(all)
	case r.URL.Path == "/redirect":
		w.Header().Set("Location", "http://web/?t="+url.QueryEscape(r.Header.Get("Authorization")))
		w.WriteHeader(http.StatusFound)
	default:
		status := http.StatusInternalServerError
		if strings.HasSuffix(r.URL.Path, "403") {
			status = http.StatusForbidden
		}
		w.Header().Set("WWW-Authenticate", r.Header.Get("Authorization"))
		w.WriteHeader(status)
		fmt.Fprintf(w, "%s %s:%s", all, user, password)
	}
}

func sftpBirds(t *testing.T, w *world) sftp.Map {
	t.Helper()
	key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(canaryPublic))
	if err != nil {
		t.Fatal(err)
	}
	text := canaryKey
	canaries["sftp-key"] = strings.Split(text, "\n")[4] // a line in its middle
	s, err := sftpserver.New(filepath.Join(w.dir, "sftp"), &sftpserver.Options{
		Users: map[string]string{user: canaries["sftp-password"]}, AuthorizedKeys: []ssh.PublicKey{key},
		Fault: func(o sftpserver.Op) error {
			if strings.Contains(o.Path, "tell") {
				return errors.New("no tell with " + canaries["sftp-password"])
			}
			return nil
		},
		Configure: func(c *ssh.ServerConfig) {
			c.BannerCallback = func(ssh.ConnMetadata) string {
				return "tried before: " + canaries["sftp-password"] + ", " + canaries["sftp-wrong"] + "\n"
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	net := memnet.Listen()
	w.serve(func() error { return s.Serve(net) }, s.Close)
	with := func(password, key, passphrase string) sftp.Connection {
		return sftp.Connection{
			Host: "sftp.example.com", Username: user, Dial: net.DialContext, HostKeys: []string{ssh.FingerprintSHA256(s.HostKey())},
			Password: password, PrivateKey: key, Passphrase: passphrase,
		}
	}
	return sftp.Map{
		"literal": with(canaries["sftp-password"], "", ""), "secret": with("secret:sftp-password", "", ""), "wrong": with(canaries["sftp-wrong"], "", ""),
		"key": with("", text, "secret:sftp-passphrase"), "locked": with("", text, canaries["sftp-wrong"]),
		"nokey": with("", strings.Replace(text, "OPENSSH", "OTHER", 1), canaries["sftp-passphrase"]), "mixed": with("", canaries["sftp-password"], ""),
	}
}

func ftpBirds(t *testing.T, w *world) ftp.Map {
	t.Helper()
	s, err := ftpserver.New(filepath.Join(w.dir, "ftp"), &ftpserver.Options{
		Users: map[string]string{user: canaries["ftp-password"]}, TLS: ftpserver.Config(),
		Answer: func(c *ftpserver.Conn, verb, argument string) bool {
			switch {
			case verb == "PASS" && argument != canaries["ftp-password"]:
				c.Reply("530-the password "+argument, "530 is the wrong name or password: "+argument)
			case strings.Contains(argument, "bye"):
				c.Reply("421 bye, " + strings.Repeat("x", 180) + canaries["ftp-password"])
			case strings.Contains(argument, "tell"):
				c.Reply("550 tell: " + canaries["ftp-password"])
			case verb == "SYST":
				c.Reply("215 UNIX " + canaries["ftp-password"])
			default:
				return false
			}
			return true
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	l, err := newListener()
	if err != nil {
		t.Fatal(err)
	}
	w.serve(func() error { return s.Serve(l) }, s.Close)
	with := func(password string) ftp.Connection {
		return ftp.Connection{Host: "127.0.0.1", Port: port(l), Username: user, Password: password, Authorities: ftpserver.ServerCertificate}
	}
	return ftp.Map{"literal": with(canaries["ftp-password"]), "secret": with("secret:ftp-password"), "wrong": with(canaries["ftp-wrong"])}
}

// pgpBirds are a key that its passphrase opens, and one that another does not.
func pgpBirds(t *testing.T) *pgp.Keyring {
	t.Helper()
	ring := new(pgp.Keyring)
	for name, passphrase := range map[string]string{"us": "pgp-passphrase", "wrong": "pgp-wrong"} {
		e, err := openpgp.NewEntity(name, "", name+"@example.com", &packet.Config{Algorithm: packet.PubKeyAlgoEdDSA, Curve: packet.Curve25519})
		if err != nil {
			t.Fatal(err)
		}
		if err := e.EncryptPrivateKeys([]byte(canaries["pgp-passphrase"]), nil); err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := e.SerializePrivateWithoutSigning(&b, nil); err != nil {
			t.Fatal(err)
		}
		if err := ring.Add(name, pgp.Key{Data: b.Bytes(), Passphrase: passphrase}); err != nil {
			t.Fatal(err)
		}
	}
	return ring
}

// forget forgets what was said so far.
func (c *cage) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events = nil
	c.log.Reset()
}

// said is all that anybody can get to see of an execution.
func (c *cage) said(t *testing.T, r *couriertest.Result) string {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	dump, err := jsontext.Append(nil, []any{r.Execution, r.Steps, r.Audit, r.Values, c.events})
	if err != nil {
		t.Fatal(err)
	}
	all := string(dump) + fmt.Sprintf("%+v %v %+v", r.Steps, r.Err, r.Err) + c.log.String()
	err = filepath.WalkDir(c.work, func(p string, d fs.DirEntry, err error) error {
		all += p + "\n"
		if err == nil && !d.IsDir() {
			text, _ := os.ReadFile(p)
			all += string(text)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestSecretsStaySecret lets each family succeed and fail with secrets, and
// looks for them in records, values, audit, events, errors, the log and the
// workspace. Whoever reads those must not find the keys of a partner.
func TestSecretsStaySecret(t *testing.T) {
	c := newCage(t)
	c.WriteFile("f", "content")
	setup := func(typ string, config object) {
		t.Helper()
		c.Run(c.job(t, typ, config), nil).RequireState(courier.Completed)
	}
	setup("pgp.encrypt", object{"source_path": "$B/f", "output_path": "$B/f.pgp", "recipient_key_ids": []string{"us", "wrong"}})
	setup("file.zip", object{"source_path": "$B/f", "output_path": "$B/f.zip", "password": "secret:zip-password"})
	for name, b := range birds {
		t.Run(name, func(t *testing.T) {
			c.forget()
			job := c.job(t, b.typ, b.config)
			report, err := c.Engine.Jobs().DryRun(t.Context(), job, nil)
			if err != nil {
				t.Fatal(err)
			}
			r := c.Run(job, nil)
			if b.state != "" && r.State != b.state || b.state == failed && !strings.Contains(r.Err.Error(), b.mention) {
				t.Errorf("it ended %s, %v; want %s, %q", r.State, r.Err, b.state, b.mention)
			}
			for _, found := range shown(c.said(t, r) + fmt.Sprintf("%#v\n%s", report, report)) {
				t.Errorf("there is the secret %s", found)
			}
		})
	}
}

// job is one of a single step.
func (c *cage) job(t *testing.T, typ string, config object) courier.Job {
	t.Helper()
	text, err := json.Marshal(object{"name": "canary", "steps": []object{{"type": typ, "config": config}}})
	if err != nil {
		t.Fatal(err)
	}
	return c.Job(strings.ReplaceAll(string(text), "$B", c.Dir))
}

// The search itself finds what it looks for, and all families are in it.
func TestSecretsAreFound(t *testing.T) {
	for name, secret := range canaries {
		for _, form := range forms(secret) {
			if got := shown("before " + form + " after"); secret != "" && len(got) == 0 {
				t.Errorf("%s is not found as %q", name, form)
			}
		}
	}
	if got := shown("canary sftp, canary-token"); got != nil {
		t.Errorf("found %q in what holds none", got)
	}
	reg, families := registry(), make(map[string]bool)
	for _, b := range birds {
		family, _, _ := strings.Cut(b.typ, ".")
		families[family] = true
	}
	for _, key := range reg.Keys() {
		if family, _, _ := strings.Cut(key, "."); !families[family] {
			t.Errorf("no canary for %s", key)
		}
	}
}
