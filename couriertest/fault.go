package couriertest

import (
	"path"
	"slices"
	"sync"
)

// A Fault is a failure that a test injects into a test server; see package
// steps/sftp/sftptest and package steps/ftp/ftptest. The zero value fails every
// operation.
type Fault struct {
	// Operation is the operation that fails: "login", "list", "stat", "open", "read",
	// "write", "rename", "remove", "mkdir" or "rmdir". Empty means all of them.
	Operation string
	// Path is a pattern of [path.Match] for the absolute remote path. Empty means
	// all paths.
	Path string
	// After is the number of bytes of a file that are transferred before a read or a
	// write fails. The other operations ignore it.
	After int64
	// Times is how often the fault occurs; 0 means always.
	Times  int
	Effect Effect // empty means Fail
}

// An Effect is the effect of a [Fault] as the client sees it.
type Effect string

// The effects.
const (
	Fail     Effect = "fail"      // the operation is refused, with an error without details
	Drop     Effect = "drop"      // the connection breaks
	Stall    Effect = "stall"     // the server never answers, and keeps the connection open
	Deny     Effect = "deny"      // the account lacks the permission
	DiskFull Effect = "disk_full" // there is no space left on the server
)

// Faults are the faults of a test server. The zero value is empty and ready to use. Its
// methods may be called by several goroutines.
type Faults struct {
	mu   sync.Mutex
	list []Fault
}

// Inject adds a fault. It panics if the pattern is malformed.
func (f *Faults) Inject(fault Fault) {
	if _, err := path.Match(fault.Path, ""); err != nil {
		panic("couriertest: pattern " + fault.Path + ": " + err.Error())
	}
	if fault.Effect == "" {
		fault.Effect = Fail
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = append(f.list, fault)
}

// Repair removes all faults.
func (f *Faults) Repair() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = nil
}

// Next returns the effect of the first fault that matches an operation, and counts it. Empty means
// that the operation succeeds. End is the offset in the file at which the bytes of a read or write
// end. Servers call it; tests do not.
func (f *Faults) Next(operation, name string, end int64) Effect {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.list {
		fault := &f.list[i]
		if !fault.meets(operation, name, end) {
			continue
		}
		effect := fault.Effect
		if fault.Times == 1 {
			f.list = slices.Delete(f.list, i, i+1)
		} else if fault.Times > 1 {
			fault.Times--
		}
		return effect
	}
	return ""
}

func (f *Fault) meets(operation, name string, end int64) bool {
	if f.Operation != "" && f.Operation != operation {
		return false
	}
	if f.Path != "" {
		if ok, _ := path.Match(f.Path, name); !ok {
			return false
		}
	}
	return operation != "read" && operation != "write" || end > f.After
}
