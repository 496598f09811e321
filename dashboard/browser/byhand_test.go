package browser

import (
	"bytes"
	"context"
	"flag"
	"image/png"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var repair = flag.String("repair", "", "the socket at which TestRepairByHand takes keys from a person, until that quits; empty means that it tries some itself")

// TestRepairByHand opens a browser that a person works with by keys alone, in a world where ten
// things are wrong. Without a person it shows that keys come through, and what is answered.
func TestRepairByHand(t *testing.T) {
	t.Parallel()
	w, base := world(t)
	k := newKeyboard(t, w, base)
	socket := *repair
	if socket == "" {
		dir, err := os.MkdirTemp("", "repair") // the path of a socket must be short
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		socket = filepath.Join(dir, "socket")
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: k}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	defer func() {
		if err := server.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		if err := <-served; err != http.ErrServerClosed {
			t.Error(err)
		}
	}()
	if *repair != "" {
		t.Logf("keys are taken at %s", socket)
		<-k.ended
		return
	}
	tryKeys(t, func(command, words string) (int, string) { return ask(t, socket, command, words) })
}

// ask sends a command to a keyboard as a person does.
func ask(t *testing.T, socket, command, words string) (int, string) {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}}
	r, err := client.Post("http://repair/"+command, "text/plain", strings.NewReader(words))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(b)
}

// tryKeys tries each command.
func tryKeys(t *testing.T, do func(command, words string) (int, string)) {
	t.Helper()
	for _, c := range []struct {
		command, words string
		code           int
		has            string
	}{
		{"where", "", 200, "page: Attention"},
		{"press", "Tab", 200, `focus: link`},
		{"press", "Hyper", 400, `no key "Hyper"`},
		{"press", "g e", 200, "page: Executions"},
		{"press", "/", 200, `focus: searchbox`},
		{"type", "job:labels", 200, `"job:labels"`},
		{"value", "", 200, "1 job:labels"},
		{"press", "Enter j Enter", 200, "page: labels"},
		{"read", "", 200, `button "Pause"`},
		{"read", "all", 200, `navigation`},
		{"press", "Alt+ArrowLeft", 200, "page: Executions"},
		{"start", "", 200, "page: Attention"},
		{"complaints", "", 200, "10 (open): "},
		{"complaints", "3", 200, "3 (open): "},
		{"complaints", "11", 400, "1 to 10"},
		{"call", "initech", 200, "portal"},
		{"call", "nobody", 400, "acme"},
		{"fly", "", 404, "press"},
	} {
		if code, text := do(c.command, c.words); code != c.code || !strings.Contains(text, c.has) {
			t.Errorf("%s %s: %d, without %q: %s", c.command, c.words, code, c.has, text)
		}
	}
	_, picture := do("look", "")
	if size, err := png.DecodeConfig(bytes.NewReader([]byte(picture))); err != nil || size.Width != 1280 {
		t.Errorf("look: %+v, %v", size, err)
	}
}
