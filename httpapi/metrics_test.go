package httpapi_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier/httpapi"
	"github.com/courierhq/courier/store/memstore"
)

// TestMetrics: metrics are for viewers of all jobs, and for a token that opens nothing else.
// They have no id, parameter, secret or error of an execution.
func TestMetrics(t *testing.T) {
	p := policy()
	p.Metrics = "scrape-7c21"
	virtual(t, &httpapi.Options{Access: p}, func(w *world) {
		w.start("report", `{"params": {"text": "`+canaryParam+`", "fail": "`+canaryParam+`"}}`)
		w.start("report", `{"params": {"text": "`+canaryParam+`"}}`)
		time.Sleep(time.Second)
		synctest.Wait()
		get := func(path, user, authorization string) (int, string) {
			r := httptest.NewRequest("GET", path, nil)
			r.Header.Set("X-User", user)
			if authorization != "" {
				r.Header.Set("Authorization", authorization)
			}
			a := httptest.NewRecorder()
			w.api.ServeHTTP(a, r)
			return a.Code, a.Body.String()
		}
		for _, c := range []struct {
			path, user, authorization string
			want                      int
		}{
			{"/metrics", "watcher", "", http.StatusOK},
			{"/metrics", "blind", "", http.StatusOK},
			{"/metrics", "vera", "", http.StatusForbidden},
			{"/metrics", "ann", "", http.StatusForbidden},
			{"/metrics", "stranger", "", http.StatusUnauthorized},
			{"/metrics", "stranger", "Bearer scrape-7c21", http.StatusOK},
			{"/metrics", "stranger", "bearer scrape-7c21", http.StatusOK},
			{"/metrics", "stranger", "Bearer scrape-7c2", http.StatusUnauthorized},
			{"/metrics", "stranger", "Bearer ", http.StatusUnauthorized},
			{"/metrics", "stranger", "Basic scrape-7c21", http.StatusUnauthorized},
			{"/metrics", "vera", "Bearer scrape-7c21", http.StatusOK},
			{"/metrics?x=1", "stranger", "Bearer scrape-7c21", http.StatusBadRequest},
			{"/v1/queues", "stranger", "Bearer scrape-7c21", http.StatusUnauthorized},
			{"/v1/health", "vera", "Bearer scrape-7c21", http.StatusForbidden},
		} {
			if code, text := get(c.path, c.user, c.authorization); code != c.want {
				t.Errorf("%s as %s with %q: %d %s, want %d", c.path, c.user, c.authorization, code, text, c.want)
			}
		}
		_, text := get("/metrics", "watcher", "")
		for _, end := range []string{"failed", "completed"} {
			if want := `courier_slices_total{cicd_pipeline_name="report",courier_slice_end="` + end + `"} 1`; !strings.Contains(text, want) {
				t.Errorf("%s is missing in\n%s", want, text)
			}
		}
		if strings.Contains(text, canaryParam) || strings.Contains(text, canarySecret) || strings.Contains(text, p.Metrics) {
			t.Errorf("the metrics have a value:\n%s", text)
		}
	})
	w := newWorld(t, memstore.New(), nil)
	r := httptest.NewRequest("GET", "/metrics", nil)
	r.Header.Set("Authorization", "Bearer ")
	a := httptest.NewRecorder()
	w.api.ServeHTTP(a, r)
	if a.Code != http.StatusUnauthorized {
		t.Errorf("a policy without a token lets in %d", a.Code)
	}
}
