// Package chromium drives Debian's headless Chromium, for tests of pages in a real
// browser. It speaks the DevTools protocol over pipes, so that no port is open. The
// browser reaches loopback addresses only.
//
//	b := chromium.Start(t)
//	p := b.Page(t)
//	p.Open(server.URL)
//	p.Press("Tab")
//	p.Navigate(func() { p.Press("Enter") })
//	p.WaitFor("document.querySelector('h1').textContent == 'Jobs'", time.Second)
//
// A method that cannot do its work fails the test at once. It is called from the
// goroutine of the test, as [testing.T.Fatal] is. A call takes [Timeout] at most.
package chromium

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Timeout is the longest that a call, or a start, waits for the browser. Much else may run
// beside it on the machine.
const Timeout = 30 * time.Second

// A Browser is a running Chromium. Tests may use it at the same time, each with
// pages of its own.
type Browser struct {
	pipe   *pipe
	cmd    *exec.Cmd
	exited chan struct{} // closed once the process has ended
	log    string        // path of what it says by standard error
}

// Start starts a browser that ends with the test, together with its profile. It
// fails the test where Chromium is not installed.
func Start(t testing.TB) *Browser {
	t.Helper()
	program, err := find(programs)
	if err != nil {
		t.Fatalf("chromium: %v", err)
	}
	// Not t.TempDir, which fails the test if a process of the browser still writes.
	dir, err := os.MkdirTemp("", "chromium")
	if err != nil {
		t.Fatalf("chromium: %v", err)
	}
	b := &Browser{exited: make(chan struct{}), log: filepath.Join(dir, "log")}
	err = b.start(program, dir)
	t.Cleanup(func() {
		if err := b.stop(dir); err != nil {
			t.Errorf("chromium: %v", err)
		}
	})
	if err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), Timeout)
		defer cancel()
		err = b.pipe.call(ctx, "", "Browser.getVersion", nil, nil)
	}
	if err != nil {
		t.Fatalf("chromium: %v; it said:\n%s", err, b.said())
	}
	return b
}

// programs are the names of the shell: a Chromium that has no window at all, and starts
// and opens pages several times as fast as the whole one. The second is that of Chrome.
var programs = []string{"chromium-headless-shell", "chrome-headless-shell"}

// find returns the path of the first program that is there.
func find(programs []string) (string, error) {
	for _, name := range programs {
		if p, err := exec.LookPath(name); err == nil {
			return p, nil
		}
	}
	return "", fmt.Errorf("%s is not installed; on Debian: apt-get install chromium-headless-shell; elsewhere chrome-headless-shell of Chrome for Testing does", programs[0])
}

// switches are the arguments of a browser whose profile is dir.
func switches(dir string) []string {
	list := []string{
		"--headless", "--remote-debugging-pipe", "--user-data-dir=" + dir,

		// Only loopback can be reached, by name or by address, and only by pages.
		"--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1, EXCLUDE [::1]",
		"--no-proxy-server", "--disable-quic", "--disable-background-networking", "--disable-component-update",
		"--disable-client-side-phishing-detection", "--disable-domain-reliability", "--disable-sync", "--no-pings",
		"--disable-default-apps", "--disable-extensions", "--no-first-run", "--no-default-browser-check",
		"--disable-breakpad",

		// No shared memory, which containers have little of, graphics card, keys or sound.
		"--disable-dev-shm-usage", "--disable-gpu", "--password-store=basic", "--use-mock-keychain", "--mute-audio",

		// A page behaves the same behind others, and is loaded again when the browser
		// goes back to it.
		"--disable-backgrounding-occluded-windows", "--disable-renderer-backgrounding", "--disable-background-timer-throttling",
		"--disable-features=BackForwardCache,Translate,MediaRouter,OptimizationHints", "--force-color-profile=srgb", "--hide-scrollbars", "--lang=en-US",
	}
	if os.Geteuid() == 0 {
		list = append(list, "--no-sandbox") // it refuses to start as root with one
	}
	return list
}

// start starts the program with the files of a pipe as its descriptors 3 and 4.
func (b *Browser) start(program, dir string) error {
	log, err := os.Create(b.log)
	if err != nil {
		return err
	}
	defer log.Close()
	requests, in, err := os.Pipe()
	if err != nil {
		return err
	}
	defer requests.Close()
	out, answers, err := os.Pipe()
	if err != nil {
		in.Close()
		return err
	}
	defer answers.Close()
	cmd := exec.Command(program, switches(dir)...)
	cmd.ExtraFiles = []*os.File{requests, answers}
	cmd.Stderr = log
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TMPDIR=" + dir, "LANG=C.UTF-8", "TZ=UTC"}
	group(cmd)
	if err := cmd.Start(); err != nil {
		in.Close()
		out.Close()
		return err
	}
	b.cmd, b.pipe = cmd, newPipe(in, out)
	go func() {
		cmd.Wait()
		close(b.exited)
	}()
	return nil
}

// stop ends the processes and removes dir.
func (b *Browser) stop(dir string) error {
	if b.cmd != nil {
		// Asked to close, it ends its processes in order. A page that hangs keeps it from that.
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		b.pipe.call(ctx, "", "Browser.close", nil, nil)
		select {
		case <-b.exited:
		case <-ctx.Done():
		}
		end(b.cmd)
		<-b.exited
		b.pipe.close()
	}
	var err error
	for range 100 { // processes that are about to end may still write
		if err = os.RemoveAll(dir); err == nil {
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return fmt.Errorf("profile: %w", err)
}

// said returns the last lines that the browser has written to standard error.
func (b *Browser) said() string {
	text, _ := os.ReadFile(b.log)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-20):], "\n")
}
