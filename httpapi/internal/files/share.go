package files

import "sync"

// Shares limit what the uploads of each principal take together while they last. Any number
// of goroutines may use them.
type Shares struct {
	MaxUploads int   // at once
	MaxPending int64 // bytes that have come with them

	mu  sync.Mutex
	all map[string]*sum // of principals with uploads
}

// A sum is what the uploads of a principal take.
type sum struct {
	uploads int
	bytes   int64
}

// A Share is that of one upload. One goroutine at a time may use it.
type Share struct {
	of    *Shares
	who   string
	bytes int64
}

// Begin begins an upload, which must end by End. The error is an *[Error] of the kind Busy.
func (s *Shares) Begin(who string) (*Share, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.all[who]
	if of == nil {
		of = new(sum)
	}
	if of.uploads >= s.MaxUploads {
		return nil, errorf(Busy, "you have %d uploads at once, which is the limit of this service (Options.MaxUploads): send this one when another has ended", of.uploads)
	}
	if s.all == nil {
		s.all = make(map[string]*sum)
	}
	s.all[who] = of
	of.uploads++
	return &Share{of: s, who: who}, nil
}

// add counts bytes that have come.
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
	of.bytes += n
	s.bytes += n
	return nil
}

// End gives the share back.
func (s *Share) End() {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	of := s.of.all[s.who]
	of.uploads--
	of.bytes -= s.bytes
	if of.uploads == 0 {
		delete(s.of.all, s.who)
	}
}
