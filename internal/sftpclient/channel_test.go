package sftpclient

import (
	"errors"
	"io"
	"testing"
	"testing/synctest"

	"golang.org/x/crypto/ssh"
)

// A lost conn has ended at the moment when a channel was to be opened: the answer
// never comes, and nobody says so.
type lostConn struct {
	ssh.Conn
	asked, forgotten chan struct{}
}

func (c lostConn) OpenChannel(string, []byte) (ssh.Channel, <-chan *ssh.Request, error) {
	close(c.asked)
	<-c.forgotten
	return nil, nil, io.EOF
}

// TestOpenChannelAtTheEnd opens a channel while the connection ends.
func TestOpenChannelAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lostConn{asked: make(chan struct{}), forgotten: make(chan struct{})}
		defer close(c.forgotten)
		ended := make(chan struct{})
		opened := make(chan error, 1)
		go func() {
			_, _, err := openChannel(c, ended, "session", nil)
			opened <- err
		}()
		<-c.asked
		synctest.Wait()
		select {
		case err := <-opened:
			t.Fatalf("gave up before the connection ended: %v", err)
		default:
		}
		close(ended)
		synctest.Wait()
		select {
		case err := <-opened:
			if !errors.Is(err, io.EOF) {
				t.Errorf("%v, want the end of the connection", err)
			}
		default:
			t.Error("hangs though the connection has ended")
		}
	})
}
