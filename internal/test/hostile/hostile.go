// Package hostile is a corpus of names that servers, archives and messages may
// send to do harm, for the tests of everything that takes names from outside.
//
// A test of a connector offers it all of [Names] and [Odd] and requires that
// the former have no effect, and that the latter are used as they are.
package hostile

import (
	"fmt"
	"strings"
)

// Names returns names of which none can stand for exactly one file in one
// directory, on any system. There are more than 200, none of them twice. The
// caller may change the slice.
func Names() []string {
	names := []string{
		// Directories instead of files, and ways up and out.
		"", ".", "..", "/", "//", "///", "./", "../", "../..", "../../", "./.", "././", "./x", "../x", "x/..", "x/.", "x/", "x//", "x//y", "/x", "//x",
		"/..", "/.", "/../x", "x/../..", "x/../../y", "x/./../../y", "a/b/c/../../../../x", "sub/file", "sub/../file", "~/x", "~root/.ssh/authorized_keys",
		"/etc/passwd", "/etc/cron.d/x", "/root/.ssh/authorized_keys", "/proc/self/environ", "/dev/sda", "//host/share", "//host/share/x", "file:///etc/passwd",
		"../../../../etc/passwd", "../../../../etc/cron.d/x", "a/../../../../../root/.ssh/authorized_keys", "....//x", "..././x", ".../...//x", "..//..//x", "/./x", "/.//../x",
		"x/../../../../../../../../../../../../../../../../tmp/x", "..%2f../x", "..;/x", ".. /x", "../ x", " ../x", "..\u2215/x",
		// The separators, drives and paths of Windows.
		`\`, `\\`, `..\`, `..\..`, `..\..\win.ini`, `..\..\..\Windows\System32\drivers\etc\hosts`, `a\b`, `a\..\..\b`, `x\..`, `.\x`, `\x`, `\..\x`, `..\/x`, `../\x`, `..\\../x`, `\/x`,
		`C:\x`, `C:\Windows\win.ini`, `C:/x`, `C:/../x`, `c:\..\x`, `C:..\x`, `C:../x`, `Z:\`, `\\host\share`, `\\host\share\x`, `\\?\C:\x`, `\\.\PhysicalDrive0`, `\\.\pipe\x`, `\??\C:\x`, `C:\CON`, `..\NUL`, `\Device\Null`,
		// What ends a text in C.
		"\x00", "\x00\x00", "a\x00b", "a\x00", "\x00a", "a.csv\x00.exe", "\x00/etc/passwd", "..\x00", "../\x00", "x\x00/..", ".\x00.",
		// What ends a line, or a command.
		"\n", "\r", "\r\n", "\n\n", "new\nline", "new\r\nline", "a\rb", "a\r\nDELE b", "a\r\nSITE EXEC rm -rf", "a\nPORT 127,0,0,1,0,22", "x\r\n226 Done\r\n", "x\n\ttab", "tab\there", "\t", "\v", "\f", "vt\vx", "ff\fx",
		"next\u0085line", "line\u2028x", "para\u2029x", "\u2028", "\u2029",
		// What acts on a terminal or in a log.
		"\x1b", "\x1b[2J\x1b[H", "\x1b]0;title\x07", "\x1b]52;c;cm0gLXJm\x07", "\x1b[31mred\x1b[0m", "\x1bP+q\x1b\\", "bell\x07", "\b\b\b", "back\bspace", "del\x7f", "\x7f", "c1\u0080", "\u009b2J", "\u0090x", "\u009dx\u009c",
		// What hides, or shows something else.
		"exe\u202Efdp.exe", "\u202E", "\u202Ax", "\u202Bx", "\u202Cx", "\u202Dx", "\u2066x\u2069", "\u2067x", "\u2068x", "\u2069x", "\u200Ex", "\u200Fx", "\u061Cx", "invoice\u202Ecod.exe", "a\u2066\u202Eb",
		// What is no UTF-8, or stands for something that was none.
		"\xff", "\xfe\xff", "\xff\xfex\x00", "latin1-\xe9.csv", "\xe9", "cut\xc3", "\x80abc", "\xbf", "overlong\xc0\xaf", "\xc0\xae\xc0\xae/", "\xc0\xae\xc0\xae", "\xe0\x80\xaf", "\xf0\x80\x80\xaf", "\xc0\x80", "\xed\xa0\x80", "\xed\xa0\x80\xed\xb0\x80", "\xf4\x90\x80\x80", "\xf8\x88\x80\x80\x80", "ok\xffok", "\xff/\xff", "replaced\uFFFD", "\uFFFD",
		// What Windows drops at the end.
		"dot.", "dots..", "...", "....", "space ", "spaces   ", " ", "  ", "x. ", "x .", ". .", ".. ", "CON.", "a.exe. .",
		// What is too long.
		strings.Repeat("n", 256), strings.Repeat("n", 1024), strings.Repeat("n", 4000), strings.Repeat("n", 70_000), strings.Repeat("é", 128), strings.Repeat("\U0001F600", 64), strings.Repeat("..", 2000), strings.Repeat("../", 1000), strings.Repeat("/", 1000), strings.Repeat("a/", 2000), strings.Repeat(`..\`, 1000), strings.Repeat("\u202E", 100),
	}
	for c := rune(1); c < 32; c++ {
		names = append(names, fmt.Sprintf("ctl%cx", c))
	}
	return names
}

// Windows returns names that Windows alone doesn't take as they are: devices,
// streams, drives, and characters with a meaning there. On other systems they
// are good.
func Windows() []string {
	names := []string{"a:b", "a.txt:stream", "a.txt::$DATA", "C:", "C:x", "a<b", "a>b", `a"b`, "a|b", "a?b", "a*b", "conin$", "CONOUT$", "con .txt"}
	for _, device := range []string{"CON", "PRN", "AUX", "NUL", "COM1", "COM9", "LPT1", "LPT9", "com0", "lpt\u00b9"} {
		names = append(names, device, strings.ToLower(device)+".txt", device+".tar.gz")
	}
	return names
}

// Odd returns names that look like trouble and are good on every system: they
// mean something to a shell, a database, a web page, a pattern or a job
// definition, and nothing to a file system.
func Odd() []string {
	return []string{
		"-rf", "--help", "-", "~", "~root", ".hidden", "..x", "...x", "x..y", "good.csv", "größe 見積.csv", "\u65e5\u672c\u8a9e.txt", "\U0001F600.txt",
		"e\u0301.txt", "\u00e9.txt", "${context:params.x}", "context:0.file_list", "secret:db", "$secret:db", "%00", "%2e%2e%2f", "..%2f", "%s%n%x",
		"[x]", "{a,b}", "!important", "#hash", "'; DROP TABLE x; --", "$(reboot)", "`id`", "a;b", "a&b", "$HOME", "%PATH%", "a=b", "a b", " leading",
		"x.courier", "null", "undefined", "true", "0", "-1", "1e1000", "NaN", "\ufeffbom.csv", "\u00a0x", "zero\u200bwidth", strings.Repeat("n", 255), strings.Repeat("é", 127),
	}
}
