package store

import (
	"encoding/json"
	"slices"

	"github.com/courierhq/courier"
)

// Upstreams returns the names of the jobs that a definition depends on, without
// repetitions and in order: what the depends_on of a job's body says. A body
// that is no job depends on none.
func Upstreams(d *Definition) []string {
	var body struct {
		DependsOn []courier.JobDependency `json:"depends_on"`
	}
	if d.Kind != Job || json.Unmarshal(d.Body, &body) != nil {
		return nil
	}
	var names []string
	for _, u := range body.DependsOn {
		names = append(names, u.Job)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Cycle returns the names along which a job depends on itself, the first one
// again at its end, or nil. Upstreams tells what each job depends on.
func Cycle(job string, upstreams func(string) []string) []string {
	type open struct {
		name      string
		unvisited []string // not looked at yet
	}
	path := []open{{job, upstreams(job)}}
	seen := make(map[string]bool)
	for len(path) > 0 {
		last := &path[len(path)-1]
		if len(last.unvisited) == 0 {
			path = path[:len(path)-1]
			continue
		}
		next := last.unvisited[0]
		last.unvisited = last.unvisited[1:]
		if next == job {
			var names []string
			for _, o := range path {
				names = append(names, o.name)
			}
			return append(names, job)
		}
		if !seen[next] {
			seen[next] = true
			path = append(path, open{next, upstreams(next)})
		}
	}
	return nil
}

// Refusing returns those dependencies that refuse.
func Refusing(list []courier.JobDependency) []courier.JobDependency {
	var refusing []courier.JobDependency
	for _, d := range list {
		if d.OnUnmet == courier.RefuseUnmet {
			refusing = append(refusing, d)
		}
	}
	return refusing
}

// Waiting returns those dependencies that an execution waits for: all that do
// not refuse.
func Waiting(list []courier.JobDependency) []courier.JobDependency {
	var waiting []courier.JobDependency
	for _, d := range list {
		if d.OnUnmet != courier.RefuseUnmet {
			waiting = append(waiting, d)
		}
	}
	return waiting
}

// Holding returns the dependencies as those of a member of a chain, none of which
// refuses.
func Holding(list []courier.JobDependency) []courier.JobDependency {
	if len(list) == 0 {
		return nil
	}
	list = slices.Clone(list)
	for i := range list {
		list[i].OnUnmet = courier.HoldUnmet
	}
	return list
}

// Unmet returns those of the dependencies that are not met. Latest returns the
// most recent execution of a job and its state; empty if there is none.
func Unmet(list []courier.JobDependency, latest func(job string) (courier.ExecutionID, courier.State)) []courier.UnmetDependency {
	var waits []courier.UnmetDependency
	for _, d := range list {
		if id, state := latest(d.Job); !d.MetBy(state) {
			waits = append(waits, d.Unmet(id, state))
		}
	}
	return waits
}
