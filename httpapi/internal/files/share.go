package files

import (
	"context"
	"sync"
	"time"
)

// Shares limit how much of the depot each principal uses, by its uploads in progress and by the
// files of its executions. Its methods may be called by several goroutines.
type Shares struct {
	MaxUploads int   // at the same time
	MaxPending int64 // bytes of uploads in progress
	// MaxInputs is how many bytes the uploads and the inputs of executions that have not ended
	// may have together; below 1 it is not limited.
	MaxInputs int64
	// Inputs returns the size of those inputs of a principal in bytes. It is called if the last
	// count is some seconds old.
	Inputs func(ctx context.Context, who string) (int64, error)

	mu  sync.Mutex
	all map[string]*sum // of principals that have uploads, or had some lately
}

// A sum is what one principal uses.
type sum struct {
	uploads int
	bytes   int64     // of the uploads
	inputs  int64     // of executions, by the last count, and of uploads that have ended since then
	counted time.Time // zero before the first time
}

// inputsLast is how long a count of inputs is valid.
const inputsLast = 5 * time.Second

// A Share is the share of one upload. One goroutine at a time may use it.
type Share struct {
	of    *Shares
	who   string
	bytes int64
}

// Begin begins an upload. Call End afterwards. The error is an *[Error] of the kind Busy or Full,
// or an error of Inputs.
func (s *Shares) Begin(ctx context.Context, who string) (*Share, error) {
	counted, now := int64(-1), time.Now()
	if s.MaxInputs > 0 && s.outdated(who, now) {
		n, err := s.Inputs(ctx, who)
		if err != nil {
			return nil, err
		}
		counted = n
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.all[who]
	if of == nil {
		of = new(sum)
	}
	if of.uploads >= s.MaxUploads {
		return nil, errorf(Busy, "you have %d uploads at once, which is the limit of this service (Options.MaxUploads): send this one when another has ended", of.uploads)
	}
	if counted >= 0 {
		of.inputs, of.counted = counted, now
	}
	if s.MaxInputs > 0 && of.inputs+of.bytes >= s.MaxInputs { // also refuses empty files, which add no bytes
		return nil, s.fullOfInputs()
	}
	if s.all == nil {
		s.all = make(map[string]*sum)
	}
	s.all[who] = of
	of.uploads++
	return &Share{of: s, who: who}, nil
}

// outdated reports whether the inputs of a principal must be counted. It also removes the sums of
// principals that have no uploads and an old count.
func (s *Shares) outdated(who string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for other, of := range s.all {
		if of.uploads == 0 && now.Sub(of.counted) >= inputsLast {
			delete(s.all, other)
		}
	}
	of := s.all[who]
	return of == nil || now.Sub(of.counted) >= inputsLast
}

// add counts received bytes.
func (s *Share) add(n int64) error {
	if s == nil {
		return nil
	}
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	of := s.of.all[s.who]
	if of.bytes+n > s.of.MaxPending {
		return errorf(Full, "your uploads that have not ended have more than %d bytes together, which is the limit of this service (Options.MaxPending), and nothing of this one was kept: send less at once, or this one when others have ended", s.of.MaxPending)
	}
	if s.of.MaxInputs > 0 && of.inputs+of.bytes+n > s.of.MaxInputs {
		return s.of.fullOfInputs()
	}
	of.bytes += n
	s.bytes += n
	return nil
}

func (s *Shares) fullOfInputs() error {
	return errorf(Full, "your uploads and the files of your executions that have not ended take more than the %d bytes that are the limit of this service (Options.MaxInputs), and nothing of this one was kept: send it when some of them have ended, or cancel some", s.MaxInputs)
}

// End releases the share. Kept says that the files belong to an execution now.
func (s *Share) End(kept bool) {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	of := s.of.all[s.who]
	of.uploads--
	of.bytes -= s.bytes
	if kept {
		of.inputs += s.bytes
	}
	if of.uploads == 0 && s.of.MaxInputs <= 0 {
		delete(s.of.all, s.who)
	}
}
