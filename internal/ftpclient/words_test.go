package ftpclient

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/courierhq/courier"
)

// TestWordsConcealSecrets has a server that repeats the password where its words
// are cut, also where nobody has asked it.
func TestWordsConcealSecrets(t *testing.T) {
	const password = `canary "ftp" \7gQ2p`
	for name, said := range map[string]string{
		"end": "421 bye " + password + "\r\n", "cut": "421 " + strings.Repeat("x", 190) + password + "\r\n",
		"no code": strings.Repeat("x", 195) + password + "\r\n", "unasked": "200 ok\r\n230 you said " + password + "\r\n",
		"unasked end": "200 ok\r\n421 " + strings.Repeat("x", 180) + password + "\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			ours, theirs := net.Pipe()
			defer ours.Close()
			go func() {
				fmt.Fprint(theirs, said)
				theirs.Close()
			}()
			var secrets courier.Redactor
			secrets.Add("acme", password)
			l := newControlConn(ours, secrets.Redact)
			_, err := l.receive()
			if err == nil {
				err = l.send("NOOP", "")
			}
			if err == nil || strings.Contains(err.Error(), "canary") || !strings.Contains(err.Error(), "[secret acme]") && !strings.Contains(err.Error(), "[s") {
				t.Errorf("the error is %v", err)
			}
		})
	}
}
