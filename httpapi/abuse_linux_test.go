package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"mime/multipart"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
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
	"github.com/courierhq/courier/internal/test/raced"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/memstore"
)

var abuseFor = flag.Duration("abuse", 4*time.Second, "for how long TestAbuse has hostile principals use every route")

// hostilePeople use the job report, each with another role; hope uses another job.
var hostilePeople = []string{"ann", "vera", "stan", "otto", "edna", "mona", "stranger"}

// An abuse is a service over TCP, and the result of the requests.
type abuse struct {
	*testing.T
	engine     *engine.Engine
	server     *httptest.Server
	operations []operation
	began      atomic.Int64 // executions that were started; a memory store keeps them for ever
	next       atomic.Int64 // of the operations
	large      atomic.Int64 // with parameters of almost a megabyte

	mu       sync.Mutex
	statuses map[int]int
	tried    map[string]int // requests by operation
	ids      []string       // of executions
}

func newAbuse(t *testing.T) *abuse {
	t.Helper()
	files, err := depot.Dir(t.TempDir(), &depot.DirOptions{Most: 128 << 20})
	if err != nil {
		t.Fatal(err)
	}
	var reg courier.Registry
	courier.RegisterFunc(&reg, "test.work", work, nil)
	depot.Register(&reg, files, &depot.Retention{Keep: time.Second, Every: time.Second, Most: 64 << 20})
	e := engine.New(memstore.New(), &reg, &engine.Options{Workspace: t.TempDir(), Slots: 64, Secrets: secrets})
	for _, j := range jobs() {
		j.Params = maps.Clone(j.Params)
		j.Params["files"] = map[string]any{"type": "list"}
		if _, err := e.Jobs().Define(t.Context(), j, nil); err != nil {
			t.Fatal(err)
		}
	}
	// Quotas protect others as long as those of all who are busy fit into the global limit.
	if err := errors.Join(e.Limits().Set(t.Context(), "global", 0, courier.By{}), e.Start(t.Context())); err != nil {
		t.Fatal(err)
	}
	a := policy()
	a.Quota = func(access.Principal, string) int { return 4 }
	api := httpapi.New(e, &httpapi.Options{Access: a, URL: "/api/", Depot: files, MaxUpload: 16 << 20})
	v := &abuse{T: t, engine: e, operations: operations(t), statuses: make(map[int]int), tried: make(map[string]int)}
	v.server = httptest.NewUnstartedServer(api)
	v.server.Config.ReadHeaderTimeout = 2 * time.Second
	v.server.Config.ErrorLog = nil
	v.server.Start()
	t.Cleanup(func() {
		api.Close()
		v.server.Close()
		if err := errors.Join(e.Stop(context.Background()), files.Close()); err != nil {
			t.Error(err)
		}
	})
	return v
}

// send sends a request as a user and reads the answer, up to a length.
func (v *abuse) send(ctx context.Context, user, method, path, media string, body io.Reader) (int, []byte) {
	r, err := http.NewRequestWithContext(ctx, method, v.server.URL+"/"+path, body)
	if err != nil {
		return 0, nil // such a client sends nothing
	}
	r.Header.Set("X-User", user)
	if body != nil {
		r.Header.Set("Content-Type", media)
	}
	if method == "PUT" {
		r.Header.Set("If-None-Match", "*")
	}
	resp, err := v.server.Client().Do(r)
	if err != nil {
		return 0, nil
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<20))
	v.mu.Lock()
	defer v.mu.Unlock()
	v.statuses[resp.StatusCode]++
	if resp.StatusCode == http.StatusInternalServerError {
		v.Errorf("%s: %s %.200s: %d %.300s", user, method, path, resp.StatusCode, text)
	}
	return resp.StatusCode, text
}

// id is that of some execution.
func (v *abuse) id(rng *rand.Rand) string {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.ids) == 0 || rng.IntN(10) == 0 {
		return "0198c0df-0000-7000-8000-000000000001"
	}
	return v.ids[rng.IntN(len(v.ids))]
}

// start starts an execution, as long as the store has room for it.
func (v *abuse) start(ctx context.Context, user, body string) {
	if v.began.Add(1) > 20_000 {
		return
	}
	_, text := v.send(ctx, user, "POST", "v1/jobs/report/executions", "application/json", strings.NewReader(body))
	var x struct{ ID string }
	if json.Unmarshal(text, &x) == nil && x.ID != "" {
		v.mu.Lock()
		defer v.mu.Unlock()
		if v.ids = append(v.ids, x.ID); len(v.ids) > 1000 {
			v.ids = v.ids[1:]
		}
	}
}

// values are for parameters of the URL.
var values = []string{"", "x", "0", "1", "-1", "1000", "1001", "99999999999999999999", "true", "%00", "job:report", "state:failed by:ann", "2026-01-01T00:00:00Z", strings.Repeat("job:a* ", 500), "' or 1=1", "\u202e", "../..", "file:*"}

// anyRoute uses any route, with odd values.
func (v *abuse) anyRoute(ctx context.Context, user string, rng *rand.Rand) {
	o := v.operations[v.next.Add(1)%int64(len(v.operations))]
	v.mu.Lock()
	v.tried[o.id]++
	v.mu.Unlock()
	if o.id == "startExecution" && v.began.Add(1) > 20_000 {
		return
	}
	path := fill(o.path, v.id(rng))
	var query []string
	for _, name := range o.query {
		if rng.IntN(3) == 0 {
			query = append(query, name+"="+strings.NewReplacer(" ", "+", "'", "%27").Replace(values[rng.IntN(len(values))]))
		}
	}
	if len(query) > 0 {
		path += "?" + strings.Join(query, "&")
	}
	var body io.Reader
	if o.body {
		body = strings.NewReader(v.body(&o, rng))
	}
	ctx, cancel := context.WithTimeout(ctx, 500*time.Millisecond) // of a stream
	defer cancel()
	v.send(ctx, user, o.method, path, "application/json", body)
}

// body is one for an operation: of odd values in its fields, malformed, deep or large.
func (v *abuse) body(o *operation, rng *rand.Rand) string {
	switch rng.IntN(8) {
	case 0:
		return strings.Repeat(`{"a":`, 50_000)
	case 1:
		return `{"` + strings.Repeat("x", 900_000) + `": 1}`
	case 2:
		return "\x00\xff{" + strings.Repeat(",", 1000)
	}
	odd := []any{nil, true, -1, 1e300, "", "x", "job:report", "failed", "cancel", []any{}, []any{1, "x", nil}, map[string]any{"a": map[string]any{"b": 1}}, strings.Repeat("é", 3000), []string{v.id(rng)}}
	fields := make(map[string]any)
	for _, name := range o.fields {
		if rng.IntN(3) == 0 {
			fields[name] = odd[rng.IntN(len(odd))]
		}
	}
	text, err := json.Marshal(fields)
	if err != nil {
		v.Error(err)
	}
	return string(text)
}

// great starts executions with the greatest values.
func (v *abuse) great(ctx context.Context, user string, rng *rand.Rand) {
	size := 1000
	if rng.IntN(20) == 0 && v.large.Add(1) < 100 {
		size = 900_000
	}
	labels := make(map[string]string)
	for i := range 15 {
		labels[fmt.Sprint("l", i)] = strings.Repeat("é", 200)
	}
	text, err := json.Marshal(map[string]any{
		"params": map[string]any{"text": strings.Repeat("x", size), "seconds": rng.IntN(2), "fail": []string{"", "fails"}[rng.IntN(2)]}, "labels": labels,
		"hold": rng.IntN(10) == 0, "delay_seconds": rng.IntN(3),
	})
	if err != nil {
		v.Error(err)
	}
	v.start(ctx, user, string(text))
}

// stream holds a stream open.
func (v *abuse) stream(ctx context.Context, user string, rng *rand.Rand) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(rng.IntN(2000))*time.Millisecond)
	defer cancel()
	v.send(ctx, user, "GET", []string{"v1/events", "v1/events?where=state:failed", "v1/executions/" + v.id(rng) + "/events"}[rng.IntN(3)], "", nil)
}

// A dripping body has a megabyte at once, and then a few bytes at a time.
type dripping struct {
	ctx  context.Context
	head io.Reader
	left int
}

func (d *dripping) Read(p []byte) (int, error) {
	if n, err := d.head.Read(p); n > 0 || err != io.EOF {
		return n, err
	}
	if d.left--; d.left < 0 {
		return 0, io.ErrUnexpectedEOF
	}
	select {
	case <-time.After(100 * time.Millisecond):
	case <-d.ctx.Done():
		return 0, d.ctx.Err()
	}
	return copy(p, "drip"), nil
}

// uploadForm is the beginning of an upload, or all of one.
func uploadForm(size int, whole bool) (string, io.Reader) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	f, _ := w.CreateFormFile("files", "a.csv")
	_, _ = f.Write(bytes.Repeat([]byte("0123456789abcde\n"), size/16))
	if whole {
		w.Close()
	}
	return w.FormDataContentType(), &b
}

// upload sends files: whole ones, and such as drip.
func (v *abuse) upload(ctx context.Context, user string, rng *rand.Rand) {
	if v.began.Add(1) > 20_000 {
		return
	}
	media, body := uploadForm(1<<20, true)
	if rng.IntN(2) == 0 {
		media, body = uploadForm(1<<20, false)
		body = &dripping{ctx, body, 1 + rng.IntN(30)}
	}
	v.send(ctx, user, "POST", "v1/jobs/report/executions", media, body)
}

// bulk asks for a lot at once.
func (v *abuse) bulk(ctx context.Context, user string, rng *rand.Rand) {
	body, err := json.Marshal(map[string]any{
		"action": []string{"cancel", "pause", "resume", "rerun"}[rng.IntN(4)], "where": []string{"job:report", "state:failed", strings.Repeat("job:a* ", 70_000), "by:ann x y z"}[rng.IntN(4)],
		"dry_run": v.began.Load() > 10_000 || rng.IntN(4) > 0, "reason": "because", "key": fmt.Sprint(rng.IntN(100)),
	})
	if err != nil {
		v.Error(err)
	}
	v.send(ctx, user, "POST", "v1/bulk", "application/json", bytes.NewReader(body))
}

// garbage speaks no HTTP, or leaves in the middle.
func (v *abuse) garbage(ctx context.Context, user string, rng *rand.Rand) {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", v.server.Listener.Addr().String())
	if err != nil {
		return
	}
	defer c.Close()
	text := []string{
		"\x16\x03\x01\x00\xa5", "GET / HTTP/1.1\r\n", "POST /v1/jobs/report/executions HTTP/1.1\r\nHost: x\r\nX-User: " + user + "\r\nContent-Length: 1000000\r\n\r\n{\"params\":",
		"GET /v1/executions HTTP/1.1\r\nHost: x\r\nX-User: " + user + "\r\n\r\n", "GET /" + strings.Repeat("%2e%2e/", 2000) + " HTTP/1.1\r\nHost: x\r\n\r\n",
		"POST /v1/bulk HTTP/1.1\r\nHost: x\r\nX-User: " + user + "\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
	}[rng.IntN(6)]
	_, _ = io.WriteString(c, text)
	_ = c.SetReadDeadline(time.Now().Add(time.Duration(rng.IntN(300)) * time.Millisecond))
	_, _ = io.Copy(io.Discard, c)
}

// honest is one client that starts an execution and waits for its end, again and again. It
// returns the longest time that this took, and how often it was done.
func (v *abuse) honest(ctx context.Context) (worst time.Duration, done int) {
	for ctx.Err() == nil {
		began := time.Now()
		media, body := uploadForm(1<<10, true)
		if done%2 == 0 {
			media, body = "application/json", strings.NewReader(`{"params": {"text": "mine"}}`)
		}
		var x struct{ ID, Status string }
		code, text := v.send(context.WithoutCancel(ctx), "hope", "POST", "v1/jobs/other/executions", media, body)
		if err := json.Unmarshal(text, &x); err != nil || code != http.StatusAccepted {
			v.Errorf("the honest client: %d %s", code, text)
			return
		}
		for x.Status != "completed" {
			time.Sleep(10 * time.Millisecond)
			code, text = v.send(context.WithoutCancel(ctx), "hope", "GET", "v1/executions/"+x.ID, "", nil)
			if err := json.Unmarshal(text, &x); err != nil || code != http.StatusOK || x.Status == "failed" || time.Since(began) > time.Minute {
				v.Errorf("the honest client: %d %s", code, text)
				return
			}
		}
		worst, done = max(worst, time.Since(began)), done+1
		time.Sleep(20 * time.Millisecond)
	}
	return worst, done
}

// calm cancels what is running, and lets little else begin.
func (v *abuse) calm() {
	by := courier.By{Actor: "admin", Reason: "it is over"}
	err := v.engine.Limits().Set(v.Context(), "global", 1, by)
	list, listErr := v.engine.Executions().List(v.Context(), store.Filter{States: []courier.State{courier.Running}, Limit: 1000})
	err = errors.Join(err, listErr)
	for i := range list {
		if _, cancelErr := v.engine.Cancel(v.Context(), list[i].ID, &courier.CancelOptions{By: by}); !errors.Is(cancelErr, courier.ErrConflict) {
			err = errors.Join(err, cancelErr) // it has not ended meanwhile
		}
	}
	if err != nil {
		v.Error(err)
	}
}

func openFiles(t *testing.T) int {
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// A use is what the process has at a moment.
type use struct {
	heap              uint64
	goroutines, files int
}

func (v *abuse) use() use {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return use{m.HeapAlloc, runtime.NumGoroutine(), openFiles(v.T)}
}

// TestAbuse has hostile principals of all roles use every route at once, for as long as the flag
// -abuse says, while one honest client is served: memory, goroutines and open files stay within
// bounds, and come back to what they were.
func TestAbuse(t *testing.T) {
	people["hope"] = map[string]access.Role{"other": access.Client}
	t.Cleanup(func() { delete(people, "hope") })
	defer debug.SetGCPercent(debug.SetGCPercent(100)) // or garbage counts several times
	v := newAbuse(t)
	v.honestOnce()
	runtime.GC()
	before := v.use()
	ctx, stop := context.WithTimeout(t.Context(), *abuseFor)
	defer stop()
	acts := []func(*abuse, context.Context, string, *rand.Rand){
		(*abuse).anyRoute, (*abuse).anyRoute, (*abuse).anyRoute, (*abuse).great, (*abuse).stream, (*abuse).upload, (*abuse).bulk, (*abuse).garbage,
	}
	var all sync.WaitGroup
	for i, user := range hostilePeople {
		for n := range 4 {
			all.Go(func() {
				for rng := rand.New(rand.NewPCG(uint64(i), uint64(n))); ctx.Err() == nil; {
					acts[(2*n+rng.IntN(4))%len(acts)](v, ctx, user, rng)
				}
			})
		}
	}
	most, stall := before, time.Duration(0) // for how long the machine lets a goroutine wait
	all.Go(func() {
		for last := time.Now(); ctx.Err() == nil; last = time.Now() {
			now := v.use()
			most = use{max(most.heap, now.heap), max(most.goroutines, now.goroutines), max(most.files, now.files)}
			time.Sleep(50 * time.Millisecond)
			stall = max(stall, time.Since(last)-50*time.Millisecond)
		}
	})
	var worst time.Duration
	var done int
	all.Go(func() { worst, done = v.honest(ctx) })
	all.Wait()
	for rng := rand.New(rand.NewPCG(1, 1)); v.next.Load() < int64(len(v.operations)); { // on a slow machine
		v.anyRoute(t.Context(), "ann", rng)
	}
	v.server.Client().CloseIdleConnections()
	v.calm()
	var after use
	for range 100 { // until what was under way has ended
		runtime.GC()
		if after = v.use(); after.goroutines < before.goroutines+20 && after.files < before.files+20 {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Logf("%v: %d executions, %d with large parameters; the honest client was served %d times, in %v at most, and a timer was late by %v; statuses %v", *abuseFor, v.began.Load(), v.large.Load(), done, worst, stall, v.statuses)
	t.Logf("heap %d, %d, %d MiB; goroutines %d, %d, %d; open files %d, %d, %d: before, at most, after",
		before.heap>>20, most.heap>>20, after.heap>>20, before.goroutines, most.goroutines, after.goroutines, before.files, most.files, after.files)
	if bound := raced.Or(30*time.Second, 10*time.Second); worst > bound || done < 3 {
		t.Errorf("the honest client was served %d times, in %v at most; want %v", done, worst, bound)
	}
	if most.heap > 1<<30 || most.goroutines > 2000 || most.files > 1000 {
		t.Errorf("at most there were %d MiB, %d goroutines and %d open files", most.heap>>20, most.goroutines, most.files)
	}
	// Executions stay in the memory store, with what they were started with.
	if kept := uint64(v.began.Load())*64<<10 + uint64(v.large.Load())*4<<20 + 64<<20; after.heap > before.heap+kept || after.goroutines > before.goroutines+20 || after.files > before.files+20 {
		t.Errorf("afterwards there are %d MiB, %d goroutines and %d open files", after.heap>>20, after.goroutines, after.files)
	}
	var untried []string
	for _, o := range v.operations {
		if v.tried[o.id] == 0 {
			untried = append(untried, o.id)
		}
	}
	if len(untried) > 0 {
		t.Errorf("not tried: %v, of %v", untried, slices.Sorted(maps.Keys(v.tried)))
	}
}

// honestOnce warms up.
func (v *abuse) honestOnce() {
	ctx, cancel := context.WithTimeout(v.Context(), 100*time.Millisecond)
	defer cancel()
	v.honest(ctx)
}
