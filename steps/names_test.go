package steps_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/packet"

	"github.com/courierhq/courier/internal/safename"
	"github.com/courierhq/courier/internal/test/ftpserver"
	"github.com/courierhq/courier/internal/test/hostile"
	"github.com/courierhq/courier/internal/test/raced"
	"github.com/courierhq/courier/internal/test/sftpserver"
)

// TestHostileNames offers the same names to all that take names from outside:
// listings of SFTP and FTP servers, archives, OpenPGP messages, and headers of
// HTTP servers. Whatever they are, a file appears only in the directory that the
// job names, under a name that means one file.
func TestHostileNames(t *testing.T) {
	names := append(hostile.Names(), hostile.Windows()...)
	for connector, offer := range map[string]func(t *testing.T, names []string){
		"sftp": sftpNames, "ftp": ftpNames, "file.unzip": zipNames, "file.untar": tarNames, "pgp.decrypt": pgpNames, "http.request": httpNames,
	} {
		t.Run(connector, func(t *testing.T) {
			t.Parallel()
			offer(t, names)
		})
	}
}

// inside fails if there is a file anywhere but directly in dir, or one with a
// name that is not safe.
func (s *site) inside(dir string, also ...string) {
	s.Helper()
	for _, name := range s.files(".") {
		if below, ok := strings.CutPrefix(name, dir+"/"); ok && safename.Check(below) == nil && !strings.Contains(below, "/") {
			continue
		}
		if !slices.Contains(also, name) && !strings.HasPrefix(name, "keys/") && !strings.HasPrefix(name, "W/.courier") && !strings.Contains(name, "-note.courier-tmp") {
			s.Errorf("%q is there", name)
		}
	}
	if entries, err := filepath.Glob(filepath.Join(filepath.Dir(s.dir), "world*", "..", "*passwd*")); len(entries) > 0 || err != nil {
		s.Errorf("beside the world are %q, %v", entries, err)
	}
}

func sftpNames(t *testing.T, names []string) {
	s := newSiteWith(t, sftpserver.Options{Names: func(string, []string) []string { return append(slices.Clone(names), "good.csv") }}, ftpserver.Options{})
	s.write("sftp/good.csv", "good")
	out := s.must("sftp.list", object{"connection_id": "sftp"})
	if n, _ := out["unsafe_count"].(float64); int(n) < len(hostile.Names())-10 {
		t.Errorf("%v of %d were skipped", n, len(names))
	}
	if _, err := s.next("sftp.download", object{"connection_id": "sftp", "remote_path": ".", "pattern": "good*", "local_path": "$B/"}); err != nil {
		t.Error(err)
	}
	s.inside("B", "sftp/good.csv")
	if s.read("B/good.csv") != "good" {
		t.Errorf("the good one is %q", s.read("B/good.csv"))
	}
}

func ftpNames(t *testing.T, names []string) {
	s := newSiteWith(t, sftpserver.Options{}, ftpserver.Options{Answer: func(c *ftpserver.Conn, verb, argument string) bool {
		switch verb {
		case "MLSD":
			c.Content(verb, func(conn net.Conn) error {
				for _, name := range append(names, "good.csv") {
					if len(name) < 10_000 { // longer lines end the listing, which TestEndlessListing of the family shows
						fmt.Fprintf(conn, "type=file;size=4;modify=20240506070809; %s\r\n", name)
					}
				}
				return nil
			})
		case "RETR":
			c.Content(verb, func(conn net.Conn) error { fmt.Fprint(conn, "good"); return nil })
		case "SIZE", "MDTM", "MLST":
			c.Reply("213 4")
		default:
			return false
		}
		return true
	}})
	out, err := s.next("ftp.list", object{"connection_id": "ftp"})
	if n, _ := out["unsafe_count"].(float64); err != nil || int(n) < len(hostile.Names())-50 {
		t.Errorf("%v of %d were skipped, %v", n, len(names), err)
	}
	list, _ := out["file_list"].([]any)
	for _, f := range list {
		if name, _ := f.(object)["name"].(string); safename.Check(name) != nil {
			t.Errorf("listed as %q", name)
		}
	}
	for _, c := range s.ftp.Commands() {
		if verb, _, _ := strings.Cut(c, " "); slices.Contains([]string{"DELE", "SITE", "PORT", "RMD"}, verb) {
			t.Errorf("the server got %q", c)
		}
	}
	s.inside("B")
}

// Archives are unpacked for some of the names only, since that takes long;
// steps/file checks all of them as names of entries.
var unpackedNames = raced.Or(18, 6)

// refusedOrSafe unpacks an archive with one entry of each name, alone.
func refusedOrSafe(t *testing.T, s *site, key, archive, name string, packed []byte) {
	t.Helper()
	s.write("W/"+archive, string(packed))
	out := s.path("B/out")
	_, err := s.next(key, object{"archive_path": archive, "output_directory": "$B/out"})
	// Elements that add nothing are left out, as all programs do.
	bad := strings.HasPrefix(name, "/") || slices.ContainsFunc(strings.Split(name, "/"), func(element string) bool {
		return element != "" && element != "." && safename.Check(element) != nil
	})
	// U+FFFD may stand for something else in a listing; in an archive it is what it is.
	if files := s.files("B"); err == nil && bad && len(files) > 0 && !strings.Contains(name, "\uFFFD") {
		t.Errorf("%.50q was unpacked as %q", name, files)
	}
	for _, file := range s.files(".") {
		if !strings.HasPrefix(file, "B/out/") && file != "W/"+archive && !strings.HasPrefix(file, "keys/") && !strings.Contains(file, ".courier") {
			t.Errorf("%.50q is unpacked as %q", name, file)
		}
	}
	os.RemoveAll(out)
	os.RemoveAll(s.path("W"))
	os.Mkdir(s.path("W"), 0o755)
	s.number = 0
}

func zipNames(t *testing.T, names []string) {
	s := newSite(t, nil)
	for i, name := range names {
		if i%unpackedNames != 0 {
			continue
		}
		var b bytes.Buffer
		w := zip.NewWriter(&b)
		f, err := w.CreateHeader(&zip.FileHeader{Name: name, Flags: 0x800}) // as UTF-8: without that mark it is of DOS, and any bytes are characters
		if err == nil {
			_, err = f.Write([]byte("x"))
		}
		if err != nil && !strings.HasSuffix(name, "/") || w.Close() != nil {
			continue // a name that no archive can hold
		}
		refusedOrSafe(t, s, "file.unzip", "a.zip", name, b.Bytes())
	}
}

func tarNames(t *testing.T, names []string) {
	s := newSite(t, nil)
	for i, name := range names {
		if i%unpackedNames != 1 {
			continue
		}
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		if w.WriteHeader(&tar.Header{Name: name, Size: 1, Mode: 0o644}) != nil {
			continue // it can't be in a tar archive that this library writes
		}
		fmt.Fprint(w, "x")
		if w.Close() != nil {
			continue
		}
		refusedOrSafe(t, s, "file.untar", "a.tar", name, b.Bytes())
	}
}

// A message may hold the name of the file that it was made of.
func pgpNames(t *testing.T, names []string) {
	s := newSite(t, nil)
	ring, err := openpgp.ReadKeyRing(strings.NewReader(s.read("keys/us")))
	if err != nil {
		if ring, err = openpgp.ReadArmoredKeyRing(strings.NewReader(s.read("keys/us"))); err != nil {
			t.Fatal(err)
		}
	}
	for i, name := range names {
		if len(name) > 255 || i%raced.Or(6, 2) != 0 {
			continue // a message can't hold it, or it is left out to save time
		}
		var b bytes.Buffer
		w, err := openpgp.Encrypt(&b, ring, nil, &openpgp.FileHints{IsBinary: true, FileName: name}, &packet.Config{DefaultCipher: packet.CipherAES256})
		if err == nil {
			fmt.Fprint(w, "x")
			err = w.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		s.write("W/m.pgp", b.String())
		for _, output := range []string{"$B/", "$B/plain"} {
			if _, err := s.next("pgp.decrypt", object{"source_path": "m.pgp", "output_path": output}); err != nil {
				t.Errorf("%q: %v", name, err)
			}
		}
		if got := s.files("B"); !slices.Equal(got, []string{"m", "plain"}) {
			t.Fatalf("%q is decrypted to %q", name, got)
		}
	}
	s.inside("B", "W/m.pgp")
}

// A server may say under which name its content should be kept.
func httpNames(t *testing.T, names []string) {
	s := newSite(t, nil)
	s.header = func(h http.Header, n string) {
		for i, name := range names {
			if fmt.Sprint(i) == n {
				h["Content-Disposition"] = []string{`attachment; filename="` + name + `"; filename*=UTF-8''` + name}
				h["Content-Location"] = []string{name}
			}
		}
	}
	s.write("http/f", "x")
	for i := 0; i < len(names); i += raced.Or(4, 1) {
		cfg := object{"url": fmt.Sprint("http://web.example.com/files/f?n=", i), "output_path": "$B/f", "response_headers": []string{"Content-Disposition"}}
		if _, err := s.next("http.request", cfg); err != nil && !strings.Contains(err.Error(), "malformed") && !strings.Contains(err.Error(), "header") {
			t.Errorf("%.50q: %v", names[i], err)
		}
	}
	s.inside("B", "http/f")
}
