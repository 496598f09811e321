package dashboard_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/courierhq/courier"
)

// A fileConfig is the configuration of a step that reports a file on a server.
type fileConfig struct {
	Path     string `json:"path"`
	Size     int64  `json:"size"`
	Hash     string `json:"hash"`
	Received bool   `json:"received"`
	Removed  bool   `json:"removed"`
	Local    bool   `json:"local"`
	Fail     bool   `json:"fail"`
	Also     string `json:"also"` // a second path
}

type fileOutput struct {
	Files []hashedFile `json:"files"`
	Hash  string       `json:"hash"`
}

type hashedFile struct {
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`
}

func transfer(_ context.Context, job *courier.Context, cfg fileConfig) (out fileOutput, err error) {
	if cfg.Local {
		f, err := job.Files().Create(cfg.Path)
		if err != nil {
			return out, err
		}
		defer func() { _ = f.Close() }()
		if _, err := f.Write(make([]byte, cfg.Size)); err != nil {
			return out, err
		}
		return fileOutput{Hash: cfg.Hash}, f.Commit()
	}
	err = job.Files().ReportRemote(courier.File{Path: cfg.Path, Size: cfg.Size, Connection: "acme", Received: cfg.Received, Removed: cfg.Removed})
	if err == nil && cfg.Also != "" {
		err = job.Files().ReportRemote(courier.File{Path: cfg.Also, Connection: "acme"})
	}
	if err == nil && cfg.Fail {
		err = courier.Permanent(errors.New("the connection is gone"))
	}
	return fileOutput{Files: []hashedFile{{"elsewhere", strings.Repeat("11", 32)}, {cfg.Path, cfg.Hash}}}, err
}

// fileJob defines a job with a step for each configuration, and executes it.
func (w *world) fileJob(name string, configs ...map[string]any) courier.Execution {
	w.Helper()
	job := courier.Job{Name: name}
	for _, c := range configs {
		job.Steps = append(job.Steps, courier.StepSpec{Type: "test.file", Config: c})
	}
	w.define(job)
	return w.ended(name, "ann", nil)
}

// find returns the page of a search.
func (w *world) find(text string) answer {
	w.Helper()
	return w.get("search?q=" + url.QueryEscape(text))
}

// A file is found by its name, with each step that had to do with it.
func TestSearchFiles(t *testing.T) {
	virtual(t, nil, func(w *world) {
		hash := strings.Repeat("ab", 32)
		x := w.fileJob("delivery",
			map[string]any{"path": "/in/INV-0423.csv", "size": 1234, "received": true, "hash": hash},
			map[string]any{"path": "out/inv-0423.csv", "size": 10, "local": true, "hash": hash},
			map[string]any{"path": "/out/inv-0423.csv", "size": 1234},
			map[string]any{"path": "/in/inv-0423.csv", "removed": true},
		)
		w.fileJob("broken", map[string]any{"path": "/in/inv-0423.csv", "size": 7, "received": true, "fail": true})
		both := w.fileJob("both", map[string]any{"path": "/out/a", "size": 1, "also": "/out/b"})
		files := w.get("executions/" + string(both.ID) + "?tab=files").has("Server").tree.all("tr[data-row]")
		if len(files) != 2 || len(files[0].all("time")) != 1 || len(files[1].all("time")) != 0 || files[0].all("td[rowspan=2]") == nil {
			t.Errorf("%d rows for two files of a step", len(files))
		}
		page := w.find("inv-0423.csv")
		rows := page.tree.all("tr[data-row]")
		want := []string{"fetched acme /in/inv-0423.csv unknown", "removed acme /in/inv-0423.csv – gone", "sent acme /out/inv-0423.csv 1.2 kB complete", "wrote", "fetched acme /in/INV-0423.csv SHA-256 " + hash + " 1.2 kB complete"}
		if len(rows) != len(want) {
			t.Fatalf("%d rows: %s", len(rows), page.tree.text())
		}
		for i, row := range rows {
			text := row.text()
			for _, word := range strings.Fields(want[i]) {
				if !strings.Contains(text, word) {
					t.Errorf("row %d is %q, without %q", i, text, word)
				}
			}
		}
		if !strings.Contains(rows[3].text(), "SHA-256 "+hash) || !strings.Contains(rows[3].text(), "10 B") {
			t.Errorf("the file of the workspace is %q", rows[3].text())
		}
		if strings.Contains(page.Body.String(), strings.Repeat("11", 32)) {
			t.Error("a file has the hash of another one")
		}
		page.has("The attempt did not succeed")
		if href := rows[4].all("a")[0].attrs["href"]; href != "./executions/"+string(x.ID) {
			t.Errorf("a file leads to %q", href)
		}
		if href := rows[4].all("a")[1].attrs["href"]; href != "./executions/"+string(x.ID)+"?step=0&tab=attempts" {
			t.Errorf("a step leads to %q", href)
		}
		for text, rows := range map[string]int{"inv-": 5, "INV-0423": 5, "*0423*": 5, "0423": 0, "*.csv": 5, "inv-0424": 0} {
			page := w.find(text)
			if n := len(page.tree.all("tr[data-row]")); n != rows {
				t.Errorf("%q finds %d files, and not %d", text, n, rows)
			}
			if rows == 0 {
				page.has("Nothing was found.")
			}
			if strings.HasPrefix(text, "*") {
				page.has("in the newest 100,000 reports")
			}
		}
	})
}

// An asterisk in quotes stands for itself.
func TestSearchQuoted(t *testing.T) {
	virtual(t, nil, func(w *world) {
		w.fileJob("ab*", map[string]any{"path": "/in/ab*", "size": 1}, map[string]any{"path": "/in/abc", "size": 1}, map[string]any{"path": "/in/*x*", "size": 1})
		for text, files := range map[string]int{`"ab*"`: 1, "ab*": 2, `"ab"`: 0, `"*x*"`: 1, `"x"`: 0, "*x*": 1} {
			if n := len(w.find(text).tree.all("tr[data-row]")); n != files {
				t.Errorf("%s finds %d files, and not %d", text, n, files)
			}
		}
		w.find(`"ab*"`).has("Jobs ab*")
	})
}

// More files than fit are on further pages, each once.
func TestSearchPages(t *testing.T) {
	virtual(t, nil, func(w *world) {
		var configs []map[string]any
		for i := range 45 {
			configs = append(configs, map[string]any{"path": fmt.Sprintf("/in/inv-%03d.csv", i)})
		}
		w.fileJob("delivery", configs...)
		seen, at := map[string]bool{}, "search?q=inv"
		for pages := 0; at != ""; pages++ {
			page := w.get(at)
			for _, row := range page.tree.all("tr[data-row]") {
				seen[row.one(t, "th").text()] = true
			}
			if at = ""; pages < 5 {
				for _, next := range page.tree.all("a[rel=next]") {
					at = "search" + next.attrs["href"]
				}
			}
		}
		if len(seen) != 45 {
			t.Errorf("the pages have %d files", len(seen))
		}
		w.fails("search?q=inv&after=x", http.StatusBadRequest).has("start without it")
	})
}

// A search finds what has a name, a label or an id.
func TestSearch(t *testing.T) {
	virtual(t, nil, func(w *world) {
		w.get("search").has("What can be found")
		w.defineChain(daily())
		x := w.ended("report", "ann", nil)
		chain := w.startChain("ann", nil)
		for text, want := range map[string]string{"rep": "Jobs report", "dai": "Chains daily", "by=ann": "With that label", "nothing": "Nothing was found."} {
			w.find(text).has(want)
		}
		for id, to := range map[string]string{string(x.ID): "./executions/", string(chain.ID): "./chain-executions/"} {
			a := w.send(httptest.NewRequest("GET", "/courier/search?q="+id, nil))
			if a.Code != http.StatusSeeOther || a.Header().Get("Location") != to+id {
				t.Errorf("an id: %d to %q", a.Code, a.Header().Get("Location"))
			}
		}
		w.find("00000000-0000-7000-8000-000000000000").has("Nothing was found.")
		for _, bad := range []string{"**", strings.Repeat("x", 201), "a\x01b"} {
			page := w.fails("search?q="+url.QueryEscape(bad), http.StatusBadRequest)
			if field := page.tree.one(t, "#q"); field.attrs["aria-invalid"] != "true" {
				t.Errorf("%q: the field is not marked", bad)
			}
		}
	})
}

// File names are values, and what a visitor may not see is not found.
func TestSearchRoles(t *testing.T) {
	virtual(t, options(), func(w *world) {
		w.define(courier.Job{Name: "hidden", Steps: []courier.StepSpec{{Type: "test.file", Config: map[string]any{"path": "/in/" + canary}}}})
		x := w.ended("hidden", "ann", nil)
		chain := daily()
		chain.Name = canary + "-chain"
		w.defineChain(chain)
		run, err := w.engine.Chains().Start(w.Context(), chain.Name, nil)
		if err != nil {
			w.Fatal(err)
		}
		for _, user := range []string{"nobody", "ann", "vera", "otto", "watcher", "operator", "editor", "admin"} {
			w.user = user
			if page := w.find(canary); user == "admin" {
				page.has("/in/" + canary).has(canary + "-chain")
			} else if strings.Contains(page.Body.String(), "/in/"+canary) {
				t.Errorf("%s finds the file", user)
			} else if all := people[user][""] > 0; strings.Contains(page.Body.String(), canary+"-chain") != all {
				t.Errorf("%s finds the chain: %t", user, !all)
			}
			for _, id := range []string{string(x.ID), string(run.ID)} {
				a := w.send(httptest.NewRequest("GET", "/courier/search?q="+id, nil))
				if found := a.Code == http.StatusSeeOther; found != (people[user][""] > 0) {
					t.Errorf("%s opens %s: %t", user, id, found)
				}
			}
		}
	})
}

// Hostile names of files are names.
func TestSearchHostile(t *testing.T) {
	virtual(t, nil, func(w *world) {
		for i, evil := range hostile {
			if strings.ContainsAny(evil, "/") {
				continue
			}
			w.fileJob(fmt.Sprint("job", i), map[string]any{"path": "/in/zz" + strings.ReplaceAll(evil, "{{", "{")})
		}
		page := w.find("zz").lacks("\u202e").lacks("\x1b").lacks("<img").has("[U+202E]")
		if n := len(page.tree.all("tr[data-row]")); n < len(hostile)-4 {
			t.Errorf("%d rows", n)
		}
		for _, evil := range hostile {
			r := httptest.NewRequest("GET", "/courier/search?q="+url.QueryEscape(evil), nil)
			if a := w.send(r); a.Code != http.StatusOK && a.Code != http.StatusBadRequest {
				t.Errorf("%.40q: %d", evil, a.Code)
			}
		}
	})
}
