package pgstore

import (
	"slices"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/jsontext"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/pgstore/internal/bind"
)

// transitionColumns are the columns of transitions that both statements have.
type transitionColumns struct {
	id, token         bind.UUIDs
	seq, last, disk   []int64
	step, reclaims    []int32
	loops             bind.TextColumn
	startStep, number []int32 // of what starts; the step is -1 where nothing does
	iteration         bind.TextColumn
}

func newTransitionColumns(batch []*applyCall) *transitionColumns {
	n := len(batch)
	m := &transitionColumns{
		id: make(bind.UUIDs, n), token: make(bind.UUIDs, n), seq: make([]int64, n), last: make([]int64, n), disk: []int64{},
		step: make([]int32, n), reclaims: []int32{}, loops: bind.TextColumn{N: n},
		startStep: make([]int32, n), number: make([]int32, n), iteration: bind.TextColumn{N: n},
	}
	for i, a := range batch {
		t := a.t
		m.id[i], m.token[i] = bind.UUIDOf(string(t.Execution)), bind.UUIDOf(string(t.Lease))
		m.seq[i] = t.Seq
		bind.Set(&m.disk, n, i, t.DiskBytes)
		m.last[i] = t.Seq + int64(len(t.Ended)) - 1
		if t.To != courier.Running {
			m.last[i]++
		}
		m.startStep[i] = -1
		if s := t.Start; s != nil {
			m.startStep[i], m.number[i] = int32(s.Step), int32(s.Attempt)
			m.iteration.Set(i, numbers(s.Iteration))
			m.last[i]++
		}
		m.step[i] = int32(t.Position.Step)
		bind.Set(&m.reclaims, n, i, int32(t.Counters.Reclaims))
		if len(t.Position.Loops) > 0 {
			m.loops.Set(i, encode(t.Position.Loops))
		}
	}
	return m
}

// endedColumns are the columns of attempts that ended, which both statements have. A step is
// -1 where there is none.
type endedColumns struct {
	step, number              []int32
	iteration, outputs, files bind.TextColumn
	log, events               bind.TextColumn
	bytes                     []int64
}

func newEndedColumns(n int) *endedColumns {
	t := bind.TextColumn{N: n}
	e := &endedColumns{step: make([]int32, n), number: make([]int32, n), iteration: t, outputs: t, files: t, log: t, events: t, bytes: []int64{}}
	for i := range e.step {
		e.step[i] = -1
	}
	return e
}

func (e *endedColumns) set(i int, s *courier.StepExecution) {
	e.step[i], e.number[i] = int32(s.Step), int32(s.Attempt)
	e.iteration.Set(i, numbers(s.Iteration))
	bind.Set(&e.bytes, len(e.step), i, s.Bytes)
	e.outputs.Set(i, string(s.Outputs))
	e.log.Set(i, s.Log)
	if s.Events != nil {
		text, _ := jsontext.AppendAny(nil, s.Events) // byte by byte: encode would escape characters of HTML
		e.events.Set(i, string(text))
	}
	if s.Files != nil {
		e.files.Set(i, encode(s.Files))
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
	if t.FailedItems != nil || t.Repairs != nil || t.Result != nil || t.OnlyCopies != nil {
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
		texts                          = bind.NewDictionary()
		counters, workspace            = []int32{}, []int32{}
		startID, startType, startTotal = []int32{}, []int32{}, []int32{}
		endID, endType, endTotal       = []int32{}, []int32{}, []int32{}
	)
	for i, a := range batch {
		t := a.t
		completed[i] = t.To == courier.Completed
		bind.Set(&counters, n, i, texts.Code(encodeCounters(t.Counters)))
		bind.Set(&workspace, n, i, texts.Code(t.Workspace))
		if s := t.Start; s != nil {
			bind.Set(&startID, n, i, texts.Code(s.ID))
			bind.Set(&startType, n, i, texts.Code(s.Type))
			bind.Set(&startTotal, n, i, texts.Code(numbers(s.Total)))
		}
		if len(t.Ended) > 0 {
			e := &t.Ended[0]
			ended.set(i, e)
			bind.Set(&endID, n, i, texts.Code(e.ID))
			bind.Set(&endType, n, i, texts.Code(e.Type))
			bind.Set(&endTotal, n, i, texts.Code(numbers(e.Total)))
		}
	}
	return []any{
		m.id, m.token, m.seq, m.last, completed, m.step, m.loops.Arg(), texts.List, counters, m.reclaims, workspace, m.disk,
		m.startStep, m.number, startID, startType, m.iteration.Arg(), startTotal,
		ended.step, ended.number, ended.iteration.Arg(), ended.bytes, ended.outputs.Arg(), ended.files.Arg(), endType, endID, endTotal,
		ended.log.Arg(), ended.events.Arg(),
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
		none                                  = bind.TextColumn{N: n}
		counters, resumed, request, workspace = none, none, none, none
		failure, reason, message, repairs     = none, none, none, none
		result, progress, onlyCopies          = none, none, none
		failedItems                           = []int32{}
		startID, startType, startTotal        = none, none, none

		ended                                                            = newEndedColumns(sum)
		ord, seq, final                                                  = make([]int32, sum), make([]int64, sum), make([]bool, sum)
		some                                                             = bind.TextColumn{N: sum}
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
		counters.Set(i, encodeCounters(marks))
		if t.FailedItems != nil {
			bind.Set(&failedItems, n, i, int32(*t.FailedItems)+1)
		}
		if t.Repairs != nil {
			repairs.Set(i, encodeRepairs(changes))
		}
		progress.Set(i, encodeProgress(t.Progress.WithoutReport()))
		resumed.Set(i, string(t.Counters.Resumed))
		request.Set(i, string(t.Request))
		workspace.Set(i, t.Workspace)
		result.Set(i, string(t.Result))
		if t.To != courier.Running {
			onlyCopies.Set(i, encodeOnlyCopies(t.OnlyCopies))
		}
		if t.Failure != nil {
			failure.Set(i, encode(t.Failure))
			reason.Set(i, string(t.Failure.Reason))
			message.Set(i, t.Failure.Message)
		}
		if s := t.Start; s != nil {
			startID.Set(i, s.ID)
			startType.Set(i, s.Type)
			startTotal.Set(i, numbers(s.Total))
		}
		for j := range t.Ended {
			e := &t.Ended[j]
			ended.set(k, e)
			ord[k], final[k], seq[k] = int32(i+1), j == len(t.Ended)-1, t.Seq+int64(j)
			endState.Set(k, string(e.State))
			endType.Set(k, e.Type)
			endID.Set(k, e.ID)
			endTotal.Set(k, numbers(e.Total))
			endReason.Set(k, string(e.Reason))
			endError.Set(k, e.Error)
			endWorker.Set(k, e.Worker)
			endStack.Set(k, e.Stack)
			if e.FailedLoop != nil {
				bind.Set(&failedLoop, sum, k, int32(*e.FailedLoop)+1)
			}
			if !e.StartedAt.IsZero() {
				started.Set(k, e.StartedAt.UTC().Format(time.RFC3339Nano))
			}
			k++
		}
	}
	return []any{
		m.id, m.token, m.seq, m.last, state, delay, m.step, m.loops.Arg(), counters.Arg(), m.reclaims, resumed.Arg(), request.Arg(),
		pause, cancel, interrupt, failure.Arg(), reason.Arg(), message.Arg(), retry, workspace.Arg(), m.disk,
		m.startStep, m.number, startID.Arg(), startType.Arg(), m.iteration.Arg(), startTotal.Arg(),
		ord, final, seq, ended.step, ended.number, endState.Arg(), endType.Arg(), endID.Arg(), ended.iteration.Arg(), endTotal.Arg(),
		started.Arg(), ended.bytes, ended.outputs.Arg(), ended.files.Arg(), endReason.Arg(), endError.Arg(), string(locked),
		endWorker.Arg(), failedItems, repairs.Arg(), failedLoop,
		endStack.Arg(), ended.log.Arg(), ended.events.Arg(), result.Arg(), progress.Arg(), onlyCopies.Arg(),
	}
}
