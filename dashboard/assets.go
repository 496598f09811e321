package dashboard

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"strings"

	"github.com/courierhq/courier/dashboard/internal/problem"
)

//go:embed assets
var assetFiles embed.FS

// assetsPath is the path of all assets. The next segment is a hash of all assets, so that a browser
// may cache them for ever, and modules import each other by relative names.
const assetsPath = "/assets/"

// An assets has the files that pages refer to. They have no data of the host, and everybody who
// reaches the service may read them.
type assets struct {
	version string
	files   map[string]asset
}

type asset struct {
	media     string
	text, zip []byte
}

// media are the media types of assets, by the extensions of their names.
var media = map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}

func newAssets() *assets {
	a := &assets{files: make(map[string]asset)}
	hash := sha256.New()
	entries, err := fs.ReadDir(assetFiles, "assets")
	if err != nil {
		panic(err) // it is embedded
	}
	for _, e := range entries {
		text, err := assetFiles.ReadFile("assets/" + e.Name())
		if err != nil {
			panic(err) // it is embedded
		}
		hash.Write([]byte(e.Name() + "\x00"))
		hash.Write(text)
		var zip bytes.Buffer
		w, _ := gzip.NewWriterLevel(&zip, gzip.BestCompression) // the level is valid
		_, _ = w.Write(text)                                    // writing to a buffer can't fail
		_ = w.Close()
		a.files[e.Name()] = asset{media[e.Name()[strings.LastIndexByte(e.Name(), '.'):]], text, zip.Bytes()}
	}
	a.version = hex.EncodeToString(hash.Sum(nil)[:6])
	return a
}

// link returns the reference to an asset.
func (a *assets) link(root, name string) string {
	return root + "assets/" + a.version + "/" + name
}

// serve answers with an asset. Browsers may not cache an asset of another version, because two
// versions of a service can run side by side during an upgrade.
func (a *assets) serve(c *call, path string) error {
	version, name, _ := strings.Cut(path, "/")
	f, ok := a.files[name]
	if !ok || c.r.Method != http.MethodGet && c.r.Method != http.MethodHead {
		return problem.ErrNoPage
	}
	head := c.w.Header()
	if version == a.version {
		head.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	head.Set("Vary", "Accept-Encoding")
	body := f.text
	if strings.Contains(c.r.Header.Get("Accept-Encoding"), "gzip") {
		head.Set("Content-Encoding", "gzip")
		body = f.zip
	}
	c.write(http.StatusOK, f.media, body)
	return nil
}
