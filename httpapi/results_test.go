package httpapi_test

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/depot"
	"github.com/courierhq/courier/httpapi"
)

// withResults returns a world with an execution that has ended and has kept two results.
func withResults(t *testing.T, d depot.Depot, opt *httpapi.Options, fields ...part) (*world, string) {
	t.Helper()
	w := withFiles(t, d, opt)
	id := w.uploaded(append(fields, part{"a", "a.csv", "0123456789"}, part{"b", "b.csv", "bb"}))
	w.run(id)
	return w, id
}

// The answers to who asks for results, by the state of the execution.
func TestResultsByState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := new(couriertest.Depot)
		w := withFiles(t, d, nil)
		file := part{"a", "a.csv", "0123456789"}
		queued := w.uploaded([]part{file})
		pending := func(id, status string) {
			t.Helper()
			for _, path := range []string{"/results", "/results/a.csv", "/results?list=1", "/results?partial=1"} {
				var got httpapi.Accepted
				a := w.get("v1/executions/"+id+path).want(http.StatusAccepted, &got)
				if string(got.ID) != id || got.Status != status || a.Header().Get("Retry-After") == "" {
					t.Errorf("%s %v", a.Body, a.Header())
				}
			}
		}
		pending(queued, "queued")
		paused := w.uploaded([]part{file})
		w.as("admin").post("v1/executions/"+paused+"/pause", "").want(http.StatusAccepted, nil)
		pending(paused, "paused")
		if err := w.engine.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer w.engine.Stop(t.Context())
		w.ended(queued)
		w.get("v1/executions/"+queued+"/results").want(http.StatusOK, nil)
		w.get("v1/executions/"+queued+"/results/none.csv").problem(http.StatusNotFound, "not_found")
		for _, odd := range []string{"..%2Fa.csv", "%00", "a.csv%2F", "a.csv%2Fb", "%FF", strings.Repeat("x", 3000), "a%5Cb"} {
			w.get("v1/executions/"+queued+"/results/"+odd).problem(http.StatusNotFound, "not_found")
		}

		running := w.uploaded([]part{file, {"params", "", `{"seconds": 60}`}})
		time.Sleep(2 * time.Second)
		pending(running, "running")

		failed := w.uploaded([]part{file, {"fail", "", "no"}})
		w.ended(failed)
		for _, path := range []string{"/results", "/results/a.csv", "/results?list=1"} {
			a := w.get("v1/executions/" + failed + path)
			a.problem(http.StatusConflict, "not_completed", "failed", "partial")
			if !strings.Contains(a.Body.String(), `"reason":"error"`) {
				t.Errorf("%s", a.Body)
			}
		}
		if got := w.get("v1/executions/"+failed+"/results?partial=1").want(http.StatusOK, nil).unzip(); !slices.Equal(got, []string{"a.csv: 0123456789"}) {
			t.Errorf("%q", got)
		}
		w.get("v1/executions/"+failed+"/results/a.csv?partial=1").want(http.StatusOK, nil)

		cancelled := w.uploaded([]part{file, {"params", "", `{"seconds": 60}`}})
		time.Sleep(2 * time.Second)
		w.as("admin").post("v1/executions/"+cancelled+"/cancel", "").want(http.StatusAccepted, nil)
		w.ended(cancelled)
		w.get("v1/executions/"+cancelled+"/results").problem(http.StatusConflict, "not_completed", "cancelled")
		w.get("v1/executions/"+cancelled+"/results?partial=1").want(http.StatusOK, nil)
		if err := d.Remove(t.Context(), depot.ResultKey(courier.ExecutionID(cancelled), "")); err != nil {
			t.Fatal(err)
		}
		w.get("v1/executions/"+cancelled+"/results?partial=1").problem(http.StatusNotFound, "not_found")

		// After retention the record stays, and says when the files were removed.
		if x := w.see(queued); x["files_removed_at"] != nil {
			t.Errorf("%v", x)
		}
		if err := w.engine.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(49 * time.Hour)
		if err := depot.CleanOnce(t.Context(), d, w.engine.Executions(), nil); err != nil {
			t.Fatal(err)
		}
		at := time.Now().UTC().Format(time.RFC3339)
		for _, path := range []string{"/results", "/results/a.csv", "/results?list=1", "/results?partial=1", "/results/none.csv"} {
			w.get("v1/executions/"+queued+path).problem(http.StatusGone, "gone", at)
		}
		for _, user := range []string{"ann", "admin"} {
			if x := w.as(user).see(queued); x["files_removed_at"] == nil || x["status"] != "completed" {
				t.Errorf("%v", x)
			}
		}
		w.get("v1/executions/"+failed+"/results").problem(http.StatusConflict, "not_completed") // kept for 30 days
		time.Sleep(30 * 24 * time.Hour)
		if err := depot.CleanOnce(t.Context(), d, w.engine.Executions(), nil); err != nil {
			t.Fatal(err)
		}
		w.get("v1/executions/"+failed+"/results?partial=1").problem(http.StatusGone, "gone")
	})
}

// One result can be asked for in part, and on conditions.
func TestResultRanges(t *testing.T) {
	w, id := withResults(t, new(couriertest.Depot), nil)
	path := "v1/executions/" + id + "/results/a.csv"
	whole := w.get(path).want(http.StatusOK, nil)
	tag := whole.Header().Get("ETag")
	if whole.Header().Get("Content-Type") != "application/octet-stream" || whole.Header().Get("X-Content-Type-Options") != "nosniff" || whole.Header().Get("Content-Length") != "10" || len(tag) != 66 {
		t.Errorf("%v", whole.Header())
	}
	for header, want := range map[string]string{"bytes=4-": "456789", "bytes=2-3": "23", "bytes=-1": "9", "bytes=8-99": "89"} {
		a := w.get(path, "Range", header).want(http.StatusPartialContent, nil)
		if a.Body.String() != want || !strings.HasSuffix(a.Header().Get("Content-Range"), "/10") {
			t.Errorf("%s: %s %v", header, a.Body, a.Header())
		}
	}
	for _, header := range []string{"bytes=0-1,4-5", "pages=1"} {
		a := w.get(path, "Range", header)
		if a.Code == http.StatusOK && a.Body.String() != "0123456789" || a.Code != http.StatusOK && a.Code != http.StatusRequestedRangeNotSatisfiable {
			t.Errorf("%s: %d %s", header, a.Code, a.Body)
		}
	}
	for _, header := range []string{"bytes=10-", "bytes=5-4", "bytes=x"} {
		a := w.get(path, "Range", header)
		a.problem(http.StatusRequestedRangeNotSatisfiable, "range_not_satisfiable", "Content-Range")
		if a.Header().Get("Content-Disposition") != "" {
			t.Errorf("%v", a.Header())
		}
	}
	w.get(path, "If-None-Match", tag).want(http.StatusNotModified, nil)
	w.get(path, "If-Match", `"x"`).problem(http.StatusPreconditionFailed, "precondition_failed")
	if a := w.get(path, "Range", "bytes=4-", "If-Range", `"x"`); a.Code != http.StatusOK || a.Body.Len() != 10 {
		t.Errorf("%d %s", a.Code, a.Body) // the file is another one than the beginning was of
	}
	w.get(path, "Range", "bytes=4-", "If-Range", tag).want(http.StatusPartialContent, nil)
	for _, head := range []string{path, "v1/executions/" + id + "/results"} {
		if a := w.send("HEAD", head, "").want(http.StatusOK, nil); a.Body.Len() > 0 || a.Header().Get("Content-Disposition") == "" {
			t.Errorf("%s %v", a.Body, a.Header())
		}
	}
}

// A listed depot counts what is listed.
type listed struct {
	*couriertest.Depot
	files atomic.Int64
}

func (l *listed) List(ctx context.Context, prefix string) ([]depot.Info, error) {
	list, err := l.Depot.List(ctx, prefix)
	l.files.Add(int64(len(list)))
	return list, err
}

// One result is found by its key, however many others there are.
func TestResultByKey(t *testing.T) {
	d := &listed{Depot: new(couriertest.Depot)}
	w, id := withResults(t, d, nil)
	path := "v1/executions/" + id + "/results/a.csv"
	tag := w.get(path).want(http.StatusOK, nil).Header().Get("ETag")
	d.files.Store(0)
	w.get(path).want(http.StatusOK, nil)
	w.get(path, "If-None-Match", tag).want(http.StatusNotModified, nil)
	w.get(path, "Range", "bytes=1-").want(http.StatusPartialContent, nil)
	w.send("HEAD", path, "").want(http.StatusOK, nil)
	w.get(path+"/none").problem(http.StatusNotFound, "not_found")
	if n := d.files.Load(); n > 0 {
		t.Errorf("%d files were listed to find one", n)
	}
}

// Results are listed in pages.
func TestResultList(t *testing.T) {
	d := new(couriertest.Depot)
	w, id := withResults(t, d, nil)
	for i := range 10 {
		if err := d.Put(depot.ResultKey(courier.ExecutionID(id), fmt.Sprintf("dir/%02d.csv", i)), "x"); err != nil {
			t.Fatal(err)
		}
	}
	var names []string
	for cursor, more := "", true; more; more = cursor != "" {
		var page struct {
			Items []httpapi.ResultFile
			Next  string
		}
		w.get("v1/executions/"+id+"/results?limit=5&cursor="+cursor, "Accept", "application/json").want(http.StatusOK, &page)
		for _, f := range page.Items {
			names = append(names, f.Name)
		}
		cursor = page.Next
	}
	if len(names) != 12 || !slices.IsSorted(names) || names[2] != "dir/00.csv" {
		t.Errorf("%q", names)
	}
	if got := w.get("v1/executions/"+id+"/results/dir/03.csv").want(http.StatusOK, nil); !strings.Contains(got.Header().Get("Content-Disposition"), "filename=03.csv") {
		t.Errorf("%v", got.Header())
	}
}

// A client sees the results of its own executions, and others need the role for values. Each
// download is in the journal, and looking is not.
func TestResultsAccess(t *testing.T) {
	w, id := withResults(t, new(couriertest.Depot), nil)
	paths := []string{"/results", "/results/a.csv", "/results?list=1"}
	for _, path := range paths {
		for user, status := range map[string]int{"ann": 200, "ben": 404, "nobody": 404, "vera": 200, "admin": 200} {
			w.as(user).get("v1/executions/"+id+path).want(status, nil)
		}
	}
	w.send("HEAD", "v1/executions/"+id+"/results/a.csv", "").want(http.StatusOK, nil)
	w.get("v1/executions/"+id+"/results/a.csv", "If-None-Match", w.get("v1/executions/"+id+"/results/a.csv").Header().Get("ETag")).want(http.StatusNotModified, nil)
	for range 200 { // a download in parts is one
		w.get("v1/executions/"+id+"/results/a.csv", "Range", "bytes=0-0").want(http.StatusPartialContent, nil)
	}
	list, err := w.engine.Journal(t.Context(), filterBy("ann"))
	if err != nil || len(list) != 4 {
		t.Fatalf("%+v, %v", list, err)
	}
	var got []string
	for _, a := range slices.Backward(list) {
		if a.Verb != "download" || a.Kind != "execution" || a.Name != "report" || string(a.Execution) != id || a.Via != "api" {
			t.Errorf("%+v", a)
		}
		got = append(got, a.Outcome+" "+string(a.Now))
	}
	all, one := `{"files":2,"bytes":12}`, `{"name":"a.csv","files":1,"bytes":10}`
	if want := []string{"asked " + all, "done " + all, "asked " + one, "done " + one}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}

	a := valuesFor(access.Operator)
	w.api = httpapi.New(w.engine, &httpapi.Options{Access: a, Depot: new(couriertest.Depot)})
	for _, path := range paths {
		w.as("vera").get("v1/executions/"+id+path).problem(http.StatusForbidden, "forbidden", "values")
	}
}

// If the journal can't be written, nothing is sent.
func TestDownloadNeedsJournal(t *testing.T) {
	d := new(couriertest.Depot)
	w, id := withResults(t, d, nil)
	w.api = httpapi.New(w.over(noJournal{w.store}), &httpapi.Options{Access: policy(), Depot: d})
	for _, path := range []string{"/results", "/results/a.csv"} {
		w.get("v1/executions/"+id+path).problem(http.StatusServiceUnavailable, "journal")
	}
}

// A failingDepot fails when the content of a key is read, or removes it when another one is
// opened.
type failingDepot struct {
	*couriertest.Depot
	bad     string // the end of a key whose content ends too early
	removes func() // is called when the first file is opened
}

func (f *failingDepot) Open(ctx context.Context, key string) (depot.Object, error) {
	o, err := f.Depot.Open(ctx, key)
	if f.removes != nil {
		f.removes()
		f.removes = nil
	}
	if err == nil && f.bad != "" && strings.HasSuffix(key, f.bad) {
		return &cutObject{Object: o, left: o.Info().Size / 2}, nil
	}
	return o, err
}

// A cutObject fails in the middle.
type cutObject struct {
	depot.Object
	left int64
}

func (o *cutObject) Read(p []byte) (int, error) {
	if o.left == 0 {
		return 0, errors.New("the disk is broken")
	}
	n, err := o.Object.Read(p[:min(int64(len(p)), o.left)])
	o.left -= int64(n)
	return n, err
}

// A file that can't be read to its end, or is removed meanwhile, cuts off the answer, so
// that no client takes a part for the whole.
func TestResultsCut(t *testing.T) {
	large := strings.Repeat("0123456789abcdef", 1<<16)
	download := func(w *world, path string) (status int, err error) {
		server := httptest.NewServer(w.api)
		defer server.Close()
		r, err := http.NewRequestWithContext(t.Context(), "GET", server.URL+"/"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-User", "ann")
		resp, err := server.Client().Do(r)
		if err != nil {
			return 0, err
		}
		defer resp.Body.Close()
		_, err = io.Copy(io.Discard, resp.Body)
		return resp.StatusCode, err
	}
	for _, bad := range []string{"out/a.csv", "out/c.csv"} {
		for _, path := range []string{"/results", "/results/" + strings.TrimPrefix(bad, "out/")} {
			d := &failingDepot{Depot: new(couriertest.Depot)}
			w := withFiles(t, d, nil)
			id := w.uploaded([]part{{"a", "a.csv", large}, {"b", "b.csv", "bb"}, {"c", "c.csv", large}})
			w.run(id)
			d.bad = bad
			if status, err := download(w, "v1/executions/"+id+path); err == nil {
				t.Errorf("%s of %s: %d, and nobody sees that it is a part", path, bad, status)
			}
			if list, err := w.engine.Journal(t.Context(), filterBy("ann")); err != nil || len(list) != 2 || list[0].Outcome != "failed" {
				t.Errorf("%+v, %v", list, err)
			}
			if !strings.Contains(w.log.String(), "the disk is broken") {
				t.Errorf("log: %s", w.log)
			}
		}
	}
	d := &failingDepot{Depot: new(couriertest.Depot)}
	w, id := withResults(t, d, nil)
	remove := func() {
		if err := errors.Join(d.Put(depot.RemovedKey(courier.ExecutionID(id)), ""), d.Remove(t.Context(), depot.ResultKey(courier.ExecutionID(id), ""))); err != nil {
			t.Error(err)
		}
	}
	d.removes = remove
	if status, err := download(w, "v1/executions/"+id+"/results"); err == nil {
		t.Errorf("%d, and nobody sees that it is a part", status)
	}
	if status, err := download(w, "v1/executions/"+id+"/results"); status != http.StatusGone || err != nil {
		t.Errorf("%d, %v", status, err)
	}
}

// An anyDepot has files of any names among the results, such as from before the rules, or
// laid there by somebody else.
type anyDepot struct {
	*couriertest.Depot
	more []string
}

type anyObject struct {
	*strings.Reader
	info depot.Info
}

func (o anyObject) Info() depot.Info { return o.info }
func (o anyObject) Close() error     { return nil }

func (d *anyDepot) List(ctx context.Context, prefix string) ([]depot.Info, error) {
	list, err := d.Depot.List(ctx, prefix)
	if !strings.HasSuffix(prefix, "/out/") {
		return list, err
	}
	for _, name := range d.more {
		list = append(list, depot.Info{Key: prefix + name, Size: 4})
	}
	return list, err
}

func (d *anyDepot) Open(ctx context.Context, key string) (depot.Object, error) {
	for _, name := range d.more {
		if strings.HasSuffix(key, "/out/"+name) {
			return anyObject{strings.NewReader("evil"), depot.Info{Key: key, Size: 4}}, nil
		}
	}
	return d.Depot.Open(ctx, key)
}

// The archive of all results is unpacked on any system: no name in it is a device or a drive
// there, leads out of the directory, or looks like another one.
func TestArchiveIsPortable(t *testing.T) {
	hostile := []string{
		"CON", "con.txt", "sub/NUL", "COM1.csv", "C:x", "c:x.csv", "sub/C:x", "a\u200b.csv", "\ufeffa.csv", "a\u2060.csv", "../x", "sub/../../x", "/etc/x", `a\b`, `..\x`, "a\x00b", "a\u202e.csv", "a. ", strings.Repeat("x", 2000),
	}
	d := &anyDepot{Depot: new(couriertest.Depot)}
	w, id := withResults(t, d, nil)
	d.more = hostile
	for _, name := range hostile {
		if err := d.Put(depot.ResultKey(courier.ExecutionID(id), name), "evil"); !errors.Is(err, courier.ErrInvalid) {
			t.Errorf("%q is a name of a result: %v", name, err)
		}
	}
	a := w.get("v1/executions/"+id+"/results").want(http.StatusOK, nil)
	z, err := zip.NewReader(bytes.NewReader(a.Body.Bytes()), int64(a.Body.Len()))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range z.File {
		names = append(names, f.Name)
	}
	if want := []string{"a.csv", "b.csv"}; !slices.Equal(names, want) {
		t.Errorf("the archive has %q, want %q", names, want)
	}
	if list := w.get("v1/executions/"+id+"/results?list=1").want(http.StatusOK, nil); strings.Contains(list.Body.String(), "CON") {
		t.Errorf("the list has %s", list.Body)
	}
}

// What was removed between the list and the first file is gone.
func TestResultsRemovedAtOnce(t *testing.T) {
	d := &goneDepot{Depot: new(couriertest.Depot)}
	w, id := withResults(t, d, nil)
	d.gone = true
	for _, path := range []string{"/results", "/results/a.csv"} {
		w.get("v1/executions/"+id+path).problem(http.StatusGone, "gone")
		if err := d.Remove(t.Context(), depot.RemovedKey(courier.ExecutionID(id))); err != nil {
			t.Fatal(err)
		}
	}
}

// A goneDepot marks an execution as removed when a file of it is opened.
type goneDepot struct {
	*couriertest.Depot
	gone bool
}

func (g *goneDepot) Open(ctx context.Context, key string) (depot.Object, error) {
	if !g.gone {
		return g.Depot.Open(ctx, key)
	}
	id, _ := depot.SplitKey(key)
	return nil, errors.Join(g.Put(depot.RemovedKey(id), ""), courier.ErrNotFound)
}
