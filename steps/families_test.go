package steps_test

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/courierhq/courier"
)

// A transferring is a step that puts a file at a target.
type transferring struct {
	key            string
	cfg            object
	source, target string // below the directory of the world
	named          string // the target in errors
	takes          bool   // the source goes
}

var transferrings = []transferring{
	{"file.copy", object{"source_path": "$B/f", "destination_path": "$B/g"}, "B/f", "B/g", "/B/g", false},
	{"file.move", object{"source_path": "$B/f", "destination_path": "$B/g"}, "B/f", "B/g", "/B/g", true},
	{"sftp.upload", object{"connection_id": "sftp", "local_path": "$B/f", "remote_path": "g"}, "B/f", "sftp/g", `"g"`, false},
	{"sftp.download", object{"connection_id": "sftp", "remote_path": "f", "local_path": "$B/g"}, "sftp/f", "B/g", "/B/g", false},
	{"sftp.rename", object{"connection_id": "sftp", "source_path": "f", "destination_path": "g"}, "sftp/f", "sftp/g", `"g"`, true},
	{"ftp.upload", object{"connection_id": "ftp", "local_path": "$B/f", "remote_path": "g"}, "B/f", "ftp/g", `"g"`, false},
	{"ftp.download", object{"connection_id": "ftp", "remote_path": "f", "local_path": "$B/g"}, "ftp/f", "B/g", "/B/g", false},
	{"ftp.rename", object{"connection_id": "ftp", "source_path": "f", "destination_path": "g"}, "ftp/f", "ftp/g", `"g"`, true},
}

// with is cfg with one key more, unless value is nil.
func with(cfg object, key string, value any) object {
	cfg = maps.Clone(cfg)
	if value != nil {
		cfg[key] = value
	}
	return cfg
}

// anew forgets all attempts: the next one is of another execution.
func (s *site) anew() {
	s.Helper()
	if err := errors.Join(os.RemoveAll(s.path("W")), os.Mkdir(s.path("W"), 0o755)); err != nil {
		s.Fatal(err)
	}
	s.number = 0
}

// TestIfExists: all steps that put a file at a target do the same about one that is
// there: overwrite, skip or fail.
func TestIfExists(t *testing.T) {
	for _, c := range transferrings {
		t.Run(c.key, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, nil)
			for _, value := range []any{nil, "overwrite", "skip", "fail"} {
				for _, there := range []bool{false, true} {
					s.anew()
					s.write(c.source, "new")
					os.Remove(s.path(c.target))
					if there {
						s.write(c.target, "others'")
					}
					out, err := s.next(c.key, with(c.cfg, "if_exists", value))
					keeps := there && (value == "skip" || value == "fail")
					if want := map[bool]string{true: "others'", false: "new"}[keeps]; s.read(c.target) != want {
						t.Errorf("%v, there %v: the target is %q, want %q", value, there, s.read(c.target), want)
					}
					if got := s.read(c.source) == "new"; got != (keeps || !c.takes) {
						t.Errorf("%v, there %v: the source is there: %v", value, there, got)
					}
					if there && value == "fail" {
						c.wantExists(t, err)
						continue
					}
					if err != nil {
						t.Fatalf("%v, there %v: %v", value, there, err)
					}
					if out["skipped"] != keeps || (out["reason"] == "file_exists") != keeps {
						t.Errorf("%v, there %v: %v", value, there, out)
					}
					if files, ok := out["skipped_files"].([]any); strings.HasSuffix(c.key, ".rename") == ok || ok && (len(files) == 1) != keeps {
						t.Errorf("%v, there %v: %v", value, there, out)
					}
				}
			}
		})
	}
}

// wantExists checks an error of if_exists "fail".
func (c transferring) wantExists(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, fs.ErrExist) || !courier.IsPermanent(err) {
		t.Errorf("%v is no permanent error about a file that exists", err)
		return
	}
	for _, word := range []string{c.named, `if_exists is "fail"`, "remove it", `set if_exists to "overwrite"`} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("the error %q lacks %q", err, word)
		}
	}
}

// TestOwnIsNoneThatExists: a target that an earlier attempt of the step has written
// is none that exists, also if that attempt has not lived to say so. One that others
// have put there since is.
func TestOwnIsNoneThatExists(t *testing.T) {
	for _, c := range transferrings {
		for _, value := range []string{"skip", "fail"} {
			t.Run(c.key+" "+value, func(t *testing.T) {
				t.Parallel()
				s := newSite(t, nil)
				s.write(c.source, "new")
				cfg := with(c.cfg, "if_exists", value)
				for range 3 {
					out := s.must(c.key, cfg)
					if out["skipped"] != false || s.read(c.target) != "new" {
						t.Errorf("attempt %d: %v, target %q", s.number, out, s.read(c.target))
					}
				}
				if c.takes {
					return // that it was done is noted down, and what has come since is not looked at
				}
				s.write(c.target, "others', which is longer")
				out, err := s.next(c.key, cfg)
				if value == "fail" {
					c.wantExists(t, err)
				} else if err != nil || out["skipped"] != true {
					t.Errorf("what others have put there is not skipped: %v, %v", out, err)
				}
				if s.read(c.target) != "others', which is longer" {
					t.Errorf("what others have put there is %q by now", s.read(c.target))
				}
			})
		}
	}
}

// TestOwnChanged: a download that finds another source than the attempt before
// replaces what that attempt has written.
func TestOwnChanged(t *testing.T) {
	for _, c := range transferrings {
		if !strings.HasSuffix(c.key, ".download") {
			continue
		}
		for _, value := range []string{"skip", "fail"} {
			for _, resume := range []any{nil, true, false} {
				s := newSite(t, nil)
				cfg := with(with(c.cfg, "if_exists", value), "resume", resume)
				for _, content := range []string{"first", "the second", "3"} {
					s.write(c.source, content)
					if out := s.must(c.key, cfg); out["skipped"] != false || s.read(c.target) != content {
						t.Errorf("%s, %s, resume %v: %v, target %q, want %q", c.key, value, resume, out, s.read(c.target), content)
					}
				}
			}
		}
	}
}

// TestComesMeanwhile: a file of others that comes to the target while the step is
// writing is one that exists.
func TestComesMeanwhile(t *testing.T) {
	for _, c := range transferrings {
		if c.takes {
			continue
		}
		for _, value := range []string{"overwrite", "skip", "fail"} {
			t.Run(c.key+" "+value, func(t *testing.T) {
				t.Parallel()
				s := newSite(t, nil)
				s.write(c.source, noise(largeSize))
				var once sync.Once
				s.progress = func(p courier.Progress) {
					if p.Done > 0 {
						once.Do(func() { s.write(c.target, "others'") })
					}
				}
				out, err := s.next(c.key, with(c.cfg, "if_exists", value))
				want := "others'"
				switch {
				case value == "overwrite":
					want = noise(largeSize)
					if err != nil || out["skipped"] != false {
						t.Errorf("%v, %v", out, err)
					}
				case value == "skip":
					if err != nil || out["skipped"] != true {
						t.Errorf("%v, %v", out, err)
					}
				default:
					c.wantExists(t, err)
				}
				if got := s.read(c.target); got != want {
					t.Errorf("the target has %d bytes, %.20q", len(got), got)
				}
				for _, dir := range []string{"B", "sftp", "ftp"} {
					for _, name := range s.files(dir) {
						if err == nil && strings.Contains(name, ".courier-tmp") {
							t.Errorf("%s is left in %s", name, dir)
						}
					}
				}
			})
		}
	}
}

// TestSkipKeepsSource: what was skipped is not what was downloaded, so after_transfer
// leaves its remote file, in the next attempt too.
func TestSkipKeepsSource(t *testing.T) {
	for _, server := range []string{"sftp", "ftp"} {
		s := newSite(t, map[string]string{server + "/in/a": "a", server + "/in/b": "b", "B/a": "others'"})
		cfg := object{"connection_id": server, "remote_path": "in", "pattern": "*", "local_path": "$B/", "if_exists": "skip", "after_transfer": "delete"}
		for range 2 {
			out := s.must(server+".download", cfg)
			if out["file_count"] != 1. || out["size"] != 1. || out["skipped"] != false || fmt.Sprint(out["skipped_files"]) != "["+s.path("B/a")+"]" ||
				fmt.Sprint(out["downloaded_files"]) != "["+s.path("B/a")+" "+s.path("B/b")+"]" {
				t.Errorf("%s: %v", server, out)
			}
			if got := s.files(server); !slices.Equal(got, []string{"in/a"}) || s.read("B/a") != "others'" || s.read("B/b") != "b" {
				t.Errorf("%s: the server has %q; here are %q and %q", server, got, s.read("B/a"), s.read("B/b"))
			}
		}
	}
}

// TestMissing: a missing path is no error of delete, rmdir and stat, and one of all
// other steps, unless ignore_missing says otherwise.
func TestMissing(t *testing.T) {
	for _, c := range []struct {
		key     string
		cfg     object
		pattern bool // the error can't be that there is no such file
	}{
		{"file.copy", object{"source_path": "$B/none", "destination_path": "$B/g"}, false},
		{"file.copy", object{"source_path": "$B/none*", "destination_path": "$B/"}, true},
		{"file.move", object{"source_path": "$B/none", "destination_path": "$B/g"}, false},
		{"file.move", object{"source_path": "$B/none*", "destination_path": "$B/"}, true},
		{"file.delete", object{"path": "$B/none"}, false},
		{"file.delete", object{"path": "$B/none*"}, true},
		{"file.delete", object{"path": "$B/none/*"}, true},
		{".upload", object{"local_path": "$B/none", "remote_path": "g"}, false},
		{".upload", object{"local_path": "$B/none*", "remote_path": "./"}, true},
		{".download", object{"remote_path": "none", "local_path": "$B/g"}, false},
		{".download", object{"remote_path": "none", "pattern": "*", "local_path": "$B/"}, false},
		{".download", object{"remote_path": ".", "pattern": "none*", "local_path": "$B/"}, true},
		{".rename", object{"source_path": "none", "destination_path": "g"}, false},
		{".delete", object{"remote_path": "none"}, false},
		{".delete", object{"remote_path": "none", "pattern": "*"}, false},
		{".delete", object{"remote_path": ".", "pattern": "none*"}, true},
		{".rmdir", object{"remote_path": "none"}, false},
		{".rmdir", object{"remote_path": "none", "recursive": true}, false},
		{".stat", object{"remote_path": "none"}, false},
	} {
		families := []string{"sftp", "ftp"}
		if !strings.HasPrefix(c.key, ".") {
			families = []string{""}
		}
		for _, family := range families {
			t.Run(family+c.key, func(t *testing.T) {
				s := newSite(t, nil)
				if family != "" {
					c.cfg = with(c.cfg, "connection_id", family)
				}
				verb := c.key[strings.LastIndex(c.key, "."):]
				usual := slices.Contains([]string{".delete", ".rmdir", ".stat"}, verb)
				for value, ignores := range map[any]bool{nil: usual, true: true, false: false} {
					s.anew()
					out, err := s.next(family+c.key, with(c.cfg, "ignore_missing", value))
					if (err == nil) != ignores || !ignores && !c.pattern && !errors.Is(err, fs.ErrNotExist) {
						t.Errorf("ignore_missing %v: %v, %v", value, out, err)
					}
					if !ignores {
						// That it fails is no news to the next attempt.
						if out, err := s.next(family+c.key, with(c.cfg, "ignore_missing", value)); err == nil {
							t.Errorf("ignore_missing %v: the next attempt succeeds with %v", value, out)
						}
						continue
					}
					if says := map[string]string{".delete": "existed", ".rmdir": "existed", ".stat": "exists"}[verb]; says != "" && out[says] != false {
						t.Errorf("ignore_missing %v: %s is not false in %v", value, says, out)
					}
					if out["skipped"] == true {
						t.Errorf("ignore_missing %v: nothing is there to skip: %v", value, out)
					}
				}
			})
		}
	}
}

// TestAlike: the steps of the families sftp and ftp have the same keys in their
// configurations and outputs, but for what only one of the protocols has.
func TestAlike(t *testing.T) {
	only := []string{
		"ftp.download: parallel_files of its configuration", "ftp.upload: parallel_files of its configuration", // SFTP sends many files over one session
		"sftp.stat: mode of its output", // FTP has none
	}
	keys := stepKeys(registry())
	other := map[string]string{"sftp": "ftp", "ftp": "sftp"}
	found := 0
	for _, k := range keys {
		family, verb, _ := strings.Cut(k.step, ".")
		if other[family] == "" {
			continue
		}
		found++
		same := slices.ContainsFunc(keys, func(o stepKey) bool { return o.step == other[family]+"."+verb && o.in == k.in && o.Name == k.Name })
		if same == slices.Contains(only, k.String()) {
			t.Errorf("%s: in %s.%s too: %v", k, other[family], verb, same)
		}
	}
	if found < 150 {
		t.Errorf("only %d keys", found)
	}
}

// TestSkippedIsGone: what was skipped and is gone by the next attempt is downloaded.
func TestSkippedIsGone(t *testing.T) {
	for _, server := range []string{"sftp", "ftp"} {
		s := newSite(t, map[string]string{server + "/f": "new", "B/g": "others'"})
		cfg := object{"connection_id": server, "remote_path": "f", "local_path": "$B/g", "if_exists": "skip", "resume": true}
		if out := s.must(server+".download", cfg); out["skipped"] != true {
			t.Errorf("%s: %v", server, out)
		}
		if err := os.Remove(s.path("B/g")); err != nil {
			t.Fatal(err)
		}
		if out := s.must(server+".download", cfg); out["skipped"] != false || s.read("B/g") != "new" {
			t.Errorf("%s: %v, the file is %q", server, out, s.read("B/g"))
		}
	}
}
