package contract

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	_ "github.com/oapi-codegen/runtime" // which the generated client needs

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/httpapi"
	"github.com/courierhq/courier/store/memstore"
)

type greetConfig struct {
	Name string `json:"name"`
}

// A client that is generated from the document that the service serves does what its types
// and functions say, with answers, problems and uploads.
func TestGeneratedClient(t *testing.T) {
	const token = "token-of-the-tour"
	var reg courier.Registry
	courier.RegisterFunc(&reg, "test.greet", func(_ context.Context, job *courier.Context, cfg greetConfig) (struct{}, error) {
		return struct{}{}, job.Emit("greeted", cfg.Name)
	}, nil)
	e := engine.New(memstore.New(), &reg, &engine.Options{Workspace: t.TempDir()})
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := e.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	api := httpapi.New(e, &httpapi.Options{Depot: new(couriertest.Depot), Access: access.Policy{Who: func(r *http.Request) (access.Principal, error) {
		if r.Header.Get("Authorization") != "Bearer "+token {
			return access.Principal{}, errors.New("another token")
		}
		return access.Principal{ID: "tourist"}, nil
	}}})
	defer api.Close()
	mux := http.NewServeMux()
	mux.Handle("/courier/api/", http.StripPrefix("/courier/api", api))
	server := httptest.NewServer(mux)
	defer server.Close()

	dir := t.TempDir()
	doc, generated := filepath.Join(dir, "openapi.json"), filepath.Join(dir, "client.go")
	if err := os.WriteFile(doc, api.OpenAPI(), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "go", args...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go %q: %v\n%s", args, err, out)
		}
	}
	run("tool", "oapi-codegen", "-config", "testdata/config.yaml", "-o", generated, doc)

	// The client and the tour are packages of this module for the compiler alone.
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	overlay := filepath.Join(dir, "overlay.json")
	text, err := json.Marshal(map[string]any{"Replace": map[string]string{
		filepath.Join(here, "client", "client.go"): generated,
		filepath.Join(here, "tour", "tour.go"):     filepath.Join(here, "testdata", "tour.go"),
	}})
	if err == nil {
		err = os.WriteFile(overlay, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	run("run", "-overlay", overlay, "./tour", server.URL+"/courier/api", token)
}
