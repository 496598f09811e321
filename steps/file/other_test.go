//go:build !unix

package file_test

import "errors"

func mkfifo(name string) error { return errors.ErrUnsupported }
