// Package notefile reads and writes the files of lines in which an execution keeps what
// outlasts a new attempt of it. A line is a JSON string.
package notefile

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Top is the directory of a workspace that holds the notes. It outlasts a new
// attempt of the execution, which otherwise begins with an empty workspace.
const Top = ".notes"

// Held is the file below Top that lists the files that outlast it too.
const Held = "held"

// Lines returns lines in the form to append to a file.
func Lines(list []string) ([]byte, error) {
	var b bytes.Buffer
	for _, line := range list {
		text, err := json.Marshal(line)
		if err != nil {
			return nil, err
		}
		b.WriteByte('\n') // an earlier line may have been cut off
		b.Write(append(text, '\n'))
	}
	return b.Bytes(), nil
}

// Read returns the lines of the file called rel below root; none if it isn't there.
// Lines that were cut off are left out.
func Read(root *os.Root, rel string) ([]string, error) {
	f, err := root.Open(rel)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var lines []string
	for s := bufio.NewScanner(f); ; {
		if !s.Scan() {
			return lines, s.Err()
		}
		var line string
		if json.Unmarshal(s.Bytes(), &line) == nil {
			lines = append(lines, line)
		}
	}
}

// ReadHeld lists the files of a workspace that outlast a new attempt of its
// execution, by paths relative to it, with slashes; "." stands for all.
func ReadHeld(workspace *os.Root) ([]string, error) {
	return Read(workspace, filepath.Join(Top, Held))
}
