package httpapi_test

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/depot"
	"github.com/courierhq/courier/internal/test/raced"
)

var large = flag.Bool("large", false, "uploads of 1 GiB and results of 10,000 files, 4 GiB, and require their rates; a hundredth otherwise")

// maxGrowth is by how much the memory of the process may grow, which is that of the client
// in these tests too.
const maxGrowth = 32 << 20

// resident returns a figure of the memory of this process in bytes: VmRSS, which is in use
// now, or VmHWM, which was at most since [resetPeak].
func resident(t *testing.T, figure string) int {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(figure + `:\s+(\d+) kB`).FindSubmatch(status)
	if m == nil {
		t.Fatalf("%s is not in %s", figure, status)
	}
	n, err := strconv.Atoi(string(m[1]))
	if err != nil {
		t.Fatal(err)
	}
	return n << 10
}

// growth returns by how much the resident memory grows at most while f runs.
func growth(t *testing.T, f func()) int {
	t.Helper()
	debug.FreeOSMemory()
	before := resident(t, "VmRSS")
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
		t.Fatal(err)
	}
	f()
	return resident(t, "VmHWM") - before
}

// command runs a program and returns how long it took.
func command(t *testing.T, dir, name string, args ...string) time.Duration {
	t.Helper()
	began := time.Now()
	c := exec.CommandContext(t.Context(), name, args...)
	c.Dir = dir
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
	return time.Since(began)
}

// judge reports a rate beside that of other programs, and requires what was promised.
func judge(t *testing.T, size int64, took, other time.Duration, grown int) {
	t.Helper()
	ratio := other.Seconds() / took.Seconds()
	t.Logf("%d MiB: %.0f MB/s, %.2f of the other %.0f MB/s; the memory grows by %.1f MiB", size>>20, float64(size)/1e6/took.Seconds(), ratio, float64(size)/1e6/other.Seconds(), float64(grown)/(1<<20))
	if grown > raced.Or(4, 1)*maxGrowth {
		t.Errorf("the memory grows by %d bytes", grown)
	}
	if *large && ratio < 0.8 {
		t.Errorf("%.2f of the other rate", ratio)
	}
}

// noise writes a file that can't be compressed.
func noise(t *testing.T, name string, size int64) {
	t.Helper()
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := io.CopyN(f, rand.Reader, size); err != nil {
		t.Fatal(err)
	}
}

// An upload takes little memory, and with -large as long as cp and sha256sum take at most
// 1.25 times.
func TestUploadRate(t *testing.T) {
	size := int64(1<<30) / 100
	if *large {
		size = 1<<30 - 1000
	}
	dir := t.TempDir()
	d, err := depot.Dir(filepath.Join(dir, "depot"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	source := filepath.Join(dir, "source")
	noise(t, source, size)
	w := withFiles(t, d, nil)
	server := httptest.NewServer(w.api)
	defer server.Close()

	var took time.Duration
	grown := growth(t, func() {
		f, err := os.Open(source)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		head := "--x\r\nContent-Disposition: form-data; name=a; filename=source\r\n\r\n"
		r, err := http.NewRequestWithContext(t.Context(), "POST", server.URL+"/v1/jobs/report/executions", io.MultiReader(strings.NewReader(head), f, strings.NewReader("\r\n--x--\r\n")))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "multipart/form-data; boundary=x")
		r.Header.Set("X-User", "ann")
		r.ContentLength = size + int64(len(head)) + 9
		began := time.Now()
		resp, err := server.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		took = time.Since(began)
		defer resp.Body.Close()
		if body, err := io.ReadAll(resp.Body); resp.StatusCode != http.StatusAccepted || err != nil {
			t.Fatalf("%d %s", resp.StatusCode, body)
		}
	})
	other := command(t, dir, "cp", "source", "copy") + command(t, dir, "sha256sum", "copy")
	judge(t, size, took, other, grown)
	list, err := d.List(t.Context(), "")
	if err != nil || len(list) != 1 || list[0].Size != size || list[0].SHA256 != hashOf(t, source) {
		t.Errorf("%v, %v", list, err)
	}
}

func hashOf(t *testing.T, name string) string {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Results as an archive take little memory, and with -large as long as zip -0 takes at most
// 1.25 times.
func TestResultsRate(t *testing.T) {
	files, each := 100, int64(4<<30/10_000)
	if *large {
		files = 10_000
	}
	dir := t.TempDir()
	d, err := depot.Dir(filepath.Join(dir, "depot"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	w := withFiles(t, d, nil)
	id := courier.ExecutionID(w.uploaded([]part{{"a", "a.csv", "1"}}))
	w.run(string(id))
	if err := d.Remove(t.Context(), depot.ResultKey(id, "")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "files"), 0o700); err != nil {
		t.Fatal(err)
	}
	block := filepath.Join(dir, "block")
	noise(t, block, each)
	content, err := os.ReadFile(block)
	if err != nil {
		t.Fatal(err)
	}
	for i := range files {
		name := fmt.Sprintf("%05d.bin", i)
		if err := os.WriteFile(filepath.Join(dir, "files", name), content, 0o600); err != nil {
			t.Fatal(err)
		}
		p, err := d.Create(t.Context(), depot.ResultKey(id, name))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Write(content); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	content = nil
	server := httptest.NewServer(w.api)
	defer server.Close()
	var took time.Duration
	path := "/v1/executions/" + string(id) + "/results"
	grown := growth(t, func() { took = fetch(t, server, path, os.DevNull) })
	other := command(t, dir, "sh", "-c", "zip -0 -q -r - files > /dev/null")
	judge(t, int64(files)*each, took, other, grown)
	if !*large {
		fetch(t, server, path, filepath.Join(dir, "results.zip"))
		command(t, dir, "unzip", "-t", "-q", "results.zip")
	}
}

// fetch downloads to a file, and returns how long that took.
func fetch(t *testing.T, server *httptest.Server, path, name string) time.Duration {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "GET", server.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-User", "ann")
	began := time.Now()
	resp, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := io.Copy(f, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%d, %v", resp.StatusCode, err)
	}
	return time.Since(began)
}
