package ftp_test

import (
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/test/ftpserver"
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
			bubble(t, func(t *testing.T) {
				r := newRig(t, ftpserver.Options{Content: func(_ *ftpserver.Conn, _ string, c net.Conn) net.Conn { return dripping{c} }})
				r.put("x", content(4<<20))
				for i := range 500 {
					r.put(fmt.Sprintf("many/file %d", i), nil)
				}
				r.putLocal("y", content(4<<20))
				began := time.Now()
				_, err := r.run(t.Context(), key, cfg)
				want := "min_bytes_per_second"
				if key == "ftp.upload" {
					want = "nothing has come from the server for too long" // which comes first
				}
				wantError(t, err, false, want)
				if took := time.Since(began); took > time.Hour {
					t.Errorf("it took %v", took)
				}
				if key != "ftp.download" { // which is kept for the next attempt
					wantTree(t, r.work, "y")
				}
			})
		})
	}
}

// TestMaxBytes downloads more than may be, and more than fits on the disk.
func TestMaxBytes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, ftpserver.Options{})
		r.put("x", content(1000))
		_, err := r.run(t.Context(), "ftp.download", object{"remote_path": "x", "local_path": "x", "max_bytes": 999})
		wantError(t, err, true, "has 1000 bytes, and max_bytes allows 999")
		r.must(r.run(t.Context(), "ftp.download", object{"remote_path": "x", "local_path": "ok", "max_bytes": 1000}))
		_, err = r.run(t.Context(), "ftp.download", object{"remote_path": "x", "max_bytes": -1})
		wantError(t, err, true, "max_bytes: must be at least 0")
		r.conn.KeepFree = 1 << 60
		r.res.Close()
		r.res = new(courier.Resources)
		_, err = r.run(t.Context(), "ftp.download", object{"remote_path": "x", "local_path": "x"})
		wantError(t, err, false, "keep_free_bytes", "make room")
		wantTree(t, r.work, "ok")
	})
}
