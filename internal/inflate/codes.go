package inflate

import (
	"math/bits"
	"sync"
)

// Codes are read with tables: the next bits of the input are an index to an
// entry that tells what they stand for and how many of them that takes. Codes
// longer than the index lead to an entry in a table behind the first one.
const (
	litBits    = 11
	litsSize   = 1<<litBits + 144<<(longestCode-litBits)
	distBits   = 9
	distsSize  = 1<<distBits + 15<<(longestCode-distBits)
	orderBits  = 7
	orderSize  = 1 << orderBits
	maxLits    = 286
	maxDists   = 30
	endOfBlock = 256

	longestCode = 15
)

// An entry has the number of bits that it takes in its lowest six, what belongs
// to the code included. The rest depends on the kind of the entry.
const (
	entryBits = 0x3f

	// Of literals, which are one or two bytes: the first at byteShift, the
	// second or 0 at secondShift. These bits are something else in entries that
	// are no literals.
	literal     = 1 << 31
	twoLiterals = 1 << 30
	byteShift   = 8
	secondShift = 16

	// Of lengths and distances: the value without what is added to it, and the
	// size of the code alone.
	valueShift = 16
	lengthMask = 0x1ff
	distMask   = 0x7fff
	codeShift  = 8
	codeMask   = 0xf

	// Of what else there is. Of a link, the place of the table is at
	// valueShift, and the bits of its index are the lowest.
	special = 1 << 15
	isEnd   = 1 << 14
	isLink  = 1 << 13
	invalid = special
)

// codes are those of one block.
type codes struct {
	lits    [litsSize]uint32
	dists   [distsSize]uint32
	order   [orderSize]uint32
	lengths [maxLits + maxDists]uint8
}

// Entries of the symbols, without the sizes of their codes.
var (
	litSymbols   = makeLitSymbols()
	distSymbols  = makeDistSymbols()
	orderSymbols = makeOrderSymbols()
)

func makeLitSymbols() (s [288]uint32) {
	for i := range endOfBlock {
		s[i] = literal | uint32(i)<<byteShift
	}
	s[endOfBlock] = special | isEnd
	length := uint32(3)
	for i := endOfBlock + 1; i < 285; i++ {
		extra := uint32(max(0, (i-261)/4))
		s[i] = length<<valueShift | extra
		length += 1 << extra
	}
	s[285] = longest << valueShift
	s[286], s[287] = invalid, invalid
	return s
}

func makeDistSymbols() (s [32]uint32) {
	dist := uint32(1)
	for i := range maxDists {
		extra := uint32(max(0, i/2-1))
		s[i] = dist<<valueShift | extra
		dist += 1 << extra
	}
	s[30], s[31] = invalid, invalid
	return s
}

func makeOrderSymbols() (s [19]uint32) {
	for i := range s {
		s[i] = uint32(i) << valueShift
	}
	return s
}

// fixedCodes are those that the format itself defines.
var fixedCodes = sync.OnceValue(func() *codes {
	c := new(codes)
	var lengths [288]uint8
	for i := range lengths {
		switch {
		case i < 144:
			lengths[i] = 8
		case i < 256:
			lengths[i] = 9
		case i < 280:
			lengths[i] = 7
		default:
			lengths[i] = 8
		}
	}
	build(c.lits[:], litBits, lengths[:], litSymbols[:])
	pair(c.lits[:1<<litBits])
	var dists [32]uint8
	for i := range dists {
		dists[i] = 5
	}
	build(c.dists[:], distBits, dists[:], distSymbols[:])
	return c
})

// build makes the table of a code from the lengths of its words. It reports
// whether there is such a code: complete, or empty, or one word of one bit.
func build(table []uint32, indexBits int, lengths []uint8, symbols []uint32) bool {
	var count [longestCode + 1]int
	for _, l := range lengths {
		count[l]++
	}
	count[0] = 0
	var next [longestCode + 2]int // the next word of each length
	var words, most int
	for l := 1; l <= longestCode; l++ {
		next[l] = (next[l-1] + count[l-1]) << 1
		words += count[l]
		if count[l] > 0 {
			most = l
		}
	}
	clear(table[:1<<indexBits])
	if complete := next[most]+count[most] == 1<<most; words == 0 || !complete {
		if words > 1 || most > 1 {
			return false
		}
		for i := range table[:1<<indexBits] {
			table[i] = invalid
		}
	}
	free := 1 << indexBits // behind the tables that were begun
	for symbol, l8 := range lengths {
		l := int(l8)
		if l == 0 {
			continue
		}
		word := int(bits.Reverse16(uint16(next[l])) >> (16 - l))
		next[l]++
		e := entry(symbols[symbol], l)
		part, at, step := table[:1<<indexBits], word, l
		if l > indexBits {
			index, more := word&(1<<indexBits-1), most-indexBits
			if table[index] == 0 {
				table[index] = uint32(free)<<valueShift | special | isLink | uint32(more)
				free += 1 << more
			}
			from := int(table[index] >> valueShift)
			part, at, step = table[from:from+1<<more], word>>indexBits, l-indexBits
		}
		for ; at < len(part); at += 1 << step {
			part[at] = e
		}
	}
	return true
}

// entry is the entry of a symbol whose code has l bits.
func entry(symbol uint32, l int) uint32 {
	if symbol&(literal|special) != 0 {
		return symbol | uint32(l)
	}
	return symbol + uint32(l)<<codeShift + uint32(l)
}

// pair joins entries of literals where the index has the bits of two.
func pair(table []uint32) {
	for i := len(table) - 1; i >= 0; i-- {
		first := table[i]
		if first&literal == 0 {
			continue
		}
		used := first & entryBits
		second := table[i>>used] // not joined yet
		if sum := used + second&entryBits; second&literal != 0 && sum <= litBits {
			table[i] = literal | twoLiterals | first&(0xff<<byteShift) | (second>>byteShift&0xff)<<secondShift | sum
		}
	}
}

// readCodes reads the codes of a block.
func (r *Reader) readCodes() error {
	v, err := r.get(5 + 5 + 4)
	if err != nil {
		return err
	}
	lits, dists, given := v&31+257, v>>5&31+1, v>>10+4
	if lits > maxLits || dists > maxDists {
		return r.corrupt()
	}
	var lengths [19]uint8
	for _, i := range []uint8{16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15}[:given] {
		l, err := r.get(3)
		if err != nil {
			return err
		}
		lengths[i] = uint8(l)
	}
	c := r.codes
	if !build(c.order[:], orderBits, lengths[:], orderSymbols[:]) {
		return r.corrupt()
	}
	all := c.lengths[:lits+dists]
	if err := r.readLengths(all); err != nil {
		return err
	}
	if !build(c.lits[:], litBits, all[:lits], litSymbols[:]) || !build(c.dists[:], distBits, all[lits:], distSymbols[:]) {
		return r.corrupt()
	}
	pair(c.lits[:1<<litBits])
	return nil
}

// readLengths reads the lengths of words.
func (r *Reader) readLengths(all []uint8) error {
	for i := 0; i < len(all); {
		v, err := r.symbol(r.codes.order[:], orderBits)
		if err != nil {
			return err
		}
		if v < 16 {
			all[i] = uint8(v)
			i++
			continue
		}
		repeated, extra, times := uint8(0), uint(7), 11
		switch v {
		case 16:
			if i == 0 {
				return r.corrupt()
			}
			repeated, extra, times = all[i-1], 2, 3
		case 17:
			extra, times = 3, 3
		}
		more, err := r.get(extra)
		if err != nil {
			return err
		}
		if times += more; times > len(all)-i {
			return r.corrupt()
		}
		for range times {
			all[i] = repeated
			i++
		}
	}
	return nil
}

// symbol reads one symbol of a code without links, whose entries have a value.
func (r *Reader) symbol(table []uint32, indexBits int) (int, error) {
	for {
		r.take()
		e := table[r.bits&(1<<indexBits-1)]
		used := uint(e & entryBits)
		switch {
		case e&special != 0 && r.n >= uint(indexBits):
			return 0, r.corrupt()
		case e&special == 0 && used <= r.n:
			r.drop(used)
			return int(e >> valueShift), nil
		}
		if err := r.fetch(); err != nil {
			return 0, err
		}
	}
}
