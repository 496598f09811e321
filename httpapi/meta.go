package httpapi

import (
	"bytes"
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/courierhq/courier/internal/metrics"
	"github.com/courierhq/courier/store"
)

var metaRoutes = []route{
	{
		method: "GET", path: "v1/", id: "index", group: "service", open: true, does: "Names the parts of the API.",
		answers: map[int]any{http.StatusOK: map[string]string{}}, do: (*call).index,
	},
	{
		method: "GET", path: "v1/openapi.json", id: "openapi", group: "service", open: true, does: "Returns this document.",
		answers: map[int]any{http.StatusOK: map[string]any{}, http.StatusNotModified: nil}, do: (*call).openapi,
	},
	{
		method: "GET", path: "v1/problems/{code}", id: "problem", group: "service", open: true, does: "Explains the code of a problem, as text.",
		answers: map[int]any{http.StatusOK: ""}, media: "text/plain; charset=utf-8", do: (*call).problem,
	},
	{
		method: "GET", path: "v1/livez", id: "livez", group: "service", open: true, does: "Answers while the process runs.",
		answers: map[int]any{http.StatusOK: map[string]string{}}, do: func(c *call) error { return c.answer(http.StatusOK, map[string]string{"status": "alive"}) },
	},
	{
		method: "GET", path: "v1/readyz", id: "readyz", group: "service", open: true, does: "Answers with 503 if the store is out of reach, or the service is stopping.",
		answers: map[int]any{http.StatusOK: map[string]string{}}, problems: []*code{codeUnavailable}, do: (*call).ready,
	},
	{
		method: "GET", path: "metrics", id: metricsRoute, group: "service", on: onAll,
		does:    "Returns the metrics in the text format of Prometheus. It has version 0.0.4. A token for metrics alone is enough, if the service has one.",
		answers: map[int]any{http.StatusOK: ""}, media: metrics.MediaType, do: (*call).metrics,
	},
}

// metricsRoute is the id of the route that a scraper may use with its own token.
const metricsRoute = "getMetrics"

func (c *call) metrics() error {
	var text bytes.Buffer
	if err := c.h.e.Metrics().Write(c.ctx(), &text); err != nil {
		return err
	}
	c.write(http.StatusOK, c.route.media, text.Bytes())
	return nil
}

func (c *call) index() error {
	return c.answer(http.StatusOK, map[string]string{
		"openapi": "openapi.json", "executions": "executions", "jobs": "jobs", "chains": "chains", "calendars": "calendars", "schedules": "schedules", "monitors": "monitors",
		"expectations": "expectations", "arrivals": "arrivals", "subscriptions": "subscriptions", "limits": "limits", "attention": "attention",
	})
}

func (c *call) openapi() error {
	document := c.h.OpenAPI() // this sets the tag
	if c.tag(c.h.openAPITag) {
		return nil
	}
	c.write(http.StatusOK, "application/json", document)
	return nil
}

func (c *call) problem() error {
	i := slices.IndexFunc(codes, func(d *code) bool { return d.name == c.r.PathValue("code") })
	if i < 0 {
		return problemf(codeNotFound, "there is no code of this name")
	}
	d := codes[i]
	c.write(http.StatusOK, c.route.media, []byte(d.name+": "+d.title+".\n"+d.do+"\n"))
	return nil
}

// readyTimeout is how long the store may take to answer.
const readyTimeout = 2 * time.Second

// ready reports to load balancers whether to send requests here, and nothing else.
func (c *call) ready() error {
	ctx, cancel := context.WithTimeout(c.ctx(), readyTimeout)
	defer cancel()
	if c.h.closed.Err() != nil {
		return problemf(codeUnavailable, "the service is stopping")
	}
	if _, err := c.h.e.Jobs().List(ctx, store.DefinitionFilter{Limit: 1}); err != nil {
		c.h.log.Error("the service is not ready", "error", err)
		return problemf(codeUnavailable, "the store does not answer")
	}
	return c.answer(http.StatusOK, map[string]string{"status": "ready"})
}
