package dashboard

import (
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/calendar"
	"github.com/courierhq/courier/dashboard/internal/values"
	"github.com/courierhq/courier/store"
)

// The lists of the pages as their filters and their CSV use them. If a page shows a value in a more
// readable form, the column still has the value itself.

func (l *executionList) tables() []*table {
	if l.Problems != nil {
		return nil
	}
	return []*table{executionTable(&l.Rows, &l.Next)}
}

func executionTable(rows *[]executionRow, next *string) *table {
	return tableOf("executions", rows, next, []string{"Status", "Job", "Version", "Execution", "Started by", "Started or due", "Took seconds", "Bytes", "Failure"}, func(r *executionRow) []any {
		var by []string
		for _, o := range r.Origin {
			by = append(by, strings.TrimSpace(o.Kind+" "+o.Text))
		}
		took := r.Took
		if !r.Ended {
			took = -1
		}
		return []any{r.Status, r.Job, r.Version, r.ID, by, r.Begun, took, r.Bytes, r.Failure}
	})
}

func (l *chainRunList) tables() []*table { return []*table{chainRunTable(&l.Rows, &l.Next)} }

func chainRunTable(rows *[]chainRunRow, next *string) *table {
	return tableOf("executions of chains", rows, next, []string{"Status", "Chain", "Version", "Execution", "Started by", "Created", "Took seconds", "Members ended", "Members", "Failure"}, func(r *chainRunRow) []any {
		took := r.Took
		if !r.Ended {
			took = -1
		}
		return []any{r.Status, r.Chain, r.Version, r.ID, r.By, r.Created, took, r.Done, r.Members, r.Failure}
	})
}

func (l *jobList) tables() []*table {
	return []*table{tableOf("jobs", &l.Rows, &l.Next, []string{"Job", "Version", "Steps", "Queue", "Newest execution", "Ended or created", "Next tick", "Schedule", "Chain", "Saved", "Saved by"}, func(r *jobRow) []any {
		var newest jobOutcome
		if len(r.Outcomes) > 0 {
			newest = r.Outcomes[0]
		}
		return []any{r.Name, r.Version, r.Steps, r.Queue, newest.Status, newest.At, r.Next, r.Schedule, r.Chain, r.SavedAt, r.SavedBy}
	})}
}

func (l *chainList) tables() []*table {
	return []*table{tableOf("chains", &l.Rows, &l.Next, []string{"Chain", "Version", "Members", "Description", "Newest execution", "Created", "Saved", "Saved by"}, func(r *chainRow) []any {
		var newest chainRunRow
		if len(r.Runs) > 0 {
			newest = r.Runs[0]
		}
		return []any{r.Name, r.Version, r.Members, r.Description, newest.Status, newest.Created, r.SavedAt, r.SavedBy}
	})}
}

func (l *scheduleList) tables() []*table {
	if l.Tab != "list" {
		return nil
	}
	return []*table{tableOf("schedules", &l.Rows, &l.Next, []string{"Status", "Schedule", "Starts", "Name", "When", "Time zone", "Next", "Last", "Outcome", "Problem", "Reason"}, func(r *scheduleRow) []any {
		return []any{r.Status, r.Schedule.Name, r.Target.Kind, r.Target.Name, r.When, r.Zone, r.FiresAt(), r.LastFire, r.Outcome, r.Problem, r.Reason}
	})}
}

// tables returns the table of monitors or of calendars. The table of subscriptions is in
// [notificationList].
func (l *keptList[T]) tables() []*table {
	switch rows := any(&l.Rows).(type) {
	case *[]monitorRow:
		return []*table{tableOf("monitors", rows, &l.Next, []string{"Status", "Monitor", "Description", "Watches", "Starts", "Name", "Last poll", "Files", "Not ready", "Triggered", "Problem", "Reason"}, func(r *monitorRow) []any {
			h := &r.Health
			return []any{r.Status, r.Monitor.Name, r.Description, r.Where(), r.Target.Kind, r.Target.Name, h.LastPoll, h.Files, h.Waiting, h.Triggered, h.Problem, r.Reason}
		})}
	case *[]calendarRow:
		return []*table{tableOf("calendars", rows, &l.Next, []string{"Calendar", "Description", "Today", "Time zone", "Weekend", "Lists dates until", "Version"}, func(r *calendarRow) []any {
			return []any{r.Calendar.Name, r.Description, r.Today, r.Zone, r.Weekend, r.Ends, r.Version}
		})}
	}
	return nil
}

func (l *notificationList) tables() []*table {
	return []*table{
		tableOf("subscriptions", &l.Rows, &l.Next, []string{"Status", "Subscription", "Events", "Jobs", "Chains", "How", "To", "Waiting", "Failed", "Why it is disabled"}, func(r *subscriptionRow) []any {
			var events []string
			for _, e := range r.Events {
				events = append(events, string(e))
			}
			return []any{r.Status, r.Subscription.Name, events, r.Jobs, r.Chains, r.Kind, r.To, r.Waiting, r.Failed, r.Reason}
		}),
		tableOf("failed notifications", &l.Failed, nil, []string{"Subscription", "Event", "About", "Happened", "Attempts", "Failed", "Answer of the receiver"}, func(r *deliveryRow) []any {
			return []any{r.Subscription.Name, r.Text(), r.About, r.At, r.Attempts, r.DueAt, r.LastErr}
		}),
	}
}

func (p *todayPage) tables() []*table {
	return []*table{tableOf("expectations", &p.Rows, &p.Next, []string{"State", "Expectation", "Description", "Label", "Window", "The day", "On time", "Late", "Missing"}, func(r *todayRow) []any {
		return []any{r.State, r.Name, r.Description, r.Label, r.Window, r.Words, r.Summary.OnTime, r.Summary.Late, r.Summary.Missing}
	})}
}

func (l *connectionList) tables() []*table {
	return []*table{tableOf("connections", &l.Rows, &l.Next, []string{"Connection", "Type", "Address", "Owner", "Note", "Used by", "Failed executions of", "Last failure", "Message"}, func(r *connectionRow) []any {
		var uses, jobs []string
		for _, u := range r.Uses {
			uses = append(uses, u.Kind+" "+u.Name)
		}
		var last connectionFailure
		for i, f := range r.Failures {
			if jobs = append(jobs, f.Job); i == 0 {
				last = f
			}
		}
		return []any{r.ID, r.Connection.Type, r.Address, r.Owner, r.Note, uses, jobs, last.At, last.Text}
	})}
}

func (p *limitPage) tables() []*table {
	list := []*table{tableOf("limits", &p.Limits, &p.Next, []string{"Scope", "Limit", "Running", "Full", "Held by"}, func(r *limitRow) []any {
		var held []string
		for _, h := range r.Holders {
			held = append(held, h.Job)
		}
		return []any{r.Scope, r.Limit, r.Running, r.Full, held}
	})}
	if !p.All {
		return list
	}
	return append(list,
		tableOf("queues", &p.Queues, nil, []string{"Queue", "Queued", "Oldest due since", "Oldest", "Why it waits"}, func(r *queueRow) []any {
			var why []string
			for _, b := range r.Because {
				why = append(why, b.Text)
			}
			return []any{r.Queue, r.Queued, r.DueAt, r.QueueCensus.Oldest, why}
		}),
		tableOf("workers", &p.Workers, nil, []string{"Worker", "Stopping", "Workspace", "Version", "Queues", "Slots", "Started", "Last seen", "Step types"}, func(r *store.Worker) []any {
			return []any{r.Name, r.Draining, r.Workspace, r.Version, r.Queues, r.Slots, r.StartedAt, r.SeenAt, r.StepTypes}
		}))
}

func (p *keptFilesPage) tables() []*table {
	return []*table{tableOf("kept files", &p.Items, &p.Next, []string{"State", "Job", "Execution", "Since", "Workspace", "Worker", "Files", "Bytes", "Names", "Discarded by"}, func(r *keptFilesItem) []any {
		var names []string
		for _, f := range r.Files {
			names = append(names, f.Path)
		}
		return []any{r.State, r.Job, r.Execution, r.Since, r.Workspace, r.Worker, r.Count, r.Bytes, names, r.DiscardedBy}
	})}
}

func (p *journalPage) tables() []*table {
	return []*table{tableOf("journal", &p.Rows, &p.Next, []string{"When", "Who", "Via", "What", "Kind", "Name", "Job", "Reason", "Outcome", "Changes"}, func(r *journalRow) []any {
		var changes []string
		for _, x := range r.Changes {
			changes = append(changes, strings.TrimSpace(x.Place+": "+x.Was+" → "+x.Now))
		}
		return []any{r.At, r.By, r.Via, r.Verb, r.Kind, r.Name, r.Job, r.Reason, r.Outcome, changes}
	})}
}

func (p *searchPage) tables() (list []*table) {
	if len(p.Files) > 0 {
		list = append(list, tableOf("files", &p.Files, &p.Next, []string{"File", "What", "Server", "Path", "Bytes", "Hash", "Complete", "When", "Job", "Step", "Attempt", "Execution"}, func(r *foundRow) []any {
			return []any{r.Name, r.Verb, r.Server.Name, r.Path, r.Size, r.Hash, r.Whole, r.At, r.Job, r.Step, r.Attempt, r.Execution}
		}))
	}
	if len(p.Runs) > 0 {
		list = append(list, executionTable(&p.Runs, nil))
	}
	if len(p.ChainRuns) > 0 {
		list = append(list, chainRunTable(&p.ChainRuns, nil))
	}
	return list
}

// tables returns the table of the first tab, if it has one.
func (p *keptPage) tables() []*table {
	if l, ok := p.Data.(lister); ok {
		return l.tables()
	}
	return nil
}

func (v *monitorView) tables() []*table {
	return []*table{tableOf("files seen", &v.Files, &v.Next, []string{"File", "State", "Bytes", "Modified", "Unchanged since", "Triggered", "Execution"}, func(r *seenRow) []any {
		return []any{r.Name, r.Status, r.Size, r.Modified, r.Since, r.HandedAt, r.Execution}
	})}
}

func (v *subscriptionView) tables() []*table {
	return []*table{tableOf("notifications", &v.Deliveries, &v.Next, []string{"State", "Event", "About", "Happened", "Attempts", "Next attempt or failed", "Answer of the receiver"}, func(r *deliveryRow) []any {
		return []any{r.State, r.Text(), r.About, r.At, r.Attempts, r.DueAt, r.LastErr}
	})}
}

func (v *expectationView) tables() []*table {
	return []*table{tableOf("days", &v.Days, nil, []string{"Day", "State", "Window", "What came", "Note", "Files"}, func(r *dayRow) []any {
		var files []string
		for _, f := range r.FileRows {
			files = append(files, f.Name)
		}
		return []any{r.Date, r.Arrival.State, r.Window, r.Words, r.Note, files}
	})}
}

func (v *calendarView) tables() (list []*table) {
	if days, ok := v.Days.(*closedDays); ok {
		list = append(list, tableOf("closed days", &days.Days, nil, []string{"Day", "Day of the week", "Title"}, func(r *closedDay) []any {
			return []any{r.Date, r.Weekday, r.Title}
		}))
	}
	return append(list, tableOf("versions", &v.Versions, nil, []string{"Version", "Saved", "By", "Closed days", "Open days"}, func(r *calendar.Calendar) []any {
		return []any{r.Version, r.SavedAt, r.SavedBy, len(r.Closed), len(r.OpenDays)}
	}))
}

func (v *scheduleView) tables() []*table {
	t, ok := v.Ticks.(*ticks)
	if !ok {
		return nil
	}
	return []*table{tableOf("next ticks", &t.Next, nil, []string{"At", "In the time zone of the schedule", "Moved"}, func(r *fire) []any {
		return []any{r.At, r.Local, r.Moved}
	})}
}

// tables returns the table of the results, if there are any.
func (p *bulkPage) tables() []*table {
	if p.Results == nil {
		return nil
	}
	t := tableOf("results", &p.Results.Rows, nil, []string{"Outcome", "Execution", "Started", "Why"}, func(r *bulkRow) []any {
		return []any{r.Result.Result, r.Execution, r.Result.Started, r.Error}
	})
	t.left = p.Results.Left
	return []*table{t}
}

func (p *chainRunPage) tables() []*table {
	if p.Graph == nil {
		return nil
	}
	return []*table{memberTable(p.Graph)}
}

func memberTable(g *chainGraph) *table {
	return tableOf("members", &g.Rows, &g.Next, []string{"Member", "Status", "Job", "Version", "Execution", "Starts when", "Why"}, func(r *memberRow) []any {
		var when []string
		for _, d := range r.DependsOn {
			when = append(when, d.Member+" "+d.Text)
		}
		return []any{r.Name, r.Status, r.Job, r.Version, r.Execution, when, r.Reason}
	})
}

func (p *chainPage) tables() []*table {
	if p.Graph == nil {
		return p.definitionPage.tables()
	}
	return []*table{memberTable(p.Graph), chainRunTable(&p.Runs, nil)}
}

// tables returns the table of the versions, on their tab.
func (p *definitionPage) tables() []*table {
	if p.Versions == nil {
		return nil
	}
	return []*table{tableOf("versions", &p.Versions.Rows, &p.Versions.Next, []string{"Version", "Saved", "By", p.Versions.Parts}, func(r *versionRow) []any {
		return []any{r.Version, r.SavedAt, r.SavedBy, r.Parts}
	})}
}

// tables returns the list in the selected part of the page.
func (p *executionPage) tables() []*table {
	switch {
	case p.Attempts != nil:
		return []*table{tableOf("attempts", &p.Attempts.Rows, &p.Attempts.Next, attemptColumns, attemptCells)}
	case p.Log != nil:
		return []*table{tableOf("log", &p.Log.Rows, &p.Log.Next, append(attemptColumns[:len(attemptColumns):len(attemptColumns)], "Log"), func(r *attemptRow) []any { return append(attemptCells(r), r.Log) })}
	case p.Values != nil:
		return []*table{tableOf("values", &p.Values.Rows, nil, []string{"Key", "Value", "Set by", "Used by"}, func(r *values.Row) []any { return []any{r.Key, r.Value, r.SetBy, r.UsedBy} })}
	case p.Files != nil:
		t := tableOf("files", &p.Files.Rows, &p.Files.Next, []string{"Path", "What", "Server", "Bytes", "Step", "Item", "When"}, func(r *fileRow) []any {
			return []any{r.Path, r.What, r.Connection, r.Size, r.Step, r.Item, r.At}
		})
		t.settled = p.Files.join
		return []*table{t}
	case p.Audit != nil:
		return []*table{tableOf("audit", &p.Audit.Rows, &p.Audit.Next, []string{"No.", "At", "What", "From", "To", "By", "Worker", "Reason", "Text"}, func(r *auditRow) []any {
			return []any{r.Seq, r.At, r.What, r.From, r.To, r.By, r.Worker, r.AuditEntry.Reason, r.Error}
		})}
	}
	return nil
}

var attemptColumns = []string{"Step", "Item", "Index", "Attempt", "Run", "State", "Started", "Took seconds", "Bytes", "Worker", "Reason", "Error"}

func attemptCells(r *attemptRow) []any {
	return []any{r.Label, r.ItemLabels, courier.FormatIteration(r.Iteration), r.Attempt, r.ExecutionAttempt, r.State, r.StartedAt, r.Took, r.Bytes, r.Worker, r.StepExecution.Reason, r.Error}
}

// join merges the cells of a step into one again, after rows between them were removed.
func (t *filesTab) join() {
	first := -1
	for i := range t.Rows {
		r := &t.Rows[i]
		if first >= 0 && r.seq == t.Rows[first].seq {
			t.Rows[first].Span++
			r.Span = 0
			continue
		}
		first, r.Span = i, 1
	}
}
