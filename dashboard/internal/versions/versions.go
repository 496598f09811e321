// Package versions keeps the versions of jobs that were used last, because pages of one execution
// are read again and again.
package versions

import (
	"slices"
	"sync"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/flow"
)

// A Version is a version of a job, with its tree. Neither may be changed.
type Version struct {
	Job  courier.Job
	Tree *flow.Tree

	name   string
	number int
}

// A Cache has the versions that were used last. The zero value is empty. Its method may be called
// by several goroutines.
type Cache struct {
	mu   sync.Mutex
	list []*Version // the most recently used one is last
}

// maxVersions is the number of versions that are kept. A definition can be large.
const maxVersions = 16

// Get returns a version of a job. It calls read if the version is not kept.
func (c *Cache) Get(name string, number int, read func() (courier.Job, error)) (*Version, error) {
	if v := c.use(name, number); v != nil {
		return v, nil
	}
	job, err := read()
	if err != nil {
		return nil, err
	}
	tree, err := flow.Parse(job.Steps)
	if err != nil {
		return nil, err
	}
	v := &Version{Job: job, Tree: tree, name: name, number: number}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.list = append(c.list, v); len(c.list) > maxVersions {
		c.list = c.list[1:]
	}
	return v, nil
}

// use returns a version that is kept, and marks it as used last. It returns nil if the version is
// not kept.
func (c *Cache) use(name string, number int) *Version {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.list, func(v *Version) bool { return v.name == name && v.number == number })
	if i < 0 {
		return nil
	}
	v := c.list[i]
	c.list = append(slices.Delete(c.list, i, i+1), v)
	return v
}
