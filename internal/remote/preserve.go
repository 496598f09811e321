package remote

// Times reports whether a value of preserve includes times.
func Times(preserve string) bool { return preserve == "times" || preserve == "all" }

// Modes reports whether a value of preserve includes modes.
func Modes(preserve string) bool { return preserve == "modes" || preserve == "all" }
