package depot

import (
	"fmt"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/safename"
)

// MaxKey is the maximum length of a key in bytes. Object stores do not accept longer keys.
const MaxKey = 1024

const (
	inputs  = "in"
	results = "out"
	removed = "removed"

	maxExecution = 64 // bytes; the ids of engines have 36
	maxLevels    = 32 // of the name of a result
)

// InputKey returns the key of an input of an execution. [CheckKey] reports whether it is valid.
func InputKey(x courier.ExecutionID, name string) string {
	return string(x) + "/" + inputs + "/" + name
}

// ResultKey returns the key of a result of an execution. [CheckKey] reports whether it is valid.
func ResultKey(x courier.ExecutionID, name string) string {
	return string(x) + "/" + results + "/" + name
}

// RemovedKey returns the key of the mark which says that retention has removed the files of an
// execution. The mark is an empty file. Its Time is the time of the removal.
func RemovedKey(x courier.ExecutionID) string { return string(x) + "/" + removed }

// SplitKey returns the execution of a key, and the name of the input or result. For the key of
// [RemovedKey] the name is empty.
func SplitKey(key string) (x courier.ExecutionID, name string) {
	id, rest, _ := strings.Cut(key, "/")
	_, name, _ = strings.Cut(rest, "/")
	return courier.ExecutionID(id), name
}

// CheckKey returns nil if key is valid, and otherwise an error that says what is wrong and
// matches [courier.ErrInvalid].
//
// A key has at most [MaxKey] bytes. An execution is 1 to 64 lower-case letters, digits and
// hyphens. A name is valid UTF-8 without control characters, backslashes, characters that reverse
// the direction of text, and invisible characters (U+200B, U+2060 to U+2064, U+FEFF). It is
// neither "." nor "..", ends neither in a dot nor in a space, and has at most 255 bytes. It is
// not the name of a device of Windows, such as CON or nul.txt, and does not begin with a drive,
// such as C:x, because it may be unpacked on Windows. A depot on Windows also refuses other
// characters with a meaning there, such as colons. For a result these rules apply to each part
// between slashes, of which there are at most 32.
func CheckKey(key string) error {
	if err := checkKey(key); err != nil {
		return courier.Errorf(courier.ErrInvalid, "depot key %s: %w", safename.Quote(key), err)
	}
	return nil
}

func checkKey(key string) error {
	if len(key) > MaxKey {
		return fmt.Errorf("it has %d bytes, %d at most", len(key), MaxKey)
	}
	id, rest, _ := strings.Cut(key, "/")
	if err := checkExecution(id); err != nil {
		return err
	}
	if rest == removed {
		return nil
	}
	kind, name, _ := strings.Cut(rest, "/")
	switch kind {
	case inputs:
		return safename.Portable(name)
	case results:
		return checkResult(name)
	}
	return fmt.Errorf("the id of the execution must be followed by /%s/ or /%s/ and a name", inputs, results)
}

func checkExecution(id string) error {
	if id == "" || len(id) > maxExecution || strings.Trim(id, "0123456789abcdefghijklmnopqrstuvwxyz-") != "" {
		return fmt.Errorf("it must begin with the id of an execution, 1 to %d small letters, digits and hyphens", maxExecution)
	}
	return nil
}

func checkResult(name string) error {
	parts := strings.Split(name, "/")
	if len(parts) > maxLevels {
		return fmt.Errorf("the name has %d levels of directories, %d at most", len(parts), maxLevels)
	}
	for _, part := range parts {
		if err := safename.Portable(part); err != nil {
			return err
		}
	}
	return nil
}

// CheckPrefix returns nil if prefix is valid for [Depot].List: it is empty, a key, or the
// beginning of a key up to a slash, with or without the slash. Otherwise the error matches
// [courier.ErrInvalid].
func CheckPrefix(prefix string) error {
	if prefix == "" {
		return nil
	}
	// A prefix is good if a name behind it makes a key.
	short := strings.TrimSuffix(prefix, "/")
	id, rest, _ := strings.Cut(short, "/")
	err := checkKey(short)
	switch {
	case rest == "" && short == id:
		err = checkExecution(id)
	case short == prefix && rest == removed:
	case rest == inputs || rest == results:
		err = checkExecution(id)
	case short != prefix && !strings.HasPrefix(rest, results+"/"):
		err = fmt.Errorf("nothing can be below it")
	}
	if err != nil {
		return courier.Errorf(courier.ErrInvalid, "depot prefix %s: %w", safename.Quote(prefix), err)
	}
	return nil
}

// HasPrefix reports whether [Depot].List lists key for a prefix.
func HasPrefix(key, prefix string) bool {
	short := strings.TrimSuffix(prefix, "/")
	return short == "" || strings.HasPrefix(key, short) && (len(key) == len(short) && short == prefix || len(key) > len(short) && key[len(short)] == '/')
}
