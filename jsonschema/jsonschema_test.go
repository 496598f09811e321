package jsonschema_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"path/filepath"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/internal/jsontext"
	"github.com/courierhq/courier/internal/test/schemacheck"
	"github.com/courierhq/courier/jsonschema"
	"github.com/courierhq/courier/steps"
	"github.com/courierhq/courier/steps/azure"
	"github.com/courierhq/courier/steps/exec"
	"github.com/courierhq/courier/steps/ftp"
	"github.com/courierhq/courier/steps/httpreq"
	"github.com/courierhq/courier/steps/pgp"
	"github.com/courierhq/courier/steps/sftp"
)

var update = flag.Bool("update", false, "write the schemas in testdata")

func registry() *courier.Registry {
	r := new(courier.Registry)
	registerAll(r)
	return r
}

func registerAll(r *courier.Registry) {
	steps.Register(r, &steps.Options{
		Connections: sftp.Map{}, FTPConnections: ftp.Map{}, Keys: new(pgp.Keyring),
		HTTP: new(httpreq.Options), Exec: new(exec.Options), Azure: new(azure.Options), Depot: new(couriertest.Depot),
	})
}

// A validator checks values against a schema.
type validator struct {
	*schemacheck.Validator
	t *testing.T
}

func newValidator(t *testing.T, text []byte) *validator {
	t.Helper()
	return &validator{&schemacheck.Validator{Root: parse(t, text).(map[string]any)}, t}
}

// check returns what is wrong with a JSON text.
func (v *validator) check(text string) []string {
	v.t.Helper()
	return v.Check(v.Root, parse(v.t, []byte(text)))
}

func parse(t *testing.T, text []byte) any {
	t.Helper()
	value, err := jsontext.Parse(text)
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return value
}

// schemas returns the schemas of all kinds of definitions.
func schemas() map[string][]byte {
	return map[string][]byte{
		"job": jsonschema.Job(registry(), nil), "chain": jsonschema.Chain(nil), "schedule": jsonschema.Schedule(nil),
		"monitor": jsonschema.Monitor(nil), "subscription": jsonschema.Subscription(nil),
		"calendar": jsonschema.Calendar(nil), "expectation": jsonschema.Expectation(nil),
	}
}

// TestGolden holds the schemas against those in the repository, so that a review sees
// what a change of a definition or a step type does to them.
func TestGolden(t *testing.T) {
	for kind, text := range schemas() {
		var got bytes.Buffer
		if err := json.Indent(&got, text, "", " "); err != nil {
			t.Fatal(err)
		}
		got.WriteByte('\n')
		compareFile(t, filepath.Join("testdata", kind+".json"), got.Bytes())
		t.Logf("%s: %d bytes", kind, len(text))
	}
}
