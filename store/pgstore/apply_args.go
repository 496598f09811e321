package pgstore

import (
	"database/sql/driver"
	"encoding/hex"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/jsontext"
	"github.com/courierhq/courier/store"
)

// A textColumn is a parameter that is an array of n texts. If all of them are empty, the
// array is empty too, which costs little to send and to read.
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

// uuids are a parameter of the type uuid[]. The binary form has half the size of the
// text, and the server need not parse it.
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

// Value returns the parameter as text, for the query modes of pgx that do not get its
// type from the server.
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

// A dictionary has texts of which many rows have the same. Each is sent once, and
// its rows have its code, which is its subscript.
type dictionary struct {
	list  []string
	codes map[string]int32
}

// code returns the code of a text; 0 if it is empty.
func (d *dictionary) code(s string) int32 {
	if s == "" {
		return 0
	}
	code, ok := d.codes[s]
	if !ok {
		d.list = append(d.list, s)
		code = int32(len(d.list))
		d.codes[s] = code
	}
	return code
}

// transitionColumns are the columns of transitions that both statements have.
type transitionColumns struct {
	id, token         uuids
	seq, last, disk   []int64
	step, reclaims    []int32
	loops             textColumn
	startStep, number []int32 // of what starts; the step is -1 where nothing does
	iteration         textColumn
}

func newTransitionColumns(batch []*applyCall) *transitionColumns {
	n := len(batch)
	m := &transitionColumns{
		id: make(uuids, n), token: make(uuids, n), seq: make([]int64, n), last: make([]int64, n), disk: []int64{},
		step: make([]int32, n), reclaims: []int32{}, loops: textColumn{n: n},
		startStep: make([]int32, n), number: make([]int32, n), iteration: textColumn{n: n},
	}
	for i, a := range batch {
		t := a.t
		m.id[i], m.token[i] = uuidBytes(string(t.Execution)), uuidBytes(string(t.Lease))
		m.seq[i] = t.Seq
		set(&m.disk, n, i, t.DiskBytes)
		m.last[i] = t.Seq + int64(len(t.Ended)) - 1
		if t.To != courier.Running {
			m.last[i]++
		}
		m.startStep[i] = -1
		if s := t.Start; s != nil {
			m.startStep[i], m.number[i] = int32(s.Step), int32(s.Attempt)
			m.iteration.set(i, numbers(s.Iteration))
			m.last[i]++
		}
		m.step[i] = int32(t.Position.Step)
		set(&m.reclaims, n, i, int32(t.Counters.Reclaims))
		if len(t.Position.Loops) > 0 {
			m.loops.set(i, encode(t.Position.Loops))
		}
	}
	return m
}

// endedColumns are the columns of attempts that ended, which both statements have. A step is
// -1 where there is none.
type endedColumns struct {
	step, number              []int32
	iteration, outputs, files textColumn
	log, events               textColumn
	bytes                     []int64
}

func newEndedColumns(n int) *endedColumns {
	t := textColumn{n: n}
	e := &endedColumns{step: make([]int32, n), number: make([]int32, n), iteration: t, outputs: t, files: t, log: t, events: t, bytes: []int64{}}
	for i := range e.step {
		e.step[i] = -1
	}
	return e
}

func (e *endedColumns) set(i int, s *courier.StepExecution) {
	e.step[i], e.number[i] = int32(s.Step), int32(s.Attempt)
	e.iteration.set(i, numbers(s.Iteration))
	set(&e.bytes, len(e.step), i, s.Bytes)
	e.outputs.set(i, string(s.Outputs))
	e.log.set(i, s.Log)
	if s.Events != nil {
		text, _ := jsontext.AppendAny(nil, s.Events) // byte by byte: encode would escape characters of HTML
		e.events.set(i, string(text))
	}
	if s.Files != nil {
		e.files.set(i, encode(s.Files))
	}
}

// progresses reports whether the transition may be written by
// sql/checkpoint/write_fast.sql. The statement itself checks the row.
func (a *applyCall) progresses() bool {
	t := a.t
	if len(t.Ended) > 1 || t.Progress != nil {
		return false
	}
	for i := range t.Ended {
		if e := &t.Ended[i]; !e.StartedAt.IsZero() || e.State != courier.StepCompleted || e.Reason != "" || e.Error != "" || e.Worker != "" || e.FailedLoop != nil || e.Stack != "" {
			return false
		}
	}
	if t.FailedItems != nil || t.Repairs != nil || t.Result != nil {
		return false
	}
	return (t.To == courier.Running || t.To == courier.Completed) &&
		t.Counters.Resumed == "" && t.Request == "" && !t.Interrupt && t.Failure == nil && !t.RetryJob
}

// reportFiles reports whether step attempts that end with the transitions report files.
func reportFiles(batch []*applyCall) bool {
	return slices.ContainsFunc(batch, func(a *applyCall) bool {
		return slices.ContainsFunc(a.t.Ended, func(s courier.StepExecution) bool { return len(s.Files) > 0 })
	})
}

// progressArgs are the parameters of sql/checkpoint/write_fast.sql.
func progressArgs(batch []*applyCall) []any {
	var (
		n                              = len(batch)
		m, ended                       = newTransitionColumns(batch), newEndedColumns(n)
		completed                      = make([]bool, n)
		texts                          = dictionary{list: []string{}, codes: make(map[string]int32)}
		counters, workspace            = []int32{}, []int32{}
		startID, startType, startTotal = []int32{}, []int32{}, []int32{}
		endID, endType, endTotal       = []int32{}, []int32{}, []int32{}
	)
	for i, a := range batch {
		t := a.t
		completed[i] = t.To == courier.Completed
		set(&counters, n, i, texts.code(encodeCounters(t.Counters)))
		set(&workspace, n, i, texts.code(t.Workspace))
		if s := t.Start; s != nil {
			set(&startID, n, i, texts.code(s.ID))
			set(&startType, n, i, texts.code(s.Type))
			set(&startTotal, n, i, texts.code(numbers(s.Total)))
		}
		if len(t.Ended) > 0 {
			e := &t.Ended[0]
			ended.set(i, e)
			set(&endID, n, i, texts.code(e.ID))
			set(&endType, n, i, texts.code(e.Type))
			set(&endTotal, n, i, texts.code(numbers(e.Total)))
		}
	}
	return []any{
		m.id, m.token, m.seq, m.last, completed, m.step, m.loops.arg(), texts.list, counters, m.reclaims, workspace, m.disk,
		m.startStep, m.number, startID, startType, m.iteration.arg(), startTotal,
		ended.step, ended.number, ended.iteration.arg(), ended.bytes, ended.outputs.arg(), ended.files.arg(), endType, endID, endTotal,
		ended.log.arg(), ended.events.arg(),
	}
}

// applyArgs are the parameters of sql/checkpoint/write.sql. Locked is the chain
// execution that is locked, if one is.
func applyArgs(batch []*applyCall, locked courier.ChainExecutionID) []any {
	n, sum := len(batch), 0
	for _, a := range batch {
		sum += len(a.t.Ended)
	}
	var (
		m                                     = newTransitionColumns(batch)
		state, delay                          = make([]string, n), make([]int64, n)
		pause, cancel, interrupt, retry       = make([]bool, n), make([]bool, n), make([]bool, n), make([]bool, n)
		none                                  = textColumn{n: n}
		counters, resumed, request, workspace = none, none, none, none
		failure, reason, message, repairs     = none, none, none, none
		result, progress                      = none, none
		failedItems                           = []int32{}
		startID, startType, startTotal        = none, none, none

		ended                                                            = newEndedColumns(sum)
		ord, seq, final                                                  = make([]int32, sum), make([]int64, sum), make([]bool, sum)
		some                                                             = textColumn{n: sum}
		endState, endType, endID, endTotal, endReason, endError, started = some, some, some, some, some, some, some
		endWorker, endStack, failedLoop                                  = some, some, []int32{}
	)
	k := 0
	for i, a := range batch {
		t := a.t
		state[i], delay[i], interrupt[i], retry[i] = string(t.To), micros(t.Delay), t.Interrupt, t.RetryJob
		pause[i], cancel[i] = t.Answers(courier.RequestPause), t.Answers(courier.RequestCancel)
		marks, changes := t.Counters, t.Repairs
		if t.RetryJob {
			marks, changes = marks.NextAttempt(), store.NextRepairs(changes)
		}
		counters.set(i, encodeCounters(marks))
		if t.FailedItems != nil {
			set(&failedItems, n, i, int32(*t.FailedItems)+1)
		}
		if t.Repairs != nil {
			repairs.set(i, encodeRepairs(changes))
		}
		progress.set(i, encodeProgress(t.Progress.WithoutReport()))
		resumed.set(i, string(t.Counters.Resumed))
		request.set(i, string(t.Request))
		workspace.set(i, t.Workspace)
		result.set(i, string(t.Result))
		if t.Failure != nil {
			failure.set(i, encode(t.Failure))
			reason.set(i, string(t.Failure.Reason))
			message.set(i, t.Failure.Message)
		}
		if s := t.Start; s != nil {
			startID.set(i, s.ID)
			startType.set(i, s.Type)
			startTotal.set(i, numbers(s.Total))
		}
		for j := range t.Ended {
			e := &t.Ended[j]
			ended.set(k, e)
			ord[k], final[k], seq[k] = int32(i+1), j == len(t.Ended)-1, t.Seq+int64(j)
			endState.set(k, string(e.State))
			endType.set(k, e.Type)
			endID.set(k, e.ID)
			endTotal.set(k, numbers(e.Total))
			endReason.set(k, string(e.Reason))
			endError.set(k, e.Error)
			endWorker.set(k, e.Worker)
			endStack.set(k, e.Stack)
			if e.FailedLoop != nil {
				set(&failedLoop, sum, k, int32(*e.FailedLoop)+1)
			}
			if !e.StartedAt.IsZero() {
				started.set(k, e.StartedAt.UTC().Format(time.RFC3339Nano))
			}
			k++
		}
	}
	return []any{
		m.id, m.token, m.seq, m.last, state, delay, m.step, m.loops.arg(), counters.arg(), m.reclaims, resumed.arg(), request.arg(),
		pause, cancel, interrupt, failure.arg(), reason.arg(), message.arg(), retry, workspace.arg(), m.disk,
		m.startStep, m.number, startID.arg(), startType.arg(), m.iteration.arg(), startTotal.arg(),
		ord, final, seq, ended.step, ended.number, endState.arg(), endType.arg(), endID.arg(), ended.iteration.arg(), endTotal.arg(),
		started.arg(), ended.bytes, ended.outputs.arg(), ended.files.arg(), endReason.arg(), endError.arg(), string(locked),
		endWorker.arg(), failedItems, repairs.arg(), failedLoop,
		endStack.arg(), ended.log.arg(), ended.events.arg(), result.arg(), progress.arg(),
	}
}
