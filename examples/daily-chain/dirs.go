package main

import (
	"os"
	"path/filepath"
)

// dirs are the directories of the example, all in one base directory, which is removed at the end.
type dirs struct{ base, work, staging, processing, partner string }

func newDirs() (dirs, error) {
	base, err := os.MkdirTemp("", "daily-chain-")
	if err != nil {
		return dirs{}, err
	}
	d := dirs{
		base: base, work: filepath.Join(base, "work"), staging: filepath.Join(base, "staging"),
		processing: filepath.Join(base, "processing"), partner: filepath.Join(base, "partner"),
	}
	for _, dir := range []string{filepath.Join(d.staging, "encrypted"), filepath.Join(d.staging, "decrypted"), d.processing, d.partner} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return d, err
		}
	}
	return d, nil
}

// invoices counts the invoices that have arrived.
func (d *dirs) invoices() (int, error) {
	list, err := os.ReadDir(d.processing)
	return len(list), err
}

func (d *dirs) remove() {
	if d.base != "" {
		os.RemoveAll(d.base)
	}
}
