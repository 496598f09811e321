package strictjson

import "slices"

// A FieldError is what is wrong with a field of an object, or an item of a list.
type FieldError struct {
	Key   string // name or index
	Label string // how the text begins; empty if the error says it itself
	Err   error
}

// Error returns the text of the error after the label.
func (e *FieldError) Error() string {
	if e.Label == "" {
		return e.Err.Error()
	}
	return e.Label + ": " + e.Err.Error()
}

// Unwrap returns the error without the label.
func (e *FieldError) Unwrap() error { return e.Err }

// A Located is an error with the path to the value that it is about.
type Located struct {
	Path    []string // names and indexes
	Unnamed bool     // the error itself names the last element of the path
	Err     error
}

// Errors returns the errors that an error of this package consists of.
func Errors(err error) []Located { return appendErrors(nil, nil, err) }

func appendErrors(list []Located, path []string, err error) []Located {
	switch e := err.(type) { //nolint:errorlint // the tree is walked
	case nil:
		return list
	case *FieldError:
		inner := append(slices.Clip(path), e.Key)
		if e.Label == "" {
			return append(list, Located{inner, true, e.Err})
		}
		return appendErrors(list, inner, e.Err)
	case interface{ Unwrap() []error }:
		for _, x := range e.Unwrap() {
			list = appendErrors(list, path, x)
		}
		return list
	}
	return append(list, Located{Path: path, Err: err})
}
