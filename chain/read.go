package chain

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/courierhq/courier/store"
)

// defined returns definitions of chains in the form that users see.
func defined(list []store.Definition) ([]Defined, error) {
	chains := make([]Defined, len(list))
	for i := range list {
		d := &list[i]
		c, err := read(d)
		if err != nil {
			return nil, err
		}
		chains[i] = Defined{Chain: c, SavedBy: d.By, SavedAt: d.SavedAt}
	}
	return chains, nil
}

// A storedChain is a chain in the form of its stored definition. It was checked before it was
// saved, so it is decoded without the strict UnmarshalJSON of [Chain], which takes ten times as
// long: a chain may have 10,000 members. It has the fields of [Chain] without that method.
type storedChain struct {
	Name        string         `json:"name"`
	Version     int            `json:"version"`
	Description string         `json:"description"`
	Params      map[string]any `json:"params"`
	Members     []storedMember `json:"members"`
}

// A storedMember is a [Member] without the method that reads it strictly.
type storedMember struct {
	Name      string             `json:"name"`
	Job       string             `json:"job"`
	Version   int                `json:"version"`
	Params    map[string]any     `json:"params"`
	Priority  int16              `json:"priority"`
	DependsOn []storedDependency `json:"depends_on"`
}

type storedDependency Dependency

// read returns the chain of a definition. A field that this version of the library does not have
// is an error.
func read(d *store.Definition) (Chain, error) {
	var s storedChain
	dec := json.NewDecoder(bytes.NewReader(d.Body))
	dec.UseNumber()
	dec.DisallowUnknownFields()
	if err := dec.Decode(&s); err != nil {
		return Chain{}, fmt.Errorf("load chain %q version %d: %w", d.Name, d.Version, err)
	}
	c := Chain{Name: s.Name, Version: d.Version, Description: s.Description, Params: s.Params, Members: make([]Member, len(s.Members))}
	for i := range s.Members {
		m := &s.Members[i]
		c.Members[i] = Member{Name: m.Name, Job: m.Job, Version: m.Version, Params: m.Params, Priority: m.Priority}
		for _, on := range m.DependsOn {
			c.Members[i].DependsOn = append(c.Members[i].DependsOn, Dependency(on))
		}
	}
	return c, nil
}
