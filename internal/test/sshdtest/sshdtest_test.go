package sshdtest_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"

	"github.com/courierhq/courier/internal/test/sshdtest"
)

func TestStart(t *testing.T) {
	s := sshdtest.Start(t)
	if err := os.WriteFile(filepath.Join(s.Dir, "hello.txt"), []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	key, err := ssh.ParsePrivateKey(s.ClientKey)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := ssh.Dial("tcp", s.Addr, &ssh.ClientConfig{
		User:            s.User,
		Auth:            []ssh.AuthMethod{ssh.PublicKeys(key)},
		HostKeyCallback: ssh.FixedHostKey(s.HostKey),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	c, err := sftp.NewClient(conn)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	f, err := c.Open("hello.txt") // relative to the login directory
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	if _, err := f.WriteTo(&got); err != nil || got.String() != "hello" {
		t.Errorf("hello.txt = %q, %v", got.String(), err)
	}
}

func TestCut(t *testing.T) {
	s := sshdtest.Start(t)
	key, err := ssh.ParsePrivateKey(s.ClientKey)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := ssh.Dial("tcp", s.Addr, &ssh.ClientConfig{
		User:            s.User,
		Auth:            []ssh.AuthMethod{ssh.PublicKeys(key)},
		HostKeyCallback: ssh.FixedHostKey(s.HostKey),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	s.Cut()
	if err := conn.Wait(); err == nil {
		t.Error("the connection ended in good order, although it was cut")
	}
}
