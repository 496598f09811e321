package schemadoc

import "github.com/courierhq/courier/chain"

// What a chain may have at most.
const maxMembers = 10_000

// chain returns the schema of chains.
func (b *builder) chain() Schema {
	members := Schema{"type": "array", "minItems": 1, "maxItems": maxMembers, "items": part[chain.Member](b, "ChainMember", b.member)}
	return Object(Schema{
		"name":        inURL("The key under which versions are kept."),
		"version":     version(),
		"description": text("A text for people."),
		"params":      described(b.params(), "The parameters of a chain execution, as those of a job.", nil),
		"members":     described(members, "The jobs. Those that depend on no other begin at once.", nil),
	}, "name", "members")
}

// member is the schema of a member of a chain.
func (b *builder) member() Schema {
	id := func() Schema { return Schema{"type": "string", "pattern": isID} }
	s := Object(Schema{
		"name":       described(id(), "What the chain calls the member. Default: the name of the job.", nil),
		"job":        known("The name of the job.", b.names.Jobs),
		"version":    whole("The version of the job; 0 is the latest when the chain starts.", 0, nil),
		"params":     Schema{"type": "object", "description": "Parameters of the member's execution. They may hold references to those of the chain, such as context:params.day."},
		"priority":   priority(),
		"depends_on": list(b.memberDependency(), "The members that must have ended before this one begins."),
	}, "job")
	s["allOf"] = []Schema{unless(Schema{"required": []string{"name"}}, Schema{"properties": Schema{"job": id()}})}
	return s
}

func (b *builder) memberDependency() Schema {
	member := func() Schema { return needed("The name of the other member.") }
	return AnyOf(member(), part[chain.Dependency](b, "ChainDependency", func() Schema {
		return Object(Schema{
			"member":          member(),
			"run_on_failure":  boolean("Accepts a member that failed, or was skipped because of a failure, besides one that completed."),
			"required_status": requiredStatus(),
		}, "member")
	}))
}
