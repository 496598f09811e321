package ftpclient

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
		want Entry
	}{
		{"-rw-r--r--    1 1000     1000           12 May 06 07:08 a.txt", Entry{Info: Info{Size: 12, Modified: day(2024, 5, 6, 7, 8)}, Name: "a.txt"}},
		{"-rw-r--r--   1 ada      users          12 May  6  2023 a b  c", Entry{Info: Info{Size: 12, Modified: day(2023, 5, 6, 0, 0)}, Name: "a b  c"}},
		{"-rw-r--r--   1 ada      users          12 Dec 31 23:59 last year", Entry{Info: Info{Size: 12, Modified: day(2023, 12, 31, 23, 59)}, Name: "last year"}},
		{"-rw-r--r--   1 ada      users          12 May  6  2023  space", Entry{Info: Info{Size: 12, Modified: day(2023, 5, 6, 0, 0)}, Name: " space"}},
		{"-rw-r--r--+  1 ada      domain users   12 May  6  2023 acl", Entry{Info: Info{Size: 12, Modified: day(2023, 5, 6, 0, 0)}, Name: "acl"}},
		{"drwxr-sr-t   5 ada      users        4096 May  6  2023 dir", Entry{Info: Info{Size: 4096, IsDir: true, Modified: day(2023, 5, 6, 0, 0)}, Name: "dir"}},
		{"lrwxrwxrwx   1 ada      users           3 May  6  2023 link -> dir", Entry{Info: Info{Size: -1, Modified: day(2023, 5, 6, 0, 0)}, Name: "link", Link: true}},
		{"prw-r--r--   1 ada      users           0 May  6  2023 pipe", Entry{Info: Info{Size: 0, Modified: day(2023, 5, 6, 0, 0)}, Name: "pipe", Odd: true}},
		{"brw-rw----   1 root     disk       8,   0 May  6  2023 sda", Entry{Info: Info{Size: 0, Modified: day(2023, 5, 6, 0, 0)}, Name: "sda", Odd: true}},
		{"-rw-r--r-- 1 ada 12 May 6 2023 no group", Entry{Info: Info{Size: 12, Modified: day(2023, 5, 6, 0, 0)}, Name: "no group"}},
		{"-rw-r--r-- 1 ada users 12 2023-05-06 07:08 iso", Entry{Info: Info{Size: 12, Modified: day(2023, 5, 6, 7, 8)}, Name: "iso"}},
		{"-rw-r--r-- 1 ada users 12 6 May 2023 day first", Entry{Info: Info{Size: 12, Modified: day(2023, 5, 6, 0, 0)}, Name: "day first"}},
		{"05-06-23  07:08AM                 1234 report.csv", Entry{Info: Info{Size: 1234, Modified: day(2023, 5, 6, 7, 8)}, Name: "report.csv"}},
		{"05-06-2023  07:08PM       <DIR>          New Folder", Entry{Info: Info{Size: -1, IsDir: true, Modified: day(2023, 5, 6, 19, 8)}, Name: "New Folder"}},
		{"2023-05-06 17:08 12  name", Entry{Info: Info{Size: 12, Modified: day(2023, 5, 6, 17, 8)}, Name: " name"}},
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
		for name, read := range map[string]func() (Entry, bool){
			"LIST": func() (Entry, bool) { return parseLIST(text, now) },
			"MLSD": func() (Entry, bool) { return parseMLSD(text) },
		} {
			e, ok := read()
			switch {
			case !ok && e != (Entry{}) && name == "MLSD":
				t.Errorf("%s: %q is refused, but %+v", name, text, e)
			case !ok:
			case e.Name == "" && !e.IsDir:
				t.Errorf("%s: %q has no name", name, text)
			case !strings.HasSuffix(text, e.Name) && !e.Link:
				t.Errorf("%s: %q does not end in the name %q", name, text, e.Name)
			case e.Size < -1:
				t.Errorf("%s: %q has the size %d", name, text, e.Size)
			case name == "LIST" && !e.IsDir && !e.Link && !e.Odd && e.Size < 0:
				t.Errorf("%s: %q is a file without a size", name, text)
			case safename.Check(e.Name) == nil && strings.ContainsAny(e.Name, "/\\\x00\r"):
				t.Errorf("%s: %q has the name %q", name, text, e.Name)
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
