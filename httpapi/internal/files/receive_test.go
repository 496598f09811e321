package files

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/depot"
	"github.com/courierhq/courier/internal/safename"
)

const boundary = "b"

// The limits of the receivers below.
const (
	mostFiles  = 3
	mostBytes  = 1000
	mostFields = 2000
)

// receive gives a body to a receiver, in reads of a few bytes if that is wanted. What is
// left in the depot must be what the receiver tells.
func receive(t *testing.T, body []byte, slowly bool) (*Receiver, error) {
	t.Helper()
	d := new(couriertest.Depot)
	r := &Receiver{Depot: d, ID: "01a214e6-39ad-734f-b254-f0e81d9efed5", MaxFiles: mostFiles, MaxBytes: mostBytes, MaxFields: mostFields, Patience: time.Hour, MinRate: 1}
	var from io.Reader = bytes.NewReader(body)
	if slowly {
		from = iotest.OneByteReader(from)
	}
	req := httptest.NewRequest("POST", "/", from)
	req.Header.Set("Content-Type", "multipart/form-data; boundary="+boundary)
	req.ContentLength = -1 // in chunks
	err := r.Form(httptest.NewRecorder(), req)
	check(t, d, r, err)
	return r, err
}

// check requires what holds after every body.
func check(t *testing.T, d *couriertest.Depot, r *Receiver, err error) {
	t.Helper()
	if _, ok := errors.AsType[*Error](err); err != nil && !ok {
		t.Errorf("the error is %T: %v", err, err)
	}
	if err != nil {
		if err := r.Remove(context.Background()); err != nil {
			t.Error(err)
		}
		r.Files = nil
	}
	list, err := d.List(context.Background(), "")
	if err != nil || len(list) != len(r.Files) || len(list) > mostFiles {
		t.Errorf("the depot has %d files (%v), and %d were received", len(list), err, len(r.Files))
	}
	size, names := int64(0), make(map[string]bool)
	for _, f := range r.Files {
		_, name := depot.SplitKey(f.Key)
		if err := safename.Check(name); err != nil || names[safename.Fold(name)] {
			t.Errorf("the name %q was taken (%v)", name, err)
		}
		names[safename.Fold(name)] = true
		content, _ := d.Content(f.Key)
		if sum := sha256.Sum256([]byte(content)); f.SHA256 != hex.EncodeToString(sum[:]) || f.Size != int64(len(content)) {
			t.Errorf("%q has %d bytes, and not those that were told", name, len(content))
		}
		size += f.Size
	}
	if size > mostBytes {
		t.Errorf("%d bytes were taken", size)
	}
}

// form writes a form: names with a slash before the content are those of files.
func form(parts ...string) []byte {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	_ = w.SetBoundary(boundary)
	for _, p := range parts {
		name, content, _ := strings.Cut(p, "=")
		if file, isFile := strings.CutPrefix(name, "@"); isFile {
			f, _ := w.CreateFormFile("file", file)
			_, _ = io.WriteString(f, content)
		} else {
			_ = w.WriteField(name, content)
		}
	}
	_ = w.Close()
	return b.Bytes()
}

// told is what a receiver has of a body, in one line.
func told(r *Receiver) string {
	var b strings.Builder
	for _, f := range r.Files {
		_, name := depot.SplitKey(f.Key)
		fmt.Fprintf(&b, "@%s %d;", name, f.Size)
	}
	for _, f := range r.Fields {
		fmt.Fprintf(&b, "%s=%s;", f.Name, f.Text)
	}
	return b.String()
}

func TestForm(t *testing.T) {
	for _, c := range []struct {
		body []byte
		want string // of told, or of the error
	}{
		{form("@a.csv=1,2", "day=2026-11-23", "@b.csv="), "@a.csv 3;@b.csv 0;day=2026-11-23;"},
		{form(), ""},
		{form("day=" + strings.Repeat("x", 500)), "day=" + strings.Repeat("x", 500) + ";"},
		{form("@a=" + strings.Repeat("x", mostBytes)), "@a 1000;"},
		{form("@a="+strings.Repeat("x", mostBytes), "@b=1"), "more than 1000 bytes"},
		{form("@a=1", "@b=2", "@c=3", "@d=4"), "more than 3 files"},
		{form("@a=1", "@A=2"), "/files/1: an earlier file has the same name"},
		{form("@..=1"), "/files/0: the name of the file can't be used"},
		{form("@=1"), "/files/0: the name of the file can't be used"},
		{form("@="), ""}, // no file was chosen
		{form("=1"), "part 1 of the body has no name"},
		{form("a\xff=1"), "part 1 of the body has no name"},
		{form("many=" + strings.Repeat("x", 2*ahead)), "more than 2000 bytes"},
		{[]byte("--b\r\n\r\nno head\r\n--b--\r\n"), "part 1 of the body has no Content-Disposition"},
		{[]byte("no form"), "ended too early"},
	} {
		for _, slowly := range []bool{false, true} {
			r, err := receive(t, c.body, slowly)
			got := told(r)
			if e, ok := errors.AsType[*Error](err); ok {
				got = strings.TrimPrefix(e.Pointer+": "+e.Text, ": ")
			}
			if got != c.want && (err == nil || !strings.Contains(got, c.want)) {
				t.Errorf("%.80q, slowly %v:\n got  %s\n want %s", c.body, slowly, got, c.want)
			}
		}
	}
}

// A body that ends before its form does is never taken for a whole one.
func TestFormCut(t *testing.T) {
	whole := form("@a.csv=1,2\r\n--", "day=2026-11-23", "@b.csv=x--b--")
	end := bytes.LastIndex(whole, []byte("--b--")) + len("--b--")
	for n := range end {
		if r, err := receive(t, whole[:n], n%2 == 0); err == nil {
			t.Errorf("%d of %d bytes were taken as %s", n, len(whole), told(r))
		}
	}
	if _, err := receive(t, whole[:end], false); err != nil {
		t.Error(err)
	}
}

// FuzzForm gives any bytes as a body. It is refused by an [Error], or what was received is
// what package mime/multipart reads.
func FuzzForm(f *testing.F) {
	f.Add(form("@a.csv=1,2", "day=2026-11-23", "@b.csv="))
	f.Add(form("@../a=1", "@a\u202e=1"))
	f.Add([]byte("--b\r\nContent-Disposition: form-data; name=\"f\"; filename*=UTF-8''%2e%2e\r\n\r\nx\r\n--b--\r\n"))
	f.Add([]byte("--b\nContent-Disposition: form-data; name=a\n\nx\n--b--"))
	f.Add([]byte("--b\r\nContent-Disposition: form-data; name=a\r\n"))
	f.Fuzz(func(t *testing.T, body []byte) {
		if len(body) > 8<<10 {
			return
		}
		r, err := receive(t, body, len(body)%2 == 0)
		if err != nil {
			return
		}
		parts := multipart.NewReader(bytes.NewReader(append(bytes.Clone(body), "\r\n"...)), boundary)
		var fields, files int
		for {
			p, err := parts.NextPart()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatalf("it was taken, and package multipart says %v", err)
			}
			content, err := io.ReadAll(p)
			switch {
			case err != nil:
				t.Fatal(err)
			case fields < len(r.Fields) && p.FormName() == r.Fields[fields].Name && string(content) == r.Fields[fields].Text:
				fields++
			case files < len(r.Files) && r.Files[files].Size == int64(len(content)):
				files++
			case len(content) > 0:
				t.Errorf("a part of %d bytes was left out", len(content))
			}
		}
		if fields != len(r.Fields) || files != len(r.Files) {
			t.Errorf("%d of %d fields and %d of %d files are in the body", fields, len(r.Fields), files, len(r.Files))
		}
	})
}

// A body that begins fast is judged by how it goes on: by each 30 seconds, not by an average.
func TestDrip(t *testing.T) {
	began := time.Now()
	for rate, most := range map[int64]time.Duration{1200: 60 * time.Second, 10_000: 0} {
		b := &body{patience: 30 * time.Second, least: 8 << 10, began: began, window: began}
		b.came = 8 << 20
		var ended time.Duration
		for at := time.Second; at < 10*time.Minute && ended == 0; at += time.Second {
			b.came += rate
			if b.slow(began.Add(at)) != nil {
				ended = at
			}
		}
		if ended > most || ended == 0 && most > 0 {
			t.Errorf("%d bytes a second end after %v; want %v", rate, ended, most)
		}
	}
}
