package browser

import (
	"archive/zip"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/dashboard"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/flow"
	"github.com/courierhq/courier/internal/test/chromium"
	"github.com/courierhq/courier/schedule"
	"github.com/courierhq/courier/steps/file"
	"github.com/courierhq/courier/steps/pgp"
	"github.com/courierhq/courier/steps/sftp"
	"github.com/courierhq/courier/steps/sftp/sftptest"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/memstore"
)

var readme = flag.Bool("readme", false, "TestReadmePicture writes docs/dashboard.png and docs/dashboard-dark.png, the pictures of README.md")

// maxPicture is more than the bytes of a picture of README.md.
const maxPicture = 200 << 10

// TestReadmePicture takes the pictures of README.md, light and dark: the first page of a working
// day. They are kept only if that is asked for.
func TestReadmePicture(t *testing.T) {
	t.Parallel()
	dir, files, hours := t.TempDir(), 3, 2
	if *readme {
		dir, files, hours = filepath.Join("..", "..", "docs"), 10, 24
	}
	e := workingDay(t, files, hours)
	pages := dashboard.New(e, forAnn)
	server := httptest.NewServer(pages)
	defer server.Close()
	defer pages.Close()
	p := chromium.Start(t).Page(t)
	p.Open(server.URL)
	var words string
	p.Eval(`document.querySelector("main").innerText`, &words)
	for _, shown := range []string{fmt.Sprintf("acme-%03d.zip.pgp", files*2/3+1), "login failed at", "acme-statements", "1 running"} {
		if !strings.Contains(words, shown) {
			t.Errorf("the first page has no %q:\n%s", shown, words)
		}
	}
	for _, dark := range []bool{false, true} {
		name := map[bool]string{false: "dashboard.png", true: "dashboard-dark.png"}[dark]
		p.Emulate(chromium.Device{Scale: 1.75, Dark: dark})
		p.Open(server.URL)
		path := filepath.Join(dir, name)
		p.Screenshot(path, &chromium.ScreenshotOptions{Full: true})
		if err := reduce(path); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if t.Logf("%s: %d bytes", name, info.Size()); info.Size() >= maxPicture {
			t.Errorf("%s has %d bytes; it must have fewer than %d", name, info.Size(), maxPicture)
		}
	}
	quiet(t, p, server.URL)
}

// workingDay returns an engine that has worked for so many hours, and in the same hours of the week
// before. Most went well. A partner has sent a damaged file to the pipeline of examples/invoices,
// and another refuses the login.
func workingDay(t *testing.T, files, hours int) *engine.Engine {
	t.Helper()
	keys, server := new(pgp.Keyring), sftptest.New(t, nil)
	key, err := pgp.GenerateKey("Our Company", "invoices@us.example")
	if err := cmp.Or(err, keys.Add("us", key)); err != nil {
		t.Fatal(err)
	}
	outgoing(t, filepath.Join(server.Dir, "outgoing"), files, keys)
	var reg courier.Registry
	sftp.Register(&reg, sftp.Map{"partner": server.Connection()})
	pgp.Register(&reg, keys)
	file.Register(&reg, nil)
	courier.RegisterFunc(&reg, "invoices.report", func(context.Context, *courier.Context, map[string]any) (none struct{}, err error) { return none, nil }, nil)
	courier.RegisterFunc(&reg, "day.move", move, nil)
	dir := t.TempDir()
	const week = 7 * 24 * time.Hour
	history := week + time.Duration(hours)*time.Hour
	s := memstore.NewAt(time.Now().Add(-history))
	e := engine.New(s, &reg, &engine.Options{Workspace: t.TempDir(), Roots: []string{dir}, Worker: "files-1", Slots: 16, Poll: 20 * time.Millisecond})
	ctx, ann := t.Context(), courier.By{Actor: "ann"}
	for _, name := range []string{"acme-statements", "bank-payments", "globex-prices", "initech-orders", "bank-balances"} {
		job := courier.Job{Name: name, Params: map[string]any{"files": 0, "fail": false, "seconds": 0}, Steps: []courier.StepSpec{
			{Type: "day.move", Config: map[string]any{"connection_id": strings.SplitN(name, "-", 2)[0], "received": true, "files": "context:params.files", "fail": "context:params.fail", "seconds": "context:params.seconds"}},
			{Type: "day.move", Config: map[string]any{"connection_id": "ledger", "files": "context:params.files"}},
		}}
		if _, err := e.Jobs().Define(ctx, job, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Start(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stopped, stop := context.WithCancel(context.Background())
		stop() // nobody waits for the execution that still runs
		_ = e.Stop(stopped)
	})
	random := rand.New(rand.NewPCG(1, 2))
	work := func() {
		for range hours {
			s.Advance(time.Hour)
			var list []store.NewExecution
			busy := 3 + 12*max(0, math.Sin(float64(s.Now().Hour()-5)/14*math.Pi))
			for _, name := range []string{"acme-statements", "bank-payments", "globex-prices", "initech-orders"} {
				for range int(busy*random.Float64()) + 1 {
					x, err := e.Prepare(ctx, name, &courier.EnqueueOptions{By: courier.By{Actor: "schedule:" + name}, Params: map[string]any{"files": 1 + random.IntN(9)}})
					if err != nil {
						t.Fatal(err)
					}
					list = append(list, x)
				}
			}
			ids, err := e.EnqueueAll(ctx, list)
			if err := cmp.Or(err, s.CountHours(ctx, 0)); err != nil { // which an engine does once in a minute
				t.Fatal(err)
			}
			for _, x := range ids {
				if _, err := e.Wait(ctx, x.ID); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	work()
	s.Advance(week - time.Duration(hours)*time.Hour)
	work()
	invoices(t, e, dir)
	for _, name := range []string{"bank-payments", "bank-balances"} {
		x, err := e.Enqueue(ctx, name, &courier.EnqueueOptions{By: courier.By{Actor: "schedule:" + name}, Params: map[string]any{"fail": true}})
		if err != nil {
			t.Fatal(err)
		}
		if x, err = e.Wait(ctx, x.ID); x.State != courier.Failed {
			t.Fatalf("%s is %s: %v", name, x.State, err)
		}
	}
	for i, name := range []string{"acme-statements", "globex-prices", "initech-orders"} {
		every := schedule.Schedule{Name: name, Job: name, Every: time.Duration(i+1) * 20 * time.Minute, Params: map[string]any{"files": 3}}
		if _, err := e.Schedules().Set(ctx, every, ann); err != nil {
			t.Fatal(err)
		}
	}
	x, err := e.Enqueue(ctx, "initech-orders", &courier.EnqueueOptions{By: ann, Params: map[string]any{"files": 4, "seconds": 3600}})
	if err == nil {
		_, err = e.Executions().WaitFor(ctx, x.ID, func(x *courier.Execution) bool { return x.Current != nil })
	}
	if err := cmp.Or(err, s.CountHours(ctx, 0)); err != nil {
		t.Fatal(err)
	}
	return e
}

// A moveConfig names how many files are moved, from a partner or to one.
type moveConfig struct {
	Connection string  `json:"connection_id"`
	Received   bool    `json:"received"`
	Files      int     `json:"files"`
	Fail       bool    `json:"fail"`
	Seconds    float64 `json:"seconds"`
}

// move reports the files as moved. Nothing is connected to.
func move(ctx context.Context, job *courier.Context, cfg moveConfig) (none struct{}, err error) {
	if cfg.Fail {
		return none, courier.Permanent(courier.WithClass(errors.New(`the server refuses the login as "courier"`), courier.ReasonLogin))
	}
	for i := range cfg.Files {
		f := courier.File{Path: fmt.Sprintf("/out/%03d.csv", i), Size: int64(1_400_000 + 700_000*i), Connection: cfg.Connection, Received: cfg.Received}
		if err := job.Files().ReportRemote(f); err != nil {
			return none, err
		}
	}
	select {
	case <-time.After(time.Duration(cfg.Seconds * float64(time.Second))):
		return none, nil
	case <-ctx.Done():
		return none, context.Cause(ctx)
	}
}

// invoices executes the pipeline of examples/invoices, which goes on after the damaged file.
func invoices(t *testing.T, e *engine.Engine, dir string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "examples", "invoices", "pipeline.json"))
	var job courier.Job
	if err := cmp.Or(err, json.Unmarshal(text, &job)); err != nil {
		t.Fatal(err)
	}
	for i := range job.Steps {
		if s := &job.Steps[i]; s.Type == flow.TypeRescue { // the file is to be seen as one that somebody has to look at
			s.Config = map[string]any{"no_rescue_on": []any{string(courier.ReasonIntegrity), string(courier.ReasonInvalid)}}
		}
	}
	params := map[string]any{"day": "2026-11-23"}
	for _, name := range []string{"staging", "processing", "quarantine", "archive"} {
		params[name] = filepath.Join(dir, name)
		if err := os.Mkdir(params[name].(string), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	x, err := e.Run(t.Context(), job, &courier.EnqueueOptions{By: courier.By{Actor: "schedule:invoices"}, Params: params})
	if x.FailedItems != 1 {
		t.Fatalf("the pipeline: %d items failed: %v", x.FailedItems, err)
	}
}

// outgoing fills a directory of the partner with encrypted archives. One in the middle was cut
// short before that.
func outgoing(t *testing.T, dir string, files int, keys *pgp.Keyring) {
	t.Helper()
	plain := t.TempDir()
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for i := range files {
		name := fmt.Sprintf("acme-%03d.zip", i+1)
		var b bytes.Buffer
		w := zip.NewWriter(&b)
		f, err := w.Create(fmt.Sprintf("invoice-%03d.csv", i+1))
		if err == nil {
			_, err = io.CopyN(f, rand.NewChaCha8([32]byte{byte(i)}), int64(40_000+9_000*i))
		}
		if err := cmp.Or(err, w.Close()); err != nil {
			t.Fatal(err)
		}
		if i == files*2/3 {
			b.Truncate(b.Len() / 2)
		}
		if err := os.WriteFile(filepath.Join(plain, name), b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err = couriertest.RunStep(t, &pgp.Encrypt{Keys: keys}, map[string]any{
			"source_path": filepath.Join(plain, name), "output_path": filepath.Join(dir, name+".pgp"), "recipient_key_ids": []string{"us"},
		}, "/", 1)
		if err != nil {
			t.Fatal(err)
		}
	}
}

// reduce writes a PNG file anew with the 256 colours that most of its pixels have. The others
// get the nearest one of these.
func reduce(path string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	full, err := png.Decode(bytes.NewReader(b))
	if err != nil {
		return err
	}
	pixels := make(map[color.NRGBA]int)
	r := full.Bounds()
	at := func(x, y int) color.NRGBA { return color.NRGBAModel.Convert(full.At(x, y)).(color.NRGBA) }
	for y := r.Min.Y; y < r.Max.Y; y++ {
		for x := r.Min.X; x < r.Max.X; x++ {
			pixels[at(x, y)]++
		}
	}
	colours := slices.SortedFunc(maps.Keys(pixels), func(a, b color.NRGBA) int {
		return cmp.Or(pixels[b]-pixels[a], cmp.Compare(a.R, b.R), cmp.Compare(a.G, b.G), cmp.Compare(a.B, b.B))
	})
	var palette color.Palette
	for _, c := range colours[:min(len(colours), 256)] {
		palette = append(palette, c)
	}
	index := make(map[color.NRGBA]uint8)
	for _, c := range colours {
		index[c] = uint8(palette.Index(c))
	}
	reduced := image.NewPaletted(r, palette)
	for y := r.Min.Y; y < r.Max.Y; y++ {
		for x := r.Min.X; x < r.Max.X; x++ {
			reduced.SetColorIndex(x, y, index[at(x, y)])
		}
	}
	var out bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, reduced); err != nil {
		return err
	}
	return os.WriteFile(path, out.Bytes(), 0o644)
}
