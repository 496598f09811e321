package chain

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

// A chain that is read from the store is the one that was saved, as strict reading has it.
func TestReadStored(t *testing.T) {
	full := Chain{
		Name: "daily", Version: 7, Description: "<all> of it", Params: map[string]any{"day": courier.Param{Type: "date", Doc: "The day."}, "large": 12345678901234567, "none": nil},
		Members: []Member{
			{Name: "a", Job: "fetch", Version: 3, Params: map[string]any{"day": "context:params.day", "n": 1.5, "list": []any{1, "x", nil}}, Priority: -4},
			{Job: "pack", DependsOn: []Dependency{{Member: "a"}}},
			{Name: "c", Job: "pack", DependsOn: []Dependency{{Member: "a", RunOnFailure: true}, {Member: "pack", RequiredStatus: courier.RequireAny}}},
		},
	}
	for _, c := range []Chain{full, {Name: "least", Members: []Member{{Job: "j"}}}, {Name: "empty", Params: map[string]any{}, Members: []Member{}}} {
		body, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		var want Chain
		if err := json.Unmarshal(body, &want); err != nil {
			t.Fatal(err)
		}
		want.Version = 9
		got, err := read(&store.Definition{Name: c.Name, Version: 9, Body: body})
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s is read as\n%#v\nand strictly as\n%#v\n(%v)", body, got, want, err)
		}
	}
	// The fields of the structs are those of the definition: none can be forgotten.
	for _, pair := range [][2]reflect.Type{{reflect.TypeFor[storedChain](), reflect.TypeFor[Chain]()}, {reflect.TypeFor[storedMember](), reflect.TypeFor[Member]()}} {
		if pair[0].NumField() != pair[1].NumField() {
			t.Errorf("%v has %d fields, and %v has %d", pair[0], pair[0].NumField(), pair[1], pair[1].NumField())
		}
	}
	_, err := read(&store.Definition{Name: "later", Version: 2, Body: []byte(`{"name":"later","members":[{"job":"j","colour":"red"}]}`)})
	if err == nil || !strings.Contains(err.Error(), `load chain "later" version 2`) || !strings.Contains(err.Error(), "colour") {
		t.Errorf("a field of a later version of the library: %v", err)
	}
}
