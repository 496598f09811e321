package pgstore

import (
	"errors"
	"slices"

	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A statement that writes a few hundred transitions has 100 kB of parameters.
// pgx gathers them in a buffer that begins with 256 bytes and then writes them
// to one that begins with 1 kB, for each statement anew: growing these, by a
// quarter at a time, was a third of what a busy process allocated. So the
// first parameter makes room for all, and so does a message of no bytes before
// that of the parameters.

// withRoom has a connection make room for the parameters of the next statement,
// and returns them. The first are uuids. A connection that is closed is left to
// pgx, which may still be at work on it.
func withRoom(conn *pgxpool.Conn, args []any) []any {
	pg := conn.Conn().PgConn()
	if pg.IsClosed() {
		return args
	}
	if known := pg.CustomData(); known[roomyType] == nil {
		known[roomyType] = true
		types := conn.Conn().TypeMap()
		types.TryWrapEncodePlanFuncs = append([]pgtype.TryWrapEncodePlanFunc{planRoomy}, types.TryWrapEncodePlanFuncs...)
	}
	size := sizeOf(args)
	pg.Frontend().Send(room(size + 1024))
	args[0] = &roomy{args[0].(uuids), size}
	return args
}

// roomyType tells that a connection knows how to encode a roomy.
const roomyType = "github.com/courierhq/courier/store/pgstore.roomy"

// A roomy is the first of parameters that have so many bytes together.
type roomy struct {
	first uuids
	size  int
}

// A roomyPlan encodes a roomy as pgx encodes uuids.
type roomyPlan struct{ next pgtype.EncodePlan }

func planRoomy(value any) (pgtype.WrappedEncodePlanNextSetter, any, bool) {
	if r, ok := value.(*roomy); ok {
		return new(roomyPlan), r.first, true
	}
	return nil, nil, false
}

// SetNext sets how pgx encodes uuids.
func (p *roomyPlan) SetNext(next pgtype.EncodePlan) { p.next = next }

// Encode appends the uuids.
func (p *roomyPlan) Encode(value any, buf []byte) ([]byte, error) {
	r := value.(*roomy)
	return p.next.Encode(r.first, slices.Grow(buf, r.size))
}

// A room is a message of no bytes that makes room in the buffer for messages.
type room int

// Frontend says that it would be a client's message.
func (room) Frontend() {}

// Decode fails: nobody sends it.
func (room) Decode([]byte) error { return errors.New("this is no message") }

// Encode makes room.
func (r room) Encode(buf []byte) ([]byte, error) { return slices.Grow(buf, int(r)), nil }

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
