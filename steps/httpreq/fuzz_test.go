package httpreq_test

import (
	"context"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier/internal/test/memnet"
	"github.com/courierhq/courier/steps/httpreq"
)

// FuzzServer: whatever a server sends, in two answers, a download to a file and
// the attempt after it end; the file is there only if the step says so, has no
// more bytes than allowed, and nothing else is anywhere.
func FuzzServer(f *testing.F) {
	const head = "HTTP/1.1 200 OK\r\n"
	for _, pair := range [][2]string{
		{head + "Content-Length: 5\r\n\r\nhello", head + "Content-Length: 5\r\n\r\nworld"},
		{head + "Content-Length: 10\r\nETag: \"a\"\r\n\r\nhello", "HTTP/1.1 206 Partial\r\nETag: \"a\"\r\nContent-Range: bytes 5-9/10\r\nContent-Length: 5\r\n\r\nworld"},
		{head + "Content-Length: 10\r\nETag: \"a\"\r\n\r\nhello", "HTTP/1.1 206 Partial\r\nETag: \"b\"\r\nContent-Range: bytes 5-9/10\r\n\r\nworld"},
		{head + "Content-Length: 10\r\nETag: \"a\"\r\n\r\nhello", "HTTP/1.1 206 Partial\r\nETag: \"a\"\r\nContent-Range: bytes 5-99999999999999999999/*\r\n\r\nworld"},
		{head + "Content-Length: 10\r\nETag: \"a\"\r\n\r\nhello", "HTTP/1.1 416 No\r\nContent-Range: bytes */3\r\n\r\n"},
		{head + "Content-Length: 10\r\nETag: W/\"a\"\r\n\r\nhello", head + "\r\nworld"},
		{head + "Content-Encoding: gzip\r\n\r\n\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff", head + "Content-Encoding: gzip, gzip\r\n\r\n"},
		{head + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", head + "Transfer-Encoding: chunked\r\n\r\n-5\r\nhello\r\n0\r\n\r\n"},
		{head + "Content-Length: 99999999999\r\n\r\n", head + strings.Repeat("x", 100_000)},
		{"HTTP/1.1 503 Later\r\nRetry-After: 99999999999999999999\r\n\r\n", "HTTP/1.1 429 Later\r\nRetry-After: -1\r\nContent-Length: 0\r\n\r\n"},
		{"HTTP/1.1 503 Later\r\nRetry-After: Mon, 01 Jan 9999 00:00:00 GMT\r\n\r\n", "HTTP/1.1 503 Later\r\nRetry-After: \x1b[2J\r\n\r\n"},
		{head + "Content-Disposition: attachment; filename=\"../../../etc/passwd\"\r\nContent-Length: 1\r\n\r\nx", head + "Content-Type: text/\x00\r\n\r\n"},
		{"HTTP/1.1 302 Found\r\nLocation: http://10.0.0.1/\r\n\r\n", "HTTP/1.1 302 Found\r\nLocation: /x\r\n\r\n"},
		{"HTTP/1.1 404 \x1b[2J\r\nContent-Length: 9\r\n\r\nhush-hush", "HTTP/1.1 401 No\r\nWWW-Authenticate: hush-hush\r\n\r\nhush-hush"},
		{"HTTP/1.1 200", "\x00\xff"},
	} {
		f.Add([]byte(pair[0]), []byte(pair[1]))
	}
	f.Fuzz(func(t *testing.T, first, second []byte) {
		dir := t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			net, stop := answering(first, second)
			b := newBench(t)
			b.dir = filepath.Join(dir, "w")
			b.opt = httpreq.Options{AllowPlain: true, Dial: net, Lookup: func(context.Context, string) ([]netip.Addr, error) {
				return []netip.Addr{netip.MustParseAddr("93.184.215.14")}, nil
			}}
			cfg := object{
				"url": "http://example.com/hush-hush", "bearer_token": "hush-hush", "output_path": "down/f", "resume": true, "max_bytes": 50_000,
				"max_redirects": 2, "response_headers": []string{"Content-Disposition", "Retry-After"},
			}
			for range 2 {
				start := time.Now()
				out, err := b.run(cfg)
				if took := time.Since(start); took > 10*time.Minute {
					t.Errorf("it took %v", took)
				}
				info, there := os.Stat(filepath.Join(b.dir, "down/f"))
				switch {
				case err == nil && (there != nil || info.Size() != out.Size || out.Size > 50_000):
					t.Errorf("%+v: %v, %v", out, info, there)
				case err != nil && (strings.Contains(err.Error(), "hush") || strings.ContainsAny(err.Error(), "\x00\x1b\r\n")):
					t.Errorf("the error is %q", err)
				case err != nil && there == nil && b.attempt == 1:
					t.Errorf("the file is there, and the step has failed: %v", err)
				}
			}
			stop()
		})
		for _, name := range []string{"w", "w/down"} {
			entries, err := os.ReadDir(filepath.Join(dir, filepath.Dir(name)))
			if err != nil || name == "w" && len(entries) > 1 {
				t.Errorf("beside the workspace are %v, %v", entries, err)
			}
		}
	})
}

// answering is a network whose server sends one text to the first connection and
// another to all others, and hangs up.
func answering(first, second []byte) (dial func(context.Context, string, string) (net.Conn, error), stop func()) {
	l, done := memnet.Listen(), make(chan struct{})
	go func() {
		defer close(done)
		for text := first; ; text = second {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conn.Read(make([]byte, 4096))
			conn.Write(text)
			conn.Close()
		}
	}()
	return l.DialContext, func() {
		l.Close()
		<-done
	}
}
