package arch_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/courierhq/courier/internal/test/arch"
)

const module = "github.com/courierhq/courier"

// fixture returns a file system with the given files and a go.mod.
func fixture(files map[string]string) fstest.MapFS {
	fsys := fstest.MapFS{"go.mod": {Data: []byte("module " + module + "\n\ngo 1.26.0\n")}}
	for name, src := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(src)}
	}
	return fsys
}

// match fails unless the findings are as many as want and each begins with its
// counterpart.
func match(t *testing.T, found []arch.Finding, want []string) {
	t.Helper()
	var got []string
	for _, f := range found {
		got = append(got, f.String())
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.EqualFunc(got, want, strings.HasPrefix) {
		t.Errorf("found\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

// importing returns a Go file that imports the given paths, from line 3 on.
func importing(pkg string, paths ...string) string {
	src := "package " + pkg + "\n\n"
	for _, p := range paths {
		src += "import _ \"" + p + "\"\n"
	}
	return src
}

func TestFindings(t *testing.T) {
	arrows := func(t *arch.Tree) []arch.Finding { return arch.Arrows(t, arch.Rooms, arch.Libraries) }
	banned := func(t *arch.Tree) []arch.Finding { return arch.Banned(t, arch.Bans) }
	nouns := func(t *arch.Tree) []arch.Finding { return arch.Nouns(t, arch.Names) }
	environment := func(t *arch.Tree) []arch.Finding { return arch.Environment(t, arch.Rooms) }
	broken := func(t *arch.Tree) []arch.Finding { return t.Broken }
	const pgx = "github.com/jackc/pgx/v5"
	skip := "Sk" + "ip"

	for _, tt := range []struct {
		name  string
		check func(*arch.Tree) []arch.Finding
		files map[string]string
		want  []string
	}{
		{"syntax", broken, map[string]string{
			"flow/flow.go":          "package flow\n\nfunc {\n",
			"flow/testdata/flow.go": "not Go",
			"flow/.flow.go":         "not Go",
		}, []string{"flow/flow.go:3: does not parse: "}},

		{"arrows allowed", arrows, map[string]string{
			"courier.go":                       importing("courier", "context", "encoding/json"),
			"courier_test.go":                  importing("courier_test", module+"/engine", pgx),
			"flow/flow.go":                     importing("flow", module),
			"store/memstore/memstore.go":       importing("memstore", module, module+"/store", module+"/internal/uuid7"),
			"store/pgstore/pgstore.go":         importing("pgstore", module+"/store", pgx+"/pgxpool"),
			"engine/engine.go":                 importing("engine", module, module+"/flow", module+"/store", module+"/internal/uuid7"),
			"steps/steps.go":                   importing("steps", module+"/steps/file"),
			"examples/ship/main.go":            importing("main", module+"/store/pgstore", module+"/internal/test/sftpserver", pgx),
			"internal/test/sftpserver/sftp.go": importing("sftpserver", "golang.org/x/crypto/ssh", module+"/internal/test/memnet"),
			"bench/go.mod":                     "module " + module + "/bench\n",
			"bench/bench.go":                   importing("bench", "example.com/heavy"),
		}, nil},
		{"arrows upward", arrows, map[string]string{
			"courier.go":              importing("courier", module+"/flow"),
			"flow/flow.go":            importing("flow", "fmt", module+"/store"),
			"store/store.go":          importing("store", module+"/engine"),
			"store/memstore/mem.go":   importing("memstore", module+"/store/pgstore"),
			"engine/engine.go":        importing("engine", module+"/store/memstore", module+"/steps/file"),
			"engine/run_windows.go":   importing("engine", module+"/steps"),
			"steps/sftp/sftp.go":      importing("sftp", module+"/engine", module+"/steps/file"),
			"couriertest/test.go":     importing("couriertest", module+"/store/pgstore"),
			"internal/transfer/cp.go": importing("transfer", module+"/flow"),
		}, []string{
			"courier.go:3: the root package must not import flow ",
			"flow/flow.go:4: flow must not import store ",
			"store/store.go:3: store must not import engine ",
			"store/memstore/mem.go:3: store/memstore must not import store/pgstore ",
			"engine/engine.go:3: engine must not import store/memstore ",
			"engine/engine.go:4: engine must not import steps/file ",
			"engine/run_windows.go:3: engine must not import steps ",
			"steps/sftp/sftp.go:3: steps/sftp must not import engine ",
			"steps/sftp/sftp.go:4: steps/sftp must not import steps/file ",
			"couriertest/test.go:3: couriertest must not import store/pgstore ",
			"internal/transfer/cp.go:3: internal/transfer must not import flow ",
		}},
		{"arrows to test instruments", arrows, map[string]string{
			"steps/sftp/sftp.go":      importing("sftp", module+"/internal/test/sftpserver"),
			"steps/sftp/sftp_test.go": importing("sftp_test", module+"/internal/test/sftpserver"),
			"steps/steps.go":          importing("steps", module+"/steps/steptest"),
		}, []string{
			"steps/sftp/sftp.go:3: steps/sftp must not import internal/test/sftpserver",
			"steps/steps.go:3: steps must not import steps/steptest, which is for tests",
		}},
		{"arrows to libraries", arrows, map[string]string{
			"courier.go":               importing("courier", pgx),
			"engine/engine_test.go":    importing("engine_test", "example.com/mock", pgx),
			"steps/file/file.go":       importing("file", "github.com/klauspost/compress/zip", "github.com/pkg/sftp"),
			"store/pgstore/pgstore.go": importing("pgstore", "github.com/jackc/pgx/v4", "golang.org/x/sync/errgroup"),
			"examples/ship/main.go":    importing("main", "golang.org/x/term"),
			"internal/cron/cron.go":    importing("cron", "C"),
		}, []string{
			"courier.go:3: imports " + pgx + ", which is not for the root package ",
			"engine/engine_test.go:3: imports example.com/mock, which is in no library ",
			"steps/file/file.go:4: imports github.com/pkg/sftp, which is not for steps/file ",
			"store/pgstore/pgstore.go:3: imports github.com/jackc/pgx/v4, which is not for store/pgstore ",
			"store/pgstore/pgstore.go:4: imports golang.org/x/sync/errgroup, ",
			"examples/ship/main.go:3: imports golang.org/x/term, which is not for examples/",
			"internal/cron/cron.go:3: uses cgo",
		}},
		{"package without a room", arrows, map[string]string{
			"misc/misc.go":        "// Package misc is new.\npackage misc\n",
			"internal/new/new.go": "package new\n",
		}, []string{
			"misc/misc.go:2: the package in misc has no room",
			"internal/new/new.go:1: the package in internal/new has no room",
		}},

		{"documented", arch.Docs, map[string]string{
			"flow/doc.go":       "// Package flow decides.\npackage flow\n",
			"flow/flow.go":      documented,
			"flow/flow_test.go": "package flow\n\nfunc TestX() {}\n",
			"only/only_test.go": "package only\n",
			"examples/a/a.go":   "// Command a is an example.\npackage main\n\nfunc main() {}\n",
		}, nil},
		{"undocumented", arch.Docs, map[string]string{
			"flow/flow.go":    undocumented,
			"store/store.go":  "// This package stores.\npackage store\n",
			"examples/a/a.go": "package main\n\nfunc main() {}\n",
			"bench/go.mod":    "module bench\n",
			"bench/bench.go":  "package bench\n",
		}, []string{
			"bench/bench.go:1: the package in bench has no package comment",
			"examples/a/a.go:1: the package in examples/a has no package comment",
			"flow/flow.go:1: the package in flow has no package comment",
			"store/store.go:1: the package comment begins otherwise than \"Package store ",
			"flow/flow.go:3: Func is exported",
			"flow/flow.go:6: Directive is exported",
			"flow/flow.go:8: T is exported",
			"flow/flow.go:10: T.Method is exported",
			"flow/flow.go:12: X.Generic is exported",
			"flow/flow.go:16: Grouped is exported",
			"flow/flow.go:20: Const is exported",
			"flow/flow.go:27: I.Two is exported",
			"flow/flow.go:30: Var is exported",
		}},

		{"banned imports", banned, map[string]string{
			"steps/pgp/pgp.go":      importing("pgp", "golang.org/x/crypto/openpgp/packet", "golang.org/x/crypto/ssh"),
			"steps/pgp/pgp_test.go": importing("pgp", "github.com/stretchr/testify/assert"),
			"bench/go.mod":          "module bench\n",
			"bench/bench.go":        importing("bench", "github.com/stretchr/testify"),
		}, []string{
			"steps/pgp/pgp.go:3: imports golang.org/x/crypto/openpgp/packet: ",
			"steps/pgp/pgp_test.go:3: imports github.com/stretchr/testify/assert: ",
			"bench/bench.go:3: imports github.com/stretchr/testify: ",
		}},
		{"init", arch.Inits, map[string]string{
			"a.go":      "package courier\n\ntype t struct{}\n\nfunc (t) init() {}\n\nfunc initialize() {}\n",
			"b.go":      "package courier\n\nfunc init() {}\n",
			"b_test.go": "package courier\n\nfunc init() {}\n",
		}, []string{"b.go:3: declares init", "b_test.go:3: declares init"}},
		{"package names", nouns, map[string]string{
			"util/a.go":         "package tool\n",
			"internal/b/b.go":   "package types\n",
			"internal/c/c.go":   "package commonplace\n",
			"helpers/h_test.go": "package helpers_test\n",
		}, []string{"util/a.go:1: package tool in util", "internal/b/b.go:1: package types", "helpers/h_test.go:1: package helpers"}},
		{"aliases", arch.Aliases, map[string]string{
			"a.go": "package courier\n\nimport \"io\"\n\ntype Reader = io.Reader\n\ntype reader = io.Reader\n\ntype Closer io.Closer\n\ntype Other = Closer\n",
		}, []string{"a.go:5: Reader is an alias"}},
		{"skips", arch.Skips, map[string]string{
			"a_test.go":            "package courier\n\nfunc TestA(t *testing.T) {\n\tt." + skip + "(1)\n\td." + skip + "(2)\n}\n",
			"internal/x/x.go":      "package x\n\nfunc f(t testing.TB) {\n\tt." + skip + "f(\"a\")\n}\n",
			"internal/x/x_test.go": "package x\n\nfunc FuzzX(f *testing.F) {\n\tf." + skip + "Now()\n}\n",
		}, []string{"a_test.go:4: a test skips with Skip:", "internal/x/x.go:4: a test skips with Skipf:", "internal/x/x_test.go:4: a test skips with SkipNow:"}},
		{"environment", environment, map[string]string{
			"engine/engine.go":       "package engine\n\nimport \"os\"\n\nvar x = os.Getenv(\"X\")\n",
			"engine/engine_test.go":  "package engine\n\nimport \"os\"\n\nvar y = os.Getenv(\"Y\")\n",
			"examples/ship/main.go":  "package main\n\nimport \"os\"\n\nvar x = os.Getenv(\"X\")\n",
			"steps/steptest/test.go": "package steptest\n\nimport \"os\"\n\nvar x = os.Getenv(\"X\")\n",
		}, []string{"engine/engine.go:5: a library reads the environment"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tree, err := arch.Load(fixture(tt.files))
			if err != nil {
				t.Fatal(err)
			}
			match(t, tt.check(tree), tt.want)
		})
	}
}

const documented = `package flow

// F does it.
func F() {}

// A T is one.
type T[K any] struct{ Field int }

// M does it.
func (t *T[K]) M() {}

func (t *T[K]) m() {}

// An I does one thing.
type I interface{ Do() }

// A J does two.
type J interface {
	// A does this.
	A()
	B() // does that
	I
}

type hidden struct{}

func (hidden) String() string { return "" }

// Limits of it.
const (
	A = 1
	B = 2
)

const (
	C = 1 // is one
	d = 2
)

// V is a variable.
var V int
`

const undocumented = `package flow

func Func() {}

//go:noinline
func Directive() {}

type T struct{}

func (t *T) Method() {}

func (t X[K, V]) Generic() {}

// Types of it.
type (
	Grouped struct{}
)

const (
	Const = 1
)

// An I is documented.
type I interface {
	// One is.
	One()
	Two()
}

var Var int // does not count
`

func TestLooseEndsAreFound(t *testing.T) {
	word := "TO" + "DO"
	found, err := arch.LooseEnds(fixture(map[string]string{
		"a.go":           "package courier\n\n// " + word + ": later.\n",
		"docs/a.md":      "A method" + word + "logy is fine, mktemp a." + strings.Repeat("X", 6) + " too.\n",
		"docs/b.md":      "# B\nFIX" + "ME\n",
		"sql/claim.sql":  "-- XX" + "X\n",
		"notes.txt":      word,
		".git/a.md":      word,
		"testdata/a.sql": "select 1\n",
	}))
	if err != nil {
		t.Fatal(err)
	}
	match(t, found, []string{"a.go:3: says " + word, "docs/b.md:2: says ", "sql/claim.sql:1: says "})
}

func TestSecretComparisonsAreFound(t *testing.T) {
	code := "package p\n\nfunc f() bool {\n\treturn a.token == given || token == \"\" ||\n\t\tbytes.Equal(signature, got) || secret != nil ||\n\t\tstring(password) != b() || name == webhook.HeaderSignature ||\n\t\thmac.Equal(secret, a) || tokens(x) == n\n}\n"
	tree, err := arch.Load(fixture(map[string]string{"httpapi/a.go": code, "webhook/a_test.go": code, "flow/a.go": code}))
	if err != nil {
		t.Fatal(err)
	}
	found := arch.SecretComparisons(tree)
	match(t, found, []string{"httpapi/a.go:4: compares a secret", "httpapi/a.go:5: compares a secret", "httpapi/a.go:6: compares a secret"})
}

// TestModulesAreFound checks what the go command says about a module on disk
// whose only library lies beside it.
func TestModulesAreFound(t *testing.T) {
	dir := t.TempDir()
	for name, src := range map[string]string{
		"go.mod": "module " + module + "\n\ngo 1.26.0\n\nrequire (\n\texample.com/lib v0.0.0\n\texample.com/far v0.0.0 // indirect\n)\n\n" +
			"replace example.com/lib v0.0.0 => ./_lib\n\nreplace example.com/far v0.0.0 => ./_far\n",
		"_lib/go.mod":           "module example.com/lib\n\ngo 1.26.0\n\nrequire example.com/far v0.0.0\n",
		"_lib/lib.go":           importing("lib", "example.com/far"),
		"_far/go.mod":           "module example.com/far\n\ngo 1.26.0\n",
		"_far/far.go":           "package far\n",
		"engine/engine.go":      importing("engine", module+"/flow"),
		"engine/engine_test.go": importing("engine", "example.com/lib"),
		"flow/flow.go":          "package flow\n",
		"flow/flow_windows.go":  importing("flow", "example.com/lib"),
	} {
		name = filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(src), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	for goos, want := range map[string][]string{"linux": nil, "windows": {"example.com/far", "example.com/lib"}} {
		mods, err := arch.Linked(t.Context(), dir, goos, []string{"engine", "not-yet-built"})
		if err != nil || !slices.Equal(mods, want) {
			t.Errorf("on %s engine links %q, %v, want %q", goos, mods, err, want)
		}
	}
	if mods, err := arch.Linked(t.Context(), dir, "linux", []string{"not-yet-built"}); err != nil || len(mods) > 0 {
		t.Errorf("a package that does not exist links %q, %v", mods, err)
	}

	found, err := arch.Requirements(t.Context(), dir, arch.Libraries)
	if err != nil {
		t.Fatal(err)
	}
	match(t, found, []string{
		"go.mod:6: requires example.com/lib, ",
		"go.mod:6: replaces example.com/lib, ",
		"go.mod:7: replaces example.com/far, ",
	})

	if _, err := arch.Linked(t.Context(), t.TempDir(), "linux", []string{"."}); err != nil {
		t.Errorf("an empty directory: %v", err)
	}
	if _, err := arch.Requirements(t.Context(), t.TempDir(), nil); err == nil {
		t.Error("a directory without a go.mod has requirements")
	}
}

// TestRootIsFound has rooms below the root of which one may import it.
func TestRootIsFound(t *testing.T) {
	match(t, arch.Root([]arch.Room{{Dir: ".", Imports: []string{"internal/a"}}, {Dir: "internal/a"}}), nil)
	match(t, arch.Root([]arch.Room{{Dir: ".", Imports: []string{"internal/a"}}, {Dir: "internal/a", Imports: []string{"internal/b"}}, {Dir: "internal/b", Imports: []string{"."}}}),
		[]string{"internal/test/arch/policy.go:1: internal/b may import the root package"})
}
