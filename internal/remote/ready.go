package remote

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/bandwidth"
	"github.com/courierhq/courier/internal/safename"
)

// WaitStable waits for so many seconds, and keeps the stall timeout from firing
// meanwhile.
func WaitStable(ctx context.Context, job *courier.Context, seconds float64, item string) error {
	left := time.Duration(seconds * float64(time.Second))
	for ; left > 0; left -= beatEvery {
		job.Progress(0, -1, item)
		if err := bandwidth.Sleep(ctx, min(left, beatEvery)); err != nil {
			return err
		}
	}
	return nil
}

// CheckDoneFile reports what is wrong with a value of done_file.
func CheckDoneFile(pattern courier.Pattern) error {
	switch {
	case pattern == "":
		return nil
	case pattern == "*" || len(doneName(pattern)) > 2:
		return fmt.Errorf("done_file: %s must differ from the file's name, for which one * stands, such as in *.done", safename.Quote(pattern.String()))
	}
	if err := safename.Check(strings.Join(doneName(pattern), "x")); err != nil {
		return fmt.Errorf("done_file: %w; it is the name of a file in the same directory", err)
	}
	return nil
}

// doneName returns the texts between the stars of a value of done_file. A star
// in a value that a reference has put in is none.
func doneName(pattern courier.Pattern) []string {
	parts := []string{""}
	for run, literal := range pattern.Runs() {
		more := []string{run}
		if !literal {
			more = strings.Split(run, "*")
		}
		parts[len(parts)-1] += more[0]
		parts = append(parts, more[1:]...)
	}
	return parts
}

// DonePath is the path of the companion that pattern, a value of done_file,
// gives the remote file p.
func DonePath(pattern courier.Pattern, p string) string {
	dir, name := Split(p)
	return Join(dir, strings.Join(doneName(pattern), name))
}

// IsDoneName reports whether name is one of a companion.
func IsDoneName(pattern courier.Pattern, name string) bool {
	parts := doneName(pattern)
	if len(parts) != 2 {
		return name != "" && name == pattern.String()
	}
	before, after := parts[0], parts[1]
	return len(name) > len(before)+len(after) && strings.HasPrefix(name, before) && strings.HasSuffix(name, after)
}
