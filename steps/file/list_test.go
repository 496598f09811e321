package file_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/steps/file"
)

func TestList(t *testing.T) {
	s := newSite(t)
	s.write(t, map[string]string{"A/b.csv": "12", "A/a.txt": "1", "A/d/c.csv": "123", "A/d/e/f.CSV": "", "A/x.csv.courier-tmp-1": "part", "A/.hidden": "h", "W/1/w": "w"})
	os.Symlink("b.csv", s.path("A/link"))
	os.Symlink("d", s.path("A/dlink"))
	now := time.Now()
	os.Chtimes(s.path("A/a.txt"), now, now)
	for _, c := range []struct {
		cfg  m
		want string
	}{
		{m{"path": "A"}, "/a/.hidden /a/a.txt /a/b.csv"},
		{m{"path": "A/"}, "/a/.hidden /a/a.txt /a/b.csv"},
		{m{"path": "A", "pattern": "*.csv"}, "/a/b.csv"},
		{m{"path": "A", "pattern": "*.csv", "recursive": true}, "/a/b.csv /a/d/c.csv"},
		{m{"path": "A", "pattern": "d/**", "recursive": true}, "/a/d/c.csv /a/d/e/f.CSV"},
		{m{"path": "A", "recursive": true, "include_directories": true, "exclude": "*.csv"}, "/a/.hidden /a/a.txt /a/d /a/d/e /a/d/e/f.CSV"},
		{m{"path": "A", "recursive": true, "exclude": "d/**"}, "/a/.hidden /a/a.txt /a/b.csv"},
		{m{"path": "A", "min_age_seconds": 60}, "/a/.hidden /a/b.csv"},
		{m{"path": "A/*.{csv,txt}"}, "/a/a.txt /a/b.csv"},
		{m{"path": "A/**/*.csv"}, "/a/b.csv /a/d/c.csv"},
		{m{"path": "A/b.csv"}, "/a/b.csv"},
		{m{"path": "A/link"}, "/a/link"},
		{m{"path": "A/dlink"}, "/a/dlink/c.csv"},
		{m{"path": "A/none*"}, ""},
		{m{"path": "1"}, "1/w"},
		{m{"path": ".", "recursive": true}, "1/w"},
		{m{"path": "A", "pattern": "*.courier-tmp*"}, "/a/x.csv.courier-tmp-1"},
		{m{"path": "B"}, ""},
	} {
		out := s.run(t, "file.list", c.cfg)
		var paths []string
		for _, e := range out["file_list"].([]any) {
			paths = append(paths, e.(m)["path"].(string))
		}
		if got := strings.Join(paths, " "); got != c.want {
			t.Errorf("%v lists %s, want %s", c.cfg, got, c.want)
		}
		equal(t, out, "file_count", len(paths))
	}
	out := s.run(t, "file.list", m{"path": "A", "pattern": "[bd]*", "include_directories": true})
	got, _ := json.Marshal(out["file_list"])
	b, d := `{"is_directory":false,"modified":"2024-05-06T07:08:09.123456Z","name":"b.csv","path":"/a/b.csv","size":2}`, `"name":"d","path":"/a/d","size":0}`
	if !strings.HasPrefix(string(got), "["+b+`,{"is_directory":true,`) || !strings.HasSuffix(string(got), d+"]") {
		t.Errorf("file_list is %s", got)
	}
}

func TestListRefuses(t *testing.T) {
	s := newSite(t)
	s.write(t, map[string]string{"A/1": "", "A/2": "", "A/3": "", "B/\xff": ""})
	s.refuse(t, "file.list", m{"path": "A/none"}, "no such file")
	s.refuse(t, "file.list", m{"path": "/etc"}, "!engine.Options.Roots")
	s.refuse(t, "file.list", m{"path": "A/x*", "fail_if_empty": true}, "fail_if_empty is set")
	s.refuse(t, "file.list", m{"path": "A", "pattern": "["}, "!malformed")
	s.refuse(t, "file.list", m{"path": "A", "exclude": "{"}, "!malformed")
	s.refuse(t, "file.list", m{"path": "A", "pattern": "a/b"}, "!needs recursive")
	s.refuse(t, "file.list", m{"path": "A", "min_age_seconds": -1}, "!min_age_seconds")
	s.refuseWith(t, registry(file.Limits{MaxMatches: 2}), "file.list", m{"path": "A"}, "!more than 2 files")
	paths := 3 * len(s.path("A/1"))
	s.refuseWith(t, registry(file.Limits{MaxPathBytes: paths - 1}), "file.list", m{"path": "A"}, "!bytes; narrow it, or raise MaxPathBytes")
	if _, err := s.execute(t.Context(), registry(file.Limits{MaxPathBytes: paths}), "file.list", m{"path": "A"}); err != nil {
		t.Error(err)
	}
	for key, cfg := range map[string]m{
		"file.list":   {"path": "B"},
		"file.delete": {"path": "B/*"},
		"file.copy":   {"source_path": "B/*", "destination_path": "x/"},
		"file.zip":    {"source_path": "B"},
	} {
		s.refuse(t, key, cfg, `!\xff`, "not valid UTF-8")
	}
}

// A directory that is being worked in never makes a listing fail.
func TestListWhileChanging(t *testing.T) {
	s := newSite(t)
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			name := fmt.Sprintf("A/d%d/f%d", i%5, i%7)
			os.MkdirAll(filepath.Dir(s.path(name)), 0o755)
			os.WriteFile(s.path(name), nil, 0o644)
			os.RemoveAll(s.path(fmt.Sprintf("A/d%d", (i+2)%5)))
		}
	}()
	defer func() { close(stop); <-done }()
	for range 200 {
		job := courier.NewContext(courier.ContextConfig{Workspace: s.Work, Roots: []string{s.A}})
		if _, err := (file.List{}).Execute(t.Context(), job, file.ListConfig{Path: courier.Pattern(s.A), Recursive: true, IncludeDirectories: true}); err != nil {
			t.Fatal(err)
		}
		job.Close()
	}
}
