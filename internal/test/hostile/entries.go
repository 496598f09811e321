package hostile

import "strings"

// EntryNames are names of an archive's entries that must be refused.
func EntryNames() []string {
	names := []string{
		"", "/", "//", ".", "./", "..", "../", "/..", "/../", "../..", "../../", "../x", "../../x", "../../../../../../../../etc/passwd",
		"a/..", "a/../", "a/../b", "a/../../b", "a/b/../../../c", "a/.", "./../x", ".//../x", "a//../../x", "//a",
		"/x", "/etc/passwd", "/etc/cron.d/x", "//server/share/x", "/./x", "/../x", "///x",
		`\x`, `\\server\share\x`, `..\x`, `a\b`, `a\..\b`, `..\..\windows\system32\x`, `C:\x`, `a/..\b`, `a\`, `\`, `\..\x`, `a/b\c`,
		"C:", "C:x", "C:/x", "c:/windows/x", "Z:x", "a:b", "x:", "x::$DATA", "x:$DATA",
		"a\x00b", "\x00", "a\x00", "x.txt\x00.exe", "a\nb", "a\rb", "a\tb", "\n", "x\x1b[2J", "x\x07", "\x01", "\x1f", "\x7f", "a\x7f", "x\u0080y", "x\u009fy", "x\u0085y",
		"x\u2028y", "x\u2029y", "x\u202ey", "\u202dabc", "a\u2066b", "a\u200eb", "a\u200fb", "a\u061cb",
		"a.", "a..", "a...", "...", "....", "a ", "a  ", " ", "  ", "a. ", "a .", "x/a.", "x/a /y", "a./b", "x/ /y", "x/.../y", ". ", ".. ", ".. /x", "../ x", ". ./x ", "x/.. ", "a.txt.", "a.txt ",
		"\xff", "a\xff", "\xc0\xae\xc0\xae/x", "\xe0\x80\xaf", "a\xed\xa0\x80", "\xf0\x82\x82\xac", "x/\xfe", "caf\xe9.txt", "\x83\x65\x83\x58",
		strings.Repeat("a", 256), strings.Repeat("a", 256) + "/b", "x/" + strings.Repeat("ä", 128), strings.Repeat("a/", 2049) + "b", strings.Repeat("abcdefgh/", 500), strings.Repeat("a/", 101) + "x", strings.Repeat("a/", 1999) + "x", strings.Repeat("../", 1000) + "x",
	}
	for _, device := range []string{"CON", "con", "Con", "PRN", "prn", "AUX", "aux", "NUL", "nul", "COM0", "COM1", "com2", "COM9", "LPT0", "LPT1", "lpt5", "LPT9", "COM¹", "com²", "LPT³", "CONIN$", "conout$", "CLOCK$"} {
		names = append(names, device, device+".txt", "x/"+device+"/y")
	}
	for _, device := range []string{"NUL", "COM1", "LPT1"} {
		names = append(names, device+" .txt", device+".tar.gz", device+"  .x", "x/"+device, device+"/")
	}
	return names
}

// GoodEntryNames are odd names of an archive's entries that are all right.
func GoodEntryNames() []string {
	return []string{
		"a", "a/b", "a/", "a b", " a", ".a", "..a", "...a", "a..b", "a.b.c", "a/.b/..c", "-", "-rf", "~", "~root", "$HOME", "%TEMP%", "`id`", "$(id)", "a;b", "a&b", "a|b", "a'b", `a"b`, "*", "?", "[a]", "{a,b}", "a,b", "a=b", "a+b", "a@b", "a#b", "!a", "(a)", "<a>",
		"COM", "COM10", "COMA", "LPT", "LPTX", "CONX", "XCON", "NULL", "AUXILIARY", "console", "com1x", "x.con", "a.nul", "communication",
		"ä", "日本語.txt", "Ελληνικά", "עברית", "emoji 😀", "a\u0301", "\u00e1", "ﬁ", "ſ", "K", "İ", "ß", "\ufffd", "\u00a0x", "x\u200by",
		strings.Repeat("a", 255), strings.Repeat("abcdefgh/", 100) + "x", "secret:db"[:6], "context", "a.courier-tmp-x",
	}
}
