package sftpserver_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/pkg/sftp"

	"github.com/courierhq/courier/internal/test/memnet"
	"github.com/courierhq/courier/internal/test/sftpserver"
)

// TestCut cuts the connection at many places of a session. Whatever happens, the
// client learns of it and the server ends.
func TestCut(t *testing.T) {
	session := func(r *rig) error {
		conn, err := r.login(r.ada())
		if err != nil {
			return err
		}
		c, err := sftp.NewClient(conn)
		if err != nil {
			return err
		}
		defer c.Close()
		f, err := c.OpenFile("a", os.O_WRONLY|os.O_CREATE)
		if err != nil {
			return err
		}
		if _, err := f.ReadFrom(bytes.NewReader(make([]byte, 70_000))); err != nil {
			return err
		}
		return errors.Join(f.Close(), c.Rename("a", "b"))
	}
	lengths := make(chan [2]int64, 1)
	bubble(t, func(t *testing.T) {
		r := newRig(t, sftpserver.Options{})
		if err := session(r); err != nil {
			t.Fatal(err)
		}
		lengths <- [2]int64{r.last.Sent(), r.last.Received()}
	})
	total := <-lengths
	if total[0] < 70_000 || total[1] < 1000 {
		t.Fatalf("a session has %d bytes up and %d down", total[0], total[1])
	}
	for direction, length := range total {
		for i := range int64(40) { // but for the end, where the client is content
			at := length * i / 44
			bubble(t, func(t *testing.T) {
				r := newRig(t, sftpserver.Options{})
				r.net.SetLink(func(int) memnet.Link {
					link := [2]memnet.Link{{Up: memnet.Flow{CutAfter: &at}}, {Down: memnet.Flow{CutAfter: &at}}}
					return link[direction]
				})
				start := time.Now()
				if err := session(r); err == nil || time.Since(start) != 0 {
					t.Errorf("cut after %d of %d: %v after %v, want an error at once", at, length, err, time.Since(start))
				}
			})
		}
	}
}

// TestStall makes the network a black hole in the middle of an upload. Only a
// timeout of the client's ends that.
func TestStall(t *testing.T) {
	for name, link := range map[string]memnet.Link{
		"up":   {Up: memnet.Flow{StallAfter: new(int64(1 << 20))}},
		"down": {Down: memnet.Flow{StallAfter: new(int64(4000))}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t, sftpserver.Options{})
				r.net.SetLink(func(int) memnet.Link { return link })
				f, err := r.client(sftp.UseConcurrentWrites(true)).OpenFile("a", os.O_WRONLY|os.O_CREATE)
				if err != nil {
					t.Fatal(err)
				}
				done := make(chan error)
				go func() {
					_, err := f.ReadFrom(bytes.NewReader(make([]byte, 8<<20)))
					done <- err
				}()
				select {
				case err := <-done:
					t.Errorf("the upload ended with %v", err)
				case <-time.After(time.Hour):
					r.last.Close()
					if err := <-done; err == nil {
						t.Error("the upload succeeded")
					}
				}
			})
		})
	}
}

// TestLatency transfers over a line of 100 ms with several sessions at a time,
// so that the locks of the client library are contended while time passes.
func TestLatency(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const size, sessions = 8 << 20, 4
		r := newRig(t, sftpserver.Options{})
		r.net.SetLink(func(int) memnet.Link {
			return memnet.Link{Up: memnet.Flow{Latency: 50 * time.Millisecond, Rate: 100 << 20}, Down: memnet.Flow{Latency: 50 * time.Millisecond, Rate: 100 << 20}}
		})
		conn, err := r.login(r.ada())
		if err != nil {
			t.Fatal(err)
		}
		r.put("down", make([]byte, size))
		start := time.Now()
		var wg sync.WaitGroup
		for i := range sessions {
			wg.Go(func() {
				c, err := sftp.NewClient(conn, sftp.UseConcurrentWrites(true))
				if err != nil {
					t.Error(err)
					return
				}
				defer c.Close()
				up, err := c.OpenFile(string('a'+rune(i)), os.O_WRONLY|os.O_CREATE)
				if err != nil {
					t.Error(err)
					return
				}
				if n, err := up.ReadFrom(bytes.NewReader(make([]byte, size))); n != size || err != nil {
					t.Errorf("upload = %d, %v", n, err)
				}
				down, err := c.Open("down")
				if err != nil {
					t.Error(err)
					return
				}
				if n, err := down.WriteTo(io.Discard); n != size || err != nil {
					t.Errorf("download = %d, %v", n, err)
				}
				if err := errors.Join(up.Close(), down.Close()); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		// 2 MiB a round trip, up and down, and some round trips for the rest.
		if d := time.Since(start); d < time.Second || d > 5*time.Second {
			t.Errorf("%d sessions took %v of virtual time, want a few seconds", sessions, d)
		} else {
			t.Logf("%d sessions took %v of virtual time", sessions, d)
		}
	})
}
