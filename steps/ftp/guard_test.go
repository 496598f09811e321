package ftp_test

import (
	"fmt"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/test/ftpserver"
	"github.com/courierhq/courier/internal/test/steprig"
)

// A dripping connection moves 512 bytes every 50 seconds.
type dripping struct{ net.Conn }

func (d dripping) Write(p []byte) (int, error) {
	for done := 0; done < len(p); {
		time.Sleep(50 * time.Second)
		n, err := d.Conn.Write(p[done:min(len(p), done+512)])
		if done += n; err != nil {
			return done, err
		}
	}
	return len(p), nil
}

func (d dripping) Read(p []byte) (int, error) {
	time.Sleep(50 * time.Second)
	return d.Conn.Read(p[:min(len(p), 512)])
}

// TestDrip has a server send, or accept, 512 bytes every 50 seconds. Each
// transfer ends within minutes.
func TestDrip(t *testing.T) {
	for key, cfg := range map[string]object{
		"ftp.download": {"remote_path": "x", "local_path": "z"},
		"ftp.upload":   {"remote_path": "y", "local_path": "y"},
		"ftp.list":     {"remote_path": "many"},
	} {
		t.Run(key, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, ftpserver.Options{Content: func(_ *ftpserver.Conn, _ string, c net.Conn) net.Conn { return dripping{c} }})
				r.Put("x", steprig.Content(4<<20))
				for i := range 500 {
					r.Put(fmt.Sprintf("many/file %d", i), nil)
				}
				r.PutLocal("y", steprig.Content(4<<20))
				began := time.Now()
				_, err := r.Run(t.Context(), key, cfg)
				want := "min_bytes_per_second"
				if key == "ftp.upload" {
					want = "nothing has come from the server for too long" // which comes first
				}
				steprig.WantError(t, err, false, want)
				if took := time.Since(began); took > time.Hour {
					t.Errorf("it took %v", took)
				}
				if key != "ftp.download" { // which is kept for the next attempt
					steprig.WantTree(t, r.Work, "y")
				}
			})
		})
	}
}

// TestMaxBytes downloads more than may be, and more than fits on the disk.
func TestMaxBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, ftpserver.Options{})
		r.Put("x", steprig.Content(1000))
		_, err := r.Run(t.Context(), "ftp.download", object{"remote_path": "x", "local_path": "x", "max_bytes": 999})
		steprig.WantError(t, err, true, "has 1000 bytes, and max_bytes allows 999")
		r.Must(r.Run(t.Context(), "ftp.download", object{"remote_path": "x", "local_path": "ok", "max_bytes": 1000}))
		_, err = r.Run(t.Context(), "ftp.download", object{"remote_path": "x", "max_bytes": -1})
		steprig.WantError(t, err, true, "max_bytes: must be at least 0")
		r.conn.KeepFree = 1 << 60
		r.Resources.Close()
		r.Resources = new(courier.Resources)
		_, err = r.Run(t.Context(), "ftp.download", object{"remote_path": "x", "local_path": "x"})
		steprig.WantError(t, err, false, "keep_free_bytes", "make room")
		steprig.WantTree(t, r.Work, "ok")
	})
}
