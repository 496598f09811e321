package pgstore

import (
	"errors"
	"slices"

	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A statement that writes a few hundred transitions has 100 kB of parameters. For each
// statement pgx encodes them into a buffer of 256 bytes and copies that to one of 1 kB,
// and both grow by a quarter at a time. That was a third of all bytes that a busy
// process allocated. So the encoding of the first parameter grows the first buffer to
// the size of all, and an empty message before the parameters grows the second.

// reserveBuffers grows the buffers of a connection for the parameters of the next
// statement, of which the first are uuids, and returns the parameters to be sent. It
// does nothing for a closed connection, which pgx may still be using.
func reserveBuffers(conn *pgxpool.Conn, args []any) []any {
	pg := conn.Conn().PgConn()
	if pg.IsClosed() {
		return args
	}
	if known := pg.CustomData(); known[reservedType] == nil {
		known[reservedType] = true
		types := conn.Conn().TypeMap()
		types.TryWrapEncodePlanFuncs = append([]pgtype.TryWrapEncodePlanFunc{planReserved}, types.TryWrapEncodePlanFuncs...)
	}
	size := sizeOf(args)
	pg.Frontend().Send(headroom(size + 1024))
	args[0] = &reserved{args[0].(uuids), size}
	return args
}

// reservedType marks a connection that can encode a reserved.
const reservedType = "github.com/courierhq/courier/store/pgstore.reserved"

// A reserved is the first of parameters that have so many bytes together.
type reserved struct {
	first uuids
	size  int
}

// A reservedPlan encodes a reserved as pgx encodes uuids.
type reservedPlan struct{ next pgtype.EncodePlan }

func planReserved(value any) (pgtype.WrappedEncodePlanNextSetter, any, bool) {
	if r, ok := value.(*reserved); ok {
		return new(reservedPlan), r.first, true
	}
	return nil, nil, false
}

// SetNext sets how pgx encodes uuids.
func (p *reservedPlan) SetNext(next pgtype.EncodePlan) { p.next = next }

// Encode appends the uuids.
func (p *reservedPlan) Encode(value any, buf []byte) ([]byte, error) {
	r := value.(*reserved)
	return p.next.Encode(r.first, slices.Grow(buf, r.size))
}

// A headroom is a message of no bytes that makes room in the buffer for messages.
type headroom int

// Frontend says that it would be a client's message.
func (headroom) Frontend() {}

// Decode fails: no server sends such a message.
func (headroom) Decode([]byte) error { return errors.New("this is no message") }

// Encode makes room.
func (r headroom) Encode(buf []byte) ([]byte, error) { return slices.Grow(buf, int(r)), nil }

// sizeOf is how many bytes parameters take, or a few more.
func sizeOf(args []any) int {
	const header = 4 + 5*4 // the length, and what an array begins with
	n := 0
	for _, arg := range args {
		n += header
		switch v := arg.(type) {
		case uuids:
			n += len(v) * (4 + 16)
		case []string:
			for _, s := range v {
				n += 4 + len(s)
			}
		case []int64:
			n += len(v) * (4 + 8)
		case []int32:
			n += len(v) * (4 + 4)
		case []bool:
			n += len(v) * (4 + 1)
		case string:
			n += len(v)
		}
	}
	return n
}
