package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// daily runs the program in a directory of its own, and returns what it printed.
func daily(t *testing.T, args ...string) string {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	var out bytes.Buffer
	if err := run(t.Context(), args, &out); err != nil {
		t.Fatalf("run %v: %v\n%s", args, err, &out)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left over in %s: %v, %v", dir, left, err)
	}
	return out.String()
}

// requireLines looks for lines that contain texts, in that order.
func requireLines(t *testing.T, out string, want ...string) {
	t.Helper()
	lines := strings.Split(out, "\n")
	for _, w := range want {
		n := 0
		for n < len(lines) && !contains(lines[n], w) {
			n++
		}
		if n == len(lines) {
			t.Fatalf("there is no line with %q after those before it, in\n%s", w, out)
		}
		lines = lines[n+1:]
	}
}

// contains reports whether a line has the parts of a text, which "..." separates,
// in that order.
func contains(line, parts string) bool {
	for part := range strings.SplitSeq(parts, "...") {
		_, rest, ok := strings.Cut(line, part)
		if !ok {
			return false
		}
		line = rest
	}
	return true
}

func TestOnce(t *testing.T) {
	out := daily(t)
	requireLines(t, out,
		`dry run of chain "daily-partner-invoice-processing", version 1`,
		`member "download": job "download-invoices", version 1`, "get (sftp.download)...ok", "the connection works",
		`member "decrypt": job "decrypt-invoices", version 1, after "download"`, "0.1...decrypt (pgp.decrypt)...ok", "known only when it runs: source_path",
		`schedule "invoices-daily": At 02:30:00 every day, Europe/Berlin`, "next: ", "doesn't exist in Europe/Berlin; fires at 03:30",
		"7 steps: 7 ok", "Starting it now", "download...completed...2 files downloaded", "move...completed...6 files moved", "6 invoices are in the processing directory")
}

func TestWeek(t *testing.T) {
	out := daily(t, "-time-lapse")
	requireLines(t, out,
		"Schedule invoices-daily, Europe/Berlin:", "next: Wed 2027-03-24 02:30:00 CET", "next: Sun 2027-03-28 03:30:00 CEST", "2027-03-28: 02:30 doesn't exist",
		"Tue 23 Mar 22:00 CET...the partner puts 2 archives", "Wed 24 Mar 02:30 CET...invoices-daily fires", "download...2 files downloaded", "decrypt...2 files decrypted", "unzip...2 files unzipped", "move...6 files moved", "the chain is completed",
		"Thu 25 Mar 02:30 CET...fires", "download  completed", "decrypt   failed...\"staging/encrypted/invoices-2027-03-25-1.zip.pgp\": no private key opens it", "unzip     skipped", "move      skipped", "the chain is failed",
		"Thu 25 Mar 08:15 CET...an operator", "download  completed...was done, and is not repeated", "decrypt   completed", "move      completed  6 files moved", "the chain is completed",
		"Fri 26 Mar 02:30 CET...fires", "the chain is completed",
		"Fri 26 Mar 23:00 CET...switched off", "Sat 27 Mar 14:00 CET...it is back; the tick of 02:30 was missed", "Sat 27 Mar 14:00 CET...fires, for Sat 02:30 CET", "the chain is completed",
		"Sun 28 Mar 03:30 CEST...fires", "the chain is completed",
		"Tue 30 Mar 02:30 CEST...fires", "the chain is completed",
		"7 days, 7 executions of the chain, 7 completed; 42 invoices")
	if n := strings.Count(out, " fires, for "); n != 7 {
		t.Errorf("it fired %d times", n)
	}
}

func TestBadArguments(t *testing.T) {
	t.Setenv("TMPDIR", filepath.Join(t.TempDir()))
	for _, args := range [][]string{{"now"}, {"-lapse"}} {
		if err := run(t.Context(), args, new(bytes.Buffer)); err == nil || !strings.Contains(err.Error(), strings.TrimLeft(args[0], "-")) {
			t.Errorf("%v: %v", args, err)
		}
	}
}
