package courier

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/courierhq/courier/internal/errtext"
	"github.com/courierhq/courier/internal/localfile"
	"github.com/courierhq/courier/internal/safename"
)

// A File is a report of a step about a file: that it wrote the file, which then had
// this size, or that it removed the file.
type File struct {
	// Path is relative to the workspace, with slashes, or absolute. With a Connection it is
	// the path on that server.
	Path    string `json:"path"`
	Size    int64  `json:"size,omitempty"`
	Removed bool   `json:"removed,omitempty"`
	// Connection is the id of the connection to the server with the file; empty for a
	// file of this machine. If Received is set, the step has received the file from
	// there. Otherwise it has sent it there, or removed it. A resume does not check such
	// a file.
	Connection string `json:"connection,omitempty"`
	Received   bool   `json:"received,omitempty"`
}

// Files gives access to the files that a step may use: those of the execution's workspace, by
// relative names, and those below the directories that the host allows, by absolute names.
// Other names are refused, and so are links that lead out. Names may have slashes on every
// system.
//
// The files that a step writes or removes are reported and committed with the step: a resume
// checks that the files are still there. [Files.Create] with [PendingFile.Commit],
// [Files.Move] and [Files.Remove] report by themselves. They are safe to repeat, as [Step]
// demands: a step that uses nothing else on files need not record what an earlier attempt has
// done.
//
// A Files belongs to its [Context]. It may be used by several goroutines until the attempt
// ends.
type Files struct{ job *Context }

// Files returns the files that the step may use.
func (c *Context) Files() Files { return Files{c} }

// Dir returns the attempt's own directory, relative to the workspace and with slashes:
// the directory with the attempt's number in [Files.StepDir]. No other attempt ever uses
// it. Use it for outputs whose path the configuration does not give. It is created with
// the first file in it. Unfinished files of an earlier attempt are in that attempt's
// directory, where [Files.Create] does not look. The step's Cleanup calls
// [Files.RemoveSideFiles] for each of them.
func (files Files) Dir() string {
	if files.job.cfg.Workspace == "" {
		return "."
	}
	return path.Join(files.StepDir(), strconv.Itoa(files.job.Attempt()))
}

// StepDir returns the directory that contains the directories of the step's attempts in this
// iteration, in the form of [Files.Dir]. Use it for files that a later attempt needs to
// continue. In a new attempt of the execution it is empty. Without a workspace there is no
// such directory, and StepDir returns "".
func (files Files) StepDir() string {
	if files.job.cfg.Workspace == "" {
		return ""
	}
	parts := make([]string, 0, 4)
	if files.job.cfg.ExecutionAttempt > 1 {
		parts = append(parts, "again-"+strconv.Itoa(files.job.cfg.ExecutionAttempt))
	}
	parts = append(parts, files.job.StepName())
	for _, i := range files.job.cfg.Iteration {
		parts = append(parts, strconv.Itoa(i))
	}
	if files.job.cfg.EarlierStarts > 0 {
		parts = append(parts, "from-"+strconv.Itoa(files.job.cfg.EarlierStarts+1))
	}
	return path.Join(parts...)
}

// Path returns a path in the form of values and reports: relative to the workspace,
// with slashes, or absolute if it lies outside.
func (files Files) Path(name string) (string, error) {
	dir, rel, err := files.job.locate(name)
	if err != nil {
		return "", err
	}
	if dir == files.job.cfg.Workspace {
		return filepath.ToSlash(rel), nil
	}
	return filepath.Join(dir, rel), nil
}

// Root returns a handle on the directory to which name is confined, and name relative
// to it: the workspace for relative paths, otherwise one of the allowed roots. Names
// outside of these are refused. Links that lead out are refused when they are used.
// The handle belongs to the Context, which closes it.
func (files Files) Root(name string) (root *os.Root, rel string, err error) {
	if err := files.job.before("root", name); err != nil {
		return nil, "", err
	}
	return files.job.rootOf(name)
}

// before announces an operation on the file called name.
func (c *Context) before(operation, name string) error {
	if operation != "root" && operation != "stat" && operation != "open" {
		if err := c.refuse(operation, name); err != nil {
			return err
		}
	}
	if c.cfg.OnFile == nil {
		return nil
	}
	return c.cfg.OnFile(operation, name)
}

// refuse refuses an operation that writes in a dry run.
func (c *Context) refuse(operation, name string) error {
	if c.cfg.DryRun {
		return Permanent(fmt.Errorf("%s %q: refused, since a dry run writes nothing; do it in Execute", operation, errtext.Shorten(name, 200)))
	}
	return nil
}

func (c *Context) rootOf(name string) (root *os.Root, rel string, err error) {
	dir, rel, err := c.locate(name)
	if err != nil {
		return nil, "", err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, "", fmt.Errorf("%s: the attempt is over: %w", name, os.ErrClosed)
	}
	if root := c.roots[dir]; root != nil {
		return root, rel, nil
	}
	if dir == c.cfg.Workspace && dir != "" {
		if !c.usedWork {
			_ = c.tell(contextReport{Workspace: true})
		}
		c.usedWork = true
		if c.cfg.DryRun {
			if _, err := os.Stat(dir); err != nil {
				return nil, "", &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
			}
		} else if err := makeWorkspace(dir); err != nil {
			return nil, "", fmt.Errorf("workspace: %w", err)
		}
	}
	root, err = os.OpenRoot(dir)
	if err != nil {
		return nil, "", err
	}
	if c.roots == nil {
		c.roots = make(map[string]*os.Root)
	}
	c.roots[dir] = root
	return root, rel, nil
}

// makeWorkspace creates the workspace. Its name is durable before anything in
// it can be.
func makeWorkspace(dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	above, err := os.OpenRoot(filepath.Dir(dir))
	if err != nil {
		return err
	}
	defer above.Close()
	return localfile.SyncDir(above, ".")
}

// locate finds the directory that confines name.
func (c *Context) locate(name string) (dir, rel string, err error) {
	switch {
	case name == "":
		return "", "", Permanent(errors.New("the path is empty"))
	case strings.ContainsRune(name, 0):
		return "", "", Permanent(fmt.Errorf("path %q: contains a NUL character", errtext.Shorten(name, 200)))
	}
	if runtime.GOOS == "windows" {
		if err := checkWindows(name); err != nil {
			return "", "", err
		}
	}
	local := filepath.Clean(filepath.FromSlash(name))
	if c.cfg.Workspace == "" {
		return unconfined(local)
	}
	if !filepath.IsAbs(local) {
		if !filepath.IsLocal(local) {
			return "", "", Permanent(fmt.Errorf("path %q: leads out of the workspace, from which relative paths are taken", errtext.Shorten(name, 200)))
		}
		return c.cfg.Workspace, local, nil
	}
	for _, d := range append([]string{c.cfg.Workspace}, c.cfg.Roots...) {
		d = filepath.Clean(d)
		if r, err := filepath.Rel(d, local); err == nil && filepath.IsLocal(r) && len(d) > len(dir) {
			dir, rel = d, r
		}
	}
	if dir == "" {
		allowed := "none are"
		if len(c.cfg.Roots) > 0 {
			allowed = "allowed are " + strings.Join(c.cfg.Roots, ", ")
		}
		return "", "", Permanent(fmt.Errorf("path %q: lies outside the workspace and the allowed directories (%s); allow its directory in engine.Options.Roots", errtext.Shorten(name, 200), allowed))
	}
	return dir, rel, nil
}

// checkWindows refuses a path with an element that Windows takes for something
// else than the file of that name: a device, a stream of another file, or a name
// without the dots and blanks at its end.
func checkWindows(name string) error {
	rest := strings.ReplaceAll(name, `\`, "/")
	if len(rest) > 2 && rest[1] == ':' && rest[2] == '/' {
		rest = rest[2:] // the drive
	}
	for element := range strings.SplitSeq(rest, "/") {
		why := ""
		switch {
		case element == "" || element == "." || element == "..":
		case strings.Contains(element, ":"):
			why = "names a stream of another file"
		case strings.HasSuffix(element, ".") || strings.HasSuffix(element, " "):
			why = "ends in a dot or a blank, which Windows leaves out"
		case safename.IsDevice(element):
			why = "names a device"
		}
		if why != "" {
			return Permanent(fmt.Errorf("path %q: %q %s; choose another name on Windows", errtext.Shorten(name, 200), errtext.Shorten(element, 80), why))
		}
	}
	return nil
}

// unconfined finds the nearest directory above name that exists, for contexts
// without a workspace.
func unconfined(name string) (dir, rel string, err error) {
	if !filepath.IsAbs(name) && filepath.IsLocal(name) {
		return ".", name, nil
	}
	abs, err := filepath.Abs(name)
	if err != nil {
		return "", "", err
	}
	for dir = filepath.Dir(abs); dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			break
		}
	}
	rel, err = filepath.Rel(dir, abs)
	return dir, rel, err
}

// placed returns err, of an operation on root, with paths that say where the
// file is: package os names it relative to root.
func placed(root *os.Root, err error) error {
	switch e := err.(type) {
	case *fs.PathError:
		if !filepath.IsAbs(e.Path) {
			return &fs.PathError{Op: strings.TrimSuffix(e.Op, "at"), Path: filepath.Join(root.Name(), e.Path), Err: e.Err}
		}
	case *os.LinkError:
		return &os.LinkError{Op: strings.TrimSuffix(e.Op, "at"), Old: filepath.Join(root.Name(), e.Old), New: filepath.Join(root.Name(), e.New), Err: e.Err}
	}
	return err
}

// Stat describes the file called name. It does not follow a symbolic link, but describes
// the link.
func (files Files) Stat(name string) (fs.FileInfo, error) {
	if err := files.job.before("stat", name); err != nil {
		return nil, err
	}
	return files.job.lstat(name)
}

func (c *Context) lstat(name string) (fs.FileInfo, error) {
	root, rel, err := c.rootOf(name)
	if err != nil {
		return nil, err
	}
	info, err := root.Lstat(rel)
	return info, placed(root, err)
}

// Open opens the regular file called name for reading. Devices, pipes and
// directories are refused.
func (files Files) Open(name string) (*os.File, error) {
	if err := files.job.before("open", name); err != nil {
		return nil, err
	}
	root, rel, err := files.job.rootOf(name)
	if err != nil {
		return nil, err
	}
	f, err := root.OpenFile(rel, os.O_RDONLY|localfile.Nonblock, 0)
	if err != nil {
		err = placed(root, err)
		if errors.Is(err, fs.ErrNotExist) && files.job.cfg.Workspace != "" && !filepath.IsAbs(filepath.FromSlash(name)) {
			err = fmt.Errorf("%w (relative paths are taken from the execution's workspace)", err)
		}
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = Permanent(fmt.Errorf("path %q: is %s, not a regular file", errtext.Shorten(name, 200), kindOf(info.Mode())))
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func kindOf(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "a directory"
	case m&fs.ModeSymlink != 0:
		return "a symbolic link"
	case m&fs.ModeNamedPipe != 0:
		return "a pipe"
	}
	return "a device or socket"
}

// MkdirAll creates the directory called name and those above it.
func (files Files) MkdirAll(name string) error {
	if err := files.job.before("mkdir", name); err != nil {
		return err
	}
	root, rel, err := files.job.rootOf(name)
	if err != nil || rel == "." {
		return err
	}
	return placed(root, root.MkdirAll(rel, files.job.dirMode(root)))
}

// dirMode keeps what lies in the workspace from other users of the machine.
func (c *Context) dirMode(root *os.Root) fs.FileMode {
	if root.Name() == c.cfg.Workspace {
		return 0o700
	}
	return 0o777
}

// Wrote reports that the step wrote the file called name, with its present size. The
// report is committed with the step; a resume checks that the file is still there.
func (files Files) Wrote(name string) error {
	if err := files.job.before("report", name); err != nil {
		return err
	}
	info, err := files.job.lstat(name)
	if err != nil {
		return err
	}
	return files.job.report(name, File{Size: info.Size()})
}

// maxRemoteReports is how many files on servers an attempt reports. A tree of a million
// files would make its record large, and is found by its directory.
const maxRemoteReports = 1000

// ReportRemote reports a file on a server that the step has received, sent or removed. F
// has its Path there and its Connection. The file can be found by its name; a resume does
// not check it. The first 1,000 of an attempt are stored.
func (files Files) ReportRemote(f File) error {
	if f.Connection == "" || f.Path == "" {
		return Permanent(errors.New("a report of a remote file needs its path and its connection"))
	}
	if !utf8.ValidString(f.Path) {
		return nil // no store can keep it
	}
	files.job.mu.Lock()
	defer files.job.mu.Unlock()
	if files.job.remoteReports < maxRemoteReports {
		files.job.remoteReports++
		files.job.files = append(files.job.files, f)
		files.job.tellFile(f)
	}
	return nil
}

func (c *Context) report(name string, f File) error {
	p, err := c.Files().Path(name)
	if err != nil {
		return err
	}
	if !utf8.ValidString(p) {
		return Permanent(fmt.Errorf("path %q: is not valid UTF-8, which no store can keep; rename the file", errtext.Shorten(p, 200)))
	}
	f.Path = p
	if !f.Removed && filepath.IsAbs(p) {
		if err := c.inside().Produced(p); err != nil {
			return err
		}
	}
	c.addFile(f)
	return nil
}

// A fileReport says where the report on a path is.
type fileReport struct {
	index int  // in files
	made  bool // the attempt has made the file by Create or Replace
}

// addFile adds a report of a file of this machine, in place of an earlier one.
func (c *Context) addFile(f File) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tellFile(f)
	if r, ok := c.fileAt[f.Path]; ok {
		c.files[r.index] = f
		c.fileAt[f.Path] = fileReport{index: r.index}
		return
	}
	if c.fileAt == nil {
		c.fileAt = make(map[string]fileReport)
	}
	c.fileAt[f.Path] = fileReport{index: len(c.files)}
	c.files = append(c.files, f)
}

// tellFile passes a report of a file on.
func (c *Context) tellFile(f File) {
	if c.forward != nil {
		report := f // is on the heap only here
		_ = c.tell(contextReport{File: &report})
	}
}
