package archive

import (
	"archive/zip"
	"encoding/binary"
	"hash/crc32"
	"strings"
	"unicode/utf8"
)

// The systems on which a name can contain a backslash.
const (
	madeOnUnix  = 3
	madeOnMacOS = 19
)

// entryName returns the name of an entry of a zip file, with slashes. Without the UTF-8 flag a
// name is in code page 437, as the format says. The exceptions are a name that is valid UTF-8, as
// many programs write it, and an entry that also has a name in UTF-8, as Info-ZIP and WinRAR add
// it. A backslash is a separator if the entry was made on a system where a name cannot contain
// one: old versions of .NET write such entries. The name must still be checked like any other.
func entryName(f *zip.File) string {
	const markedUTF8 = 1 << 11
	name := f.Name
	if beside := unicodePath(f); f.Flags&markedUTF8 == 0 && beside != "" {
		name = beside
	} else if f.Flags&markedUTF8 == 0 && !utf8.ValidString(name) {
		var b strings.Builder
		for _, c := range []byte(name) {
			if c < 0x80 {
				b.WriteByte(c)
			} else {
				b.WriteRune(codePage437[c-0x80])
			}
		}
		name = b.String()
	}
	if by := f.CreatorVersion >> 8; by != madeOnUnix && by != madeOnMacOS {
		name = strings.ReplaceAll(name, `\`, "/")
	}
	return tidy(name)
}

// unicodePath returns the name in an entry's extra field "Info-ZIP Unicode Path". It is empty if
// there is no such field, or if the field was made for a different name of the entry.
func unicodePath(f *zip.File) string {
	const id, version, fixed = 0x7075, 1, 5
	for extra := f.Extra; len(extra) >= 4; {
		size := int(binary.LittleEndian.Uint16(extra[2:]))
		if len(extra) < 4+size {
			break
		}
		field := extra[4 : 4+size]
		if binary.LittleEndian.Uint16(extra) == id && size > fixed && field[0] == version &&
			binary.LittleEndian.Uint32(field[1:]) == crc32.ChecksumIEEE([]byte(f.Name)) {
			return string(field[fixed:])
		}
		extra = extra[4+size:]
	}
	return ""
}

// codePage437 contains the characters from 0x80 on.
var codePage437 = []rune("ÇüéâäàåçêëèïîìÄÅÉæÆôöòûùÿÖÜ¢£¥₧ƒáíóúñÑªº¿⌐¬½¼¡«»" +
	"░▒▓│┤╡╢╖╕╣║╗╝╜╛┐└┴┬├─┼╞╟╚╔╩╦╠═╬╧╨╤╥╙╘╒╓╫╪┘┌█▄▌▐▀" +
	"αßΓπΣσµτΦΘΩδ∞φε∩≡±≥≤⌠⌡÷≈°∙·√ⁿ²■\u00a0")
