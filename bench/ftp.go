package main

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/courierhq/courier"
	courierFTP "github.com/courierhq/courier/steps/ftp"
)

// The peers of the transfers by FTP: curl for a big file, and lftp for many
// small ones, which it mirrors over one connection, or over as many as Courier
// uses. All connect anew in each turn. Courier uploads under another name and
// renames, compares sizes, and makes durable what it writes here.
const (
	curlName  = "curl"
	lftpName  = "lftp"
	lftpFour  = "lftp-4"
	ftpFolder = "files" // of the server, in which may be written
)

// ftp measures transfers to and from a vsftpd on the same machine: a file of 1
// GiB in the clear and by TLS, whose sessions content has to resume, and 2,000
// files of 16 KiB. Only root can start vsftpd.
func ftp() []bench {
	moves := func(name, unit string, secure bool, peers []string, turn func(l *ftpLab, ctx context.Context, who string) (float64, error)) bench {
		return bench{
			name: name, peers: peers, figures: []figure{{unit: unit}},
			turn: func(ctx context.Context, h *harness, who string) ([]float64, error) {
				l, err := openFTPLab(h, secure)
				if err != nil {
					return nil, err
				}
				rate, err := turn(l, ctx, who)
				return []float64{rate}, errors.Join(err, l.close())
			},
		}
	}
	var list []bench
	for _, up := range []bool{false, true} {
		way := map[bool]string{true: "up", false: "down"}[up]
		for _, secure := range []bool{false, true} {
			name := map[bool]string{true: "ftps-", false: "ftp-"}[secure] + way + "-1g"
			list = append(list, moves(name, "MiB/s", secure, []string{curlName}, func(l *ftpLab, ctx context.Context, who string) (float64, error) {
				return l.big(ctx, who, up)
			}))
		}
		list = append(list, moves("ftp-small-"+way, "files/s", false, []string{lftpName, lftpFour}, func(l *ftpLab, ctx context.Context, who string) (float64, error) {
			return l.small(ctx, who, up)
		}))
	}
	return list
}

// A ftpLab is a vsftpd with directories for both sides.
type ftpLab struct {
	dir      string // with local/ and root/
	port     int
	secure   bool
	print    string // of the certificate
	bytes    int64  // of the big file
	files    int    // small ones
	listener net.Listener
	serving  sync.WaitGroup
	mu       sync.Mutex
	closed   bool
	running  map[*exec.Cmd]bool
}

func openFTPLab(h *harness, secure bool) (l *ftpLab, err error) {
	l = &ftpLab{secure: secure, running: make(map[*exec.Cmd]bool)}
	l.bytes, l.files = h.transferred()
	if l.dir, err = os.MkdirTemp("", "courier-bench-ftp-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.close())
		}
	}()
	// The server's user has to get to its files, and may not be able to write in
	// the directory above them.
	for _, d := range []string{".", "local", "empty", "root", "root/" + ftpFolder} {
		if err := errors.Join(os.MkdirAll(l.in(d), 0o755), os.Chmod(l.in(d), 0o755)); err != nil {
			return nil, err
		}
	}
	if err := l.own(l.remote("")); err != nil {
		return nil, err
	}
	if secure {
		if err := l.certify(); err != nil {
			return nil, err
		}
	}
	return l, l.serve()
}

func (l *ftpLab) in(name string) string     { return filepath.Join(l.dir, filepath.FromSlash(name)) }
func (l *ftpLab) remote(name string) string { return l.in("root/" + ftpFolder + "/" + name) }

// ftpAccount is whose files the server reads and writes.
const ftpAccount = "daemon"

func (l *ftpLab) own(name string) error {
	who, err := user.Lookup(ftpAccount)
	if err != nil {
		return err
	}
	uid, err := strconv.Atoi(who.Uid)
	if err != nil {
		return err
	}
	gid, err := strconv.Atoi(who.Gid)
	if err != nil {
		return err
	}
	return os.Chown(name, uid, gid)
}

// certify makes a key and a certificate for the server.
func (l *ftpLab) certify() error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	text := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "bench"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), KeyUsage: x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, text, text, &key.PublicKey, key)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(der)
	l.print = hex.EncodeToString(sum[:])
	both := append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})...)
	return os.WriteFile(l.in("server.pem"), both, 0o600)
}

// serve gives every connection to a server of its own until close.
func (l *ftpLab) serve() error {
	program, err := exec.LookPath("vsftpd")
	if err != nil {
		program = "/usr/sbin/vsftpd"
	}
	text := fmt.Sprintf("listen=NO\nbackground=NO\nanonymous_enable=YES\nlocal_enable=NO\nftp_username=%s\nnopriv_user=nobody\n"+
		"secure_chroot_dir=%s\nanon_root=%s\nwrite_enable=YES\nanon_upload_enable=YES\nanon_mkdir_write_enable=YES\n"+
		"anon_other_write_enable=YES\nanon_world_readable_only=NO\nanon_umask=022\nseccomp_sandbox=NO\nxferlog_enable=NO\n",
		ftpAccount, l.in("empty"), l.in("root"))
	if l.secure {
		text += fmt.Sprintf("ssl_enable=YES\nallow_anon_ssl=YES\nforce_anon_logins_ssl=YES\nforce_anon_data_ssl=YES\nrequire_ssl_reuse=YES\n"+
			"ssl_ciphers=HIGH\nrsa_cert_file=%[1]s\nrsa_private_key_file=%[1]s\n", l.in("server.pem"))
	}
	if err := os.WriteFile(l.in("vsftpd.conf"), []byte(text), 0o600); err != nil {
		return err
	}
	if err := exec.Command(program, "-v").Run(); err != nil {
		return fmt.Errorf("vsftpd (on Debian: apt-get install vsftpd curl lftp): %w", err)
	}
	if l.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return err
	}
	l.port = l.listener.Addr().(*net.TCPAddr).Port
	l.serving.Go(func() {
		for {
			conn, err := l.listener.Accept()
			if err != nil {
				return
			}
			l.launch(program, conn.(*net.TCPConn))
		}
	})
	return nil
}

func (l *ftpLab) launch(program string, conn *net.TCPConn) {
	defer conn.Close()
	file, err := conn.File()
	if err != nil {
		return
	}
	defer file.Close()
	cmd := exec.Command(program, l.in("vsftpd.conf"))
	cmd.Stdin, cmd.Stdout = file, file
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || cmd.Start() != nil {
		return
	}
	l.running[cmd] = true
	l.serving.Go(func() {
		cmd.Wait()
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.running, cmd)
	})
}

func (l *ftpLab) close() error {
	if l.listener != nil {
		l.listener.Close()
	}
	l.mu.Lock()
	l.closed = true
	for cmd := range l.running {
		cmd.Process.Kill()
	}
	l.mu.Unlock()
	l.serving.Wait()
	return os.RemoveAll(l.dir)
}

// big moves the big file and returns MiB per second.
func (l *ftpLab) big(ctx context.Context, who string, up bool) (float64, error) {
	from, to := l.remote("big"), l.in("local/moved")
	if up {
		from, to = l.in("local/big"), l.remote("moved")
	}
	if err := fill(from, l.bytes, 1); err != nil {
		return 0, err
	}
	began := time.Now()
	var err error
	if who == curlName {
		err = l.curl(ctx, up)
	} else {
		err = l.step(ctx, up, "big", "moved")
	}
	took := time.Since(began)
	if err == nil {
		err = arrived(to, l.bytes)
	}
	return float64(l.bytes) / (1 << 20) / took.Seconds(), err
}

// small moves many files and returns files per second.
func (l *ftpLab) small(ctx context.Context, who string, up bool) (float64, error) {
	from, to := l.remote("many"), l.in("local/many")
	if up {
		from, to = to, from
	}
	if err := errors.Join(os.Mkdir(from, 0o755), os.Mkdir(to, 0o755), l.own(l.remote("many"))); err != nil {
		return 0, err
	}
	for i := range l.files {
		if err := fill(filepath.Join(from, fmt.Sprint(i)), smallBytes, byte(i)); err != nil {
			return 0, err
		}
	}
	began := time.Now()
	var err error
	switch {
	case who == courierName && up:
		err = l.step(ctx, up, "many/*", "many")
	case who == courierName:
		err = l.step(ctx, up, "many", "many")
	default:
		err = l.lftp(ctx, who, up)
	}
	took := time.Since(began)
	for i := 0; err == nil && i < l.files; i++ {
		err = arrived(filepath.Join(to, fmt.Sprint(i)), smallBytes)
	}
	return float64(l.files) / took.Seconds(), err
}

func (l *ftpLab) url(name string) string {
	return fmt.Sprintf("ftp://127.0.0.1:%d/%s/%s", l.port, ftpFolder, name)
}

func (l *ftpLab) curl(ctx context.Context, up bool) error {
	args := []string{"-q", "-sS", "--user", "anonymous:bench", "-o", "moved", l.url("big")}
	if up {
		args = []string{"-q", "-sS", "--user", "anonymous:bench", "-T", "big", l.url("moved")}
	}
	if l.secure {
		// With TLS 1.3 curl closes an upload without having read the tickets of the
		// session, which resets the connection, and vsftpd may lose the end of the file.
		args = append(args, "--ssl-reqd", "--tls-max", "1.2", "--cacert", l.in("server.pem"))
	}
	return l.run(exec.CommandContext(ctx, curlName, args...))
}

func (l *ftpLab) lftp(ctx context.Context, who string, up bool) error {
	mirror := "mirror"
	if who == lftpFour {
		mirror += " -P 4"
	}
	if up {
		mirror += " -R"
	}
	script := fmt.Sprintf("set cmd:fail-exit yes; set net:max-retries 1; open -u anonymous,bench ftp://127.0.0.1:%d/%s; %s many many", l.port, ftpFolder, mirror)
	cmd := exec.CommandContext(ctx, lftpName, "--norc", "-c", script)
	cmd.Env = append(os.Environ(), "LFTP_HOME="+l.in("empty"))
	return l.run(cmd)
}

func (l *ftpLab) run(cmd *exec.Cmd) error {
	cmd.Dir = l.in("local")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s (on Debian: apt-get install curl lftp): %w: %.300s", filepath.Base(cmd.Path), err, out)
	}
	return nil
}

func (l *ftpLab) step(ctx context.Context, up bool, from, to string) error {
	c := courierFTP.Connection{Host: "127.0.0.1", Port: l.port, Username: "anonymous", Password: "bench", Security: "none"}
	if l.secure {
		c.Security, c.CertificatePolicy, c.PinnedCertificates = "explicit", "pinned", []string{l.print}
	}
	var reg courier.Registry
	courierFTP.Register(&reg, courierFTP.Map{"server": c})
	remote := func(name string) string { return "/" + ftpFolder + "/" + name }
	typ, config := "ftp.download", fmt.Sprintf(`{"connection_id": "server", "remote_path": %q, "local_path": %q}`, remote(from), to)
	if up {
		typ, config = "ftp.upload", fmt.Sprintf(`{"connection_id": "server", "local_path": %q, "remote_path": %q}`, from, remote(to))
	}
	job := courier.NewContext(courier.ContextConfig{Execution: "bench", Workspace: l.in("local")})
	step, _ := reg.Lookup(typ)
	_, err := step.Execute(ctx, job, []byte(config))
	return errors.Join(err, job.Close())
}
