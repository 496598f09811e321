package safehttp

// MaxDepth is how deeply JSON from a server may be nested to become a value:
// what reads values, such as a database, calls itself at every level.
const MaxDepth = 64
