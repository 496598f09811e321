package pgstore

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/test/pgtest"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/pgstore/internal/bind"
)

// TestReserveBuffers encodes the parameters of statements as pgx does, in a buffer that must
// not have to grow but once.
func TestReserveBuffers(t *testing.T) {
	var batch []*applyCall
	for i := range maxBatch {
		tr := &store.Transition{
			Execution: courier.ExecutionID(fmt.Sprintf("01920000-0000-7000-8000-%012d", i)), Lease: store.Token(randomUUID()),
			To: courier.Running, Seq: int64(i + 2), Counters: store.Counters{Attempts: i + 1},
			Position: courier.Position{Step: i, Loops: []courier.LoopPosition{{Step: 1, Index: i}}},
			Ended: []courier.StepExecution{{
				Step: i, Type: "sftp.download", State: courier.StepCompleted, Iteration: []int{i}, Bytes: int64(i),
				Outputs: json.RawMessage(fmt.Sprintf(`{"path":%q}`, "/in/"+string(make([]byte, i)))),
			}},
			Start: &courier.StepExecution{Step: i + 1, ID: fmt.Sprintf("step-%d", i), Type: "sftp.upload", Attempt: 1},
		}
		if i%7 == 0 {
			tr.Ended[0].Error, tr.Ended[0].Files = "no such file", []courier.File{{Path: "a/b", Size: 7}}
		}
		batch = append(batch, &applyCall{t: tr})
	}
	types := pgtype.NewMap()
	types.TryWrapEncodePlanFuncs = append([]pgtype.TryWrapEncodePlanFunc{bind.PlanReserved}, types.TryWrapEncodePlanFuncs...)
	for name, args := range map[string][]any{"progress": progressArgs(batch), "apply": applyArgs(batch, "01920000-0000-7000-8000-000000000000")} {
		t.Run(name, func(t *testing.T) {
			size := bind.SizeOf(args)
			args[0] = &bind.Reserved{First: args[0].(bind.UUIDs), Size: size}
			buf, grown := make([]byte, 0, 256), 0
			for i, arg := range args {
				before := cap(buf)
				var err error
				if buf, err = types.Encode(oidOf(arg), pgtype.BinaryFormatCode, arg, buf); err != nil {
					t.Fatalf("parameter %d: %v", i+1, err)
				}
				if cap(buf) != before {
					grown++
				}
			}
			if grown != 1 || len(buf) < 40*maxBatch || size > len(buf)*11/10 {
				t.Errorf("%d bytes, for which there was room for %d, grew %d times", len(buf), size, grown)
			}
		})
	}
	if buf, err := bind.Headroom(5000).Encode([]byte("abc")); err != nil || string(buf) != "abc" || cap(buf) < 5003 {
		t.Errorf("%q with room for %d, %v", buf, cap(buf), err)
	}
}

// TestReserveBuffersOfClosedConnection has a connection make room that pgx is about to close, since a
// statement took too long: what the race detector finds is the failure.
func TestReserveBuffersOfClosedConnection(t *testing.T) {
	t.Parallel()
	pool, err := pgxpool.New(t.Context(), pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	for range 5 {
		conn, err := pool.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		if _, err := conn.Exec(ctx, "select pg_sleep(60)"); err == nil {
			t.Error("it slept for a minute")
		}
		cancel()
		if _, err := conn.Exec(t.Context(), "select $1::uuid[]", bind.ReserveBuffers(conn, []any{make(bind.UUIDs, 1000)})...); err == nil {
			t.Error("a closed connection carried out a statement")
		}
		conn.Release()
	}
}

func oidOf(arg any) uint32 {
	switch arg.(type) {
	case []int32:
		return pgtype.Int4ArrayOID
	case []int64:
		return pgtype.Int8ArrayOID
	case []bool:
		return pgtype.BoolArrayOID
	case []string:
		return pgtype.TextArrayOID
	case string:
		return pgtype.TextOID
	default:
		return pgtype.UUIDArrayOID
	}
}
