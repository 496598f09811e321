package pgtest

import (
	"os"
	"os/user"
	"path/filepath"
	"strconv"
)

// An account is the user who runs the servers, which refuse to run as root.
type account struct {
	other    bool // not the user who runs this process
	uid, gid int
}

// servant returns the user of this process, or for root one without rights.
func servant() (*account, error) {
	if os.Getuid() != 0 {
		return &account{}, nil
	}
	who, err := user.Lookup("postgres")
	if err != nil {
		if who, err = user.Lookup("nobody"); err != nil {
			return nil, err
		}
	}
	a := &account{other: true}
	if a.uid, err = strconv.Atoi(who.Uid); err != nil {
		return nil, err
	}
	if a.gid, err = strconv.Atoi(who.Gid); err != nil {
		return nil, err
	}
	return a, nil
}

// own gives the account the file or directory called name.
func (a *account) own(name string) error {
	if !a.other {
		return nil
	}
	return os.Lchown(name, a.uid, a.gid)
}

// mkdirTemp makes a directory of the account in parent.
func (a *account) mkdirTemp(parent string) (string, error) {
	dir, err := os.MkdirTemp(parent, "courier-pg-")
	if err != nil {
		return "", err
	}
	if err = a.own(dir); err == nil {
		dir, err = filepath.Abs(dir)
	}
	if err != nil {
		os.RemoveAll(dir)
		return "", err
	}
	return dir, nil
}

// write writes a file of the account.
func (a *account) write(dir, name, text string) error {
	name = filepath.Join(dir, name)
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		return err
	}
	return a.own(name)
}

// open opens a file of the account for appending.
func (a *account) open(dir, name string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	if err := a.own(f.Name()); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
