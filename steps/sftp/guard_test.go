package sftp_test

import (
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier/internal/test/sftpserver"
	"github.com/courierhq/courier/internal/test/steprig"
)

// TestDrip has a server send 512 bytes or an entry every 50 seconds, and accept
// 256 KiB within five minutes. Each transfer ends.
func TestDrip(t *testing.T) {
	for key, cfg := range map[string]object{
		"sftp.download": {"remote_path": "/x", "local_path": "x"},
		"sftp.upload":   {"remote_path": "/y", "local_path": "y"},
		"sftp.list":     {"remote_path": "/"},
	} {
		t.Run(key, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				entry := 0
				r := newHostile(t, sftpserver.Script{Content: steprig.Content(1 << 18), Answer: func(r sftpserver.Request, w io.Writer) bool {
					switch r.Method {
					case "read":
						if r.Offset >= 1<<18 {
							return false
						}
						time.Sleep(50 * time.Second)
						w.Write(r.Contents(steprig.Content(1 << 18)[r.Offset:][:min(512, r.Length)]))
					case "write": // of 256 KiB
						time.Sleep(290 * time.Second)
						w.Write(r.Status(0, ""))
					case "readdir":
						time.Sleep(50 * time.Second)
						entry++
						w.Write(r.Names(sftpserver.Entry{Name: fmt.Sprint("file", entry), LongName: "x"}))
					default:
						return false
					}
					return true
				}})
				r.PutLocal("y", steprig.Content(4<<20))
				began := time.Now()
				_, err := r.Run(t.Context(), key, cfg)
				steprig.WantError(t, err, false, "min_bytes_per_second")
				if took := time.Since(began); took > 2*time.Hour {
					t.Errorf("it took %v", took)
				}
				steprig.WantTree(t, r.Work, "y")
			})
		})
	}
}

// TestMaxBytes announces more than may be downloaded, and more than fits on the
// disk.
func TestMaxBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		size := int64(1 << 50)
		r := newHostile(t, sftpserver.Script{Answer: func(r sftpserver.Request, w io.Writer) bool {
			if r.Method == "stat" || r.Method == "lstat" || r.Method == "fstat" {
				w.Write(r.Attributes(sftpserver.Attrs{Size: size, Mode: 0o644, ModTime: time.Unix(1, 0)}))
				return true
			}
			return false
		}})
		cfg := object{"remote_path": "/x", "local_path": "x", "resume": false}
		_, err := r.Run(t.Context(), "sftp.download", cfg)
		steprig.WantError(t, err, true, "has 1125899906842624 bytes, and max_bytes allows 1099511627776")
		r.conn.MaxBytes = -1
		r.again()
		_, err = r.Run(t.Context(), "sftp.download", cfg)
		steprig.WantError(t, err, false, "keep_free_bytes", "make room")
		size = 1000
		_, err = r.Run(t.Context(), "sftp.download", object{"remote_path": "/x", "local_path": "x", "max_bytes": 999})
		steprig.WantError(t, err, true, "has 1000 bytes, and max_bytes allows 999")
		_, err = r.Run(t.Context(), "sftp.download", object{"remote_path": "/x", "max_bytes": -1})
		steprig.WantError(t, err, true, "max_bytes: must be at least 0")
		steprig.WantTree(t, r.Work)
	})
}
