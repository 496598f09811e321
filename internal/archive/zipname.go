package archive

import (
	"archive/zip"
	"strings"
	"unicode/utf8"
)

// The systems of an entry's maker on which a backslash can be part of a name.
const (
	madeOnUnix  = 3
	madeOnMacOS = 19
)

// entryName is the name of an entry of a zip file, with slashes. Without the mark for
// UTF-8 a name is in the code page 437, as the format says, unless it is valid UTF-8, as
// many programs write it. A backslash is a separator in what was made on a system where
// no name can have one: old versions of .NET write it so. The name is to be checked as
// any other.
func entryName(f *zip.File) string {
	const markedUTF8 = 1 << 11
	name := f.Name
	if f.Flags&markedUTF8 == 0 && !utf8.ValidString(name) {
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
	return name
}

// codePage437 has the characters from 0x80 on.
var codePage437 = []rune("ÇüéâäàåçêëèïîìÄÅÉæÆôöòûùÿÖÜ¢£¥₧ƒáíóúñÑªº¿⌐¬½¼¡«»" +
	"░▒▓│┤╡╢╖╕╣║╗╝╜╛┐└┴┬├─┼╞╟╚╔╩╦╠═╬╧╨╤╥╙╘╒╓╫╪┘┌█▄▌▐▀" +
	"αßΓπΣσµτΦΘΩδ∞φε∩≡±≥≤⌠⌡÷≈°∙·√ⁿ²■\u00a0")
