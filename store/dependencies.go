package store

import (
	"encoding/json"
	"slices"

	"github.com/courierhq/courier"
)

// Upstreams returns the names of the jobs in the depends_on of a job's body, sorted and
// without repetitions. A body that is not a job has none.
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

// Cycle returns the names along which a job depends on itself, ending with the first one
// again. It returns nil if there is no cycle. Upstreams returns the jobs that a job
// depends on.
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

// Refusing returns the dependencies that refuse to create an execution while they are
// not met.
func Refusing(list []courier.JobDependency) []courier.JobDependency {
	var refusing []courier.JobDependency
	for _, d := range list {
		if d.OnUnmet == courier.RefuseUnmet {
			refusing = append(refusing, d)
		}
	}
	return refusing
}

// Waiting returns the dependencies that an execution waits for: those that do not
// refuse.
func Waiting(list []courier.JobDependency) []courier.JobDependency {
	var waiting []courier.JobDependency
	for _, d := range list {
		if d.OnUnmet != courier.RefuseUnmet {
			waiting = append(waiting, d)
		}
	}
	return waiting
}

// Holding returns the dependencies with OnUnmet changed to hold: a member of a chain
// waits for all of its dependencies.
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

// Unmet returns the dependencies that are not met. Latest returns the most recent
// execution of a job, and its state; both are empty if there is none.
func Unmet(list []courier.JobDependency, latest func(job string) (courier.ExecutionID, courier.State)) []courier.UnmetDependency {
	var waits []courier.UnmetDependency
	for _, d := range list {
		if id, state := latest(d.Job); !d.MetBy(state) {
			waits = append(waits, d.Unmet(id, state))
		}
	}
	return waits
}
