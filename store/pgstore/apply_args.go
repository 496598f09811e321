package pgstore

import (
	"slices"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/jsontext"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/pgstore/internal/bind"
)

// progresses reports whether the transition may be written by
// sql/checkpoint/write_fast.sql, which has the outputs within the JSON. The statement itself
// checks the row.
func (a *applyCall) progresses() bool {
	t := a.t
	if len(t.Ended) > 1 || t.Progress != nil || a.bytes > maxBytes {
		return false
	}
	for i := range t.Ended {
		if e := &t.Ended[i]; !e.StartedAt.IsZero() || e.State != courier.StepCompleted || e.Reason != "" || e.Error != "" || e.Worker != "" || e.FailedLoop != nil || e.Rescue != nil || e.ItemLabels != nil || e.Stack != "" {
			return false
		}
	}
	if t.Finish != nil || t.Finally || t.FinallyError != nil || t.FailedItems != nil || t.Repairs != nil || t.Result != nil || t.OnlyCopies != nil {
		return false
	}
	return (t.To == courier.Running || t.To == courier.Completed) &&
		t.Counters.Resumed == "" && t.Request == "" && !t.Interrupt && t.Failure == nil && !t.RetryJob
}

// leaveTrail reports whether step attempts that end with the transitions report files, or failed in
// items.
func leaveTrail(batch []*applyCall) bool {
	return slices.ContainsFunc(batch, func(a *applyCall) bool {
		return slices.ContainsFunc(a.t.Ended, func(s courier.StepExecution) bool { return len(s.Files) > 0 || len(s.ItemLabels) > 0 })
	})
}

// progressArgs returns the parameters of sql/checkpoint/write_fast.sql, except the last.
func progressArgs(batch []*applyCall) []any {
	rows := make([]progressRow, len(batch))
	for i, a := range batch {
		rows[i] = newProgressRow(a.t, int32(i+1))
	}
	return []any{encode(rows)}
}

// A progressRow is a transition in the form for sql/checkpoint/write_fast.sql, with the step
// attempt that ends with it.
type progressRow struct {
	transitionRow
	EndedStep      *int   `json:"ended_step,omitempty"` // nil: none ends
	EndedAttempt   int    `json:"ended_attempt,omitempty"`
	EndedID        string `json:"ended_id,omitempty"`
	EndedType      string `json:"ended_type,omitempty"`
	EndedIteration string `json:"ended_iteration,omitempty"`
	EndedTotal     string `json:"ended_total,omitempty"`
	Bytes          int64  `json:"bytes,omitempty"`
	Outputs        string `json:"outputs,omitempty"`
	Files          string `json:"files,omitempty"`
	Log            string `json:"log,omitempty"`
	Events         string `json:"events,omitempty"`
}

func newProgressRow(t *store.Transition, ord int32) progressRow {
	r := progressRow{transitionRow: newTransitionRow(t, ord, nil)}
	if len(t.Ended) > 0 {
		s := &t.Ended[0]
		r.EndedStep, r.EndedAttempt, r.EndedID, r.EndedType = &s.Step, s.Attempt, s.ID, s.Type
		r.EndedIteration, r.EndedTotal, r.Bytes = numbers(s.Iteration), numbers(s.Total), s.Bytes
		r.Outputs, r.Files, r.Log, r.Events = string(s.Outputs), filesOf(s), s.Log, eventsOf(s)
	}
	return r
}

// A transitionRow is a transition in the form for sql/checkpoint/write.sql. Empty fields are left
// out and are null there: the column is empty, or keeps its value.
type transitionRow struct {
	Ord            int32               `json:"ord"` // from 1
	Execution      string              `json:"execution"`
	Lease          string              `json:"lease"`
	Seq            int64               `json:"seq"`
	Last           int64               `json:"last"` // the number of the last entry, except the entry of an interrupt
	StateTo        courier.State       `json:"state_to"`
	DelayUS        int64               `json:"delay_us,omitempty"`
	Step           int                 `json:"step"`
	Loops          string              `json:"loops,omitempty"`
	Counters       string              `json:"counters,omitempty"`
	Reclaims       int                 `json:"reclaims,omitempty"`
	ResumedFrom    courier.State       `json:"resumed_from,omitempty"`
	Answers        courier.RequestKind `json:"answers,omitempty"` // the request that is carried out
	PassesPause    bool                `json:"passes_pause,omitempty"`
	PassesCancel   bool                `json:"passes_cancel,omitempty"`
	PassesAbort    bool                `json:"passes_abort,omitempty"`
	Aborts         bool                `json:"aborts,omitempty"`
	KeepsPause     bool                `json:"keeps_pause,omitempty"` // it begins the finally part, or is one of it
	Interrupts     bool                `json:"interrupts"`
	Failure        string              `json:"failure,omitempty"`
	Reason         courier.Reason      `json:"reason,omitempty"`
	Message        string              `json:"message,omitempty"`
	RetriesJob     bool                `json:"retries_job,omitempty"`
	Workspace      string              `json:"workspace,omitempty"`
	DiskBytes      int64               `json:"disk_bytes,omitempty"`
	FailedItems    *int                `json:"failed_items,omitempty"`
	Repairs        string              `json:"repairs,omitempty"` // "{}": none
	Result         subscript           `json:"result,omitempty"`
	Progress       string              `json:"progress,omitempty"`
	OnlyCopies     string              `json:"only_copies,omitempty"`
	Starts         *int                `json:"starts,omitempty"` // a step; nil if none starts
	StartAttempt   int                 `json:"start_attempt,omitempty"`
	StartID        string              `json:"start_id,omitempty"`
	StartType      string              `json:"start_type,omitempty"`
	StartIteration string              `json:"start_iteration,omitempty"`
	StartTotal     string              `json:"start_total,omitempty"`
	Finish         string              `json:"finish,omitempty"`
	Finally        bool                `json:"in_finally,omitempty"`
	FinallyError   string              `json:"finally_error,omitempty"`
	By             string              `json:"by,omitempty"`
	PauseText      string              `json:"pause_text,omitempty"` // what the audit says of a pause that is pending
}

// An attemptRow is a step attempt that ends with a transition.
type attemptRow struct {
	Ord        int32             `json:"ord"` // the ord of its transition
	IsLast     bool              `json:"is_last"`
	Seq        int64             `json:"seq"`
	Step       int               `json:"step"`
	Attempt    int               `json:"attempt"`
	State      courier.StepState `json:"state"`
	Type       string            `json:"type"`
	ID         string            `json:"id,omitempty"`
	Iteration  string            `json:"iteration,omitempty"`
	Total      string            `json:"total,omitempty"`
	StartedAt  string            `json:"started_at,omitempty"` // empty: the time in the store
	Bytes      int64             `json:"bytes,omitempty"`
	Worker     string            `json:"worker,omitempty"` // empty: the holder of the lease
	Reason     courier.Reason    `json:"reason,omitempty"`
	FailedLoop *int              `json:"failed_loop,omitempty"`
	Error      subscript         `json:"error,omitempty"`
	Outputs    subscript         `json:"outputs,omitempty"`
	Files      subscript         `json:"files,omitempty"`
	Stack      subscript         `json:"stack,omitempty"`
	Log        subscript         `json:"log,omitempty"`
	Events     subscript         `json:"events,omitempty"`
	ItemLabels string            `json:"item_labels,omitempty"`
	Rescued    bool              `json:"rescued,omitempty"`
}

// A subscript is the place of a text in a list, from 1; 0 stands for no text.
type subscript int

// texts are texts that may be large. They are separate from the rows that refer to them.
type texts []string

// add adds a text. Nil texts take none but the empty one.
func (t *texts) add(text string) subscript {
	if text == "" {
		return 0
	}
	*t = append(*t, text)
	return subscript(len(*t))
}

// applyArgs returns the parameters of sql/checkpoint/write.sql, except the last. Locked is the
// chain execution that is locked, if any.
func applyArgs(batch []*applyCall, locked courier.ChainExecutionID) []any {
	rows, attempts, large := make([]transitionRow, len(batch)), []attemptRow{}, texts{}
	for i, a := range batch {
		rows[i] = newTransitionRow(a.t, int32(i+1), &large)
		for j := range a.t.Ended {
			r := newAttemptRow(&a.t.Ended[j], &large)
			r.Ord, r.Seq, r.IsLast = int32(i+1), a.t.Seq+int64(j), j == len(a.t.Ended)-1
			attempts = append(attempts, r)
		}
	}
	return []any{encode(rows), encode(attempts), []string(large), string(locked)}
}

func newTransitionRow(t *store.Transition, ord int32, large *texts) transitionRow {
	marks, repairs := t.Counters, t.Repairs
	if t.RetryJob {
		marks, repairs = marks.NextAttempt(), store.NextRepairs(repairs)
	}
	r := transitionRow{
		Ord: ord, Execution: bind.ID(string(t.Execution)), Lease: bind.ID(string(t.Lease)), Seq: t.Seq, Last: lastEntry(t), StateTo: t.To, DelayUS: micros(t.Delay),
		Step: t.Position.Step, Counters: encodeCounters(marks), Reclaims: t.Counters.Reclaims, ResumedFrom: t.Counters.Resumed,
		Answers: t.Request, PassesPause: t.Answers(courier.RequestPause), PassesCancel: t.Answers(courier.RequestCancel), PassesAbort: t.Answers(courier.RequestAbort),
		Aborts: t.CarriedOut(courier.RequestAbort, "who asked") != "", Interrupts: t.Interrupt,
		RetriesJob: t.RetryJob, Workspace: t.Workspace, DiskBytes: t.DiskBytes, FailedItems: t.FailedItems,
		Result: large.add(string(t.Result)), Progress: encodeProgress(t.Progress.WithoutReport()),
	}
	if len(t.Position.Loops) > 0 {
		r.Loops = encode(t.Position.Loops)
	}
	if t.Repairs != nil {
		r.Repairs = encodeRepairs(repairs)
	}
	if t.To != courier.Running {
		r.OnlyCopies = encodeOnlyCopies(t.OnlyCopies)
	}
	if r.Message = t.Text; t.Failure != nil {
		r.Failure, r.Reason, r.Message = encode(t.Failure), t.Failure.Reason, t.Failure.Message
	}
	if t.Finish != nil || t.Finally {
		r.ofFinally(t)
	}
	if s := t.Start; s != nil {
		r.Starts, r.StartAttempt, r.StartID, r.StartType = &s.Step, s.Attempt, s.ID, s.Type
		r.StartIteration, r.StartTotal = numbers(s.Iteration), numbers(s.Total)
	}
	return r
}

// ofFinally sets the fields about the finally part.
func (r *transitionRow) ofFinally(t *store.Transition) {
	r.Finally, r.By, r.KeepsPause = t.Finally, t.By, t.Keeps(courier.RequestPause)
	if f := t.Finish; f != nil {
		r.Finish, r.Message = encode(f), f.Text
	}
	if t.FinallyError != nil {
		r.FinallyError = encode(t.FinallyError)
	}
	if t.Finally && t.To.Ended() {
		r.PauseText = store.PauseDropped
	}
}

func newAttemptRow(s *courier.StepExecution, large *texts) attemptRow {
	r := attemptRow{
		Step: s.Step, Attempt: s.Attempt, State: s.State, Type: s.Type, ID: s.ID, Iteration: numbers(s.Iteration), Total: numbers(s.Total),
		Bytes: s.Bytes, Worker: s.Worker, Reason: s.Reason, FailedLoop: s.FailedLoop, ItemLabels: labelsOf(s),
		Error: large.add(s.Error), Outputs: large.add(string(s.Outputs)), Stack: large.add(s.Stack), Log: large.add(s.Log),
		Files: large.add(filesOf(s)), Events: large.add(eventsOf(s)),
	}
	if s.Rescue != nil {
		r.FailedLoop, r.Rescued = s.Rescue, true
	}
	if !s.StartedAt.IsZero() {
		r.StartedAt = s.StartedAt.UTC().Format(time.RFC3339Nano)
	}
	return r
}

// lastEntry is the number of the last entry of the audit after a transition, except the entry of an
// interrupt.
func lastEntry(t *store.Transition) int64 {
	last := t.Seq + int64(len(t.Ended)) - 1
	if t.To != courier.Running || t.Finish != nil {
		last++
	}
	if t.Start != nil {
		last++
	}
	return last
}

// filesOf returns the files that a step has reported. It is empty for none.
func filesOf(s *courier.StepExecution) string {
	if s.Files == nil {
		return ""
	}
	return encode(s.Files)
}

// labelsOf returns the labels of the items in which an attempt failed. It is empty for none.
func labelsOf(s *courier.StepExecution) string {
	if s.ItemLabels == nil {
		return ""
	}
	text, _ := jsontext.AppendAny(nil, s.ItemLabels)
	return string(text)
}

// eventsOf returns the events that a step has emitted. It is empty for none.
func eventsOf(s *courier.StepExecution) string {
	if s.Events == nil {
		return ""
	}
	text, _ := jsontext.AppendAny(nil, s.Events) // byte by byte: encode would escape characters of HTML
	return string(text)
}
