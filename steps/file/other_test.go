//go:build !unix

package file_test

import "errors"

func limitFileSize(n uint64) { panic("no such limit on this system") }

func mkfifo(name string) error { return errors.ErrUnsupported }

func becomeNobody() { panic("no such user on this system") }
