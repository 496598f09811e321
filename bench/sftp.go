package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/courierhq/courier"
	courierSFTP "github.com/courierhq/courier/steps/sftp"
)

// The peers of the transfers, with the same server, the same cipher and the
// same files. All connect anew in each turn. Courier makes durable what it
// writes, there and here, and renames it; the program sftp of OpenSSH does
// neither unless it is told to make durable what it uploads, which is a peer of
// its own; rclone does neither.
const (
	openSSH     = "openssh"
	openSSHSync = "openssh-sync"
	rclone      = "rclone"
)

const sftpCipher = "aes128-gcm@openssh.com"

// sftp measures transfers to and from an OpenSSH server on the same machine: a
// file of 1 GiB, 2,000 files of 16 KiB, and a file and a tenth of the small ones both
// ways over lines with round trips of 20 and 100 ms.
func sftp() []bench {
	moves := func(name, unit string, peers []string, turn func(*sftpLab, context.Context, string) (float64, error)) bench {
		return bench{
			name: name, peers: peers, figures: []figure{{unit: unit}},
			turn: func(ctx context.Context, h *harness, who string) ([]float64, error) {
				lab, err := openSFTPLab(ctx, h)
				if err != nil {
					return nil, err
				}
				rate, err := turn(lab, ctx, who)
				return []float64{rate}, errors.Join(err, lab.close())
			},
		}
	}
	up, down := []string{openSSH, openSSHSync, rclone}, []string{openSSH, rclone}
	return []bench{
		moves("sftp-up-1g", "MiB/s", up, func(l *sftpLab, ctx context.Context, who string) (float64, error) {
			return l.big(ctx, who, l.port, true)
		}),
		moves("sftp-down-1g", "MiB/s", down, func(l *sftpLab, ctx context.Context, who string) (float64, error) {
			return l.big(ctx, who, l.port, false)
		}),
		moves("sftp-small-up", "files/s", up, func(l *sftpLab, ctx context.Context, who string) (float64, error) {
			return l.small(ctx, who, l.port, true)
		}),
		moves("sftp-small-down", "files/s", down, func(l *sftpLab, ctx context.Context, who string) (float64, error) {
			return l.small(ctx, who, l.port, false)
		}),
		moves("sftp-20ms", "MiB/s", []string{openSSH}, func(l *sftpLab, ctx context.Context, who string) (float64, error) {
			return l.far(ctx, who, l.bytes/2, 10*time.Millisecond)
		}),
		moves("sftp-100ms", "MiB/s", []string{openSSH}, func(l *sftpLab, ctx context.Context, who string) (float64, error) {
			return l.far(ctx, who, l.bytes/2, 50*time.Millisecond)
		}),
		moves("sftp-small-20ms", "files/s", []string{openSSH}, func(l *sftpLab, ctx context.Context, who string) (float64, error) {
			return l.farSmall(ctx, who, max(l.files/10, 1), 10*time.Millisecond)
		}),
		moves("sftp-small-100ms", "files/s", []string{openSSH}, func(l *sftpLab, ctx context.Context, who string) (float64, error) {
			return l.farSmall(ctx, who, max(l.files/10, 1), 50*time.Millisecond)
		}),
	}
}

// A sftpLab is an OpenSSH server with directories for both sides.
type sftpLab struct {
	dir   string // with local/ and remote/
	user  string
	port  int
	bytes int64 // of the big file
	files int   // small ones
	cmd   *exec.Cmd
	done  chan struct{}
}

const (
	smallFiles = 2000
	smallBytes = 16 << 10
)

// transferred is the size of the big file and the number of small ones.
func (h *harness) transferred() (bytes int64, files int) {
	if h.quick && !h.least {
		return 256 << 20, smallFiles / 2
	}
	return int64(h.scaled(1 << 30)), h.scaled(smallFiles)
}

func openSFTPLab(ctx context.Context, h *harness) (l *sftpLab, err error) {
	l = &sftpLab{}
	l.bytes, l.files = h.transferred()
	who, err := user.Current()
	if err != nil {
		return nil, err
	}
	l.user = who.Username
	if l.dir, err = os.MkdirTemp("", "courier-bench-sftp-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.close())
		}
	}()
	for _, d := range []string{"local", "remote", "run"} {
		if err := os.Mkdir(filepath.Join(l.dir, d), 0o700); err != nil {
			return nil, err
		}
	}
	for _, key := range []string{"host", "client"} {
		if out, err := exec.CommandContext(ctx, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", l.in(key)).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("ssh-keygen: %w: %s", err, out)
		}
	}
	return l, l.serve()
}

func (l *sftpLab) in(parts ...string) string {
	return filepath.Join(append([]string{l.dir}, parts...)...)
}

// serve starts the server, which ends with close.
func (l *sftpLab) serve() error {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	l.port = free.Addr().(*net.TCPAddr).Port
	if err := free.Close(); err != nil {
		return err
	}
	config := fmt.Sprintf("ListenAddress 127.0.0.1:%d\nHostKey %s\nAuthorizedKeysFile %s\nCiphers %s\nSubsystem sftp internal-sftp -d %s\nPidFile none\nUsePAM no\nUseDNS no\nStrictModes no\nPermitRootLogin prohibit-password\n",
		l.port, l.in("host"), l.in("client.pub"), sftpCipher, l.in("remote"))
	if err := os.WriteFile(l.in("sshd_config"), []byte(config), 0o600); err != nil {
		return err
	}
	if os.Getuid() == 0 { // start scripts make it, which containers lack
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
			return err
		}
	}
	sshd, err := exec.LookPath("sshd")
	if err != nil {
		sshd = "/usr/sbin/sshd"
	}
	l.cmd = exec.Command(sshd, "-D", "-f", l.in("sshd_config"))
	if err := l.cmd.Start(); err != nil {
		return fmt.Errorf("sshd (on Debian: apt-get install openssh-server): %w", err)
	}
	l.done = make(chan struct{})
	go func() {
		l.cmd.Wait()
		close(l.done)
	}()
	for range 100 {
		c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", l.port))
		if err == nil {
			return c.Close()
		}
		time.Sleep(20 * time.Millisecond)
	}
	return errors.New("sshd doesn't answer")
}

func (l *sftpLab) close() error {
	if l.done != nil {
		l.cmd.Process.Kill()
		<-l.done
	}
	return os.RemoveAll(l.dir)
}

// fill writes a file that can't be compressed.
func fill(name string, size int64, seed byte) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	_, err = io.CopyN(f, rand.NewChaCha8([32]byte{seed}), size)
	return errors.Join(err, f.Close())
}

// sides returns the directories of the source and of the target.
func (l *sftpLab) sides(up bool) (from, to string) {
	if up {
		return l.in("local"), l.in("remote")
	}
	return l.in("remote"), l.in("local")
}

// big moves the big file and returns MiB per second.
func (l *sftpLab) big(ctx context.Context, who string, port int, up bool) (float64, error) {
	from, to := l.sides(up)
	if err := fill(filepath.Join(from, "big"), l.bytes, 1); err != nil {
		return 0, err
	}
	took, err := l.move(ctx, who, port, up, "big", "moved")
	if err == nil {
		err = arrived(filepath.Join(to, "moved"), l.bytes)
	}
	return float64(l.bytes) / (1 << 20) / took.Seconds(), err
}

func arrived(name string, size int64) error {
	info, err := os.Stat(name)
	if err == nil && info.Size() != size {
		err = fmt.Errorf("%s has %d bytes of %d", filepath.Base(name), info.Size(), size)
	}
	return err
}

// small moves many files and returns files per second.
func (l *sftpLab) small(ctx context.Context, who string, port int, up bool) (float64, error) {
	from, to := l.sides(up)
	for _, d := range []string{from, to} {
		if err := os.MkdirAll(filepath.Join(d, "many"), 0o700); err != nil {
			return 0, err
		}
	}
	for i := range l.files {
		if err := fill(filepath.Join(from, "many", fmt.Sprint(i)), smallBytes, byte(i)); err != nil {
			return 0, err
		}
	}
	took, err := l.move(ctx, who, port, up, "many/*", "many")
	for i := 0; err == nil && i < l.files; i++ {
		err = arrived(filepath.Join(to, "many", fmt.Sprint(i)), smallBytes)
	}
	return float64(l.files) / took.Seconds(), err
}

// far moves a file both ways over a line on which each way takes its time.
func (l *sftpLab) far(ctx context.Context, who string, bytes int64, delay time.Duration) (float64, error) {
	l.bytes = bytes
	return l.bothWays(delay, func(port int, up bool) (float64, error) { return l.big(ctx, who, port, up) })
}

// farSmall moves many files both ways over a line on which each way takes its time.
func (l *sftpLab) farSmall(ctx context.Context, who string, files int, delay time.Duration) (float64, error) {
	l.files = files
	return l.bothWays(delay, func(port int, up bool) (float64, error) { return l.small(ctx, who, port, up) })
}

// bothWays moves up and then down over a line with the delay, and returns what is moved
// per second in both together.
func (l *sftpLab) bothWays(delay time.Duration, move func(port int, up bool) (float64, error)) (float64, error) {
	p, err := openFarLine(l.port, delay)
	if err != nil {
		return 0, err
	}
	defer p.close()
	up, err := move(p.port, true)
	if err != nil {
		return 0, err
	}
	down, err := move(p.port, false)
	if err != nil {
		return 0, err
	}
	return 2 / (1/up + 1/down), nil
}

// move moves what is called from, in the one side's directory, to what is
// called to in the other's.
func (l *sftpLab) move(ctx context.Context, who string, port int, up bool, from, to string) (time.Duration, error) {
	began := time.Now()
	var err error
	switch who {
	case openSSH:
		err = l.program(ctx, port, up, false, from, to)
	case openSSHSync:
		err = l.program(ctx, port, up, true, from, to)
	case rclone:
		err = l.rclone(ctx, port, up, from, to)
	default:
		err = l.step(ctx, port, up, from, to)
	}
	return time.Since(began), err
}

func (l *sftpLab) program(ctx context.Context, port int, up, sync bool, from, to string) error {
	verb := "get"
	if up {
		verb = "put"
	}
	if sync {
		verb += " -f"
	}
	cmd := exec.CommandContext(ctx, "sftp", "-q", "-b", "-", "-c", sftpCipher, "-P", fmt.Sprint(port), "-i", l.in("client"), "-F", "none",
		"-o", "IdentitiesOnly=yes", "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile="+os.DevNull, "-o", "LogLevel=ERROR",
		l.user+"@127.0.0.1")
	cmd.Dir = l.in("local")
	cmd.Stdin = strings.NewReader(verb + " " + from + " " + to + "\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("sftp: %w: %.300s", err, out)
	}
	return nil
}

// rclone compares the sizes of what it has copied, not the checksums, for which
// it would start a program on the server.
func (l *sftpLab) rclone(ctx context.Context, port int, up bool, from, to string) error {
	verb := "copyto"
	if dir, ok := strings.CutSuffix(from, "/*"); ok {
		verb, from = "copy", dir
	}
	if up {
		to = ":sftp:" + to
	} else {
		from = ":sftp:" + from
	}
	cmd := exec.CommandContext(ctx, rclone, verb, "-q", "--config", os.DevNull, "--sftp-host", "127.0.0.1", "--sftp-port", fmt.Sprint(port),
		"--sftp-user", l.user, "--sftp-key-file", l.in("client"), "--sftp-disable-hashcheck", "--sftp-shell-type", "none", from, to)
	cmd.Dir = l.in("local")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("rclone (on Debian: apt-get install rclone): %w: %.300s", err, out)
	}
	return nil
}

func (l *sftpLab) step(ctx context.Context, port int, up bool, from, to string) error {
	key, err := os.ReadFile(l.in("client"))
	if err != nil {
		return err
	}
	host, err := os.ReadFile(l.in("host.pub"))
	if err != nil {
		return err
	}
	var reg courier.Registry
	courierSFTP.Register(&reg, courierSFTP.Map{"server": {
		Host: "127.0.0.1", Port: port, Username: l.user, PrivateKey: string(key), HostKeys: []string{string(host)},
		Algorithms: courierSFTP.Algorithms{Ciphers: []string{sftpCipher}},
	}})
	typ, config := "sftp.download", fmt.Sprintf(`{"connection_id": "server", "remote_path": %q, "local_path": %q}`, strings.TrimSuffix(from, "/*"), to)
	if up {
		typ, config = "sftp.upload", fmt.Sprintf(`{"connection_id": "server", "local_path": %q, "remote_path": %q}`, from, to)
	}
	job := courier.NewContext(courier.ContextConfig{Execution: "bench", Workspace: l.in("local")})
	step, _ := reg.Lookup(typ)
	_, err = step.Execute(ctx, job, []byte(config))
	return errors.Join(err, job.Close())
}

// A farLine is a line to a server with a delay.
type farLine struct {
	listener net.Listener
	port     int
	delay    time.Duration // each way
	target   string
	mu       sync.Mutex
	conns    []net.Conn
	running  sync.WaitGroup
}

func openFarLine(port int, delay time.Duration) (*farLine, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	f := &farLine{listener: l, delay: delay, port: l.Addr().(*net.TCPAddr).Port, target: fmt.Sprintf("127.0.0.1:%d", port)}
	f.running.Go(f.serve)
	return f, nil
}

func (f *farLine) serve() {
	for {
		near, err := f.listener.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", f.target)
		if err != nil {
			near.Close()
			continue
		}
		f.mu.Lock()
		f.conns = append(f.conns, near, far)
		f.mu.Unlock()
		f.running.Go(func() { f.carry(far, near) })
		f.running.Go(func() { f.carry(near, far) })
	}
}

func (f *farLine) close() {
	f.listener.Close()
	f.mu.Lock()
	for _, c := range f.conns {
		c.Close()
	}
	f.mu.Unlock()
	f.running.Wait()
}

var lineBuffers = sync.Pool{New: func() any { return new([64 << 10]byte) }}

// carry copies, and lets each byte take its time. As much is under way as a
// fast line holds.
func (f *farLine) carry(to, from net.Conn) {
	type packet struct {
		at  time.Time
		buf *[64 << 10]byte
		n   int
	}
	line := make(chan packet, 1024)
	go func() {
		defer close(line)
		for {
			buf := lineBuffers.Get().(*[64 << 10]byte)
			n, err := from.Read(buf[:])
			if n > 0 {
				line <- packet{time.Now().Add(f.delay), buf, n}
			}
			if err != nil {
				return
			}
		}
	}()
	for p := range line {
		time.Sleep(time.Until(p.at))
		_, err := to.Write(p.buf[:p.n])
		if lineBuffers.Put(p.buf); err != nil {
			break
		}
	}
	to.Close()
	from.Close()
	for range line {
	}
}
