package httpreq_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/steps/httpreq"
)

// The trace context of who enqueued an execution goes along with its requests as it came,
// unless the job gives a header of its own or the host keeps it back.
func TestTraceparent(t *testing.T) {
	const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	var seen []string
	s := server(t, func(_ http.ResponseWriter, r *http.Request) { seen = append(seen, r.Header["Traceparent"]...) })
	for _, c := range []struct {
		name    string
		trace   string
		headers string
		off     bool
		want    []string
	}{
		{"sent", trace, `{}`, false, []string{trace}},
		{"of the job", trace, `{"traceparent": "own"}`, false, []string{"own"}},
		{"kept back", trace, `{}`, true, nil},
		{"none", "", `{}`, false, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			seen = nil
			h := couriertest.New(t, nil)
			httpreq.Register(h.Registry, &httpreq.Options{AllowPlain: true, Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, NoTrace: c.off})
			job := h.Job(fmt.Sprintf(`{"name": "a", "steps": [{"type": "http.request", "config": {"url": "%s/", "headers": %s}}]}`, s.URL, c.headers))
			h.RunWith(job, &courier.EnqueueOptions{Trace: c.trace}).RequireState(courier.Completed)
			if !slices.Equal(seen, c.want) {
				t.Errorf("the server got %q, want %q", seen, c.want)
			}
		})
	}
}
