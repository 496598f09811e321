// Package grafana has a dashboard and alerts, and no code: its tests have Prometheus read what
// engines under load serve.
package grafana

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/depot"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/httpapi"
	"github.com/courierhq/courier/internal/test/pgstoretest"
	"github.com/courierhq/courier/internal/test/pgtest"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/storewrap"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// A query is one that somebody looks at.
type query struct{ what, expr string }

// panels returns the queries of the dashboard, as Grafana sends them.
func panels(t *testing.T) (list []query) {
	t.Helper()
	text, err := os.ReadFile("courier.json")
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Panels []struct {
			Title, Type string
			Targets     []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	for _, p := range d.Panels {
		if p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("the panel %q has no query", p.Title)
		}
		for _, q := range p.Targets {
			list = append(list, query{"panel " + p.Title, strings.ReplaceAll(q.Expr, "$__rate_interval", "30s")})
		}
	}
	return list
}

// alerts returns the queries of the alerts without the bounds that they are compared with.
func alerts(t *testing.T) (list []query) {
	t.Helper()
	text, err := os.ReadFile("alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	manual, err := os.ReadFile("../../../docs/how-to/monitor.md")
	if err != nil {
		t.Fatal(err)
	}
	anchors := make(map[string]bool)
	for _, m := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(string(manual), -1) {
		anchors[regexp.MustCompile(`[^a-z0-9 -]`).ReplaceAllString(strings.ToLower(m[1]), "")] = true
	}
	rule := regexp.MustCompile(`(?s)- alert: (\w+)\n +expr: (.+?) [<>] [0-9.e]+\n.*?runbook_url: \S+/docs/how-to/monitor\.md#(\S+)\n`)
	for _, m := range rule.FindAllStringSubmatch(string(text), -1) {
		list = append(list, query{"alert " + m[1], m[2]})
		if !anchors[strings.ReplaceAll(m[3], "-", " ")] {
			t.Errorf("the runbook of %s, #%s, is not in monitor.md", m[1], m[3])
		}
	}
	if n := strings.Count(string(text), "- alert:"); n != len(list) {
		t.Errorf("%d of %d alerts were understood", len(list), n)
	}
	return list
}

// TestRules has promtool check the alerts.
func TestRules(t *testing.T) {
	if out, err := exec.Command("promtool", "check", "rules", "alerts.yaml").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

const token = "a token for scrapers"

// serve returns the address of the metrics of an engine.
func serve(t *testing.T, e *engine.Engine) string {
	api := httpapi.New(e, &httpapi.Options{Access: access.Policy{Metrics: token}})
	mux := http.NewServeMux()
	mux.Handle("/courier/api/", api)
	s := httptest.NewServer(mux)
	t.Cleanup(func() { api.Close(); s.Close() })
	return s.Listener.Addr().String()
}

// load has an engine under load, and one that loses its store and its lease when die is called. It
// returns the addresses of their metrics.
func load(t *testing.T) (addresses []string, die func()) {
	s, _ := pgstoretest.Open(t, pgtest.URL(t))
	var dead atomic.Bool
	cut := storewrap.Intercept(s, func(ctx context.Context, _ *storewrap.Call, do func(context.Context) error) error {
		if dead.Load() {
			return errors.New("the network is down")
		}
		return do(ctx)
	})
	files, err := depot.Dir(filepath.Join(t.TempDir(), "depot"), &depot.DirOptions{Most: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = files.Close() })
	entered, work := make(chan struct{}, 100), t.TempDir()
	start := func(name string, on store.Store) *engine.Engine {
		var reg courier.Registry
		depot.Register(&reg, files, nil)
		courier.RegisterFunc(&reg, "demo.work", func(ctx context.Context, job *courier.Context, cfg struct {
			Fail, Hang, Slow bool
		}) (struct{}, error) {
			job.Progress(0, 1000, "a.txt")
			job.Progress(1000, 1000, "a.txt")
			switch {
			case cfg.Hang && job.Attempt() == 1:
				entered <- struct{}{}
				<-ctx.Done()
				return struct{}{}, context.Cause(ctx)
			case cfg.Slow:
				time.Sleep(time.Second)
			case cfg.Fail:
				return struct{}{}, errors.New("no")
			}
			return struct{}{}, nil
		}, nil)
		e := engine.New(on, &reg, &engine.Options{Worker: name, Workspace: work, WorkspaceID: "shared", Lease: time.Second, Poll: 200 * time.Millisecond})
		if err := e.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = e.Stop(context.Background()) })
		return e
	}
	first := start("first", cut)
	addresses = append(addresses, serve(t, first))
	retry, backoff, once := courier.FailurePolicy{Type: courier.RetryStep}, 100*time.Millisecond, 1
	retry.BackoffBase, retry.MaxRetries = &backoff, &once
	for _, j := range []courier.Job{
		{Name: "good", Steps: []courier.StepSpec{{Type: "demo.work"}}},
		{Name: "bad", FailurePolicy: retry, Steps: []courier.StepSpec{{Type: "demo.work", Config: map[string]any{"Fail": true}}}},
		{Name: "slow", Steps: []courier.StepSpec{{Type: "demo.work", Config: map[string]any{"Slow": true}}}},
		{Name: "lost", Steps: []courier.StepSpec{{Type: "demo.work", Config: map[string]any{"Hang": true}}}},
	} {
		if _, err := first.Jobs().Define(t.Context(), j, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := first.Limits().Set(t.Context(), "global", 100, courier.By{}); err != nil {
		t.Fatal(err)
	}
	if _, err := first.Enqueue(t.Context(), "lost", nil); err != nil {
		t.Fatal(err)
	}
	<-entered
	second := start("second", s)
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() {
		for ctx.Err() == nil {
			for _, name := range []string{"good", "bad", "slow"} {
				if _, err := second.Enqueue(ctx, name, nil); err != nil && ctx.Err() == nil {
					t.Error(err)
				}
			}
			time.Sleep(100 * time.Millisecond)
		}
	})
	t.Cleanup(func() { stop(); all.Wait() })
	return append(addresses, serve(t, second)), func() { dead.Store(true) }
}

// start starts Prometheus, which scrapes addresses, and returns a function that asks it.
func start(t *testing.T, addresses []string) func(path string, args url.Values, v any) {
	dir := t.TempDir()
	rules, err := filepath.Abs("alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf(`
global: {scrape_interval: 500ms, evaluation_interval: 500ms}
rule_files: [%q]
scrape_configs:
  - job_name: courier
    metrics_path: /courier/api/metrics
    authorization: {credentials: %q}
    static_configs: [{targets: ["%s"]}]
`, rules, token, strings.Join(addresses, `", "`))
	file := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	_ = l.Close()
	var log bytes.Buffer
	cmd := exec.Command("prometheus", "--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+addr, "--log.level=warn")
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("Prometheus says:\n%s", log.String())
		}
	})
	get := func(path string, args url.Values, v any) error {
		r, err := http.Get("http://" + addr + path + "?" + args.Encode())
		if err != nil {
			return err
		}
		defer r.Body.Close()
		return json.NewDecoder(r.Body).Decode(v)
	}
	for end := time.Now().Add(15 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		r, err := http.Get("http://" + addr + "/-/ready")
		if err == nil {
			_ = r.Body.Close()
			if r.StatusCode == http.StatusOK {
				break
			}
		}
		if time.Now().After(end) {
			t.Fatalf("Prometheus is not ready: %v", err)
		}
	}
	return func(path string, args url.Values, v any) {
		t.Helper()
		if err := get(path, args, v); err != nil {
			t.Fatal(err)
		}
	}
}

// TestQueries has Prometheus scrape engines under load: the query of each panel and of each alert
// returns data, and no rule fails.
func TestQueries(t *testing.T) {
	list := append(panels(t), alerts(t)...)
	if len(list) < 50 {
		t.Fatalf("there are %d queries", len(list))
	}
	addresses, die := load(t)
	ask := start(t, addresses)
	// A counter that increases must have been seen before, and Prometheus begins to scrape some
	// seconds after it is ready.
	for seen := 0; seen < len(addresses); time.Sleep(100 * time.Millisecond) {
		var a struct{ Data struct{ Result []any } }
		ask("/api/v1/query", url.Values{"query": {"courier_takeovers_total"}}, &a)
		seen = len(a.Data.Result)
	}
	die()
	lacks := func(q query) string {
		var a struct {
			Status, Error string
			Data          struct{ Result []struct{ Value [2]any } }
		}
		ask("/api/v1/query", url.Values{"query": {q.expr}}, &a)
		if a.Status != "success" {
			return a.Status + " " + a.Error
		}
		for _, r := range a.Data.Result {
			if r.Value[1] != "NaN" {
				return ""
			}
		}
		return fmt.Sprintf("no value in %d series", len(a.Data.Result))
	}
	end := time.Now().Add(10 * time.Second)
	for ; len(list) > 0; time.Sleep(200 * time.Millisecond) {
		var left []query
		for _, q := range list {
			why := lacks(q)
			if why == "" {
				continue
			}
			left = append(left, q)
			if time.Now().After(end) {
				t.Errorf("%s: %s\n%s", q.what, why, q.expr)
			}
		}
		if time.Now().After(end) {
			break
		}
		list = left
	}
	var rules struct {
		Data struct {
			Groups []struct {
				Rules []struct{ Name, Health, LastError string }
			}
		}
	}
	ask("/api/v1/rules", nil, &rules)
	for _, g := range rules.Data.Groups {
		for _, r := range g.Rules {
			if r.Health == "err" {
				t.Errorf("%s: %s", r.Name, r.LastError)
			}
		}
	}
	for _, want := range []string{"CourierStoreUnreachable", "CourierTakeovers", "CourierJobFails"} {
		for !raised(ask)[want] {
			if time.Now().After(end) {
				t.Errorf("%s neither fires nor is pending; there are %v", want, raised(ask))
				break
			}
			time.Sleep(200 * time.Millisecond)
		}
	}
}

// raised returns the alerts that fire or are pending.
func raised(ask func(path string, args url.Values, v any)) map[string]bool {
	var a struct {
		Data struct {
			Alerts []struct{ Labels map[string]string }
		}
	}
	ask("/api/v1/alerts", nil, &a)
	names := make(map[string]bool)
	for _, a := range a.Data.Alerts {
		names[a.Labels["alertname"]] = true
	}
	return names
}
