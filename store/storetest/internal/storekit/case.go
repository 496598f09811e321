// Package storekit is what the cases of the conformance suite share: a store
// with the common moves of an execution, and the checks of its audit and its
// records.
package storekit

import (
	"runtime/debug"

	"github.com/courierhq/courier/store"
)

// A Group is the cases of one subject.
type Group struct {
	Name  string
	Cases []Case
	Role  func(store.Store) bool // whether the store has their role; nil: every store has it
}

// A Case checks one rule.
type Case struct {
	Name string
	Run  func(*Kit)
}

// Try runs the case, then checks all executions of the store. A panic over what
// a store returned fails just this case.
func (c *Case) Try(k *Kit) {
	defer func() {
		if p := recover(); p != nil {
			k.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	c.Run(k)
	k.checkAll()
}
