package ftpserver

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

// obey carries out a command and reports whether the session goes on.
func (c *Conn) obey(verb, argument string) bool {
	switch verb {
	case "USER":
		c.user = argument
		c.Reply("331 password")
	case "PASS":
		c.login(argument)
	case "AUTH":
		return c.auth()
	case "QUIT":
		c.Reply("221 bye")
		return false
	default:
		if !c.in {
			c.Reply("530 log in first")
			return true
		}
		c.work(verb, argument)
	}
	return true
}

func (c *Conn) login(password string) {
	want, ok := c.s.opt.Users[c.user]
	if c.in = ok && want == password; !c.in {
		c.Reply("530 wrong name or password")
		return
	}
	c.s.mu.Lock()
	c.s.logins++
	c.s.mu.Unlock()
	c.Reply("230 welcome")
}

func (c *Conn) auth() bool {
	if c.s.opt.TLS == nil {
		c.Reply("502 no TLS here")
		return true
	}
	c.Reply("234 go on")
	return c.secure()
}

// features lists what FEAT tells.
func (c *Conn) features() []string {
	f := []string{"211-features", " UTF8", " REST STREAM", " MFMT"}
	if !c.s.opt.NoMLSD {
		f = append(f, " MLST type*;size*;modify*;")
	}
	return append(f, "211 end")
}

// work carries out a command of somebody who is logged in.
func (c *Conn) work(verb, argument string) {
	opt := &c.s.opt
	switch verb {
	case "FEAT":
		c.Reply(c.features()...)
	case "PBSZ", "TYPE", "OPTS", "NOOP":
		c.Reply("200 fine")
	case "PROT":
		c.private = argument == "P"
		c.Reply("200 fine")
	case "PWD":
		c.Reply(`257 "` + strings.ReplaceAll(c.dir, `"`, `""`) + `"`)
	case "EPSV", "PASV":
		if verb == "EPSV" && opt.NoEPSV {
			c.Reply("502 unknown")
			return
		}
		c.listen(verb)
	case "PORT", "EPRT":
		c.port(verb, argument)
	case "REST":
		if opt.NoRest {
			c.Reply("502 unknown")
			return
		}
		c.rest, _ = strconv.ParseInt(argument, 10, 64)
		c.Reply("350 at that place")
	case "MLSD", "MLST":
		if opt.NoMLSD {
			c.Reply("500 unknown")
			return
		}
		c.files(verb, argument)
	case "SIZE", "MDTM":
		if opt.NoSize {
			c.Reply("502 unknown")
			return
		}
		c.files(verb, argument)
	default:
		c.files(verb, argument)
	}
}

// Path returns the absolute path that an argument of a command stands for.
func (c *Conn) Path(argument string) string { return path.Join("/", c.path(argument)) }

// path returns the name below the root of an argument.
func (c *Conn) path(argument string) string {
	p := argument
	if !strings.HasPrefix(p, "/") {
		p = path.Join(c.dir, p)
	}
	if p = strings.TrimPrefix(path.Clean(p), "/"); p == "" {
		return "."
	}
	return p
}

// outcome replies to a command that has no other answer.
func (c *Conn) outcome(err error, good string) {
	switch {
	case err == nil:
		c.Reply(good)
	case errors.Is(err, fs.ErrNotExist):
		c.Reply("550 no such file")
	default:
		c.Reply("550 " + oneLine(err.Error()))
	}
}

// files carries out the commands about files.
func (c *Conn) files(verb, argument string) {
	p, root := c.path(argument), c.s.root
	switch verb {
	case "CWD":
		info, err := root.Stat(p)
		if err == nil && !info.IsDir() {
			err = fs.ErrInvalid
		}
		if err == nil {
			c.dir = path.Join("/", p)
		}
		c.outcome(err, "250 there")
	case "MKD":
		c.outcome(root.Mkdir(p, 0o755), `257 "x" made`)
	case "RMD":
		info, err := root.Lstat(p)
		if err == nil && !info.IsDir() {
			err = fs.ErrInvalid
		}
		if err == nil {
			err = root.Remove(p)
		}
		c.outcome(err, "250 gone")
	case "DELE":
		info, err := root.Lstat(p)
		if err == nil && info.IsDir() {
			err = fs.ErrInvalid
		}
		if err == nil {
			err = root.Remove(p)
		}
		c.outcome(err, "250 gone")
	case "RNFR":
		_, err := root.Lstat(p)
		c.from = p
		c.outcome(err, "350 and to?")
	case "RNTO":
		_, err := root.Lstat(p)
		if err == nil && c.s.opt.NoRenameOver {
			c.Reply("553 it is taken")
			return
		}
		c.outcome(root.Rename(c.from, p), "250 renamed")
	case "SIZE", "MDTM", "MLST":
		c.tell(verb, argument, p)
	case "MFMT":
		stamp, name, _ := strings.Cut(argument, " ")
		t, err := time.Parse("20060102150405", stamp)
		if err == nil {
			err = root.Chtimes(c.path(name), t, t)
		}
		c.outcome(err, "213 set")
	case "LIST", "MLSD":
		c.list(verb, argument, p)
	case "RETR", "STOR", "APPE":
		c.move(verb, p)
	default:
		c.Reply("502 unknown")
	}
}

const stamp = "20060102150405"

func (c *Conn) tell(verb, argument, p string) {
	info, err := c.s.root.Stat(p)
	if err == nil && verb != "MLST" && !info.Mode().IsRegular() && !c.s.opt.SizesAll {
		err = fs.ErrInvalid
	}
	if err != nil {
		c.outcome(err, "")
		return
	}
	switch verb {
	case "SIZE":
		c.Reply(fmt.Sprintf("213 %d", info.Size()))
	case "MDTM":
		c.Reply("213 " + info.ModTime().UTC().Format(stamp))
	default:
		c.Reply("250-it is", " "+facts(info)+" "+argument, "250 end")
	}
}

func facts(info fs.FileInfo) string {
	kind := "file"
	if info.IsDir() {
		kind = "dir"
	}
	return fmt.Sprintf("type=%s;size=%d;modify=%s;", kind, info.Size(), info.ModTime().UTC().Format(stamp))
}

// list sends a listing.
func (c *Conn) list(verb, argument, p string) {
	if verb == "LIST" && strings.HasPrefix(argument, "-") {
		p = c.path("")
	}
	d, err := c.s.root.Open(p)
	var found []fs.FileInfo
	if err == nil {
		found, err = d.Readdir(-1)
		d.Close()
	}
	if err != nil {
		c.outcome(err, "")
		return
	}
	slices.SortFunc(found, func(a, b fs.FileInfo) int { return strings.Compare(a.Name(), b.Name()) })
	var text strings.Builder
	if argument == "-a" {
		fmt.Fprint(&text, "drwxr-xr-x 2 0 0 4096 May  6 2024 .\r\ndrwxr-xr-x 2 0 0 4096 May  6 2024 ..\r\n")
	}
	for _, info := range found {
		if verb == "MLSD" {
			fmt.Fprintf(&text, "%s %s\r\n", facts(info), info.Name())
		} else if argument == "-a" || !strings.HasPrefix(info.Name(), ".") {
			fmt.Fprintf(&text, "%s 1 ada users %d %s %s\r\n", info.Mode(), info.Size(), info.ModTime().UTC().Format("Jan _2 2006"), info.Name())
		}
	}
	c.Content(verb, func(conn net.Conn) error {
		_, err := io.WriteString(conn, text.String())
		return err
	})
}

// move sends or receives a file.
func (c *Conn) move(verb, p string) {
	offset := c.rest
	c.rest = 0
	flags := os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	switch {
	case verb == "RETR":
		flags = os.O_RDONLY
	case verb == "APPE":
		flags = os.O_WRONLY | os.O_CREATE | os.O_APPEND
	case offset > 0:
		flags = os.O_WRONLY | os.O_CREATE
	}
	f, err := c.s.root.OpenFile(p, flags, 0o644)
	if err == nil {
		var info fs.FileInfo
		if info, err = f.Stat(); err == nil && !info.Mode().IsRegular() {
			err = fs.ErrInvalid
		}
	}
	if err == nil && verb != "APPE" {
		_, err = f.Seek(offset, io.SeekStart)
	}
	if err != nil {
		c.closePassive()
		c.outcome(err, "")
		return
	}
	defer f.Close()
	c.Content(verb, func(conn net.Conn) error {
		if verb == "RETR" {
			_, err := io.Copy(struct{ io.Writer }{conn}, struct{ io.Reader }{f})
			return err
		}
		_, err := io.Copy(struct{ io.Writer }{f}, struct{ io.Reader }{conn})
		return err
	})
}
