package httpapi_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/httpapi"
	"github.com/courierhq/courier/store/memstore"
)

// formClients send a form as clients of this kind do, each with a text between the parts that
// is another one every time. A part is name=text, or name=@file. The answer is the status and
// the body.
var formClients = map[string]func(t *testing.T, url, key string, parts ...string) string{
	"curl": func(t *testing.T, url, key string, parts ...string) string {
		args := []string{"-sS", "--noproxy", "*", "-o", "-", "-w", "%{stderr}%{http_code}", "-H", "X-User: admin", "-H", "Idempotency-Key: " + key}
		for _, p := range parts {
			args = append(args, "-F", p)
		}
		var status bytes.Buffer
		cmd := exec.CommandContext(t.Context(), "curl", append(args, url)...)
		cmd.Stderr = &status
		body, err := cmd.Output()
		if err != nil {
			t.Fatalf("curl (Debian package curl): %v: %s", err, &status)
		}
		return status.String() + " " + string(body)
	},
	"Python": scriptClient("python3", "python3-urllib3", "form.py"),
	"Node":   scriptClient("node", "nodejs", "form.mjs"),
	"Go": func(t *testing.T, url, key string, parts ...string) string {
		var b bytes.Buffer
		m := multipart.NewWriter(&b)
		for _, p := range parts {
			name, value, _ := strings.Cut(p, "=")
			if path, isFile := strings.CutPrefix(value, "@"); !isFile {
				_ = m.WriteField(name, value)
			} else if w, err := m.CreateFormFile(name, filepath.Base(path)); err == nil {
				content, _ := os.ReadFile(path)
				_, _ = w.Write(content)
			}
		}
		_ = m.Close()
		r, err := http.NewRequestWithContext(t.Context(), "POST", url, &b)
		if err != nil {
			t.Fatal(err)
		}
		r.Header = http.Header{"X-User": {"admin"}, "Idempotency-Key": {key}, "Content-Type": {m.FormDataContentType()}}
		got, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer got.Body.Close()
		body, _ := io.ReadAll(got.Body)
		return strconv.Itoa(got.StatusCode) + " " + string(body)
	},
}

func scriptClient(program, pkg, script string) func(t *testing.T, url, key string, parts ...string) string {
	return func(t *testing.T, url, key string, parts ...string) string {
		args := append([]string{filepath.Join("testdata", "clients", script), url, key}, parts...)
		out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput()
		if err != nil {
			t.Fatalf("%s (Debian package %s): %v: %s", program, pkg, err, out)
		}
		return string(out)
	}
}

// Clients that frame a form in another way each time can repeat it: the same fields and files
// are the same request, and other ones are not. The order of parts counts among those of one
// name.
func TestFormClients(t *testing.T) {
	d := new(couriertest.Depot)
	w := newWorld(t, memstore.New(), &httpapi.Options{Access: policy(), Depot: d})
	w.defineInbound(0)
	if _, err := w.engine.Jobs().Define(t.Context(), courier.Job{Name: "any", Steps: []courier.StepSpec{{Type: "test.work"}}}, nil); err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/files", w.api.Async("inbound", &httpapi.AsyncOptions{Files: true}))
	mux.Handle("/fields", w.api.Async("inbound", nil))
	mux.Handle("/api/", w.api)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)

	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return "@" + path
	}
	one, two, list := file("één.csv", "1\r\n"), file("two.csv", "2"), file("list.txt", "both")
	other := file("other/two.csv", "3")
	first := []string{"customer=Müller & Söhne", "month=5", "list=" + list, "file=" + one, "file=" + two}
	cases := []struct {
		name  string
		parts []string
		same  bool
	}{
		{"again", first, true},
		{"other order of names", []string{"file=" + one, "month=5", "file=" + two, "customer=Müller & Söhne", "list=" + list}, true},
		{"other order in a name", []string{"customer=Müller & Söhne", "month=5", "list=" + list, "file=" + two, "file=" + one}, false},
		{"other name", []string{"customer=Müller & Söhne", "month=5", "lists=" + list, "file=" + one, "file=" + two}, false},
		{"other file", []string{"customer=Müller & Söhne", "month=5", "list=" + list, "file=" + one, "file=" + other}, false},
		{"other field", []string{"customer=Müller & Söhne", "month=6", "list=" + list, "file=" + one, "file=" + two}, false},
	}
	for client, send := range formClients {
		t.Run(client, func(t *testing.T) {
			t.Parallel()
			for _, target := range []string{"/files", "/fields", "/api/v1/jobs/any/executions"} {
				parts := func(all []string) (some []string) {
					for _, p := range all {
						if target != "/fields" || !strings.Contains(p, "=@") {
							some = append(some, p)
						}
					}
					return some
				}
				id := func(key string, all []string) string {
					t.Helper()
					status, body, _ := strings.Cut(send(t, server.URL+target, key, parts(all)...), " ")
					var got struct{ ID, Code string }
					if err := json.Unmarshal([]byte(body), &got); err != nil || status != "202" && got.Code != "idempotency_key_reused" {
						t.Fatalf("%s: %s %s", target, status, body)
					}
					return got.ID
				}
				key := fmt.Sprintf("%s of %s", client, target)
				created := id(key, first)
				for _, c := range cases {
					if target == "/fields" && !c.same && c.name != "other field" {
						continue // they differ in files alone
					}
					if again := id(key, c.parts); (again == created) != c.same || c.same == (again == "") {
						t.Errorf("%s: %s: execution %q, and the first one is %q", target, c.name, again, created)
					}
				}
			}
		})
	}
}
