// Package metrics declares the metrics of Courier, each once: its name, kind, unit, labels,
// buckets and help. [Recorder] records what an engine does. [Registry] keeps the metrics and
// writes them in the text format of Prometheus. Package courierotel passes them to OpenTelemetry
// with the same declarations.
//
// Names and labels follow OpenTelemetry: cicd.* as in its semantic conventions, and courier.* for
// metrics that they lack. No label is named job, because Prometheus sets that label itself. Label
// values are names of jobs, step types and queues, reasons and results. They are never an id, a
// parameter, a path or the text of an error.
package metrics

import "strings"

// A Kind is a kind of metric.
type Kind string

// The kinds, as Prometheus names them.
const (
	Counter   Kind = "counter"
	Gauge     Kind = "gauge"
	Histogram Kind = "histogram"
)

// A Merge says how the gauges of the engines in one process become one value.
type Merge int

// The ways to merge. Max is for values that all engines on a store report alike.
const (
	Max Merge = iota
	Sum
	Min
)

// MaxLabels is the maximum number of labels of a metric.
const MaxLabels = 4

// Values are the values of the labels of a metric, in their order; the other elements are empty.
type Values [MaxLabels]string

// MaxSeries is the maximum number of series of a metric, as Prometheus counts them: each bucket
// of a histogram is one, and so are its sum and its count.
const MaxSeries = 2000

// Other is the value of open labels of all series beyond [MaxSeries].
const Other = "other"

// A Label is a label of a metric.
type Label struct {
	Name string
	Open bool // its values come from users, so there may be any number
}

// A Metric is the declaration of a metric.
type Metric struct {
	Name    string // in OpenTelemetry
	Kind    Kind
	Unit    string // in OpenTelemetry: "s", "By", or a noun in braces
	Help    string // a sentence
	Labels  []Label
	Buckets []float64 // of a histogram: upper bounds in the order of their size
	Merge   Merge     // of a gauge
	// Whole says that the metric is about the whole store: all processes report the same value.
	Whole bool

	index  int      // in All
	prom   string   // the name in Prometheus
	labels []string // the names of the labels in Prometheus
}

// PromName returns the name in Prometheus, by the rules of OpenTelemetry's exporters.
func (m *Metric) PromName() string { return m.prom }

func (m *Metric) promName() string {
	name := promName(m.Name)
	switch m.Unit {
	case "s":
		name += "_seconds"
	case "By":
		name += "_bytes"
	}
	if m.Kind == Counter {
		name += "_total"
	}
	return name
}

// promName returns the name of a metric or a label in Prometheus.
func promName(name string) string { return strings.ReplaceAll(name, ".", "_") }

// most returns the maximum number of sets of label values of the metric.
func (m *Metric) most() int {
	if m.Kind == Histogram {
		return MaxSeries / (len(m.Buckets) + 3)
	}
	return MaxSeries
}

// over returns the label values under which a set is recorded if there is no room for it.
func (m *Metric) over(v Values) Values {
	for i, l := range m.Labels {
		if l.Open {
			v[i] = Other
		}
	}
	return v
}

// Labels of several metrics.
var (
	jobLabel    = Label{"cicd.pipeline.name", true}
	stateLabel  = Label{"cicd.pipeline.run.state", false}
	resultLabel = Label{"cicd.pipeline.result", false}
	errorLabel  = Label{"error.type", false}
	typeLabel   = Label{"courier.step.type", true}
	queueLabel  = Label{"courier.queue", true}
)

// Metrics of an engine, which its [Recorder] records. A process without a started engine has none
// of them.
var (
	RunDuration = &Metric{
		Name: "cicd.pipeline.run.duration", Kind: Histogram, Unit: "s", Labels: []Label{jobLabel, stateLabel, resultLabel},
		Buckets: []float64{1, 5, 15, 60, 300, 900, 3600, 14400, 86400},
		Help:    "Time from the first claim of an execution to its end.",
	}
	RunErrors = &Metric{
		Name: "cicd.pipeline.run.errors", Kind: Counter, Unit: "{error}", Labels: []Label{jobLabel, errorLabel},
		Help: "Executions that failed, by the reason.",
	}
	SystemErrors = &Metric{
		Name: "cicd.system.errors", Kind: Counter, Unit: "{error}", Labels: []Label{{"cicd.system.component", false}, errorLabel},
		Help: "Errors of Courier itself: calls of the store that failed, by the method.",
	}
	Slices = &Metric{
		Name: "courier.slices", Kind: Counter, Unit: "{slice}", Labels: []Label{jobLabel, {"courier.slice.end", false}},
		Help: "Claimed executions that an engine finished with, by how that ended: completed, failed, cancelled, paused, retried, handed_over or lease_lost.",
	}
	QueueWait = &Metric{
		Name: "courier.queue.wait", Kind: Histogram, Unit: "s", Labels: []Label{queueLabel},
		Buckets: []float64{.01, .1, .5, 1, 5, 15, 60, 300, 900, 3600, 21600},
		Help:    "How long executions had been due when they were claimed.",
	}
	StepDuration = &Metric{
		Name: "courier.step.duration", Kind: Histogram, Unit: "s", Labels: []Label{typeLabel, {"cicd.pipeline.task.run.result", false}},
		Buckets: []float64{.001, .005, .01, .05, .1, .5, 1, 5, 30, 120, 600, 3600},
		Help:    "How long attempts of steps took.",
	}
	StepErrors = &Metric{
		Name: "courier.step.errors", Kind: Counter, Unit: "{error}", Labels: []Label{typeLabel, errorLabel},
		Help: "Attempts of steps that did not complete, by the reason.",
	}
	TransferIO = &Metric{
		Name: "courier.transfer.io", Kind: Counter, Unit: "By", Labels: []Label{typeLabel},
		Help: "Bytes that steps reported as transferred.",
	}
	Retries = &Metric{
		Name: "courier.retries", Kind: Counter, Unit: "{retry}", Labels: []Label{typeLabel},
		Help: "Attempts of steps that repeated a failed or lost one.",
	}
	Takeovers = &Metric{
		Name: "courier.takeovers", Kind: Counter, Unit: "{takeover}",
		Help: "Executions that were taken over after the lease of another worker had expired.",
	}
	ClaimSize = &Metric{
		Name: "courier.claim.size", Kind: Histogram, Unit: "{execution}", Buckets: []float64{0, 1, 2, 5, 10, 20, 50, 100},
		Help: "How many executions the claims of this process returned.",
	}
	StoreDuration = &Metric{
		Name: "courier.store.duration", Kind: Histogram, Unit: "s", Labels: []Label{{"courier.store.call", false}},
		Buckets: []float64{.0001, .0005, .001, .0025, .005, .01, .025, .05, .1, .5, 1, 5},
		Help:    "How long calls of the store took, except those that wait for changes.",
	}
	EventsDropped = &Metric{
		Name: "courier.events.dropped", Kind: Counter, Unit: "{event}", Merge: Sum,
		Help: "Events that observers missed because too many were waiting.",
	}
	Refused = &Metric{
		Name: "courier.refused.writes", Kind: Gauge, Unit: "{execution}", Merge: Sum,
		Help: "Executions of this process whose progress the store refuses now.",
	}
	FailedMaintenance = &Metric{
		Name: "courier.maintenance.failures", Kind: Gauge, Unit: "{type}", Merge: Max,
		Help: "Step types whose maintenance fails in this process, such as the retention of a depot.",
	}
	WorkspaceFree = &Metric{
		Name: "courier.workspace.free", Kind: Gauge, Unit: "By", Merge: Min,
		Help: "Bytes that are free on the disk of the workspaces of this process.",
	}
	WorkspaceMinFree = &Metric{
		Name: "courier.workspace.min_free", Kind: Gauge, Unit: "By", Merge: Max,
		Help: "Bytes that should be free there: Options.MinFree of the engine.",
	}
	KeptExecutions = &Metric{
		Name: "courier.kept.executions", Kind: Gauge, Unit: "{execution}", Merge: Sum,
		Help: "Ended executions whose workspace stays, because its files may exist nowhere else.",
	}
	KeptSize = &Metric{
		Name: "courier.kept.size", Kind: Gauge, Unit: "By", Merge: Sum,
		Help: "Bytes of such files.",
	}
	DepotUsed = &Metric{
		Name: "courier.depot.used", Kind: Gauge, Unit: "By", Merge: Max,
		Help: "Bytes that the files of the depot take.",
	}
	DepotLimit = &Metric{
		Name: "courier.depot.limit", Kind: Gauge, Unit: "By", Merge: Max,
		Help: "Bytes that the files of the depot may take.",
	}
)

// Metrics of the store. All processes report the same values, so take the maximum over several
// processes. Counts stop at 1,000, which limits their cost.
var (
	QueueDepth = &Metric{
		Name: "courier.queue.depth", Kind: Gauge, Unit: "{execution}", Labels: []Label{queueLabel}, Whole: true,
		Help: "Queued executions, due or not, that no dependency holds. Of several queues each is counted up to its share of 1,000.",
	}
	QueueOldest = &Metric{
		Name: "courier.queue.oldest", Kind: Gauge, Unit: "s", Labels: []Label{queueLabel}, Whole: true,
		Help: "How long the oldest queued execution has been due; 0 if none is.",
	}
	RunActive = &Metric{
		Name: "cicd.pipeline.run.active", Kind: Gauge, Unit: "{run}", Labels: []Label{jobLabel, stateLabel}, Whole: true,
		Help: "Running executions.",
	}
	Executions = &Metric{
		Name: "courier.executions", Kind: Gauge, Unit: "{execution}", Labels: []Label{{"courier.execution.state", false}}, Whole: true,
		Help: "Executions by their state: created (held), waiting (for dependencies), running, lost (running, with an expired lease), paused, failed.",
	}
	Stranded = &Metric{
		Name: "courier.stranded", Kind: Gauge, Unit: "{execution}", Labels: []Label{{"courier.stranded.reason", false}}, Whole: true,
		Help: "Executions due or lost for 90 seconds that no present worker can take, by the reason: queue, workspace or step_types.",
	}
	Workers = &Metric{
		Name: "courier.workers", Kind: Gauge, Unit: "{worker}", Labels: []Label{{"courier.worker.state", false}}, Whole: true,
		Help: "Engines that are present on the store: available, or draining when they stop.",
	}
	ScheduleLag = &Metric{
		Name: "courier.schedule.lag", Kind: Gauge, Unit: "s", Whole: true,
		Help: "How long the longest due schedule has waited for an engine; 0 if none is due.",
	}
	MonitorLag = &Metric{
		Name: "courier.monitor.lag", Kind: Gauge, Unit: "s", Whole: true,
		Help: "How long the longest due monitor has waited for an engine; 0 if none is due.",
	}
	MonitorFailures = &Metric{
		Name: "courier.monitor.failures", Kind: Gauge, Unit: "{monitor}", Labels: []Label{{"courier.monitor.state", false}}, Whole: true,
		Help: "Monitors whose polls fail: degraded, or failed, which have stopped.",
	}
	ExpectedDays = &Metric{
		Name: "courier.arrival.open", Kind: Gauge, Unit: "{arrival}", Labels: []Label{{"courier.arrival.state", false}}, Whole: true,
		Help: "Days of expectations of the last week whose files are not there: due_soon, missing or incomplete.",
	}
	DeliveriesPending = &Metric{
		Name: "courier.delivery.pending", Kind: Gauge, Unit: "{delivery}", Labels: []Label{{"courier.delivery.state", false}}, Whole: true,
		Help: "Notifications that are not delivered: pending, or failed for good.",
	}
	DeliveryLag = &Metric{
		Name: "courier.delivery.lag", Kind: Gauge, Unit: "s", Whole: true,
		Help: "How long the longest due notification has waited; 0 if none is due.",
	}
	StoreReachable = &Metric{
		Name: "courier.store.reachable", Kind: Gauge, Unit: "{store}", Merge: Min,
		Help: "1 if the store answered when this process last read its figures, otherwise 0.",
	}
	XminAge = &Metric{
		Name: "courier.database.xmin.age", Kind: Gauge, Unit: "s", Whole: true,
		Help: "Age of the transaction that keeps the database from removing dead rows; 0 if there is none, or its age is not known.",
	}
	XminTransactions = &Metric{
		Name: "courier.database.xmin.transactions", Kind: Gauge, Unit: "{transaction}", Whole: true,
		Help: "Transactions that began since the oldest one that keeps the database from removing dead rows; 0 if there is none.",
	}
	TableRows = &Metric{
		Name: "courier.database.rows", Kind: Gauge, Unit: "{row}", Labels: []Label{{"courier.database.table", false}, {"courier.database.row.state", false}}, Whole: true,
		Help: "Rows of the store's tables by the statistics of the database: live or dead.",
	}
	Connections = &Metric{
		Name: "courier.database.connections", Kind: Gauge, Unit: "{connection}", Labels: []Label{{"courier.database.connection.state", false}}, Merge: Sum,
		Help: "Connections of this process to the database: used, or max, the limit.",
	}
)

// All are the metrics, in the order in which they are written.
var All = numbered(
	RunDuration, RunErrors, RunActive, SystemErrors, Workers,
	Slices, QueueDepth, QueueOldest, QueueWait, Executions, Stranded, StepDuration, StepErrors, TransferIO, Retries, Takeovers,
	ScheduleLag, MonitorLag, MonitorFailures, ExpectedDays, DeliveriesPending, DeliveryLag,
	ClaimSize, StoreDuration, StoreReachable, EventsDropped, Refused, FailedMaintenance,
	WorkspaceFree, WorkspaceMinFree, KeptExecutions, KeptSize, DepotUsed, DepotLimit,
	XminAge, XminTransactions, TableRows, Connections,
)

// FromZero are the counters without labels. They are reported from the start, because Prometheus
// does not count the first value of a series as an increase.
var FromZero = []*Metric{Takeovers}

// numbered completes the declarations.
func numbered(list ...*Metric) []*Metric {
	for i, m := range list {
		m.index, m.prom = i, m.promName()
		for _, l := range m.Labels {
			m.labels = append(m.labels, promName(l.Name))
		}
	}
	return list
}

// ByName returns the metric with a name in OpenTelemetry; nil if there is none.
func ByName(name string) *Metric {
	for _, m := range All {
		if m.Name == name {
			return m
		}
	}
	return nil
}
