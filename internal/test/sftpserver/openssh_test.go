package sftpserver_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/pem"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/courierhq/courier/internal/test/sftpserver"
)

// TestOpenSSH serves the client that most people use.
func TestOpenSSH(t *testing.T) {
	client, err := exec.LookPath("sftp")
	if err != nil {
		t.Fatal("sftp is not installed; on Debian and Ubuntu: apt-get install openssh-client")
	}
	dir := t.TempDir()
	write := func(name string, content []byte) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	_, key, _ := ed25519.GenerateKey(nil)
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(key, "")
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, sftpserver.Options{AuthorizedKeys: []ssh.PublicKey{signer.PublicKey()}})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go r.Serve(l)
	host, port, _ := net.SplitHostPort(l.Addr().String())
	content := bytes.Repeat([]byte("0123456789abcdef"), 200_000)
	local := write("local", content)

	cmd := exec.Command(client, "-q", "-b", "-", "-f", "-P", port, "-F", os.DevNull,
		"-i", write("key", pem.EncodeToMemory(block)), "-o", "IdentitiesOnly=yes", "-o", "IdentityAgent=none",
		"-o", "UserKnownHostsFile="+write("known_hosts", []byte(r.KnownHostsLine(l.Addr().String())+"\n")),
		"-o", "StrictHostKeyChecking=yes", "bob@"+host)
	cmd.Stdin = strings.NewReader(strings.Join([]string{
		"mkdir in", "put -p " + local + " in/a.tmp", "rename in/a.tmp in/a", "ls -l in", "get in/a " + local + ".back",
		"chmod 640 in/a", "put " + local + " b", "rename b in/a", "-ln -s in/a link", "-get ../../etc/passwd " + dir,
		"mkdir tree", "put -R " + dir + "/local tree/x", "rm tree/x", "rmdir tree", "pwd",
	}, "\n") + "\n")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("sftp: %v\n%s", err, out)
	}
	back, err := os.ReadFile(local + ".back")
	if err != nil || !bytes.Equal(back, content) || r.get("in/a") != string(content) {
		t.Errorf("the file came back changed: %v\n%s", err, out)
	}
	for _, want := range []string{"-rw-------", "3200000", "in/a", "Remote working directory: /"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the client didn't print %q:\n%s", want, out)
		}
	}
	if got, want := r.tree(), ". in in/a="+string(content)+" "; got != want {
		t.Errorf("the server has %d bytes of names and contents, want %d", len(got), len(want))
	}
	if r.Count("fsync") == 0 || r.Count("posix-rename") != 2 || r.Count("extended") == 0 {
		t.Errorf("fsync, posix-rename, limits asked for %d, %d, %d times", r.Count("fsync"), r.Count("posix-rename"), r.Count("extended"))
	}
}
