package dashboard

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"html/template"
	"net/http"
	"strings"
	"time"

	"github.com/courierhq/courier/dashboard/internal/problem"
	"github.com/courierhq/courier/internal/eventstream"
	"github.com/courierhq/courier/internal/filter"
)

// A watching waits for changes of the data that a page shows.
type watching struct {
	next  func(ctx context.Context) error // the first time it returns at once
	close func()
}

// A patch is the new text of a fragment of a page.
type patch struct {
	ID   string `json:"id"`
	Hash string `json:"hash"`
	HTML string `json:"html"`
}

// patchPause is the shortest time between two patches of a page.
const patchPause = 500 * time.Millisecond

// isLive reports whether the request is for the changes of a page. Such a request has the parameter
// live, which is the key of the page's forms, and have, the hashes of its fragments.
func (c *call) isLive() bool { return c.page.watch != nil && c.query.Has("live") }

// live answers with the fragments that have changed since the page was made, as a stream. If the
// client does not ask for a stream, it answers once.
func (c *call) live() error {
	if c.key = c.query.Get("live"); len(c.key) > 40 || strings.Trim(c.key, "abcdefghijklmnopqrstuvwxyz0123456789") != "" {
		return problem.Invalid("live in the address is not the key of a page.")
	}
	have := make(map[string]string)
	for pair := range strings.SplitSeq(c.query.Get("have"), ",") {
		id, hash, _ := strings.Cut(pair, ":")
		have[id] = hash
	}
	if !strings.Contains(strings.Join(c.r.Header.Values("Accept"), ","), eventstream.Media) {
		list, err := c.patches(have)
		if err != nil {
			return err
		}
		body, err := json.Marshal(map[string]any{"patches": list})
		c.write(http.StatusOK, "application/json", body)
		return err
	}
	if c.r.Method == http.MethodHead {
		c.write(http.StatusOK, eventstream.Media, nil)
		return nil
	}
	w, err := c.page.watch(c)
	if err != nil {
		return err
	}
	defer w.close()
	ctx, cancel := context.WithTimeout(c.ctx(), eventstream.Lasts)
	defer cancel()
	defer context.AfterFunc(c.h.closed, cancel)()
	s, err := eventstream.Open(c.w)
	if errors.Is(err, errors.ErrUnsupported) {
		return &problem.Error{Status: http.StatusNotImplemented, Title: "Streams don't get through", Text: "What stands before the pages in this service has neither Flush nor Unwrap.", Do: "The page asks again from time to time instead."}
	} else if err != nil {
		return err
	}
	c.wrote = true
	err = s.Follow(ctx, c.follow(s, w, have))
	if err != nil {
		c.h.log.Warn("the stream of a page has ended", "page", c.page.name(), "error", err)
	}
	return nil
}

// follow returns the function that adds changed fragments to a stream. It is called each time the
// watch reports a change.
func (c *call) follow(s *eventstream.Stream, w *watching, have map[string]string) func(ctx context.Context) (bool, error) {
	var last time.Time
	return func(ctx context.Context) (bool, error) {
		if err := w.next(ctx); err != nil {
			return false, err
		}
		select {
		case <-time.After(time.Until(last.Add(patchPause))):
		case <-c.ctx().Done():
			return false, nil
		}
		last = time.Now()
		list, err := c.patches(have)
		if err != nil {
			return false, err
		}
		for _, p := range list {
			if err := s.Event("patch", "", p); err != nil {
				return false, err
			}
		}
		if c.page.on == onExecution && c.execution.State.Final() {
			return false, s.Event("end", "", struct{}{})
		}
		return true, nil
	}
}

// patches returns the fragments whose hashes differ from those in have, and updates have.
func (c *call) patches(have map[string]string) ([]patch, error) {
	c.Renew()
	if err := c.allow(c.page.op); err != nil {
		return nil, err
	}
	data, err := c.data()
	if err != nil {
		return nil, err
	}
	v := c.view()
	v.Data = data
	list := []patch{}
	for _, id := range c.page.live {
		if _, there := have[id]; !there {
			continue // the page does not show it, such as when its filter has mistakes
		}
		text, hash, err := v.fragment(id)
		if err != nil {
			return nil, err
		}
		if have[id] != hash {
			have[id] = hash
			list = append(list, patch{id, hash, string(text)})
		}
	}
	return list, nil
}

// fragment returns the text of a fragment, and its hash.
func (v *view) fragment(id string) (text []byte, hash string, err error) {
	var b bytes.Buffer
	if err := v.c.h.templates[v.c.page.file].ExecuteTemplate(&b, id, v); err != nil {
		return nil, "", err
	}
	text = v.finished(b.Bytes())
	h := fnv.New64a()
	_, _ = h.Write(text)
	return text, fmt.Sprintf("%016x", h.Sum64()), nil
}

// Fragment returns a part of the page that is kept up to date, as a section with a label. It is the
// template with the name id, which is executed with the view.
func (v *view) Fragment(id, label string) (template.HTML, error) {
	text, hash, err := v.fragment(id)
	return template.HTML(`<section id="` + id + `" aria-label="` + template.HTMLEscapeString(label) + `" data-hash="` + hash + `">` + string(text) + `</section>`), err
}

// watchExecution watches the execution of the page.
func watchExecution(c *call) (*watching, error) {
	w, err := c.Watch(c.execution.ID, c.execution.Seq)
	if err != nil {
		return nil, err
	}
	return &watching{close: w.Close, next: func(ctx context.Context) error {
		_, err := w.Next(ctx)
		return err
	}}, nil
}

// watchList watches the list of executions on the page.
func watchList(c *call) (*watching, error) {
	where, err := filter.Parse(asWhere(strings.TrimSpace(c.query.Get("where"))), now())
	if err != nil {
		return nil, err
	}
	return c.watchExecutions(where)
}

// watchExecutions watches the newest executions that a filter selects.
func (c *call) watchExecutions(where filter.Filter) (*watching, error) {
	w, err := c.WatchExecutions(c.ctx(), where, listPage)
	if err != nil {
		return nil, err
	}
	return &watching{close: w.Close, next: func(ctx context.Context) error {
		_, err := w.Next(ctx)
		return err
	}}, nil
}

// watchEvery returns the watch of a page that is read again periodically.
func watchEvery(d time.Duration) func(c *call) (*watching, error) {
	return func(c *call) (*watching, error) {
		left, err := c.Look()
		if err != nil {
			return nil, err
		}
		at := time.Now()
		return &watching{close: left, next: func(ctx context.Context) error {
			select {
			case <-time.After(time.Until(at)):
				at = time.Now().Add(d)
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}}, nil
	}
}
