package ftpdtest_test

import (
	"bufio"
	"net"
	"strings"
	"testing"

	"github.com/courierhq/courier/internal/test/ftpdtest"
)

// TestStart is greeted by each server, and sees the connection end when it is
// cut.
func TestStart(t *testing.T) {
	for name, start := range map[string]func(testing.TB, ftpdtest.Security) *ftpdtest.Server{
		"vsftpd": ftpdtest.VSFTPD, "proftpd": ftpdtest.ProFTPD, "pure-ftpd": ftpdtest.PureFTPD,
		"pyftpdlib": ftpdtest.PyFTPDLib, "inetutils": ftpdtest.Inetutils,
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, ftpdtest.Plain)
			if err := s.Write("a/b", []byte("x")); err != nil {
				t.Fatal(err)
			}
			conn, err := net.Dial("tcp", s.Addr)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			r := bufio.NewReader(conn)
			text, err := r.ReadString('\n')
			if err != nil || !strings.HasPrefix(text, "220") {
				t.Fatalf("greeting is %q, %v", text, err)
			}
			s.Cut()
			for err == nil {
				_, err = r.ReadString('\n')
			}
		})
	}
}
