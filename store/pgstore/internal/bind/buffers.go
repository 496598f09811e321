package bind

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

// ReserveBuffers grows the buffers of a connection for the parameters of the next
// statement, of which the first are UUIDs, and returns the parameters to be sent. It
// does nothing for a closed connection, which pgx may still be using.
func ReserveBuffers(conn *pgxpool.Conn, args []any) []any {
	pg := conn.Conn().PgConn()
	if pg.IsClosed() {
		return args
	}
	if known := pg.CustomData(); known[reservedType] == nil {
		known[reservedType] = true
		types := conn.Conn().TypeMap()
		types.TryWrapEncodePlanFuncs = append([]pgtype.TryWrapEncodePlanFunc{PlanReserved}, types.TryWrapEncodePlanFuncs...)
	}
	size := SizeOf(args)
	pg.Frontend().Send(Headroom(size + 1024))
	args[0] = &Reserved{args[0].(UUIDs), size}
	return args
}

// reservedType marks a connection that can encode a [Reserved].
const reservedType = "github.com/courierhq/courier/store/pgstore.reserved"

// A Reserved is the first of parameters that have so many bytes together.
type Reserved struct {
	First UUIDs
	Size  int
}

// A reservedPlan encodes a [Reserved] as pgx encodes UUIDs.
type reservedPlan struct{ next pgtype.EncodePlan }

// PlanReserved returns the plan for a [Reserved], as pgx asks for it.
func PlanReserved(value any) (pgtype.WrappedEncodePlanNextSetter, any, bool) {
	if r, ok := value.(*Reserved); ok {
		return new(reservedPlan), r.First, true
	}
	return nil, nil, false
}

// SetNext sets how pgx encodes UUIDs.
func (p *reservedPlan) SetNext(next pgtype.EncodePlan) { p.next = next }

// Encode appends the UUIDs.
func (p *reservedPlan) Encode(value any, buf []byte) ([]byte, error) {
	r := value.(*Reserved)
	return p.next.Encode(r.First, slices.Grow(buf, r.Size))
}

// A Headroom is a message of no bytes that makes room in the buffer for messages.
type Headroom int

// Frontend says that it would be a client's message.
func (Headroom) Frontend() {}

// Decode fails: no server sends such a message.
func (Headroom) Decode([]byte) error { return errors.New("this is no message") }

// Encode makes room.
func (r Headroom) Encode(buf []byte) ([]byte, error) { return slices.Grow(buf, int(r)), nil }

// SizeOf is how many bytes parameters take, or a few more.
func SizeOf(args []any) int {
	const header = 4 + 5*4 // the length, and what an array begins with
	n := 0
	for _, arg := range args {
		n += header
		switch v := arg.(type) {
		case UUIDs:
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
