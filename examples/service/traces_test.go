//go:build unix

package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// TestTraces: what the service does is at the collector when it has ended.
func TestTraces(t *testing.T) {
	var mu sync.Mutex
	var all []byte
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.URL.Path != "/v1/traces" {
			t.Errorf("%s: %v", r.URL, err)
		}
		mu.Lock()
		defer mu.Unlock()
		all = append(all, body...)
	}))
	defer collector.Close()
	p := start(t, "-otlp", collector.URL)
	r, err := http.NewRequest("POST", p.url+"/reports/acme", strings.NewReader(`{"seconds": 0}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Prefer", "wait=10")
	r.Header.Set("Authorization", "Bearer "+p.token)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode >= 300 {
		t.Errorf("the answer is %s", answer.Status)
	}
	p.await("execution completed")
	p.signal()
	p.await("stopped")
	p.ended()
	collector.Close() // when it has answered
	for _, want := range []string{"RUN report", "demo.work", "courier-example", "/courier/executions/"} {
		if !bytes.Contains(all, []byte(want)) {
			t.Errorf("the collector has received %d bytes without %q", len(all), want)
		}
	}
}
