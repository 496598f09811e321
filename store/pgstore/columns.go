package pgstore

import (
	"database/sql/driver"
	"encoding/hex"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/courierhq/courier"
)

// A textColumn is an array of n texts that is a parameter. Where all of them are empty,
// so is the array: then it costs little to send, and nothing to look into.
type textColumn struct {
	n    int
	list []string
}

func (t *textColumn) set(i int, s string) {
	if s == "" {
		return
	}
	if t.list == nil {
		t.list = make([]string, t.n)
	}
	t.list[i] = s
}

// arg returns the parameter.
func (t *textColumn) arg() []string {
	if t.list == nil {
		return []string{}
	}
	return t.list
}

// set sets a number in a column of n, of which all may be 0: then it stays empty.
func set[T int32 | int64](column *[]T, n, i int, v T) {
	if v == 0 {
		return
	}
	if len(*column) == 0 {
		*column = make([]T, n)
	}
	(*column)[i] = v
}

// uuids are a parameter of the type uuid[]. It is sent in half of what the text
// takes, and the server need not parse it.
type uuids []uuidElement

type uuidElement [16]byte

func (u *uuidElement) UUIDValue() (pgtype.UUID, error) {
	return pgtype.UUID{Bytes: *u, Valid: true}, nil
}

func (u uuids) Dimensions() []pgtype.ArrayDimension {
	return []pgtype.ArrayDimension{{Length: int32(len(u)), LowerBound: 1}}
}

func (u uuids) Index(i int) any { return &u[i] }

func (u uuids) IndexType() any { return (*uuidElement)(nil) }

// Value is the parameter as text, for those of pgx's modes that do not ask the
// server for its type.
func (u uuids) Value() (driver.Value, error) {
	b := []byte{'{'}
	for i := range u {
		if i > 0 {
			b = append(b, ',')
		}
		b = hex.AppendEncode(b, u[i][:])
	}
	return string(append(b, '}')), nil
}

// attempts are the columns of attempts of steps. A step is -1 where there is none.
type attempts struct {
	step, number                                                  []int32
	state, typ, id, iteration, total, outputs, files, reason, err textColumn
	bytes                                                         []int64
}

func newAttempts(n int) *attempts {
	t := textColumn{n: n}
	a := &attempts{
		step: make([]int32, n), number: make([]int32, n), bytes: []int64{},
		state: t, typ: t, id: t, iteration: t, total: t, outputs: t, files: t, reason: t, err: t,
	}
	for i := range a.step {
		a.step[i] = -1
	}
	return a
}

// begin sets what is known of an attempt that starts.
func (a *attempts) begin(i int, s *courier.StepExecution) {
	a.step[i], a.number[i] = int32(s.Step), int32(s.Attempt)
	a.id.set(i, s.ID)
	a.typ.set(i, s.Type)
	a.iteration.set(i, numbers(s.Iteration))
	a.total.set(i, numbers(s.Total))
}

// end sets what is known of an attempt that ended.
func (a *attempts) end(i int, s *courier.StepExecution) {
	a.begin(i, s)
	a.state.set(i, string(s.State))
	set(&a.bytes, len(a.step), i, s.Bytes)
	a.outputs.set(i, string(s.Outputs))
	if s.Files != nil {
		a.files.set(i, encode(s.Files))
	}
	a.reason.set(i, string(s.Reason))
	a.err.set(i, s.Error)
}

// moves are the columns of transitions that both statements have.
type moves struct {
	id, token               uuids
	state                   []string
	seq, last, disk         []int64
	step, reclaims          []int32
	loops, marks, workspace textColumn
	start                   *attempts
}

func newMoves(batch []*applying) *moves {
	n := len(batch)
	t := textColumn{n: n}
	m := &moves{
		id: make(uuids, n), token: make(uuids, n), state: make([]string, n),
		seq: make([]int64, n), last: make([]int64, n), disk: []int64{},
		step: make([]int32, n), reclaims: []int32{},
		loops: t, marks: t, workspace: t, start: newAttempts(n),
	}
	for i, a := range batch {
		t := a.t
		m.id[i], m.token[i], m.state[i] = uuidBytes(string(t.Execution)), uuidBytes(string(t.Lease)), string(t.To)
		m.seq[i] = t.Seq
		set(&m.disk, n, i, t.DiskBytes)
		m.last[i] = t.Seq + int64(len(t.Ended)) - 1
		if t.To != courier.Running {
			m.last[i]++
		}
		if t.Start != nil {
			m.start.begin(i, t.Start)
			m.last[i]++
		}
		m.step[i] = int32(t.Position.Step)
		set(&m.reclaims, n, i, int32(t.Marks.Reclaims))
		if len(t.Position.Loops) > 0 {
			m.loops.set(i, encode(t.Position.Loops))
		}
		m.marks.set(i, writeMarks(t.Marks))
		m.workspace.set(i, t.Workspace)
	}
	return m
}

// progresses reports whether sql/progress.sql may write the transition; of what
// the row must be like, the statement knows itself.
func (a *applying) progresses() bool {
	t := a.t
	return (t.To == courier.Running || t.To == courier.Completed) &&
		(len(t.Ended) == 0 || len(t.Ended) == 1 && t.Ended[0].StartedAt.IsZero()) &&
		t.Marks.Resumed == "" && t.Request == "" && !t.Interrupt && t.Failure == nil && !t.RetryJob
}

// progressArgs are the parameters of sql/progress.sql.
func progressArgs(batch []*applying) []any {
	m, ended := newMoves(batch), newAttempts(len(batch))
	for i, a := range batch {
		if len(a.t.Ended) > 0 {
			ended.end(i, &a.t.Ended[0])
		}
	}
	return []any{
		m.id, m.token, m.seq, m.last, m.state, m.step, m.loops.arg(), m.marks.arg(), m.reclaims, m.workspace.arg(), m.disk,
		m.start.step, m.start.number, m.start.id.arg(), m.start.typ.arg(), m.start.iteration.arg(), m.start.total.arg(),
		ended.step, ended.number, ended.state.arg(), ended.typ.arg(), ended.id.arg(), ended.iteration.arg(), ended.total.arg(),
		ended.bytes, ended.outputs.arg(), ended.files.arg(), ended.reason.arg(), ended.err.arg(),
	}
}

// applyArgs are the parameters of sql/apply.sql. Locked is the chain
// execution that is locked, if one is.
func applyArgs(batch []*applying, locked courier.ChainExecutionID) []any {
	n, sum := len(batch), 0
	for _, a := range batch {
		sum += len(a.t.Ended)
	}
	var (
		m                                          = newMoves(batch)
		delay                                      = make([]int64, n)
		pause, cancel, interrupt, retry            = make([]bool, n), make([]bool, n), make([]bool, n), make([]bool, n)
		resumed, request, failure, reason, message = textColumn{n: n}, textColumn{n: n}, textColumn{n: n}, textColumn{n: n}, textColumn{n: n}

		ended   = newAttempts(sum)
		ord     = make([]int32, sum)
		final   = make([]bool, sum)
		seq     = make([]int64, sum)
		started = textColumn{n: sum}
	)
	k := 0
	for i, a := range batch {
		t := a.t
		delay[i], interrupt[i], retry[i] = micros(t.Delay), t.Interrupt, t.RetryJob
		pause[i], cancel[i] = t.Answers(courier.RequestPause), t.Answers(courier.RequestCancel)
		resumed.set(i, string(t.Marks.Resumed))
		request.set(i, string(t.Request))
		if t.Failure != nil {
			failure.set(i, encode(t.Failure))
			reason.set(i, string(t.Failure.Reason))
			message.set(i, t.Failure.Message)
		}
		for j := range t.Ended {
			e := &t.Ended[j]
			ended.end(k, e)
			ord[k], final[k], seq[k] = int32(i+1), j == len(t.Ended)-1, t.Seq+int64(j)
			if !e.StartedAt.IsZero() {
				started.set(k, e.StartedAt.UTC().Format(time.RFC3339Nano))
			}
			k++
		}
	}
	return []any{
		m.id, m.token, m.seq, m.last, m.state, delay, m.step, m.loops.arg(), m.marks.arg(), m.reclaims, resumed.arg(), request.arg(),
		pause, cancel, interrupt, failure.arg(), reason.arg(), message.arg(), retry, m.workspace.arg(), m.disk,
		m.start.step, m.start.number, m.start.id.arg(), m.start.typ.arg(), m.start.iteration.arg(), m.start.total.arg(),
		ord, final, seq, ended.step, ended.number, ended.state.arg(), ended.typ.arg(), ended.id.arg(), ended.iteration.arg(), ended.total.arg(),
		started.arg(), ended.bytes, ended.outputs.arg(), ended.files.arg(), ended.reason.arg(), ended.err.arg(), string(locked),
	}
}
