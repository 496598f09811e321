//go:build race

package pgstore_test

// With the race detector, which looks at this process only, the long tests are
// shorter: .ci/test runs them as a whole without it.
const raced = true
