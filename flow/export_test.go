package flow

// SizeOf is sizeOf.
var SizeOf = sizeOf
