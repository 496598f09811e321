package expectation

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/monitor"
)

// A Store keeps expectations and their arrivals. It is an optional role of a
// [github.com/courierhq/courier/store.Store] that also has the role [monitor.Store]; an engine
// finds it by a type assertion. The rules that package store states for all methods hold here
// too.
//
// There is no leader: every engine leases due expectations, evaluates what the store returns, and
// records the result. Two rules ensure that each day has one record and each event happens once,
// on any number of engines. First, a look is written only if the expectation has not changed
// since it was read, in one transaction with its arrivals and its events. Second, an expectation
// has one arrival for each date. The lease only avoids duplicate work.
type Store interface {
	// PutExpectation creates an expectation if its Revision is 0; otherwise it replaces the
	// expectation with that revision. It returns the saved expectation, whose lease ends. The
	// error is [courier.ErrConflict] if the expectation has another revision, or exists although
	// it is to be created. In a store that also has the role Store of package schedule,
	// PutExpectation makes AwaitSchedules return, so that engines look. The monitor
	// [monitor.LookName] is removed unless it is the Monitor of the expectation.
	PutExpectation(ctx context.Context, p Put) (Record, error)
	// RemoveExpectation removes an expectation, its arrivals and the monitor [monitor.LookName] with
	// its files, or returns [courier.ErrNotFound].
	RemoveExpectation(ctx context.Context, name string) error
	// Expectations returns a page of expectations, in byte order of their names.
	Expectations(ctx context.Context, f Filter) (List, error)
	// DueExpectations leases due expectations, with all data that an engine needs to look at
	// them, in one statement for all of them. A leased expectation is not due again until the
	// lease ends or the look is recorded.
	DueExpectations(ctx context.Context, r DueRequest) (DueList, error)
	// RecordLooks writes looks in one transaction. Each look is written as a whole, or not at all
	// if the expectation has changed since it was read. RecordLooks reports which were written,
	// in order, and ends their leases. The list has at most one look at each expectation. The
	// events are kept for subscriptions in the same transaction.
	RecordLooks(ctx context.Context, list []Look) ([]bool, error)
	// Arrivals returns a page of arrivals, the latest date first. Arrivals of one date are in
	// byte order of the names of their expectations.
	Arrivals(ctx context.Context, f ArrivalFilter) ([]Kept, error)
	// CountArrivals returns the number of arrivals in each state between two dates, both
	// included.
	CountArrivals(ctx context.Context, from, to string) (map[State]int, error)
}

// A Record is an expectation as a store keeps it.
type Record struct {
	Name string
	// Monitor and Job are the source of its files; one of them is empty. The Monitor of an
	// expectation that polls a directory itself is [monitor.LookName]. If such an expectation is
	// disabled, both are empty.
	Monitor, Job string
	Prefix       string          // the prefix of the names of its files
	Body         json.RawMessage // the definition, valid JSON
	SavedAt      time.Time       // when it was last put; set by the store
	// Revision is increased by the store at every put and every recorded look. A lease does not
	// increase it. A name never has the same revision twice.
	Revision int64
	Due      time.Time // when it is due; zero means never; set by the store
	Progress
}

// A Progress is the part of an expectation that changes with looks.
type Progress struct {
	// SeenFrom is the time from which sightings are needed.
	SeenFrom time.Time
	// ArrivalsFrom is the date from which arrivals are needed, as in 2026-11-29.
	ArrivalsFrom string
	Memory       json.RawMessage // only the engine interprets it; valid JSON
}

// A Put is an expectation to put.
type Put struct {
	Record
	// After is the time from now until the expectation is due; negative means never.
	After time.Duration
	// Look is the monitor of an expectation that polls a directory itself. It is put in the same
	// transaction, whatever the revision of the saved monitor is. Nil does not change the saved
	// monitor.
	Look *monitor.Put
}

// A Filter selects expectations. Zero fields select all.
type Filter struct {
	Name    string   // only the one with this name
	Names   []string // only those with one of these names; nil means all
	Monitor string   // only those that expect files from the monitor of this name
	Job     string   // only those that expect files from the job of this name
	After   string   // only those whose names come after it
	Limit   int      // 0 means 1000
}

// Match reports whether the filter selects an expectation.
func (f *Filter) Match(r *Record) bool {
	return (f.Name == "" || r.Name == f.Name) && (f.Names == nil || slices.Contains(f.Names, r.Name)) && (f.Monitor == "" || r.Monitor == f.Monitor) && (f.Job == "" || r.Job == f.Job) && r.Name > f.After
}

// A List is a list of expectations.
type List struct {
	Now  time.Time // by the store's clock
	List []Record
}

// A DueRequest selects due expectations.
type DueRequest struct {
	Max   int
	Lease time.Duration
}

// DueList is what [Store.DueExpectations] returns. Its fields are those of [monitor.DueList], but
// its Due has the data for a look.
type DueList struct {
	Now  time.Time // by the store's clock
	List []Due     // the earliest first
	// Next is the time until another expectation is due, or its lease ends; 0 if there is none.
	// It is a microsecond if more than Max expectations are due.
	Next time.Duration
}

// A Due is a due expectation with all data that an engine needs to look at it.
type Due struct {
	Record
	Arrivals []Kept // from the date ArrivalsFrom on
	// Watch is the monitor from which its files come; nil if there is none.
	Watch *Watch
	// Seen are the files with the prefix Prefix that the monitor has seen with their present size
	// and time since SeenFrom; at most [MaxSeen], the earliest first.
	Seen []monitor.SeenFile
	// Received are the files that steps of executions of the job have received since SeenFrom,
	// limited and ordered like Seen. The executions were created at most a week before SeenFrom.
	Received []Received
}

// MaxSeen is the maximum number of files of a [Due].
const MaxSeen = 20_000

// A Watch has the data of a monitor that a look needs.
type Watch struct {
	Body   json.RawMessage // its definition
	Health json.RawMessage // of [monitor.Health]
}

// A Received is a file that a step has received.
type Received struct {
	Path      string
	Size      int64
	At        time.Time // when the step ended
	Execution courier.ExecutionID
	Seq       int64 // of the step's record
}

// A Look is the result of a look at an expectation.
type Look struct {
	Expectation string // its name
	Revision    int64  // the revision that was read; nothing is written if the expectation has changed
	Progress    Progress
	After       time.Duration // the time from now until it is due again; negative means never
	Arrivals    []Kept        // replace the arrivals of their dates, or are added
	Events      []Event
	// Forget is the date before which arrivals are removed; empty means none.
	Forget string
}

// A Kept is an arrival as a store keeps it. Body is the [Arrival], valid JSON.
type Kept struct {
	ID          string // a UUID; an existing arrival keeps its ID
	Expectation string
	Date        string // as in 2026-11-29
	State       State
	Body        json.RawMessage
}

// An ArrivalFilter selects arrivals. Zero fields select all.
type ArrivalFilter struct {
	Expectations []string // only arrivals of these expectations; nil means all
	From, To     string   // dates, both included; empty means no limit
	States       []State  // only arrivals in one of these states; nil means all
	// After is the last arrival of the page before; nil for the first page.
	After *Kept
	Limit int // 0 means 1000
}

// Match reports whether the filter selects an arrival.
func (f *ArrivalFilter) Match(a *Kept) bool {
	return (f.Expectations == nil || slices.Contains(f.Expectations, a.Expectation)) && a.Date >= f.From && (f.To == "" || a.Date <= f.To) &&
		(f.States == nil || slices.Contains(f.States, a.State)) && (f.After == nil || f.After.before(a))
}

// before reports whether an arrival comes before another one in a page.
func (a *Kept) before(b *Kept) bool {
	return a.Date > b.Date || a.Date == b.Date && a.Expectation < b.Expectation
}
