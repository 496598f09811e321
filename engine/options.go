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

// Options are the settings of an [Engine]. The zero value is the default. The first
// groups are what most services set; the others rarely need another value.
type Options struct {
	// What most services set: where files lie, what is run here and how much of it,
	// secrets, and the log.

	// Workspace is the directory that holds a directory for each execution. It is
	// created with mode 0700, and other users must not be able to write to it.
	// Engines on different stores need different directories, because each removes
	// directories that it takes for abandoned. Empty means "courier-<user id>" in the
	// system's temporary directory.
	Workspace string
	// Queues are served by Start; none means just "default".
	Queues []string
	// Slots is the number of executions that the engine runs at once. An execution
	// whose last write is in progress does not count. 0 means 64. In addition, all
	// engines on the store together run no more than the global limit, which is 5
	// until [Limits.Set] sets another one; 0 lifts it.
	Slots int
	// Secrets resolves the secret references of configurations, connections and
	// subscriptions. Its argument says what the secret is for. To refuse, it returns
	// an error; an error that is marked by [courier.Permanent] is not retried. It may
	// be called by several goroutines. Nil means that there are no secrets.
	Secrets func(ctx context.Context, r courier.SecretRequest) (string, error)
	// Log receives at level info the start and the end of every execution, and who
	// has changed a schedule, a monitor, a subscription or a limit. At level warn it
	// receives each failed attempt, each retry, executions that were taken over or
	// lost, and writes that the store refuses, at first and every 30 seconds. It also
	// receives errors that can't be returned to a caller. Secrets that an execution
	// has used are left out. Nil means none.
	Log *slog.Logger

	// What parts of Courier need that not every service uses: directories outside the
	// workspace, monitors, and notifications.

	// Roots are the directories outside the workspace that steps may use. Relative
	// ones are those below the working directory when New is called. Start refuses one
	// that is not there, or that this process can't read.
	Roots []string
	// Listers list the directories of monitors, by the names that monitors use. If
	// the listers of two engines do not see the same directories, they need different
	// names. None means that this engine polls no directory.
	Listers map[string]courier.Lister
	// Subscribers are the functions that subscriptions of kind func name; see
	// [notify.Service.Set]. An event is delivered again, later or by another engine,
	// if the function panics, if its engine ends, or if it returns an error that is
	// not marked by [courier.Permanent]. Its context ends after a minute.
	Subscribers map[string]func(ctx context.Context, n notify.Notification) error
	// Mailer sends the mails of subscriptions of kind email. Nil means that only
	// other engines do.
	Mailer notify.Mailer
	// Webhooks says what subscriptions of kind webhook may reach.
	Webhooks notify.WebhookOptions
	// BaseURL is the address of the pages of package dashboard, as people reach them, such as
	// "https://ops.example.com/courier/". Notifications that this engine delivers then have
	// the address of the page of the execution: webhooks and functions in the field url of
	// [notify.Notification], mails as a link. Empty means that they have none.
	BaseURL string

	// Isolate says which steps run in a process of their own, and with which limits: by
	// the key of a type, by "family.*" or by "*" for all, and what is most precise counts.
	// A step of a type that it does not name runs so without limits if its definition has
	// isolate. It needs [RunIsolated]. None means that only definitions decide.
	Isolate map[string]courier.Isolation

	// Names, if several engines or directories would have the same.

	// Worker names the engine in records; it must differ from all others on the
	// same store. Empty means host, process id and a random part.
	Worker string
	// WorkspaceID names the directory tree of Workspace: if an execution has files in
	// it, only engines with the same id continue the execution. If several hosts
	// share a storage, give it the same id on all of them. Empty means host name and
	// path.
	WorkspaceID string

	// MinFree is how many bytes should be free on the disk of Workspace. An engine with
	// less starts, since the executions that it ends make room, but it says so in its log
	// when it starts, and in [Health] while it lasts. Steps that write files keep space free
	// by themselves. 0 means 64 MiB, and a negative number turns the check off. It works on
	// Linux, macOS and FreeBSD.
	MinFree int64

	// Times.

	// Lease is how long an execution stays with an engine that no longer renews its
	// lease. Engines renew it three times in that period. 0 means 15 seconds.
	Lease time.Duration
	// Poll is the longest time between two claims. 0 means 5 seconds, or longer while
	// the store announces everything new; see [store.Claims].Watched.
	Poll time.Duration
	// SoftStop is how long a stop lets running steps go on before it cancels
	// them. 0 means 30 seconds.
	SoftStop time.Duration
	// Grace is how long a step may take to return after its context has ended.
	// 0 means 10 seconds.
	Grace time.Duration
	// Orphans is the age at which a directory in Workspace without a living
	// execution is removed. 0 means 7 days. It does not count for workspaces that hold
	// only copies; see KeepOnlyCopies.
	Orphans time.Duration
	// KeepOnlyCopies is how long after the end of an execution its workspace is removed if
	// it holds files that may exist nowhere else, because a step has removed their source.
	// 0 means never: a person decides. A workspace holds such files when the execution was
	// cancelled, or completed with skipped steps or failed items, or after it went back and no
	// step has reported the file since; any other completion removes its workspace at once.
	KeepOnlyCopies time.Duration

	// Limits of what an execution may take.

	// MaxIterations is how many iterations a loop of a job may have, multiplied by
	// those of the loops around it, if its marker has no max_iterations. A loop that
	// would have more fails before its first iteration. 0 means a million.
	MaxIterations int
	// MaxOutput is how many bytes the outputs of an attempt may have as JSON,
	// together with the files that it reports. If an attempt has more, it fails and
	// is not repeated. Outputs are kept in the store, and read by the worker that
	// continues the execution. 0 means 16 MiB. Package pgstore keeps up to 256 MiB.
	MaxOutput int
	// MaxValue is how many bytes one value of Context.Set may have as JSON. 0
	// means MaxOutput.
	MaxValue int
	// KeepLog is how many bytes of what an attempt writes to [courier.Context.Log] are
	// kept in its record ([courier.StepExecution].Log): records from level info on, and
	// those of lower levels that Log takes. Of more, the first and the last lines are
	// kept. At least 1024. 0 means 16 KiB; if it is negative, nothing is kept.
	KeepLog int
	// MaxParams is how many bytes the parameters of an execution, or of one of a
	// chain, may have as JSON. 0 means 16 MiB.
	MaxParams int

	// MaxSecrets is how many secrets the steps of an execution may use. Their names are kept
	// with it. A step that asks for one more fails and is not repeated. 0 means 256.
	MaxSecrets int

	// Functions that the engine calls while it works.

	// Around, if not nil, is called in place of every step's Execute and calls next
	// to run it, for tracing, limits, or faults in tests. The error that it returns
	// is that of the step. If it returns one although next returned nil, the result
	// of the step is lost.
	Around func(ctx context.Context, job *courier.Context, next func(context.Context) error) error
	// AroundExecution, if not nil, is called in place of what this engine does with an
	// execution from a claim on, until it has ended or goes back to the queue, and calls next
	// to do it. The steps get the context that it passes to next, or one that is derived from
	// it. x is the execution as it was claimed, with its Trace, and must not be changed.
	AroundExecution func(ctx context.Context, x *courier.Execution, next func(context.Context))
	// Trace returns the trace context of the call that enqueues an execution, in the form
	// of the header traceparent, or "". It is kept as the execution's Trace, which goes along
	// with the webhooks about it. It is also called with the contexts of steps, within Around:
	// what it returns there, the steps send along in place of the execution's Trace; see
	// [courier.Context.Trace]. Nil means none.
	Trace func(ctx context.Context) string
	// Probe receives measurements of the engine's work. If it is an [Attacher], it gets the
	// engine. Nil means none; the metrics of [Engine.Metrics] need none.
	Probe Probe
	// Observers are called with every event, one event at a time, after it was
	// committed. Those of what a worker does come in order. That of a request, such as
	// JobResumed, comes from the goroutine that has made it, and so may come after the
	// start of a step that it led to. A slow observer delays the events of the others, and when 1024
	// events are waiting, further ones are lost (see [Metrics.Dropped]). It affects
	// nothing else.
	Observers []func(courier.Event)
	// OnStuckStep is called when a step did not return within Grace after its
	// context ended. Nil means that it is only logged.
	OnStuckStep func(StuckStep)
}

// RunIsolated is the first statement of main in a program whose engine runs steps in
// processes of their own. Such a process is a copy of the program: in it RunIsolated calls
// build, makes one call of a step of the registry that build returns, and does not return. In
// all other processes it returns at once. Build must not open what only the service itself
// may have open, such as its store or its ports.
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
