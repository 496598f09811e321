// Package grafana has a dashboard and alerts, and no code: its tests have Prometheus read what
// services under load serve.
package grafana

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/courierhq/courier/internal/test/pgproxy"
	"github.com/courierhq/courier/internal/test/pgtest"
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

// A service is examples/service in a process of its own.
type service struct {
	t    *testing.T
	addr string
	auth string // of a person
}

// build builds examples/service, and returns a function that starts it with a database.
func build(t *testing.T) func(database string) *service {
	dir := t.TempDir()
	program := filepath.Join(dir, "service")
	cmd := exec.Command("go", "build", "-o", program, ".")
	cmd.Dir = "../../../examples/service"
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	secret := filepath.Join(dir, "token")
	if err := os.WriteFile(secret, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	return func(database string) *service {
		cmd := exec.Command(program, "-addr", "127.0.0.1:0", "-database", database, "-dir", filepath.Join(dir, "data"), "-lease", "1s", "-metrics-token", secret)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
		for lines.Scan() {
			var e struct{ Msg, URL, Pages string }
			if err := json.Unmarshal(lines.Bytes(), &e); err == nil && e.Msg == "listening" {
				go func() { _, _ = io.Copy(io.Discard, out) }()
				_, person, _ := strings.Cut(e.Pages, "?token=")
				return &service{t, strings.TrimPrefix(e.URL, "http://"), "Bearer " + person}
			}
		}
		t.Fatal("the service has ended")
		return nil
	}
}

// request has the service start an execution, and returns its address.
func (s *service) request(ctx context.Context, body string) string {
	r, err := http.NewRequestWithContext(ctx, "POST", "http://"+s.addr+"/reports/acme", strings.NewReader(body))
	if err != nil {
		s.t.Error(err)
		return ""
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", s.auth)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		if ctx.Err() == nil {
			s.t.Error(err)
		}
		return ""
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusAccepted {
		s.t.Errorf("%s: %s", body, resp.Status)
	}
	return resp.Header.Get("Location")
}

// running waits until an execution runs.
func (s *service) running(path string) {
	for end := time.Now().Add(15 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		var x struct{ Status string }
		r, err := http.NewRequest("GET", "http://"+s.addr+path, nil)
		if err != nil {
			s.t.Fatal(err)
		}
		r.Header.Set("Authorization", s.auth)
		resp, err := http.DefaultClient.Do(r)
		if err == nil {
			err = json.NewDecoder(resp.Body).Decode(&x)
			_ = resp.Body.Close()
		}
		if err == nil && x.Status == "running" {
			return
		}
		if time.Now().After(end) {
			s.t.Fatalf("%s is %q, %v", path, x.Status, err)
		}
	}
}

// load has two processes of examples/service under load. The first has an execution that the
// other takes over when cut takes away its database. It returns the addresses of both.
func load(t *testing.T) (addresses []string, cut func()) {
	database := pgtest.URL(t)
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	proxy := pgproxy.New(t, u.Host)
	proxied, err := proxy.URL(database)
	if err != nil {
		t.Fatal(err)
	}
	start := build(t)
	first := start(proxied)
	first.running(first.request(t.Context(), `{"seconds": 60}`))
	second := start(database)
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() {
		for ctx.Err() == nil {
			for _, body := range []string{`{"seconds": 0}`, `{"seconds": 0, "error": "no"}`, `{"seconds": 1}`} {
				second.request(ctx, body)
			}
			time.Sleep(100 * time.Millisecond)
		}
	})
	t.Cleanup(func() { stop(); all.Wait() })
	return []string{first.addr, second.addr}, proxy.Close
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

// TestQueries has Prometheus scrape two services under load: the query of each panel and of each alert
// returns data, and no rule fails.
func TestQueries(t *testing.T) {
	list := append(panels(t), alerts(t)...)
	if len(list) < 50 {
		t.Fatalf("there are %d queries", len(list))
	}
	addresses, cut := load(t)
	ask := start(t, addresses)
	// A counter that increases must have been seen before, and Prometheus begins to scrape some
	// seconds after it is ready.
	for seen := 0; seen < len(addresses); time.Sleep(100 * time.Millisecond) {
		var a struct{ Data struct{ Result []any } }
		ask("/api/v1/query", url.Values{"query": {"courier_takeovers_total"}}, &a)
		seen = len(a.Data.Result)
	}
	cut()
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
