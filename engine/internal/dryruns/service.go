package dryruns

import (
	"context"
	"log/slog"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/engine/internal/core"
	"github.com/courierhq/courier/engine/internal/program"
	"github.com/courierhq/courier/internal/secret"
	"github.com/courierhq/courier/schedule"
	"github.com/courierhq/courier/store"
)

// An Engine does what a dry run has in common with an execution.
type Engine interface {
	// CheckExecution returns the error that a new execution would have. Secrets are asked
	// for as in a dry run.
	CheckExecution(ctx context.Context, p *program.Program, opt *courier.EnqueueOptions) error
	// Validate calls Validate of a step as an attempt would call Execute: in a goroutine
	// of its own, within a timeout, and cut off if it does not return. It returns what
	// came of it.
	Validate(ctx context.Context, v *StepValidation) StepValidated
}

// Checks find what is wrong with jobs and chains, by the rules that hold when they are
// saved. The errors are those of the store.
type Checks interface {
	// CheckJob returns the job as it will be saved. The error of one with problems is a
	// [*courier.DefinitionError].
	CheckJob(ctx context.Context, job courier.Job) (core.CheckedJob, error)
	// CheckChain returns the chain as it will be saved, with its problems.
	CheckChain(ctx context.Context, c chain.Chain) (chain.Checked, error)
	// Program returns the program of a version of a job; version 0 means the latest.
	Program(ctx context.Context, job string, version int) (*program.Program, error)
}

// A Config is what dry runs use of the engine besides. All must be set.
type Config struct {
	Checks Checks
	// Unsaved returns checks that read jobs and chains in place of those in the store
	// with the same names.
	Unsaved func(jobs []courier.Job, chains []chain.Chain) Checks
	// Schedules is the method Reports of a [schedule.Service].
	Schedules func(ctx context.Context, kind store.Kind, target string, limit, n int, check func(params map[string]any) error) (list []schedule.Report, more bool, err error)
	Roles     core.Roles
	Registry  *courier.Registry
	Queues    []string // that the engine serves when it is started
	Log       *slog.Logger
	NewID     func() string // for an execution
	MaxParams int           // bytes of the parameters of an execution
	Grace     time.Duration // how long Validate may take to return after its context has ended
}

// A Service makes dry runs for one engine. Its methods may be called by several
// goroutines.
type Service struct {
	engine Engine
	cfg    Config
}

// New returns the service of an engine.
func New(e Engine, cfg Config) *Service { return &Service{e, cfg} }

// A StepValidation is a step to validate. The execution is made up.
type StepValidation struct {
	Execution courier.Execution
	Program   *program.Program
	Step      int
	Values    *program.Values // must not change meanwhile
	Timeout   time.Duration
	Resources *courier.Resources // which several validations share
	Secrets   *secret.Redactor
	Log       func(slog.Handler) slog.Handler // wraps the handler of the step's log
}

// A StepValidated is the result of a StepValidation.
type StepValidated struct {
	Unresolved []string // fields of the configuration that have a value only when the step runs
	Err        error
	TimedOut   bool
	// Abandoned says that Validate did not return in time after the end of its context.
	Abandoned bool
	// Resources are those for the next validation: new ones if this one was abandoned.
	Resources *courier.Resources
}
