package browser

import (
	"archive/zip"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"maps"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/dashboard"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/flow"
	"github.com/courierhq/courier/internal/test/chromium"
	"github.com/courierhq/courier/steps/file"
	"github.com/courierhq/courier/steps/pgp"
	"github.com/courierhq/courier/steps/sftp"
	"github.com/courierhq/courier/steps/sftp/sftptest"
	"github.com/courierhq/courier/store/memstore"
)

var readme = flag.Bool("readme", false, "TestReadmePicture writes docs/dashboard.png and docs/dashboard-dark.png, the pictures of README.md")

// maxPicture is more than the bytes of a picture of README.md.
const maxPicture = 200 << 10

// TestReadmePicture takes the pictures of README.md, light and dark: the pipeline of
// examples/invoices, with a file that is damaged. They are kept only if that is asked for.
func TestReadmePicture(t *testing.T) {
	t.Parallel()
	dir, files, pause := t.TempDir(), 3, time.Duration(0)
	if *readme {
		dir, files, pause = filepath.Join("..", "..", "docs"), 10, 60*time.Millisecond
	}
	e, id := pictured(t, files, pause)
	pages := dashboard.New(e, forAnn)
	server := httptest.NewServer(pages)
	defer server.Close()
	defer pages.Close()
	p := chromium.Start(t).Page(t)
	p.Open(server.URL + "/executions/" + string(id))
	var failed string
	p.Eval(`[...document.querySelectorAll(".items a")].find(a => a.textContent == "first failed").href`, &failed)
	for _, dark := range []bool{false, true} {
		name := map[bool]string{false: "dashboard.png", true: "dashboard-dark.png"}[dark]
		p.Emulate(chromium.Device{Scale: 1.75, Dark: dark})
		p.Open(failed)
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
	quiet(t, p, failed)
}

// pictured executes the pipeline of examples/invoices for a number of files, and goes on after
// one that is damaged. Each step takes about as long as pause.
func pictured(t *testing.T, files int, pause time.Duration) (*engine.Engine, courier.ExecutionID) {
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
	dir, random := t.TempDir(), rand.New(rand.NewPCG(1, 2))
	e := engine.New(memstore.New(), &reg, &engine.Options{
		Workspace: t.TempDir(), Roots: []string{dir},
		Around: func(ctx context.Context, _ *courier.Context, next func(context.Context) error) error {
			time.Sleep(pause/2 + time.Duration(random.Int64N(int64(pause)+1)))
			return next(ctx)
		},
	})
	params := map[string]any{"day": "2026-11-23"}
	for _, name := range []string{"staging", "processing", "quarantine", "archive"} {
		params[name] = filepath.Join(dir, name)
		if err := os.Mkdir(params[name].(string), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	x, err := e.Run(t.Context(), job, &courier.EnqueueOptions{By: courier.By{Actor: "ann"}, Params: params})
	if x.FailedItems != 1 {
		t.Fatalf("the pipeline: %d items failed: %v", x.FailedItems, err)
	}
	return e, x.ID
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
