package httpapi_test

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"slices"
	"strings"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/depot"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/httpapi"
	"github.com/courierhq/courier/store/memstore"
)

// copying is a job that makes its inputs its results.
func copying() courier.Job {
	return courier.Job{
		Name: "report",
		Params: map[string]any{
			"files": courier.Param{Type: "list", Required: true}, "customer": courier.Param{Type: "text"}, "copies": courier.Param{Type: "integer", Min: 1},
			"urgent": courier.Param{Type: "boolean"}, "day": courier.Param{Type: "date"}, "tags": courier.Param{Type: "list"}, "seconds": 0, "fail": "", "text": "",
		},
		Steps: []courier.StepSpec{
			{ID: "get", Type: "depot.fetch"},
			{ID: "keep", Type: "depot.keep", Config: map[string]any{"source_path": "${context:get.fetched_directory}/**"}},
			{ID: "work", Type: "test.work", Config: map[string]any{"seconds": "context:params.seconds", "fail": "context:params.fail", "text": "context:params.text"}},
		},
	}
}

// withFiles returns a world with the job copying and a depot, whose engine is not started.
func withFiles(t *testing.T, d depot.Depot, opt *httpapi.Options) *world {
	t.Helper()
	w := &world{T: t, store: memstore.New(), log: new(strings.Builder), user: "ann"}
	var reg courier.Registry
	courier.RegisterFunc(&reg, "test.work", work, nil)
	depot.Register(&reg, d, nil)
	w.engine = engine.New(w.store, &reg, &engine.Options{Workspace: t.TempDir(), Slots: 64})
	if _, err := w.engine.Jobs().Define(t.Context(), copying(), nil); err != nil {
		t.Fatal(err)
	}
	if opt == nil {
		opt = &httpapi.Options{}
	}
	opt.Access, opt.URL, opt.Depot, opt.Log = policy(), "/api/", d, slog.New(slog.NewTextHandler(w.log, nil))
	w.api = httpapi.New(w.engine, opt)
	return w
}

// A part is a part of a form: a file if it has a name of one.
type part struct{ name, file, content string }

// form returns a body of parts, and its media type.
func form(parts ...part) (body, kind string) {
	var b bytes.Buffer
	m := multipart.NewWriter(&b)
	for _, p := range parts {
		disposition := fmt.Sprintf(`form-data; name="%s"`, p.name)
		if p.file != "" {
			disposition += fmt.Sprintf(`; filename="%s"`, p.file)
		}
		w, _ := m.CreatePart(textproto.MIMEHeader{"Content-Disposition": {disposition}})
		_, _ = io.WriteString(w, p.content)
	}
	_ = m.Close()
	return b.String(), m.FormDataContentType()
}

// upload sends a form to the job report.
func (w *world) upload(parts []part, headers ...string) answer {
	w.Helper()
	body, kind := form(parts...)
	return w.post("v1/jobs/report/executions", body, append([]string{"Content-Type", kind}, headers...)...)
}

// uploaded sends a form that is accepted, and returns the id.
func (w *world) uploaded(parts []part, headers ...string) string {
	w.Helper()
	var got struct{ ID string }
	w.upload(parts, headers...).want(http.StatusAccepted, &got)
	return got.ID
}

// run lets the engine work until an execution has ended.
func (w *world) run(id string) courier.Execution {
	w.Helper()
	if err := w.engine.Start(w.Context()); err != nil {
		w.Fatal(err)
	}
	defer w.engine.Stop(w.Context())
	return w.ended(id)
}

// unzip returns the entries of an archive, as "name: content".
func (a answer) unzip() (list []string) {
	a.Helper()
	z, err := zip.NewReader(bytes.NewReader(a.Body.Bytes()), int64(a.Body.Len()))
	if err != nil {
		a.Fatalf("%s: %v", a.what, err)
	}
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			a.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			a.Fatal(err)
		}
		list = append(list, f.Name+": "+string(content))
	}
	return list
}

// Files that are sent with a form are the inputs of an execution, and what it keeps can be
// downloaded, at once and one by one.
func TestUpload(t *testing.T) {
	dir, err := depot.Dir(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	for name, d := range map[string]depot.Depot{"directory": dir, "memory": new(couriertest.Depot)} {
		t.Run(name, func(t *testing.T) {
			w := withFiles(t, d, nil)
			big := strings.Repeat("a line of a large file\n", 50_000)
			id := w.uploaded([]part{
				{"file", "b.txt", big}, {"params", "", `{"customer": "acme"}`}, {"copies", "", "3"}, {"urgent", "", "true"}, {"tags", "", `["x"]`}, {"day", "", ""},
				{"user_id", "", "ann"}, {"file", "ä.csv", "1;2\n"}, {"empty", "empty", ""},
			})
			w.get("v1/executions/"+id+"/results").want(http.StatusAccepted, nil)
			x := w.run(id)
			if x.State != courier.Completed {
				t.Fatalf("%+v", x.Failure)
			}
			if got := string(x.Params); !strings.Contains(got, `"copies":3`) || !strings.Contains(got, `"urgent":true`) || !strings.Contains(got, `"tags":["x"]`) || !strings.Contains(got, `"customer":"acme"`) || strings.Contains(got, "user_id") {
				t.Errorf("%s", got)
			}
			all := w.get("v1/executions/"+id+"/results").want(http.StatusOK, nil)
			if got, want := all.unzip(), []string{"b.txt: " + big, "empty: ", "ä.csv: 1;2\n"}; !slices.Equal(got, want) {
				t.Errorf("%.300q", got)
			}
			if all.Body.Len() > len(big)/10 {
				t.Errorf("%d bytes: the text is not compressed", all.Body.Len())
			}
			one := w.get("v1/executions/"+id+"/results/%C3%A4.csv").want(http.StatusOK, nil)
			if one.Body.String() != "1;2\n" || one.Header().Get("Content-Disposition") != "attachment; filename*=utf-8''%C3%A4.csv" {
				t.Errorf("%s %v", one.Body, one.Header())
			}
			var list struct{ Items []httpapi.ResultFile }
			w.get("v1/executions/"+id+"/results?list=1").want(http.StatusOK, &list)
			if len(list.Items) != 3 || list.Items[0].Name != "b.txt" || list.Items[0].Size != int64(len(big)) || len(list.Items[0].SHA256) != 64 {
				t.Errorf("%+v", list)
			}
		})
	}
}
