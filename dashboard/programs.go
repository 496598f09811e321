package dashboard

import (
	"slices"
	"sync"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/flow"
)

// A program is a version of a job, which never changes, with its tree. Neither may be
// changed.
type program struct {
	name    string
	version int
	job     courier.Job
	tree    *flow.Tree
}

// programs keeps the versions of jobs that were looked at last: pages of one execution are
// read again and again.
type programs struct {
	mu   sync.Mutex
	list []*program // the last one was used last
}

// maxPrograms is how many versions are kept. A definition can be large.
const maxPrograms = 16

// get returns a version of a job, which read reads if it is not kept.
func (p *programs) get(name string, version int, read func() (*program, error)) (*program, error) {
	if g := p.use(name, version); g != nil {
		return g, nil
	}
	g, err := read()
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.list = append(p.list, g); len(p.list) > maxPrograms {
		p.list = p.list[1:]
	}
	return g, nil
}

// use returns a version that is kept, as the one that was used last; nil if it is not.
func (p *programs) use(name string, version int) *program {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.list, func(g *program) bool { return g.name == name && g.version == version })
	if i < 0 {
		return nil
	}
	g := p.list[i]
	p.list = append(slices.Delete(p.list, i, i+1), g)
	return g
}
