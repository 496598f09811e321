//go:build !unix

package glob

// openDirectory has no meaning here.
const openDirectory = 0
