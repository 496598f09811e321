//go:build !race

package pgstore_test

const raced = false
