package note

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/courierhq/courier/internal/localfile"
)

// Top is the directory of a workspace that holds the notes. It outlasts a new
// attempt of the execution, which otherwise begins with an empty workspace.
const Top = ".notes"

// Files and directories below Top.
const (
	Held        = "held"        // lists the files that outlast a new attempt too, each as a HeldFile
	Moved       = "moved"       // lists files that outlast a further attempt of the step that has moved them to its own directory
	Undelivered = "undelivered" // lists files that no step may replace, as UndeliveredFile
	Aside       = "aside"       // has those that steps wanted to replace
)

// A HeldFile is a file that outlasts a new attempt of the execution, and the step that
// has held it. The last line about a file counts.
type HeldFile struct {
	Path      string `json:"path"` // relative to the workspace, with slashes; "." stands for all
	Step      string `json:"step"` // its id, or its index
	Iteration []int  `json:"iteration,omitempty"`
}

// AppendLines adds lines to the file called name below Top. What it writes is durable when it
// returns, if it is to be. A line is a JSON value.
func AppendLines[T any](workspace *os.Root, name string, durable bool, lines []T) error {
	var b bytes.Buffer
	for _, line := range lines {
		text, err := json.Marshal(line)
		if err != nil {
			return err
		}
		b.WriteByte('\n') // an earlier line may have been cut off
		b.Write(append(text, '\n'))
	}
	rel := filepath.Join(Top, name)
	if err := workspace.MkdirAll(filepath.Dir(rel), 0o700); err != nil {
		return err
	}
	f, err := workspace.OpenFile(rel, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	if _, err = f.Write(b.Bytes()); err == nil && durable {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil || !durable {
		return err
	}
	return errors.Join(localfile.SyncDir(workspace, filepath.Dir(rel)), localfile.SyncDir(workspace, "."))
}

// ReadLines returns the lines of the file called name below Top; none if it isn't there. Lines
// that were cut off are left out.
func ReadLines[T any](workspace *os.Root, name string) ([]T, error) {
	f, err := workspace.Open(filepath.Join(Top, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var lines []T
	for s := bufio.NewScanner(f); ; {
		if !s.Scan() {
			return lines, s.Err()
		}
		var line T
		if json.Unmarshal(s.Bytes(), &line) == nil {
			lines = append(lines, line)
		}
	}
}

// ReadHeld lists the files of a workspace that outlast a new attempt of its
// execution, by paths relative to it, with slashes; "." stands for all.
func ReadHeld(workspace *os.Root) ([]string, error) {
	lines, err := ReadLines[HeldFile](workspace, Held)
	var paths []string
	seen := make(map[string]bool)
	for _, f := range lines {
		if !seen[f.Path] {
			seen[f.Path] = true
			paths = append(paths, f.Path)
		}
	}
	return paths, err
}

// ReadKept lists the files of a workspace that outlast a further attempt of a step: those of
// ReadHeld, and those that steps have moved.
func ReadKept(workspace *os.Root) ([]string, error) {
	held, err := ReadHeld(workspace)
	moved, e := ReadLines[string](workspace, Moved)
	return append(held, moved...), errors.Join(err, e)
}
