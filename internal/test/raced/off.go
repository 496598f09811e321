//go:build !race

package raced

// On says that the race detector is there.
const On = false
