package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// A Server is as much of an object store in memory as this example needs: PUT, HEAD, GET
// with ranges, DELETE and lists in pages, each with a checked signature. It stands in for a
// real one: Debian has no server for S3, and the example adds no module. It shares the code
// of the signature with the depot, so a test compares that with an example of Amazon's.
type Server struct {
	Key, Secret string
	Most        int64 // bytes; 0 is any number
	Page        int   // keys on a page of a list

	mu      sync.Mutex
	objects map[string]stored // by path
	used    int64
}

type stored struct {
	content []byte
	header  http.Header // X-Amz-Meta-...
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 64<<20))
	if err != nil {
		http.Error(w, "EntityTooLarge", http.StatusRequestEntityTooLarge)
		return
	}
	if !s.signed(r, body) {
		http.Error(w, "SignatureDoesNotMatch", http.StatusForbidden)
		return
	}
	if o, there := s.change(w, r, body); there {
		maps.Copy(w.Header(), o.header)
		w.Header().Set("Etag", `"`+sumOf(o.content)+`"`)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(o.content))
	}
}

// change answers all requests but those for an object that is there, which it returns.
func (s *Server) change(w http.ResponseWriter, r *http.Request, body []byte) (o stored, serve bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, there := s.objects[r.URL.Path]
	switch {
	case r.Method == "PUT":
		s.put(w, r, o, body)
	case r.Method == "GET" && r.URL.Query().Has("list-type"):
		s.list(w, r)
	case r.Method == "DELETE":
		s.used -= int64(len(o.content))
		delete(s.objects, r.URL.Path)
		w.WriteHeader(http.StatusNoContent)
	case !there:
		http.Error(w, "NoSuchKey", http.StatusNotFound)
	default:
		return o, true
	}
	return o, false
}

func sumOf(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// signed reports whether the signature and the hash of the body are right.
func (s *Server) signed(r *http.Request, body []byte) bool {
	auth := r.Header.Get("Authorization")
	_, list, _ := strings.Cut(auth, "SignedHeaders=")
	list, signature, _ := strings.Cut(list, ",Signature=")
	names := strings.Split(list, ";")
	if !slices.Contains(names, "host") || !slices.Contains(names, "x-amz-content-sha256") || r.Header.Get("X-Amz-Content-Sha256") != sumOf(body) {
		return false
	}
	_, want := (&Bucket{Key: s.Key, Secret: s.Secret}).signature(r, names)
	return signature == want && strings.Contains(auth, "Credential="+s.Key+"/")
}

func (s *Server) put(w http.ResponseWriter, r *http.Request, old stored, body []byte) {
	more := int64(len(body) - len(old.content))
	if s.Most > 0 && s.used+more > s.Most {
		http.Error(w, "QuotaExceeded", http.StatusInsufficientStorage)
		return
	}
	if s.objects == nil {
		s.objects = make(map[string]stored)
	}
	o := stored{body, make(http.Header)}
	for name, values := range r.Header {
		if strings.HasPrefix(name, "X-Amz-Meta-") {
			o.header[name] = values
		}
	}
	s.objects[r.URL.Path] = o
	s.used += more
}

func (s *Server) list(w http.ResponseWriter, r *http.Request) {
	type content struct{ Key string }
	var page struct {
		XMLName  xml.Name `xml:"ListBucketResult"`
		Contents []content
		Next     string `xml:"NextContinuationToken,omitempty"`
	}
	query := r.URL.Query()
	for _, path := range slices.Sorted(maps.Keys(s.objects)) {
		key, ok := strings.CutPrefix(path, r.URL.Path+"/")
		if !ok || !strings.HasPrefix(key, query.Get("prefix")) || key <= query.Get("continuation-token") {
			continue
		}
		if len(page.Contents) == max(1, s.Page) {
			page.Next = page.Contents[len(page.Contents)-1].Key
			break
		}
		page.Contents = append(page.Contents, content{key})
	}
	w.Header().Set("Content-Type", "application/xml")
	_ = xml.NewEncoder(w).Encode(page) // the client notices that its answer is cut off
}
