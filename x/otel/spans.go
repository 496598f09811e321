package courierotel

import (
	"context"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/metrics"
)

// Attributes of spans. The cicd.* attributes are a release candidate of the semantic conventions
// 1.43.
const (
	keyJob        = attribute.Key("cicd.pipeline.name")
	keyExecution  = attribute.Key("cicd.pipeline.run.id")
	keyURL        = attribute.Key("cicd.pipeline.run.url.full")
	keyResult     = attribute.Key("cicd.pipeline.result")
	keyTask       = attribute.Key("cicd.pipeline.task.name")
	keyTaskResult = attribute.Key("cicd.pipeline.task.run.result")
	keyError      = attribute.Key("error.type")
	keyQueue      = attribute.Key("courier.queue")
	keyRunAttempt = attribute.Key("courier.execution.attempt")
	keyTakeover   = attribute.Key("courier.takeover")
	keyEnd        = attribute.Key("courier.slice.end")
	keyOmitted    = attribute.Key("courier.spans.omitted")
	keyType       = attribute.Key("courier.step.type")
	keyIndex      = attribute.Key("courier.step.index")
	keyID         = attribute.Key("courier.step.id")
	keyAttempt    = attribute.Key("courier.step.attempt")
	keyIteration  = attribute.Key("courier.step.iteration")
	keyBytes      = attribute.Key("courier.transfer.bytes")
)

// Limits of the spans of a slice.
const (
	early    = 100  // iterations of a loop whose attempts all have spans
	maxSpans = 1000 // of early attempts, and of late ones
)

// A sliceKey identifies the time from a claim to its end: each claim is an entry of the audit.
type sliceKey struct {
	id  courier.ExecutionID
	seq int64
}

func keyOf(x *courier.Execution) sliceKey { return sliceKey{x.ID, x.Seq} }

// A slice is the work of an engine on an execution, starting with a claim.
type slice struct {
	ctx      context.Context // with the root span; nil until that begins
	takeover bool

	mu          sync.Mutex
	early, late int // spans
	omitted     int // attempts without a span
	current     trace.SpanContext
	returned    *attempt // its end has not been reported yet
	ended       bool
}

// An attempt is a step between its start and the write of its end.
type attempt struct {
	step, number int
	iteration    []int
	span         trace.Span // nil if it has one only when it fails or is slow
	name         string
	attrs        []attribute.KeyValue
	began, ended time.Time
	result       string
	reason       courier.Reason
}

type contextKey struct{}

// execution begins the root span of a slice.
func (i *Instrumentation) execution(ctx context.Context, x *courier.Execution) context.Context {
	i.mu.Lock()
	s := i.slices[keyOf(x)]
	i.mu.Unlock()
	if s == nil {
		return ctx // after Shutdown
	}
	attrs := []attribute.KeyValue{
		keyJob.String(x.Job), keyExecution.String(string(x.ID)), keyQueue.String(x.Queue), keyRunAttempt.Int(x.Attempt),
	}
	if i.opt.URL != "" {
		attrs = append(attrs, keyURL.String(i.opt.URL+string(x.ID)))
	}
	if s.takeover {
		attrs = append(attrs, keyTakeover.Bool(true))
	}
	opts := []trace.SpanStartOption{trace.WithNewRoot(), trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(attrs...)}
	if by := remote(x.Trace); by.IsValid() {
		opts = append(opts, trace.WithLinks(trace.Link{SpanContext: by}))
	}
	ctx, span := i.tracer.Start(ctx, "RUN "+x.Job, opts...)
	s.mu.Lock()
	s.ctx, s.current = ctx, span.SpanContext()
	s.mu.Unlock()
	return context.WithValue(ctx, contextKey{}, s)
}

// step executes an attempt with its own span, or with the span of its slice.
func (i *Instrumentation) step(ctx context.Context, job *courier.Context, next func(context.Context) error) error {
	s, _ := ctx.Value(contextKey{}).(*slice)
	if s == nil {
		return next(ctx)
	}
	a := &attempt{step: job.Step(), number: job.Attempt(), iteration: job.Iteration(), name: job.Type(), began: time.Now(), result: "error", reason: courier.ReasonPanic}
	if s.opens(a) {
		ctx, a.span = i.tracer.Start(ctx, a.name, trace.WithTimestamp(a.began), trace.WithAttributes(a.attributes(job)...))
		s.enter(a.span.SpanContext())
	} else {
		a.attrs = a.attributes(job)
		// No child spans: neither here, nor in the service that receives a request of the step.
		root := trace.SpanContextFromContext(s.ctx)
		ctx = trace.ContextWithSpanContext(ctx, root.WithTraceFlags(root.TraceFlags().WithSampled(false)))
	}
	defer func() { // also if next panics
		a.ended = time.Now()
		i.leave(s, a)
	}()
	err := next(ctx)
	a.result, a.reason = "success", ""
	if err != nil {
		a.reason = courier.ClassOf(err)
		a.result = metrics.StepResult(courier.StepFailed, a.reason)
	}
	return err
}

func (a *attempt) attributes(job *courier.Context) []attribute.KeyValue {
	task := job.ID()
	if task == "" {
		task = job.Type()
	}
	attrs := []attribute.KeyValue{keyTask.String(task), keyType.String(job.Type()), keyIndex.Int(a.step), keyAttempt.Int(a.number)}
	if id := job.ID(); id != "" {
		attrs = append(attrs, keyID.String(id))
	}
	if a.iteration != nil {
		attrs = append(attrs, keyIteration.String(courier.FormatIteration(a.iteration)))
	}
	return attrs
}

// opens reports whether an attempt always has a span.
func (s *slice) opens(a *attempt) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.early >= maxSpans || slices.ContainsFunc(a.iteration, func(n int) bool { return n >= early }) {
		return false
	}
	s.early++
	return true
}

// enter sets the span that records of the log belong to.
func (s *slice) enter(c trace.SpanContext) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current = c
}

// leave keeps a returned attempt until its end is reported. If the engine has not waited for the
// attempt, it ends at once.
func (i *Instrumentation) leave(s *slice, a *attempt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i.end(s, s.returned, 0)
	s.returned = nil
	if s.ended {
		i.end(s, a, 0)
		return
	}
	s.returned = a
}

// end ends the span of an attempt, and makes the span first if it is missing but required. The
// caller has locked the slice.
func (i *Instrumentation) end(s *slice, a *attempt, bytes int64) {
	if a == nil {
		return
	}
	if a.span == nil {
		if a.reason == "" && a.ended.Sub(a.began) < i.opt.Slow || s.late >= maxSpans {
			s.omitted++
			return
		}
		s.late++
		_, a.span = i.tracer.Start(s.ctx, a.name, trace.WithTimestamp(a.began), trace.WithAttributes(a.attrs...))
	}
	a.span.SetAttributes(keyTaskResult.String(a.result))
	if bytes > 0 {
		a.span.SetAttributes(keyBytes.Int64(bytes))
	}
	if a.reason != "" {
		a.span.SetAttributes(keyError.String(string(a.reason)))
		a.span.SetStatus(codes.Error, string(a.reason))
	}
	a.span.End(trace.WithTimestamp(a.ended))
	s.current = trace.SpanContextFromContext(s.ctx)
}

// told ends the span of an attempt whose end was written, with the written result.
func (i *Instrumentation) told(r *courier.StepExecution) {
	i.mu.Lock()
	s := i.last[r.Execution]
	i.mu.Unlock()
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.returned
	if a == nil || a.step != r.Step || a.number != r.Attempt || !slices.Equal(a.iteration, r.Iteration) {
		return // the attempt is of a lost worker
	}
	s.returned = nil
	a.result, a.reason = metrics.StepResult(r.State, r.Reason), r.Reason
	i.end(s, a, r.Bytes)
}

// began makes a slice.
func (i *Instrumentation) began(x *courier.Execution, takeover bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.closed {
		return
	}
	s := &slice{takeover: takeover}
	i.slices[keyOf(x)], i.last[x.ID] = s, s
}

// ended ends a slice and its root span.
func (i *Instrumentation) ended(x *courier.Execution) {
	i.mu.Lock()
	s := i.slices[keyOf(x)]
	delete(i.slices, keyOf(x))
	if i.last[x.ID] == s {
		delete(i.last, x.ID)
	}
	i.mu.Unlock()
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	if s.ctx == nil {
		return
	}
	i.end(s, s.returned, 0)
	s.returned = nil
	span := trace.SpanFromContext(s.ctx)
	span.SetAttributes(keyEnd.String(metrics.SliceEnd(x)))
	if s.omitted > 0 {
		span.SetAttributes(keyOmitted.Int(s.omitted))
	}
	switch x.State {
	case courier.Completed, courier.Failed, courier.Cancelled:
		span.SetAttributes(keyResult.String(metrics.RunResult(x)))
	}
	if x.Failure != nil && x.State != courier.Completed && x.State != courier.Running {
		span.SetAttributes(keyError.String(string(x.Failure.Reason)))
		span.SetStatus(codes.Error, string(x.Failure.Reason))
	}
	span.End()
}

// spanOf returns the span for log records about an execution; invalid if there is none.
func (i *Instrumentation) spanOf(id courier.ExecutionID) trace.SpanContext {
	i.mu.Lock()
	s := i.last[id]
	i.mu.Unlock()
	if s == nil {
		return trace.SpanContext{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}
