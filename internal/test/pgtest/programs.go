package pgtest

import (
	"cmp"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// places are where packages put the programs of a PostgreSQL server, which are
// rarely found by name.
var places = []string{
	"/usr/lib/postgresql/*/bin",
	"/usr/pgsql-*/bin",
	"/usr/local/pgsql/bin",
	"/opt/homebrew/opt/postgresql@*/bin",
	"/usr/local/opt/postgresql@*/bin",
}

// programs returns the directory that holds initdb, postgres and pg_basebackup.
func programs() (string, error) {
	if p, err := exec.LookPath("initdb"); err == nil {
		if p, err = filepath.EvalSymlinks(p); err == nil && complete(filepath.Dir(p)) {
			return filepath.Abs(filepath.Dir(p))
		}
	}
	for _, place := range places {
		list, err := filepath.Glob(place)
		if err != nil {
			return "", err
		}
		list = slices.DeleteFunc(list, func(dir string) bool { return !complete(dir) })
		if len(list) > 0 {
			return slices.MaxFunc(list, func(a, b string) int { return cmp.Compare(version(a), version(b)) }), nil
		}
	}
	return "", missing("initdb", "postgresql")
}

// complete reports whether the programs are in dir.
func complete(dir string) bool {
	for _, name := range []string{"initdb", "postgres", "pg_basebackup"} {
		if _, err := exec.LookPath(filepath.Join(dir, name)); err != nil {
			return false
		}
	}
	return true
}

// version returns the number in the name of the directory above dir, or 0.
func version(dir string) int {
	name := filepath.Base(filepath.Dir(dir))
	n, err := strconv.Atoi(name[strings.LastIndexAny(name, "-@")+1:])
	if err != nil {
		return 0
	}
	return n
}

// missing returns the error for a program that is not installed.
func missing(program, pkg string) error {
	return fmt.Errorf("%s is not installed; on Debian and Ubuntu: apt-get install %s", program, pkg)
}
