package remote

// CheckPreserve reports a value of preserve that is none.
func CheckPreserve(value string) error {
	return OneOf("preserve", value, "none", "times", "modes", "all")
}

// Times reports whether a value of preserve includes times.
func Times(preserve string) bool { return preserve == "times" || preserve == "all" }

// Modes reports whether a value of preserve includes modes.
func Modes(preserve string) bool { return preserve == "modes" || preserve == "all" }
