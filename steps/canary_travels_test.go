package steps_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
	"golang.org/x/crypto/ssh"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/depot"
	"github.com/courierhq/courier/internal/test/ftpserver"
	"github.com/courierhq/courier/internal/test/sftpserver"
	"github.com/courierhq/courier/steps"
	"github.com/courierhq/courier/steps/azure"
	"github.com/courierhq/courier/steps/exec"
	"github.com/courierhq/courier/steps/ftp"
	"github.com/courierhq/courier/steps/httpreq"
	"github.com/courierhq/courier/steps/pgp"
	"github.com/courierhq/courier/steps/sftp"
)

// routeIs is the variable of the environment by which the processes of isolated steps know
// the servers of TestSecretsThatTravel.
const routeIs = "COURIER_TEST_ROUTE"

// A route has what the step types of TestSecretsThatTravel work on: a directory, and servers
// on loopback, which processes of isolated steps reach too. All accounts have the canary
// "travels" as their password, and the servers repeat it wherever they can.
//
//	B     what steps may use besides the workspace
//	sftp  what the SFTP server serves, ftp what the FTP server does
type route struct {
	Dir            string
	SFTP, FTP, Web int // ports
	HostKey        string
}

// serve starts the servers in w.
func (p *route) serve(w *world) error {
	ports := []*int{&p.SFTP, &p.FTP, &p.Web}
	var ls []net.Listener
	for _, port := range ports {
		l, err := newListener()
		if err != nil {
			return err
		}
		*port = l.Addr().(*net.TCPAddr).Port
		ls = append(ls, l)
	}
	tells := func(what string) bool { return strings.Contains(what, "tell") }
	s, err := sftpserver.New(filepath.Join(p.Dir, "sftp"), &sftpserver.Options{
		Users: map[string]string{user: canaries["travels"]},
		Fault: func(o sftpserver.Op) error {
			if tells(o.Path) {
				return errors.New("no tell with " + canaries["travels"] + " or " + canaries["travels-hard"])
			}
			return nil
		},
	})
	if err != nil {
		return err
	}
	f, err := ftpserver.New(filepath.Join(p.Dir, "ftp"), &ftpserver.Options{
		Users: map[string]string{user: canaries["travels"]}, TLS: ftpserver.Config(),
		Answer: func(c *ftpserver.Conn, _, argument string) bool {
			if tells(argument) {
				c.Reply("550 tell: " + canaries["travels"] + " or " + canaries["travels-hard"])
			}
			return tells(argument)
		},
	})
	if err != nil {
		return err
	}
	p.HostKey = ssh.FingerprintSHA256(s.HostKey())
	mux := http.NewServeMux()
	mux.HandleFunc("/", tell)
	mux.HandleFunc("/leak/{status}", func(rw http.ResponseWriter, r *http.Request) {
		status := http.StatusOK
		if r.PathValue("status") == "500" {
			status = http.StatusInternalServerError
		}
		rw.Header().Set("X-Leak", canaries["travels"])
		rw.Header().Set("Content-Type", "application/json")
		rw.WriteHeader(status)
		json.NewEncoder(rw).Encode(object{"plain": canaries["travels"], "hard": canaries["travels-hard"]})
	})
	web := &http.Server{Handler: mux, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)}
	w.serve(func() error { return s.Serve(ls[0]) }, s.Close)
	w.serve(func() error { return f.Serve(ls[1]) }, f.Close)
	w.serve(func() error { web.Serve(ls[2]); return nil }, web.Close)

	e, err := openpgp.NewEntity("us", "", "us@example.com", &packet.Config{Algorithm: packet.PubKeyAlgoEdDSA, Curve: packet.Curve25519})
	if err != nil {
		return err
	}
	if err := e.EncryptPrivateKeys([]byte(canaries["travels"]), nil); err != nil {
		return err
	}
	key, err := os.Create(filepath.Join(p.Dir, "key"))
	if err != nil {
		return err
	}
	return errors.Join(e.SerializePrivateWithoutSigning(key, nil), key.Close())
}

// register adds the step types of the route, in the process of the test and in those of
// isolated steps.
func (p *route) register(reg *courier.Registry) error {
	data, err := os.ReadFile(filepath.Join(p.Dir, "key"))
	if err != nil {
		return err
	}
	ring := new(pgp.Keyring)
	if err := ring.Add("us", pgp.Key{Data: data, Passphrase: "travels"}); err != nil {
		return err
	}
	kept, err := depot.Dir(filepath.Join(p.Dir, "depot"), nil)
	if err != nil {
		return err
	}
	lookup := func(context.Context, string) ([]netip.Addr, error) {
		return []netip.Addr{netip.MustParseAddr("93.184.215.14")}, nil
	}
	dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, fmt.Sprint("127.0.0.1:", p.Web))
	}
	at := ftp.Connection{Host: "127.0.0.1", Port: p.FTP, Username: user, Password: "secret:travels", Authorities: ftpserver.ServerCertificate}
	steps.Register(reg, &steps.Options{
		Connections: sftp.Map{"acme": {
			Host: "127.0.0.1", Port: p.SFTP, Username: user, Password: "secret:travels", HostKeys: []string{p.HostKey},
		}},
		FTPConnections: ftp.Map{"acme": at}, Keys: ring,
		HTTP: &httpreq.Options{AllowPlain: true, Lookup: lookup, Dial: dial},
		Exec: &exec.Options{Programs: map[string]exec.Program{"sh": {Path: "/bin/sh", AllowEnv: []string{"TOKEN"}}}},
		Azure: &azure.Options{
			HTTP:        azure.HTTP{AllowPlain: true, Lookup: lookup, Dial: dial},
			Connections: azure.Map{"acme": {URL: "http://app", FunctionKey: "secret:travels"}},
		},
		Depot: kept,
	})
	courier.RegisterFunc(reg, "demo.show", p.show, nil)
	return nil
}

// routeTypes are those of the route of which the environment knows.
func routeTypes() (*courier.Registry, error) {
	p, reg := new(route), new(courier.Registry)
	if err := json.Unmarshal([]byte(os.Getenv(routeIs)), p); err != nil {
		return nil, err
	}
	return reg, p.register(reg)
}

// show shows what a file holds in all ways that a step has.
func (p *route) show(_ context.Context, job *courier.Context, cfg struct {
	As string `json:"as"`
}) (map[string]any, error) {
	b, err := os.ReadFile(filepath.Join(p.Dir, "B", "clean", "f"))
	if err != nil {
		return nil, err
	}
	text := string(b)
	job.Log().Warn("shows "+text, "content", text)
	job.Progress(1, 2, text)
	if err := job.Emit("shown", map[string]any{"text": text, text: 1}); err != nil {
		return nil, err
	}
	switch cfg.As {
	case "error":
		return nil, errors.New("shows " + text)
	case "panic":
		panic("shows " + text)
	case "output":
		return map[string]any{"text": text}, nil
	case "name":
		return map[string]any{text: 1}, nil
	}
	return nil, nil
}

// A travel is a configuration of a step type, on a route whose canaries lie in the content
// and in the names of files.
type travel struct {
	typ    string
	config object
}

// travels has each step type at least once, without its other names. None names a secret, so
// that only what came before tells the step which secrets there are.
func travels() []travel {
	const in, clean = "$B/in/*", "$B/clean/f"
	all := []travel{
		{"demo.show", object{}}, {"demo.show", object{"as": "error"}}, {"demo.show", object{"as": "output"}}, {"demo.show", object{"as": "name"}}, {"demo.show", object{"as": "panic"}},
		{"file.copy", object{"source_path": in, "destination_path": "copies/"}}, {"file.copy", object{"source_path": clean, "destination_path": "c"}},
		{"file.list", object{"path": "$B/in"}}, {"file.list", object{"path": "$B/clean"}},
		{"file.hash", object{"source_path": "$B/in", "output_path": "made/sums"}}, {"file.verify", object{"manifest_path": "made/sums"}},
		{"file.verify", object{"manifest_path": clean}}, // its lines are none of a manifest
		{"file.gzip", object{"source_path": clean, "output_path": "made/f.gz"}}, {"file.gunzip", object{"source_path": "made/f.gz", "output_path": "g"}},
		{"file.gzip", object{"source_path": in, "output_path": "gz/"}}, {"file.gunzip", object{"source_path": in, "output_path": "gun/"}},
		{"file.zstd", object{"source_path": clean, "output_path": "made/f.zst"}}, {"file.unzstd", object{"source_path": "made/f.zst", "output_path": "z"}},
		{"file.unzstd", object{"source_path": in, "output_path": "unz/"}},
		{"file.zip", object{"source_path": in, "output_path": "made/f.zip"}}, {"file.unzip", object{"archive_path": "made/f.zip", "output_directory": "unzipped"}},
		{"file.unzip", object{"archive_path": in, "output_directory": "unzipped2"}},
		{"file.tar", object{"source_path": "$B/in", "output_path": "made/f.tar", "format": "tar"}}, {"file.untar", object{"archive_path": "made/f.tar", "output_directory": "untarred"}},
		{"file.untar", object{"archive_path": in, "output_directory": "untarred2"}},
		{"file.split", object{"source_path": clean, "output_directory": "made/parts", "part_bytes": 16}}, {"file.join", object{"manifest_path": "made/parts/manifest.json", "output_path": "joined"}},
		{"file.join", object{"manifest_path": clean, "output_path": "joined2"}},
		{"file.mkdir", object{"path": "$B/made/dir"}}, {"file.mkdir", object{"path": clean}},
		{"file.wait", object{"path": in, "stable_seconds": 0}}, {"file.wait", object{"path": "$B/none/*", "timeout_seconds": 0.01}},
		{"depot.fetch", object{}}, {"depot.keep", object{"source_paths": []string{"copies/*", "c"}}},
		{"exec.run", object{"program": "sh", "args": []string{"-c", "cat '" + clean + "'"}}},
		{"exec.run", object{"program": "sh", "args": []string{"-c", "cat '" + clean + "' >&2; cat '" + clean + "'; exit 3"}}},
		{"http.request", object{"url": "http://web/leak/200"}}, {"http.request", object{"url": "http://web/leak/500"}},
		{"http.request", object{"method": "PUT", "url": "http://web/tell/403", "body_path": clean}},
		{"azure_function.execute", object{"connection_id": "acme", "function_name": "say"}}, {"azure_function.execute", object{"connection_id": "acme", "function_name": "tell"}},
		{"job.fail", object{"message": "for its end"}},
		{"pgp.encrypt", object{"source_path": clean, "output_path": "f.pgp", "recipient_key_ids": []string{"us"}}}, {"pgp.decrypt", object{"source_path": "f.pgp", "output_path": "d"}},
		{"pgp.encrypt", object{"source_path": in, "output_path": "pgp/", "recipient_key_ids": []string{"us"}}}, {"pgp.decrypt", object{"source_path": in, "output_path": "dec/"}},
		{"pgp.sign", object{"source_path": clean, "output_path": "f.sig", "signing_key_id": "us"}}, {"pgp.verify", object{"source_path": "f.sig", "signer_key_ids": []string{"us"}}},
		{"pgp.verify", object{"source_path": in, "signer_key_ids": []string{"us"}}},
	}
	for _, family := range []string{"sftp", "ftp"} {
		on := func(name string, config object) {
			config["connection_id"] = "acme"
			all = append(all, travel{family + "." + name, config})
		}
		on("list", object{"remote_path": "in"})
		on("list", object{"remote_path": "tell"})
		on("stat", object{"remote_path": "clean/f"})
		on("stat", object{"remote_path": "tell"})
		on("download", object{"remote_path": "in", "pattern": "*", "local_path": "down/"})
		on("download", object{"remote_path": "clean/f", "local_path": family})
		on("upload", object{"local_path": in, "remote_path": "up/"})
		on("upload", object{"local_path": clean, "remote_path": "tell"})
		on("mkdir", object{"remote_path": "made"})
		on("mkdir", object{"remote_path": "tell"})
		on("rename", object{"source_path": "tell", "destination_path": "told"})
		on("rmdir", object{"remote_path": "tell"})
		on("rmdir", object{"remote_path": "up"}) // it has a file
		on("delete", object{"remote_path": "tell"})
		on("delete", object{"remote_path": "del", "pattern": "*"})
	}
	return append(all, // what takes sources away comes last
		travel{"file.move", object{"source_path": "$B/move/*", "destination_path": "moved/"}},
		travel{"file.delete", object{"path": "$B/del/*"}})
}
