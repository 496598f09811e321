package ftp

import (
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier/internal/safename"
)

var now = time.Date(2024, 6, 1, 12, 0, 0, 0, time.UTC)

// TestLIST reads lines as servers write them.
func TestLIST(t *testing.T) {
	day := func(y int, m time.Month, d, h, min int) time.Time { return time.Date(y, m, d, h, min, 0, 0, time.UTC) }
	for _, tt := range []struct {
		text string
		want entry
	}{
		{"-rw-r--r--    1 1000     1000           12 May 06 07:08 a.txt", entry{node: node{size: 12, modified: day(2024, 5, 6, 7, 8)}, name: "a.txt"}},
		{"-rw-r--r--   1 ada      users          12 May  6  2023 a b  c", entry{node: node{size: 12, modified: day(2023, 5, 6, 0, 0)}, name: "a b  c"}},
		{"-rw-r--r--   1 ada      users          12 Dec 31 23:59 last year", entry{node: node{size: 12, modified: day(2023, 12, 31, 23, 59)}, name: "last year"}},
		{"-rw-r--r--   1 ada      users          12 May  6  2023  space", entry{node: node{size: 12, modified: day(2023, 5, 6, 0, 0)}, name: " space"}},
		{"-rw-r--r--+  1 ada      domain users   12 May  6  2023 acl", entry{node: node{size: 12, modified: day(2023, 5, 6, 0, 0)}, name: "acl"}},
		{"drwxr-sr-t   5 ada      users        4096 May  6  2023 dir", entry{node: node{size: 4096, isDir: true, modified: day(2023, 5, 6, 0, 0)}, name: "dir"}},
		{"lrwxrwxrwx   1 ada      users           3 May  6  2023 link -> dir", entry{node: node{size: -1, modified: day(2023, 5, 6, 0, 0)}, name: "link", link: true}},
		{"prw-r--r--   1 ada      users           0 May  6  2023 pipe", entry{node: node{size: 0, modified: day(2023, 5, 6, 0, 0)}, name: "pipe", odd: true}},
		{"brw-rw----   1 root     disk       8,   0 May  6  2023 sda", entry{node: node{size: 0, modified: day(2023, 5, 6, 0, 0)}, name: "sda", odd: true}},
		{"-rw-r--r-- 1 ada 12 May 6 2023 no group", entry{node: node{size: 12, modified: day(2023, 5, 6, 0, 0)}, name: "no group"}},
		{"-rw-r--r-- 1 ada users 12 2023-05-06 07:08 iso", entry{node: node{size: 12, modified: day(2023, 5, 6, 7, 8)}, name: "iso"}},
		{"-rw-r--r-- 1 ada users 12 6 May 2023 day first", entry{node: node{size: 12, modified: day(2023, 5, 6, 0, 0)}, name: "day first"}},
		{"05-06-23  07:08AM                 1234 report.csv", entry{node: node{size: 1234, modified: day(2023, 5, 6, 7, 8)}, name: "report.csv"}},
		{"05-06-2023  07:08PM       <DIR>          New Folder", entry{node: node{size: -1, isDir: true, modified: day(2023, 5, 6, 19, 8)}, name: "New Folder"}},
		{"2023-05-06 17:08 12  name", entry{node: node{size: 12, modified: day(2023, 5, 6, 17, 8)}, name: " name"}},
	} {
		got, ok := parseLIST(tt.text, now)
		if !ok || got != tt.want {
			t.Errorf("%s\n\tis %+v, %v\n\twant %+v", tt.text, got, ok, tt.want)
		}
	}
}

// TestUnparsable is what must be counted, and not guessed.
func TestUnparsable(t *testing.T) {
	for _, text := range []string{
		"", "nonsense", "-rw-r--r--", "-rw-r--r-- 1 ada users 12 Mai  6  2023 name", "-rw-r--r-- 1 ada users x May  6  2023 name",
		"-rw-r--r-- 1 ada users -5 May  6  2023 name", "-rw-r--r-- 1 ada users 99999999999999999999 May  6  2023 name",
		"-rw-r--r-- 1 ada users 12 May 99  2023 name", "-rw-r--r-- 1 ada users 12 May  6  2023", "-rw-r--r-- 1 ada users 12 May  6  2023 ",
		"lrwxrwxrwx 1 ada users 3 May  6  2023 a -> b -> c", "lrwxrwxrwx 1 ada users 3 May  6  2023 a", "?rw-r--r-- 1 ada users 12 May  6  2023 name",
		"05-06-23  07:08AM  x name", "99-99-23  07:08AM  12 name", "05-06-23", "05-06-23  07:08AM  <DIR>", "-rwxr-xr-z 1 ada users 12 May  6  2023 name",
	} {
		if e, ok := parseLIST(text, now); ok {
			t.Errorf("%q is %+v", text, e)
		}
	}
	for _, text := range []string{"", "name", "type=file", "type=file;size=x; name", "type=file;size=-1; name", "typefile; name", "type=file; "} {
		if e, ok := parseMLSD(text); ok {
			t.Errorf("%q is %+v", text, e)
		}
	}
}

// FuzzList looks for lines that are read as something that they can't be.
func FuzzList(f *testing.F) {
	for _, text := range []string{
		"-rw-r--r--    1 1000     1000           12 May 06 07:08 a.txt",
		"lrwxrwxrwx   1 ada      users           3 May  6  2023 link -> dir",
		"05-06-23  07:08AM       <DIR>          name",
		"05-06-23  07:08AM                 1234 report.csv",
		"type=file;size=12;modify=20240506070809.123;UNIX.mode=0644; name",
		"brw-rw----   1 root     disk       8,   0 May  6  2023 sda",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if strings.ContainsAny(text, "\n") {
			return // the scanner cuts there
		}
		for name, read := range map[string]func() (entry, bool){
			"LIST": func() (entry, bool) { return parseLIST(text, now) },
			"MLSD": func() (entry, bool) { return parseMLSD(text) },
		} {
			e, ok := read()
			switch {
			case !ok && e != (entry{}) && name == "MLSD":
				t.Errorf("%s: %q is refused, but %+v", name, text, e)
			case !ok:
			case e.name == "" && !e.isDir:
				t.Errorf("%s: %q has no name", name, text)
			case !strings.HasSuffix(text, e.name) && !e.link:
				t.Errorf("%s: %q does not end in the name %q", name, text, e.name)
			case e.size < -1:
				t.Errorf("%s: %q has the size %d", name, text, e.size)
			case name == "LIST" && !e.isDir && !e.link && !e.odd && e.size < 0:
				t.Errorf("%s: %q is a file without a size", name, text)
			case safename.Check(e.name) == nil && strings.ContainsAny(e.name, "/\\\x00\r"):
				t.Errorf("%s: %q has the name %q", name, text, e.name)
			}
		}
	})
}

// FuzzReply looks for replies from which a port, a time or a directory is read
// that can't be one.
func FuzzReply(f *testing.F) {
	for _, text := range []string{"Entering Extended Passive Mode (|||6446|)", "Entering Passive Mode (192,0,2,1,25,46).", "=192,0,2,1,25,46", `"/a ""b"" c" is it`, "20240506070809.123"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, parse := range []func(string) (int, error){parseEPSV, parsePASV} {
			if port, err := parse(text); err == nil && (port < 0 || port > 65535) {
				t.Errorf("%q is port %d", text, port)
			}
		}
		if dir := parsePWD(text); dir != "" && !strings.Contains(text, `"`) {
			t.Errorf("%q is the directory %q", text, dir)
		}
		if at, ok := parseTime(text); ok && (at.Year() < 1 || at.Year() > 9999) {
			t.Errorf("%q is %v", text, at)
		}
		if n, err := parseSize(text); err == nil && n < 0 {
			t.Errorf("%q is %d bytes", text, n)
		}
		code, _, _ := parseReply(text)
		if code != 0 && (code < 100 || code > 599) {
			t.Errorf("%q has the code %d", text, code)
		}
	})
}

// TestPorts reads the ports of replies.
func TestPorts(t *testing.T) {
	for text, want := range map[string]int{
		"Entering Extended Passive Mode (|||6446|)": 6446, "ok (!!!6446!).": 6446,
	} {
		if got, err := parseEPSV(text); got != want || err != nil {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
	for text, want := range map[string]int{
		"Entering Passive Mode (192,0,2,1,25,46).": 25<<8 | 46, "=192,0,2,1,25,46": 25<<8 | 46, "Entering Passive Mode 1,2,3,4,255,255": 65535,
	} {
		if got, err := parsePASV(text); got != want || err != nil {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "(|||)", "(|||70000|)", "(||1|6446|)", "(|||-5|)"} {
		if got, err := parseEPSV(text); err == nil {
			t.Errorf("%q is %d", text, got)
		}
	}
	for _, text := range []string{"", "1,2,3,4,5", "1,2,3,4,5,256", "1,2,3,4,5,6,7", "1,2,3,4,-5,6"} {
		if got, err := parsePASV(text); err == nil {
			t.Errorf("%q is %d", text, got)
		}
	}
	if got := parsePWD(`"/a ""b""" is it`); got != `/a "b"` {
		t.Errorf("directory %q", got)
	}
}
