// Package target has what definitions have in common that start executions: a schedule
// and a monitor each name one target, which is a job or a chain.
package target

import (
	"fmt"

	"github.com/courierhq/courier/store"
)

// Check says what is wrong with the names of a target, of which exactly one must be given,
// and in which field. The subject is the kind of the definition, such as "schedule". The
// problem is empty if nothing is wrong.
func Check(subject, job, chain string) (field, problem string) {
	switch {
	case job == "" && chain == "":
		return "job", "there is neither a job nor a chain; name one of them"
	case job != "" && chain != "":
		return "chain", fmt.Sprintf("there is a job too; a %s starts one or the other", subject)
	}
	return "", ""
}

// Of returns the kind and the name of a target: the job, or the chain if job is empty.
func Of(job, chain string) (store.Kind, string) {
	if job != "" {
		return store.Job, job
	}
	return store.Chain, chain
}

// Names returns the names of a target of that kind: that of a job, or that of a chain. The
// other one is empty.
func Names(kind store.Kind, name string) (job, chain string) {
	if kind == store.Chain {
		return "", name
	}
	return name, ""
}
