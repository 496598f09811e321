package steptest

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/note"
)

// A state is a snapshot of a world.
type state struct {
	files   map[string]string // description by name
	side    []string          // side files, names below Dir
	outside string            // what Case.State says
}

// sideMark is part of the name of every side file.
const sideMark = ".courier-tmp-"

// own replaces the directory of the attempt in names and outputs.
const own = "work/<attempt>/"

// look describes the world from the view of attempt number. It leaves out the directories of
// other attempts and the step's own notes.
func (w *World) look(number int) (state, error) {
	s := state{files: make(map[string]string)}
	err := filepath.WalkDir(w.Dir, func(p string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // an attempt that was cut off may still be at work
		}
		if err != nil {
			return err
		}
		name, err := filepath.Rel(w.Dir, p)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		if strings.Contains(d.Name(), sideMark) {
			s.side = append(s.side, name)
			if d.IsDir() {
				return filepath.SkipDir
			}
			return nil
		}
		if name == "work/"+note.Top {
			return filepath.SkipDir
		}
		if w.again > 0 {
			// What is held lies where the first attempt of the execution has put it.
			name = strings.Replace(name, "work/again-2/", "work/", 1)
		}
		notes := fmt.Sprintf("work/%d/", step)
		if rest, ok := strings.CutPrefix(name, fmt.Sprintf("%s%d/", notes, number)); ok {
			name = own + rest
		} else if strings.HasPrefix(name, notes) {
			return nil
		}
		if d.IsDir() && (name+"/" == "work/" || strings.HasPrefix(name, "work/")) {
			return nil // no outcome by itself, and removed with the workspace
		}
		text, err := w.describe(name, p, d)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		s.files[s.free(w.named(name))] = text
		return err
	})
	if err == nil && w.c.State != nil {
		s.outside = w.c.State(w)
	}
	return s, err
}

// named returns the name by which a file is compared.
func (w *World) named(name string) string {
	if w.c.Name == nil {
		return name
	}
	return w.c.Name(name)
}

// free returns name, or another name if a file with that comparison name already exists.
func (s state) free(name string) string {
	text := name
	for n := 2; ; n++ {
		if _, taken := s.files[text]; !taken {
			return text
		}
		text = fmt.Sprintf("%s (%d)", name, n)
	}
}

func (w *World) describe(name, path string, d fs.DirEntry) (string, error) {
	info, err := d.Info()
	if err != nil {
		return "", err
	}
	text := info.Mode().String()
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		to, err := os.Readlink(path)
		return text + " to " + to, err
	case !info.Mode().IsRegular():
		return text, nil
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	if w.c.Content != nil {
		content = []byte(w.c.Content(name, content))
	}
	const shown = 60
	if len(content) > shown {
		return fmt.Sprintf("%s, %d bytes %q..., hash %.4x", text, len(content), content[:20], sha256.Sum256(content)), nil
	}
	return fmt.Sprintf("%s, %d bytes %q", text, len(content), content), nil
}

// differences lists how s differs from want, except for side files. It is empty if there is no
// difference.
func (s state) differences(want state, except func(name string) bool) string {
	all := maps.Clone(s.files)
	maps.Copy(all, want.files)
	var list []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		got, is := s.files[name]
		wanted, should := want.files[name]
		switch {
		case is && should && got == wanted || except != nil && except(name):
		case !should:
			list = append(list, fmt.Sprintf("\t%s should not be there: %s", name, got))
		case !is:
			list = append(list, fmt.Sprintf("\t%s is missing: %s", name, wanted))
		default:
			list = append(list, fmt.Sprintf("\t%s is   %s\n\t%*s want %s", name, got, len(name), "", wanted))
		}
	}
	if s.outside != want.outside {
		list = append(list, fmt.Sprintf("\tCase.State says %q\n\twant            %q", s.outside, want.outside))
	}
	return shorten(list)
}

// half lists the final names whose content is neither the earlier content nor the complete
// result.
func (s state) half(before, after state, partial func(name string) bool) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(s.files)) {
		was, old := before.files[name]
		will, final := after.files[name]
		got := s.files[name]
		if !old && !final || got == was || got == will || partial != nil && partial(name) {
			continue
		}
		list = append(list, fmt.Sprintf("\t%s is %s\n\tand will be %s", name, got, will))
	}
	return shorten(list)
}

// strange lists the files outside the workspace that did not exist before and are not part of the
// result.
func (s state) strange(before, after state) string {
	var list []string
	for _, name := range slices.Concat(slices.Sorted(maps.Keys(s.files)), s.side) {
		_, old := before.files[name]
		_, final := after.files[name]
		if !old && !final && !strings.HasPrefix(name, "work/") {
			list = append(list, "\t"+name)
		}
	}
	return shorten(list)
}

// shorten turns a list into a message of limited length.
func shorten(list []string) string {
	const most = 8
	if len(list) > most {
		list = append(list[:most:most], fmt.Sprintf("\tand %d more", len(list)-most))
	}
	return strings.Join(list, "\n")
}

// outputs returns the JSON text of an attempt's outputs, without the parts that differ between
// worlds and between attempts.
func (w *World) outputs(raw json.RawMessage, number int) (string, error) {
	out := map[string]any{}
	if len(raw) > 0 {
		d := json.NewDecoder(bytes.NewReader(raw))
		d.UseNumber()
		if err := d.Decode(&out); err != nil {
			return "", err
		}
	}
	if w.c.Outputs != nil {
		w.c.Outputs(w, out)
	}
	text, err := json.MarshalIndent(w.neutral(out, number), "\t", " ")
	return string(text), err
}

// neutral replaces paths in a value.
func (w *World) neutral(v any, number int) any {
	switch v := v.(type) {
	case string:
		return w.neutralName(v, number)
	case []any:
		for i := range v {
			v[i] = w.neutral(v[i], number)
		}
	case map[string]any:
		for k := range v {
			v[k] = w.neutral(v[k], number)
		}
	}
	return v
}

func (w *World) neutralName(s string, number int) string {
	s = strings.ReplaceAll(strings.ReplaceAll(s, w.Work+string(filepath.Separator), ""), w.Dir, "")
	if w.again > 0 {
		s = strings.TrimPrefix(s, "again-2/")
	}
	dir := fmt.Sprintf("%d/%d", step, number)
	if rest, ok := strings.CutPrefix(s, dir); ok && (rest == "" || rest[0] == '/') {
		return "<attempt>" + rest
	}
	return s
}

// reports lists the reports of files, and the false ones among them. Reports of files on servers
// cannot be checked.
func (w *World) reports(files []courier.File, number int) (all, wrong string) {
	var list, lies []string
	for _, f := range files {
		if f.Connection != "" {
			continue
		}
		text := "wrote "
		if f.Removed {
			text = "removed "
		}
		list = append(list, "\t"+text+strconv.Quote(w.named(w.neutralName(f.Path, number))))
		info, err := os.Lstat(w.Path(f.Path))
		switch {
		case f.Removed && err == nil:
			lies = append(lies, fmt.Sprintf("\tremoved %q, but it is there", f.Path))
		case !f.Removed && err != nil:
			lies = append(lies, fmt.Sprintf("\twrote %q, but it is not there", f.Path))
		case !f.Removed && info.Size() != f.Size:
			lies = append(lies, fmt.Sprintf("\twrote %q with %d bytes, but it has %d", f.Path, f.Size, info.Size()))
		}
	}
	slices.Sort(list)
	return strings.Join(list, "\n"), shorten(lies)
}
