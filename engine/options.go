package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/isolated"
	"github.com/courierhq/courier/engine/internal/steplog"
	"github.com/courierhq/courier/notify"
)

// Options are the settings of an [Engine]. The zero value is the default. Most services
// set fields of the first groups; the others rarely need another value.
type Options struct {
	// What most services set: where files lie, what is run here and how much of it,
	// secrets, and the log.

	// Workspace is the directory that holds a directory for each execution. It is
	// created with mode 0700, and other users must not be able to write to it.
	// Engines on different stores need different directories, because each removes
	// directories that look abandoned to it. Empty means "courier-<user id>" in the
	// system's temporary directory.
	Workspace string
	// Queues are the queues that a started engine serves; none means "default" alone.
	Queues []string
	// Slots is the number of executions that the engine runs at once. An execution
	// whose last write is in progress does not count. 0 means 64. In addition, all
	// engines on the store together run no more than the global limit, which is 5
	// until [Limits.Set] sets another one; 0 lifts it.
	Slots int
	// Secrets resolves the secret references of configurations, connections and
	// subscriptions. The request says what the secret is for. To refuse it, return an
	// error; an error that is marked by [courier.Permanent] is not retried. The function
	// may be called by several goroutines. Nil means that there are no secrets.
	Secrets func(ctx context.Context, r courier.SecretRequest) (string, error)
	// Log receives at level info the start and the end of every execution, and who has
	// changed a schedule, a monitor, a subscription or a limit. At level warn it receives
	// each failed attempt, each retry, executions that were taken over or lost, and
	// writes that the store refuses, at once and then every 30 seconds. It also receives
	// errors that can't be returned to a caller. Secrets that an execution has used are
	// removed. Nil means no log.
	Log *slog.Logger

	// What parts of Courier need that not every service uses: directories outside the
	// workspace, monitors, and notifications.

	// Roots are the directories outside the workspace that steps may use. Relative paths
	// are relative to the working directory when New is called. Start returns an error if
	// one does not exist or can't be read.
	Roots []string
	// Listers list the directories of monitors, by the names that monitors use. Listers
	// of different engines that do not see the same directories need different names.
	// None means that this engine polls no directory.
	Listers map[string]courier.Lister
	// Subscribers are the functions that subscriptions of kind func name; see
	// [notify.Service.Set]. An event is delivered again, later or by another engine, if
	// the function panics, if its engine ends, or if it returns an error that is not
	// marked by [courier.Permanent]. Its context ends after a minute.
	Subscribers map[string]func(ctx context.Context, n notify.Notification) error
	// Mailer sends the mails of subscriptions of kind email. Nil means that this engine
	// sends none and leaves them to other engines.
	Mailer notify.Mailer
	// Webhooks says what subscriptions of kind webhook may reach.
	Webhooks notify.WebhookOptions
	// BaseURL is the public address of the pages of package dashboard, such as
	// "https://ops.example.com/courier/". Notifications that this engine delivers then have
	// the address of the execution's page: webhooks and functions in the field url of
	// [notify.Notification], mails as a link. Empty means that they have no address.
	BaseURL string

	// Isolate says which steps run in a process of their own, and with which limits. A key
	// is the key of a step type, "family.*", or "*" for all; the most specific one counts.
	// If none matches, a step whose definition has isolate runs in a process without
	// limits. Isolated steps need [RunIsolated]. None means that only definitions decide.
	Isolate map[string]courier.Isolation

	// Names, if several engines or directories would have the same.

	// Worker is the name of the engine in records. It must be unique among the engines on
	// the store. Empty means host name, process id and a random part.
	Worker string
	// WorkspaceID is the id of the directory tree of Workspace: if an execution has files
	// in it, only engines with the same id continue the execution. If several hosts share
	// the storage, set the same id on all of them. Empty means host name and path.
	WorkspaceID string

	// MinFree is how many bytes should be free on the disk of Workspace. An engine with less
	// space still starts, since ending executions frees space, but logs a warning when it
	// starts, and reports the low space in [Health] while it lasts. Steps that write files
	// keep space free by themselves. 0 means 64 MiB; a negative number turns the check off.
	// The check works on Linux, macOS and FreeBSD.
	MinFree int64

	// Times.

	// Lease is how long an execution stays with an engine that no longer renews its
	// lease. Engines renew leases three times in that period. 0 means 15 seconds.
	Lease time.Duration
	// Poll is the longest time between two claims. 0 means 5 seconds, or longer while the
	// store announces all new executions; see [store.Claims].Watched.
	Poll time.Duration
	// SoftStop is how long a stop waits for running steps before it cancels them. 0 means
	// 30 seconds.
	SoftStop time.Duration
	// Grace is how long a step may take to return after its context has ended.
	// 0 means 10 seconds.
	Grace time.Duration
	// Orphans is the age at which a directory in Workspace without an unfinished
	// execution is removed. 0 means 7 days. Workspaces that hold only copies are exempt;
	// see KeepOnlyCopies.
	Orphans time.Duration
	// KeepOnlyCopies is how long after the end of an execution its workspace is removed if it
	// holds files that may exist nowhere else, because a step has removed their source. 0
	// means never: a person decides. A workspace may hold such files if the execution was
	// cancelled, if it completed with skipped steps or failed items, or if it went back to an
	// earlier step and no step has reported the file since. After any other completion the
	// workspace is removed at once.
	KeepOnlyCopies time.Duration

	// Limits of what an execution may take.

	// MaxIterations is how many iterations a loop of a job may have, multiplied by those
	// of the loops around it. It applies to loops without max_iterations. A loop that
	// would have more fails before its first iteration. 0 means a million.
	MaxIterations int
	// MaxOutput is how many bytes the outputs of an attempt may have as JSON, together
	// with the files that it reports. An attempt with more fails and is not retried.
	// Outputs are kept in the store, and read by the worker that continues the execution.
	// 0 means 16 MiB. Package pgstore stores up to 256 MiB.
	MaxOutput int
	// MaxValue is how many bytes one value of Context.Set may have as JSON. 0
	// means MaxOutput.
	MaxValue int
	// KeepLog is how many bytes of an attempt's log ([courier.Context.Log]) are kept in
	// its record ([courier.StepExecution].Log): records from level info on, and those of
	// lower levels that Log accepts. Of a longer log, the first and the last lines are
	// kept. The least is 1024. 0 means 16 KiB; a negative number means that nothing is
	// kept.
	KeepLog int
	// MaxParams is how many bytes the parameters of an execution or of a chain execution
	// may have as JSON. 0 means 16 MiB.
	MaxParams int

	// MaxSecrets is how many secrets the steps of an execution may use. Their names are
	// stored with the execution. A step that requests one more fails and is not retried. 0
	// means 256.
	MaxSecrets int

	// Functions that the engine calls while it works.

	// Around, if not nil, wraps every call of a step's Execute, for tracing, limits, or
	// faults in tests. It must call next to run the step. The error that it returns
	// becomes the step's error. If it returns an error although next returned nil, the
	// result of the step is lost.
	Around func(ctx context.Context, job *courier.Context, next func(context.Context) error) error
	// AroundExecution, if not nil, wraps the whole work of this engine on an execution, from
	// a claim until the execution has ended or goes back to the queue. It must call next to
	// do the work. The contexts of steps are derived from the context that it passes to next.
	// It must not change x, which is the execution as it was claimed, with its Trace.
	AroundExecution func(ctx context.Context, x *courier.Execution, next func(context.Context))
	// Trace returns the trace context of the call that enqueues an execution, in the form
	// of the header traceparent, or "". It is stored as the execution's Trace, and sent with
	// webhooks about the execution. Trace is also called with the contexts of steps, within
	// Around: the steps then send its result in place of the execution's Trace; see
	// [courier.Context.Trace]. Nil means none.
	Trace func(ctx context.Context) string
	// Probe receives measurements of the engine's work. If it is an [Attacher], it gets the
	// engine. Nil means none; [Engine.Metrics] does not need one.
	Probe Probe
	// Observers are called with every event, one event at a time, after it was committed. Events of
	// a worker's actions come in order. The event of a request, such as JobResumed, comes from the
	// goroutine that made the request, and so may come after the start of the step that the request
	// led to. A slow observer delays the events of the others; when 1024 events are waiting,
	// further ones are lost (see [Metrics.Dropped]). It affects nothing else.
	Observers []func(courier.Event)
	// OnStuckStep is called when a step has not returned within Grace after its context
	// ended. Nil means that this is only logged.
	OnStuckStep func(StuckStep)
}

// RunIsolated must be the first statement of main in a program whose engine runs steps in
// processes of their own. Such a process runs the same program: in it RunIsolated calls
// build, makes one call of a step of the registry that build returns, and does not return. In
// all other processes it returns at once. Build must not open resources that only the service
// itself may open, such as its store or its ports.
func RunIsolated(build func() (*courier.Registry, error)) { isolated.Main(build) }

// The shortest lease that can be renewed in time, and the shortest time between two
// looks. What is shorter was meant in another unit.
const (
	minLease = 10 * time.Millisecond
	minPoll  = time.Millisecond
)

// check returns all that is wrong with the options, before the defaults are set.
func (o *Options) check() error {
	var found []error
	add := func(format string, args ...any) { found = append(found, fmt.Errorf(format, args...)) }
	if o.Slots < 0 {
		add("Options.Slots: %d is negative; 0 means the default", o.Slots)
	}
	if o.KeepLog > 0 && o.KeepLog < steplog.Least {
		add("Options.KeepLog: %d bytes is less than %d; a negative number keeps nothing", o.KeepLog, steplog.Least)
	}
	for _, d := range []struct {
		name  string
		value int
	}{{"MaxOutput", o.MaxOutput}, {"MaxValue", o.MaxValue}, {"MaxParams", o.MaxParams}, {"MaxSecrets", o.MaxSecrets}} {
		if d.value < 0 {
			add("Options.%s: %d is negative; 0 means the default", d.name, d.value)
		}
	}
	for _, d := range []struct {
		name  string
		value time.Duration
		least time.Duration
	}{
		{"Lease", o.Lease, minLease}, {"Poll", o.Poll, minPoll}, {"SoftStop", o.SoftStop, 0}, {"Grace", o.Grace, 0}, {"Orphans", o.Orphans, 0},
		{"KeepOnlyCopies", o.KeepOnlyCopies, 0},
	} {
		switch {
		case d.value < 0:
			add("Options.%s: %v is negative; 0 means the default", d.name, d.value)
		case d.value > 0 && d.value < d.least:
			add("Options.%s: %v is less than %v; give it a unit, such as %d*time.Second", d.name, d.value, d.least, d.value)
		}
	}
	if u, err := url.Parse(o.BaseURL); o.BaseURL != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "") {
		add("Options.BaseURL: %q must be an address such as https://ops.example.com/courier/", o.BaseURL)
	}
	if len(found) == 0 {
		return nil
	}
	return courier.Errorf(courier.ErrInvalid, "%w", errors.Join(found...))
}

// setDefaults sets the options that have no value. Id is a random part for the name of
// the worker.
func (o *Options) setDefaults(id string) {
	host, _ := os.Hostname()
	if o.Worker == "" {
		o.Worker = fmt.Sprintf("%s-%d-%s", host, os.Getpid(), id[len(id)-8:])
	}
	if o.Workspace == "" {
		o.Workspace = filepath.Join(os.TempDir(), fmt.Sprintf("courier-%d", os.Getuid()))
	}
	if abs, err := filepath.Abs(o.Workspace); err == nil {
		o.Workspace = abs
	}
	o.Roots = slices.Clone(o.Roots)
	for i, root := range o.Roots {
		if abs, err := filepath.Abs(root); err == nil {
			o.Roots[i] = abs
		}
	}
	if o.WorkspaceID == "" {
		o.WorkspaceID = host + ":" + o.Workspace
	}
	if len(o.Queues) == 0 {
		o.Queues = []string{courier.DefaultQueue}
	}
	setDefault(&o.Slots, 64)
	setDefault(&o.Lease, 15*time.Second)
	setDefault(&o.Poll, 5*time.Second)
	setDefault(&o.SoftStop, 30*time.Second)
	setDefault(&o.Grace, 10*time.Second)
	setDefault(&o.Orphans, 7*24*time.Hour)
	setDefault(&o.MaxOutput, 16<<20)
	setDefault(&o.MaxValue, o.MaxOutput)
	setDefault(&o.MaxParams, 16<<20)
	setDefault(&o.MaxSecrets, 256)
	if o.MinFree == 0 {
		o.MinFree = 64 << 20
	}
	if o.KeepLog == 0 {
		o.KeepLog = 16 << 10
	}
}

func setDefault[T int | time.Duration](v *T, d T) {
	if *v <= 0 {
		*v = d
	}
}
