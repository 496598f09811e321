package file_test

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/test/confined"
	"github.com/courierhq/courier/internal/test/raced"
	"github.com/courierhq/courier/steps/file"
)

// A scenario is a step that changes something, for the tests of what remains
// of it when it is interrupted.
type scenario struct {
	name  string
	key   string
	cfg   m
	files map[string]string
	setup func(t testing.TB, s *site) // after files
}

// hexText can be compressed, but not too well.
func hexText(n int) string {
	b := make([]byte, n/2)
	rand.NewChaCha8([32]byte{1}).Read(b)
	return hex.EncodeToString(b)
}

// Files that are copied in more than one piece, by the kernel and otherwise.
var (
	big    = sync.OnceValue(func() string { return hexText(raced.Or(1, 5) << 20) })
	medium = sync.OnceValue(func() string { return hexText(300 << 10) })
)

func scenarios() []scenario {
	few := map[string]string{"A/in/1.csv": "one", "A/in/2.csv": "two", "A/in/x/3.csv": "three", "A/in/x/4.txt": "four", "B/out/other": "kept"}
	with := func(files map[string]string, more ...string) map[string]string {
		files = maps.Clone(files)
		for i := 0; i < len(more); i += 2 {
			files[more[i]] = more[i+1]
		}
		return files
	}
	packed := archiveOf(few)
	archive := func(t testing.TB, s *site) {
		t.Helper()
		s.write(t, map[string]string{"W/in.zip": packed})
	}
	packedLarge := archiveOf(few, "A/in/5.csv", medium())
	large := func(t testing.TB, s *site) {
		t.Helper()
		s.write(t, map[string]string{"W/in.zip": packedLarge})
	}
	return append(archiveScenarios(), []scenario{
		{"copy", "file.copy", m{"source_path": "A/f", "destination_path": "B/new/"}, map[string]string{"A/f": big()}, nil},
		{"copy over", "file.copy", m{"source_path": "A/f", "destination_path": "1/g"}, map[string]string{"A/f": "text", "W/1/g": "old"}, nil},
		{"copy many", "file.copy", m{"source_path": "A/in/**/*.csv", "destination_path": "B/out"}, with(few, "B/out/1.csv", "old"), nil},
		{"copy skip", "file.copy", m{"source_path": "A/in/**", "destination_path": "B/out", "if_exists": "skip"}, with(few, "B/out/1.csv", "old"), nil},
		{"copy or fail", "file.copy", m{"source_path": "A/in/**", "destination_path": "B/out", "if_exists": "fail"}, few, nil},
		{"copy into itself", "file.copy", m{"source_path": "A/**", "destination_path": "A/in/x"}, few, nil},
		{"move", "file.move", m{"source_path": "A/f", "destination_path": "A/g"}, map[string]string{"A/f": "text", "A/g": "old"}, nil},
		{"move across", "file.move", m{"source_path": "A/f", "destination_path": "B/new/g"}, map[string]string{"A/f": big()}, nil},
		{"move out", "file.move", m{"source_path": "2/f", "destination_path": "B/", "mode": "0640"}, map[string]string{"W/2/f": "text", "B/f": "old"}, nil},
		{"move many", "file.rename", m{"source_path": "A/in/**", "destination_path": "A/done/"}, few, nil},
		{"move many across", "file.move", m{"source_path": "A/in/**/*.csv", "destination_path": "B/out"}, with(few, "B/out/1.csv", "old"), nil},
		{"move skip", "file.move", m{"source_path": "A/in/*", "destination_path": "B/out", "if_exists": "skip"}, with(few, "B/out/1.csv", "old"), nil},
		{"move or fail", "file.move", m{"source_path": "A/in/*", "destination_path": "B/out", "if_exists": "fail"}, few, nil},
		{"delete", "file.delete", m{"path": "A/f", "ignore_missing": false}, map[string]string{"A/f": "text"}, nil},
		{"delete many", "file.delete", m{"path": "A/in/**/*.csv", "ignore_missing": false}, few, nil},
		{"delete directory", "file.delete", m{"path": "A/in", "recursive": true, "ignore_missing": false}, few, nil},
		{"delete all", "file.delete", m{"path": "A/**", "recursive": true}, few, nil},
		{"zip", "file.zip", m{"source_path": "A/in", "output_path": "B/out/"}, with(few, "A/in/5.csv", medium()), nil},
		{"zip over", "file.zip", m{"source_paths": []string{"A/in/*.csv", "A/in/x/4.txt"}, "output_path": "A/in/1.zip"}, with(few, "A/in/1.zip", "old"), nil},
		{"unzip", "file.unzip", m{"archive_path": "in.zip", "output_directory": "B/out/new"}, few, large},
		{"unzip here", "file.unzip", m{"archive_path": "in.zip", "output_directory": "here"}, nil, archive},
		{"unzip merge", "file.unzip", m{"archive_path": "in.zip", "output_directory": "B/out", "if_exists": "overwrite"}, with(few, "B/out/in/1.csv", "old"), archive},
		{"unzip into empty", "file.unzip", m{"archive_path": "in.zip", "output_directory": "B"}, nil, archive},
	}...)
}

// archiveOf returns a zip archive of the files.
func archiveOf(files map[string]string, more ...string) string {
	var b bytes.Buffer
	zw := zip.NewWriter(&b)
	add := func(name, content string) {
		w, err := zw.CreateHeader(&zip.FileHeader{Name: name[2:], Method: zip.Deflate, Modified: time.Date(2024, 1, 2, 3, 4, 6, 0, time.UTC)})
		if err != nil {
			panic(err)
		}
		io.WriteString(w, content)
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		add(name, files[name])
	}
	for i := 0; i < len(more); i += 2 {
		add(more[i], more[i+1])
	}
	if err := zw.Close(); err != nil {
		panic(err)
	}
	return b.String()
}

func (c scenario) site(t testing.TB) *site {
	t.Helper()
	s := newSite(t)
	s.write(t, c.files)
	if c.setup != nil {
		c.setup(t, s)
	}
	return s
}

// undisturbed is what the step returns and leaves when nothing happens.
func (c scenario) undisturbed(t testing.TB) (out m, files string) {
	t.Helper()
	s := c.site(t)
	out = s.run(t, c.key, c.cfg)
	return out, s.snapshot(t)
}

// attempt cleans up, executes, and compares with an undisturbed run.
func (c scenario) attempt(t *testing.T, s *site, when string, out m, files string) {
	t.Helper()
	r := registry(file.Limits{})
	typ, _ := r.Lookup(c.key)
	job := s.job()
	defer job.Close()
	if err := typ.Cleanup(t.Context(), job, s.config(c.cfg)); err != nil {
		t.Errorf("%s: Cleanup: %v", when, err)
	}
	got, err := s.in(t.Context(), job, r, c.key, c.cfg)
	if err != nil {
		t.Errorf("%s: Execute: %v", when, err)
		return
	}
	g, _ := json.Marshal(got)
	w, _ := json.Marshal(out)
	if !bytes.Equal(g, w) {
		t.Errorf("%s: outputs\n%s, undisturbed\n%s", when, g, w)
	}
	if got := s.snapshot(t); got != files {
		t.Errorf("%s: files\n%s\nundisturbed\n%s", when, got, files)
	}
	for _, f := range job.Reports().Files {
		info, err := os.Lstat(filepath.Join(s.Work, f.Path))
		if filepath.IsAbs(f.Path) {
			info, err = os.Lstat(f.Path)
		}
		if f.Removed != (err != nil) || err == nil && info.Size() != f.Size {
			t.Errorf("%s: reports %+v, which is %v, %v", when, f, info, err)
		}
	}
}

// A fuse is a context that ends at the n-th look at it.
type fuse struct {
	context.Context
	left atomic.Int64
	blow context.CancelCauseFunc
}

var errFuse = errors.New("the fuse has blown")

func newFuse(ctx context.Context, n int) *fuse {
	f := &fuse{}
	f.Context, f.blow = context.WithCancelCause(ctx)
	f.left.Store(int64(n))
	return f
}

func (f *fuse) Err() error {
	if f.left.Add(-1) == 0 {
		f.blow(errFuse)
	}
	return f.Context.Err()
}

// A crash is an attempt in a process of its own.
type crash struct {
	Site *site
	Key  string
	Cfg  m
	At   int // the effect or look at ctx before which it dies; 0 means none
	// FileSize is the largest size of a file; 0 means no limit.
	FileSize uint64
	// Nobody makes it a process without the rights of root.
	Nobody bool
	// Validate has the configuration checked in place of an attempt.
	Validate bool
}

func TestMain(m *testing.M) {
	os.Exit(confined.Main(m, map[string]confined.Task{"attempt": dieInStep}))
}

func dieInStep(spec []byte) error {
	var c crash
	if err := json.Unmarshal(spec, &c); err != nil {
		panic(err)
	}
	var n atomic.Int64
	die := func() {
		if n.Add(1) == int64(c.At) {
			confined.Die()
		}
	}
	var r courier.Registry
	file.RegisterWith(&r, file.Limits{}, func(string) { die() })
	if c.Validate {
		typ, _ := r.Lookup(c.Key)
		return typ.Validate(context.Background(), c.Site.job(), c.Site.config(c.Cfg))
	}
	looks, every := 0, 1
	if slices.Contains([]string{"file.unzip", "file.zip", "file.untar", "file.tar", "file.gzip", "file.zstd"}, c.Key) {
		every = 4 // most looks are between equal blocks
	}
	ctx := &deadly{context.Background(), func() {
		if looks++; looks%every == 0 {
			die()
		}
	}}
	_, err := c.Site.execute(ctx, &r, c.Key, c.Cfg)
	return err
}

// deadly is a context whose every look may be the last.
type deadly struct {
	context.Context
	look func()
}

func (d *deadly) Err() error {
	d.look()
	return d.Context.Err()
}

// inProcess executes one attempt of a step in another process.
func (s *site) inProcess(t testing.TB, c crash) error {
	t.Helper()
	c.Site = s
	s.Attempt++
	return confined.Run(t, "attempt", confined.Limits{FileSize: c.FileSize, Nobody: c.Nobody}, c)
}

// kill executes a step in another process that dies at point n. It reports
// false if the step ended before it.
func (s *site) kill(t testing.TB, key string, cfg m, n int) bool {
	t.Helper()
	err := s.inProcess(t, crash{Key: key, Cfg: cfg, At: n})
	if err != nil && err != confined.ErrKilled {
		t.Fatalf("point %d: %v", n, err)
	}
	return err == confined.ErrKilled
}

func TestKilled(t *testing.T) {
	for _, c := range scenarios() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			out, files := c.undisturbed(t)
			for n := 1; ; n += raced.Or(37, 1) {
				s := c.site(t)
				if !s.kill(t, c.key, c.cfg, n) {
					if n < 3 {
						t.Errorf("the step has only %d points at which it can die", n-1)
					}
					return
				}
				c.attempt(t, s, "killed at point "+strconv.Itoa(n), out, files)
			}
		})
	}
}

// random can't be compressed.
func random(n int) string {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{2}).Read(b)
	return string(b)
}
