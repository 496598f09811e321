package inflate

import "encoding/binary"

// coded unpacks symbols until the block ends or the room is used up.
func (r *Reader) coded() error {
	for r.end < historySize+roomSize {
		if r.quick(); r.end >= historySize+roomSize {
			break
		}
		e, err := r.next(r.lits[:], litBits)
		switch {
		case err != nil:
			return err
		case e&literal != 0:
			r.out[r.end] = byte(e >> byteShift)
			r.end++
			if e&twoLiterals != 0 {
				r.out[r.end] = byte(e >> secondShift)
				r.end++
			}
		case e&special != 0:
			r.kind = noBlock
			return nil
		default:
			if err := r.match(e); err != nil {
				return err
			}
		}
	}
	return nil
}

// next takes the next entry of a table, but of one with a value only the bits
// of the code. Where the input is about to end this may be the last one.
func (r *Reader) next(table []uint32, indexBits uint) (uint32, error) {
	for {
		r.take()
		e := table[r.bits&(1<<indexBits-1)]
		if e&literal == 0 && e&(special|isLink) == special|isLink {
			e = table[uint64(e>>valueShift)+r.bits>>indexBits&(1<<(e&entryBits)-1)]
		}
		used := uint(e & entryBits)
		switch {
		case e&literal != 0:
		case e == invalid:
			if r.n >= longestCode {
				return 0, r.corrupt()
			}
			used = longestCode
		case e&special == 0:
			used = uint(e >> codeShift & codeMask)
		}
		if used <= r.n {
			if e&(literal|special) == special && e&isEnd == 0 {
				return 0, r.corrupt()
			}
			r.drop(used)
			return e, nil
		}
		if err := r.fetch(); err != nil {
			return 0, err
		}
	}
}

// match copies what the length e and the distance that follows refer to.
func (r *Reader) match(e uint32) error {
	more, err := r.get(uint(e&entryBits - e>>codeShift&codeMask))
	if err != nil {
		return err
	}
	length := int(e>>valueShift&lengthMask) + more
	d, err := r.next(r.dists[:], distBits)
	if err != nil {
		return err
	}
	if more, err = r.get(uint(d&entryBits - d>>codeShift&codeMask)); err != nil {
		return err
	}
	from := r.end - int(d>>valueShift&distMask) - more
	if from < r.start {
		return r.corrupt()
	}
	repeat(r.out[from:r.end+length], r.end-from)
	r.end += length
	return nil
}

// short is up to how many bytes quick copies without a call.
const short = 32

// repeat fills b with repetitions of its first n bytes. Each copy doubles what
// is there, so that a short period takes few copies.
func repeat(b []byte, n int) {
	for ; n < len(b); n *= 2 {
		copy(b[n:], b[:n])
	}
}

// quick is coded for as long as there are room and input for any symbol. It
// leaves to coded the end of the block and what makes no sense.
func (r *Reader) quick() {
	const reserve = 16 // bytes of input: two words
	in, pos, bits, n := r.in, r.pos, r.bits, r.n
	out, end, start := &r.out, r.end, r.start
	lits, dists := r.lits, r.dists
	for end < historySize+roomSize && pos <= len(in)-reserve {
		bits |= binary.LittleEndian.Uint64(in[pos:]) << (n & 63)
		pos += int((63 - n) >> 3)
		n |= 56
		e := lits[bits&(1<<litBits-1)]
		// Of 56 bits three entries of the first table take 33 at most.
		for i := 0; e&literal != 0 && i < 3; i++ {
			binary.LittleEndian.PutUint16(out[end:], uint16(e>>byteShift))
			end += int(1 + e>>30&1)
			bits >>= e & entryBits
			n -= uint(e & entryBits)
			e = lits[bits&(1<<litBits-1)]
		}
		if e&literal != 0 {
			continue
		}
		bits |= binary.LittleEndian.Uint64(in[pos:]) << (n & 63)
		pos += int((63 - n) >> 3)
		n |= 56
		if e&special != 0 {
			if e&isLink == 0 {
				break
			}
			e = lits[uint64(e>>valueShift)+bits>>litBits&(1<<(e&entryBits)-1)]
			if e&literal != 0 {
				out[end] = byte(e >> byteShift)
				end++
				bits >>= e & entryBits
				n -= uint(e & entryBits)
				continue
			}
			if e&special != 0 {
				break
			}
		}
		length := int(e>>valueShift&lengthMask) + int(bits&(1<<(e&entryBits)-1)>>(e>>codeShift&codeMask))
		after := bits >> (e & entryBits)
		d := dists[after&(1<<distBits-1)]
		if d&special != 0 {
			if d&isLink != 0 {
				d = dists[uint64(d>>valueShift)+after>>distBits&(1<<(d&entryBits)-1)]
			}
			if d&special != 0 {
				break
			}
		}
		dist := int(d>>valueShift&distMask) + int(after&(1<<(d&entryBits)-1)>>(d>>codeShift&codeMask))
		from := end - dist
		if from < start {
			break
		}
		bits = after >> (d & entryBits)
		n -= uint(e&entryBits + d&entryBits)
		to := end
		end += length
		switch {
		case length > short:
			repeat(out[from:end], dist)
		case dist >= 8:
			for ; to < end; to += 8 {
				binary.LittleEndian.PutUint64(out[to:], binary.LittleEndian.Uint64(out[from:]))
				from += 8
			}
		default:
			for ; to < end; to++ {
				out[to] = out[from]
				from++
			}
		}
	}
	r.pos, r.bits, r.n, r.end = pos, bits, n, end
}
