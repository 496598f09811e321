package ftp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier/internal/test/ftpserver"
	"github.com/courierhq/courier/internal/test/steprig"
)

// A lie is a server that answers some commands in its own way, and what must
// come of it.
type lie struct {
	answer    func(c *ftpserver.Conn, verb, argument string) bool
	opt       ftpserver.Options
	permanent bool
	want      string // in the error
}

// on answers one command.
func on(verb string, f func(c *ftpserver.Conn, argument string)) func(*ftpserver.Conn, string, string) bool {
	return func(c *ftpserver.Conn, v, argument string) bool {
		if v == verb {
			f(c, argument)
		}
		return v == verb
	}
}

func says(verb, raw string) func(*ftpserver.Conn, string, string) bool {
	return on(verb, func(c *ftpserver.Conn, _ string) { c.Raw(raw) })
}

// content sends text, in place of what is asked for.
func sends(verb string, write func(net.Conn) error) func(*ftpserver.Conn, string, string) bool {
	return on(verb, func(c *ftpserver.Conn, _ string) { c.Content(verb, write) })
}

func forever(text string) func(net.Conn) error {
	many := strings.Repeat(text, 1000)
	return func(conn net.Conn) error {
		for {
			if _, err := io.WriteString(conn, many); err != nil {
				return err
			}
		}
	}
}

// TestHostile downloads from servers that do what none should. No attempt may
// hang, take much memory, or leave anything behind.
func TestHostile(t *testing.T) {
	for name, h := range map[string]lie{
		"silent greeting":         {opt: ftpserver.Options{Greeting: "-"}, want: "not ready in time"},
		"endless greeting":        {opt: ftpserver.Options{Greeting: strings.Repeat("120 wait\r\n", 100)}, want: "greeting has no end"},
		"greeting without a code": {opt: ftpserver.Options{Greeting: "SSH-2.0-OpenSSH_9.2\r\n"}, want: "has no code"},
		"greeting without an end": {opt: ftpserver.Options{Greeting: "220" + strings.Repeat("x", 20_000)}, want: "more than 8 KiB"},
		"greeting refuses":        {opt: ftpserver.Options{Greeting: "421 too many users\r\n"}, want: "too many users"},
		"endless reply":           {answer: says("FEAT", "211-a\r\n"+strings.Repeat(" x\r\n", 2000)), want: "more than 1000 lines"},
		"long reply":              {answer: says("FEAT", "211-a\r\n"+strings.Repeat(strings.Repeat("y", 1000)+"\r\n", 100)), want: "64 KiB"},
		"reply to come":           {answer: says("TYPE", "200 ok\r\n226 Transfer complete\r\n"), want: "without being asked"},
		"escape in a reply":       {answer: says("MLST", "550 \x1b[2J\x00\x7fgone\r\n"), permanent: true, want: `\x1b[2J\x00\x7fgone`},
		"preliminary for ever":    {answer: says("TYPE", strings.Repeat("150 soon\r\n", 20)), want: "only ever begins"},
		"silence":                 {answer: says("MLST", ""), want: "nothing has come from the server for too long"},
		"half a reply":            {answer: says("MLST", "250-it"), want: "nothing has come from the server for too long"},
		"hangs up":                {answer: on("MLST", func(c *ftpserver.Conn, _ string) { c.Close() }), want: "the connection is lost"},
		"password in a reply":     {answer: says("PASS", "530 no, "+steprig.Password+" is wrong\r\n"), permanent: true, want: "no, [secret password] is wrong"},
		"asks for an account":     {answer: says("PASS", "332 account?\r\n"), permanent: true, want: "ACCT"},
		"size is huge":            {answer: says("SIZE", "213 99999999999999999999\r\n"), opt: ftpserver.Options{NoMLSD: true}, want: "not a number of bytes"},
		"size is negative":        {answer: says("SIZE", "213 -5\r\n"), opt: ftpserver.Options{NoMLSD: true}, want: "not a number of bytes"},
		"size too small":          {answer: says("MLST", "250-\r\n type=file;size=10;modify=20240506070809; f\r\n250 \r\n"), want: "more than the 10 bytes"},
		"size beyond the end":     {answer: says("MLST", "250-\r\n type=file;size=100001;modify=20240506070809; f\r\n250 \r\n"), want: "100001"},
		"size too large":          {answer: says("MLST", "250-\r\n type=file;size=9223372036854775807;modify=20240506070809; f\r\n250 \r\n"), permanent: true, want: "max_bytes allows"},
		"endless content":         {answer: sends("RETR", forever("x")), want: "more than the"},
		"content without 226": {answer: on("RETR", func(c *ftpserver.Conn, _ string) {
			c.Content("RETR", func(conn net.Conn) error { time.Sleep(time.Hour); return nil })
		}), want: "nothing has come"},
		"426": {answer: sends("RETR", func(conn net.Conn) error {
			conn.Write(steprig.Content(500))
			return errors.New("disk\r\n226 all is well")
		}), want: `426 "disk`},
		"port of another service": {answer: says("EPSV", "229 (|||25|)\r\n"), want: "port 25"},
		"no port":                 {answer: says("EPSV", "229 (|||99999|)\r\n"), want: "names no port"},
		"PASV nonsense":           {answer: says("PASV", "227 (1,2,3,4,5)\r\n"), opt: ftpserver.Options{NoEPSV: true}, want: "names no port"},
		"closed port":             {answer: says("EPSV", "229 (|||4000|)\r\n"), want: "firewall"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h.opt.Answer = h.answer
				r := newRig(t, h.opt)
				r.Put("f", steprig.Content(100_000))
				steprig.Within(t, 3*time.Minute, func() {
					_, err := r.Run(t.Context(), "ftp.download", object{"remote_path": "f", "local_path": "f"})
					steprig.WantError(t, err, h.permanent, h.want)
				})
				steprig.WantTree(t, r.Work)
			})
		})
	}
}

// TestEndlessListing bounds what a listing may hold.
func TestEndlessListing(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	for name, h := range map[string]lie{
		"entries":   {answer: sends("MLSD", forever("type=file;size=1; x\r\n")), want: "more than 100000 files"},
		"one line":  {answer: sends("MLSD", forever("type=file;size=1; xxxxx")), want: "longer than 16 KiB"},
		"not asked": {answer: sends("MLSD", forever("type=file;size=1; .courier-tmp-"+strings.Repeat("x", 4000)+"\r\n")), want: "longer than 64 MiB"},
		"nonsense":  {answer: sends("LIST", forever(strings.Repeat("nonsense", 500)+"\r\n")), opt: ftpserver.Options{NoMLSD: true}, want: "longer than 64 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			h.opt.Answer = h.answer
			r := newRig(t, h.opt)
			_, err := r.Run(t.Context(), "ftp.list", object{})
			steprig.WantError(t, err, true, h.want)
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			if m.HeapInuse > 200<<20 {
				t.Errorf("the heap has %d MiB", m.HeapInuse>>20)
			}
		})
	}
}

// TestEndlessRmdir removes a tree that has no end, from which nothing is removed.
func TestEndlessRmdir(t *testing.T) {
	many := "type=dir; d\r\n" + strings.Repeat("type=file;size=1; x\r\n", 60_000)
	long := strings.Repeat("type=file;size=1; "+strings.Repeat("x", 15_000)+"\r\n", 2000)
	for name, c := range map[string]struct{ listing, want string }{
		"files": {many, "more than 100000 files and directories"},
		"names": {"type=dir; d\r\n" + long, "more than 64 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, ftpserver.Options{Answer: func(conn *ftpserver.Conn, verb, _ string) bool {
				switch verb {
				case "MLST":
					conn.Reply("250-here", " type=dir; x", "250 end")
				case "MLSD":
					conn.Content(verb, func(w net.Conn) error { _, err := io.WriteString(w, c.listing); return err })
				default:
					return false
				}
				return true
			}})
			_, err := r.Run(t.Context(), "ftp.rmdir", object{"remote_path": "x", "recursive": true})
			steprig.WantError(t, err, true, c.want)
			for _, command := range r.Commands() {
				if strings.HasPrefix(command, "DELE") || strings.HasPrefix(command, "RMD") {
					t.Errorf("the server got %q", command)
				}
			}
		})
	}
}

// hostileNames must never become names of files.
var hostileNames = []string{
	"..", "../x", "../../../../etc/cron.d/x", "/abs/x", "a/b", `..\..\win`, `a\b`, "a\rDELE x", "a\x00b", "a\x1b[2J", "a\tb",
	strings.Repeat("n", 4000), strings.Repeat("é", 200), "a\u202etxt.exe", "a\u2066b", "a\u2028b", "bad\xff\xfe", "\xc0\xae\xc0\xae", "trailing ", "trailing.", "\x7f", "\ufffd",
}

// TestHostileNames lists names that could mean another file. None is used, all
// are counted.
func TestHostileNames(t *testing.T) {
	for _, verb := range []string{"MLSD", "LIST"} {
		t.Run(verb, func(t *testing.T) {
			listing := func(conn net.Conn) error {
				for _, n := range append(hostileNames, "good") {
					if verb == "MLSD" {
						fmt.Fprintf(conn, "type=file;size=1;modify=20240506070809; %s\r\n", n)
					} else {
						fmt.Fprintf(conn, "-rw-r--r-- 1 a b 1 May  6 2024 %s\r\n", n)
					}
				}
				return nil
			}
			r := newRig(t, ftpserver.Options{NoMLSD: verb == "LIST", Answer: sends(verb, listing)})
			r.Put("good", []byte("1"))
			out := r.Must(r.Run(t.Context(), "ftp.list", object{}))
			if out["file_count"] != 1.0 || out["unsafe_count"] != float64(len(hostileNames)-1) { // ".." is no entry
				t.Errorf("%v files, %v skipped of %d", out["file_count"], out["unsafe_count"], len(hostileNames))
			}
			_, err := r.Run(t.Context(), "ftp.list", object{"on_unsafe_name": "fail"})
			steprig.WantError(t, err, true, "entries can't be used")
			r.Must(r.Run(t.Context(), "ftp.download", object{"remote_path": ".", "local_path": "in/"}))
			steprig.WantTree(t, r.Work, "in/good")
			if strings.Contains(r.Log.String(), "\x1b") {
				t.Error("the log contains control characters")
			}
			// Removing such a directory would have to name them.
			r.Put("x/y", nil)
			_, err = r.Run(t.Context(), "ftp.rmdir", object{"remote_path": "x", "recursive": true})
			steprig.WantError(t, err, true, "which leads elsewhere; nothing more is removed")
			for _, c := range r.Commands() {
				if strings.HasPrefix(c, "DELE") || strings.HasPrefix(c, "RMD") {
					t.Errorf("the server got %q", c)
				}
			}
		})
	}
}

// TestInjection uses paths that would end a command and begin another.
func TestInjection(t *testing.T) {
	r := newRig(t, ftpserver.Options{})
	r.PutLocal("f", []byte("x"))
	for _, bad := range []string{"a\r\nDELE x", "a\nDELE x", "a\rb", "a\x00b", "a\xffb"} {
		for key, cfg := range map[string]object{
			"ftp.list":     {"remote_path": bad},
			"ftp.stat":     {"remote_path": bad},
			"ftp.download": {"remote_path": bad},
			"ftp.upload":   {"local_path": "f", "remote_path": bad},
			"ftp.mkdir":    {"remote_path": bad},
			"ftp.rmdir":    {"remote_path": bad},
			"ftp.delete":   {"remote_path": bad},
			"ftp.rename":   {"source_path": "f", "destination_path": bad},
		} {
			if strings.Contains(bad, "\xff") {
				continue // JSON can't hold it
			}
			_, err := r.Run(t.Context(), key, cfg)
			steprig.WantError(t, err, true, "control character")
		}
	}
	r.conn.Username = "ada\r\nDELE x"
	r.Resources.Close()
	r2 := newRig(t, ftpserver.Options{})
	r2.conn.Username = "ada\r\nDELE x"
	_, err := r2.Run(t.Context(), "ftp.list", object{})
	steprig.WantError(t, err, true, "username: contains a control character")
	r2.conn.Username, r2.conn.Password = steprig.User, "x\r\nDELE x"
	_, err = r2.Run(t.Context(), "ftp.list", object{})
	steprig.WantError(t, err, true, "password: contains a control character")
	for _, c := range append(r.Commands(), r2.Commands()...) {
		if strings.HasPrefix(c, "DELE") {
			t.Errorf("the server got %q", c)
		}
	}
}

// TestBounce has PASV name other machines. No connection goes there.
func TestBounce(t *testing.T) {
	for _, host := range []string{"127,0,0,99", "169,254,169,254", "10,0,0,1"} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, ftpserver.Options{NoEPSV: true, PassiveHost: host})
			r.Put("f", []byte("x"))
			r.Must(r.Run(t.Context(), "ftp.download", object{"remote_path": "f", "local_path": "f"}))
			for _, d := range r.net.Dials() {
				if !strings.HasPrefix(d, "files.example.com:") {
					t.Errorf("a connection went to %s", d)
				}
			}
		})
	}
}

// TestCancel ends each phase of a step from outside.
func TestCancel(t *testing.T) {
	for _, verb := range []string{"USER", "MLST", "EPSV", "RETR"} {
		t.Run(verb, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				reached := make(chan bool, 10)
				r := newRig(t, ftpserver.Options{Answer: on(verb, func(c *ftpserver.Conn, _ string) { reached <- true })})
				r.Put("f", steprig.Content(100))
				ctx, cancel := context.WithCancelCause(t.Context())
				go func() {
					<-reached
					cancel(errors.New("enough of it"))
				}()
				steprig.Within(t, time.Second, func() {
					_, err := r.Run(ctx, "ftp.download", object{"remote_path": "f"})
					steprig.WantError(t, err, false, "enough of it")
				})
			})
		})
	}
}
