// Package chain runs groups of jobs that depend on each other.
//
// A [Chain] is the definition, saved by version like a job. Its members are jobs. A member
// begins when the members that it depends on have ended as it requires. An [Execution] is one
// run of a chain; each member that begins has an execution of its own. A [Service] checks
// chains, saves them, starts them in a store that has the role [Store], and makes requests.
// A [Plan] decides what follows from the end of a member and from a request. The store calls
// it in the transaction that ends the member, so that no engine has to watch a chain.
//
// Programs get the service from their engine, and any started engine runs the members:
//
//	_, err := e.Chains().Define(ctx, chain.Chain{Name: "daily", Members: []chain.Member{
//		{Job: "fetch"},
//		{Job: "report", DependsOn: []chain.Dependency{{Member: "fetch"}}},
//	}}, nil)
//	x, err := e.Chains().Start(ctx, "daily", nil)
//
// # Locking
//
// The end of a member and a request to the chain both lock the row of the chain execution,
// before the rows of executions. If two members end at once, the second is evaluated after the
// first was written. Without the lock each would see the other still running, and a member that
// depends on both would wait for ever.
//
// All members' executions are prepared when the chain starts, with their ids, versions and
// parameters, and are kept until the members are released. A value "chain.<member>.<name>" is the
// output of that name of the last completed step of the member's execution. It is read from the
// records of that execution when the execution that uses it begins.
package chain

import (
	"encoding/json"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/errtext"
	"github.com/courierhq/courier/internal/strictjson"
)

// A Chain is a named, versioned group of jobs that depend on each other. It is
// a plain value, as a [courier.Job] is. In JSON it is an object with the names of the
// field tags; other names and repeated names are refused.
type Chain struct {
	Name        string `json:"name"`                  // 1 to 200 characters, no control characters
	Version     int    `json:"version,omitempty"`     // assigned when the chain is saved, counting from 1
	Description string `json:"description,omitempty"` // for people
	// Params declares the parameters of a chain execution, as [courier.Job.Params] does.
	Params map[string]any `json:"params,omitzero"`
	// Members are the jobs. Those without dependencies begin at once; the others when
	// their dependencies are met.
	Members []Member `json:"members"`
}

// A Member is a job in a chain. A chain may contain the same job several times,
// under different names.
type Member struct {
	// Name is the member's name in the chain: a lowercase letter, then lowercase letters, digits,
	// "_", "-". Empty means the name of the job.
	Name string `json:"name,omitempty"`
	Job  string `json:"job"`
	// Version is the version of the job; 0 means the latest when the chain starts. A chain
	// execution keeps the version with which it was started.
	Version int `json:"version,omitempty"`
	// Params are the parameters of the member's execution. They may refer to the chain's
	// parameters, such as "context:params.day". The member also gets the chain's parameters that
	// its job takes and that are not given here.
	Params   map[string]any `json:"params,omitempty"`
	Priority int16          `json:"priority,omitempty"` // higher is claimed first
	// DependsOn are the members that must have ended before this one begins.
	DependsOn []Dependency `json:"depends_on,omitempty"`
}

// A Dependency says how another member of a chain must have ended before the member with the
// dependency begins. In JSON it is an object, or just the member's name.
type Dependency struct {
	Member string `json:"member"`
	// RunOnFailure accepts a member that failed, or was skipped because of a
	// failure, besides one that completed.
	RunOnFailure bool `json:"run_on_failure,omitempty"`
	// RequiredStatus is "completed" or "any", which accepts every outcome. Empty means
	// completed.
	RequiredStatus courier.RequiredStatus `json:"required_status,omitempty"`
}

// A Defined is a version of a chain in the store. Its fields mean the same as in
// [courier.DefinedJob]. It is a separate type because package courier has no [Chain].
type Defined struct {
	Chain      Chain
	SavedBy    string
	SavedAt    time.Time
	Superseded bool
	Warnings   []courier.Problem
}

// An Error lists all problems of a chain that was not saved. It matches [courier.ErrInvalid].
type Error struct {
	Chain    string // its name
	Problems []courier.Problem
}

// Error lists the problems, one per line. After the first 20 it counts the rest.
func (e *Error) Error() string {
	return errtext.Refused("define chain", e.Chain, errtext.NothingSaved, e.Problems)
}

// Is reports whether target is [courier.ErrInvalid].
func (e *Error) Is(target error) bool { return target == courier.ErrInvalid }

// UnmarshalJSON reads a chain strictly, as [courier.Job.UnmarshalJSON] a job.
func (c *Chain) UnmarshalJSON(data []byte) error {
	return courier.ReadDefinition("chain", data, c, (*Chain).fields)
}

func (c *Chain) fields() map[string]func(*json.Decoder) error {
	return strictjson.Fields{
		"name":        strictjson.Into(&c.Name),
		"version":     strictjson.Into(&c.Version),
		"description": strictjson.Into(&c.Description),
		"params":      strictjson.Into(&c.Params),
		"members":     strictjson.IntoList("member", &c.Members, (*Member).read),
	}
}

// UnmarshalJSON reads a member strictly.
func (m *Member) UnmarshalJSON(data []byte) error {
	return strictjson.Read(m, data, (*Member).read)
}

func (m *Member) read(dec *json.Decoder) error {
	return strictjson.ReadObject(dec, strictjson.Fields{
		"name":       strictjson.Into(&m.Name),
		"job":        strictjson.Into(&m.Job),
		"version":    strictjson.Into(&m.Version),
		"params":     strictjson.Into(&m.Params),
		"priority":   strictjson.Into(&m.Priority),
		"depends_on": strictjson.IntoList("dependency", &m.DependsOn, (*Dependency).read),
	})
}

// UnmarshalJSON reads a member's name, or an object, strictly.
func (d *Dependency) UnmarshalJSON(data []byte) error {
	return strictjson.Read(d, data, (*Dependency).read)
}

func (d *Dependency) read(dec *json.Decoder) error {
	var raw json.RawMessage
	if err := dec.Decode(&raw); err != nil {
		return err
	}
	if raw[0] == '"' {
		return json.Unmarshal(raw, &d.Member)
	}
	return strictjson.ReadObject(strictjson.NewDecoder(raw), strictjson.Fields{
		"member":          strictjson.Into(&d.Member),
		"run_on_failure":  strictjson.Into(&d.RunOnFailure),
		"required_status": strictjson.Into(&d.RequiredStatus),
	})
}
