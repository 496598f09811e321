package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

func TestCompare(t *testing.T) {
	for _, c := range []struct {
		own, other float64
		less       bool
		want       float64
	}{
		{own: 20, other: 10, want: 2},
		{own: 10, other: 20, want: 0.5},
		{own: 20, other: 10, less: true, want: 0.5},
		{own: 10, other: 20, less: true, want: 2},
	} {
		r := compare("b", figure{unit: "u", less: c.less}, "p", c.own, c.other)
		if r.Ratio == nil || *r.Ratio != c.want || r.Courier != c.own || *r.PeerValue != c.other {
			t.Errorf("%+v: %+v", c, r)
		}
	}
	if r := compare("b", figure{}, "p", 1, 0); r.Ratio != nil {
		t.Errorf("a peer that measured nothing has the ratio %v", *r.Ratio)
	}
}

func TestQuantiles(t *testing.T) {
	v := []float64{5, 1, 4, 2, 3}
	hundred := make([]float64, 100)
	for i := range hundred {
		hundred[i] = float64(100 - i)
	}
	for name, c := range map[string]struct{ got, want float64 }{
		"median":            {median(v), 3},
		"median of two":     {median([]float64{2, 1}), 1.5},
		"median of none":    {median(nil), 0},
		"99 % of 5":         {quantile(v, 0.99), 5},
		"50 % of 5":         {quantile(v, 0.5), 3},
		"99 % of a hundred": {quantile(hundred, 0.99), 99},
		"50 % of a hundred": {quantile(hundred, 0.5), 50},
		"of none":           {quantile(nil, 0.99), 0},
	} {
		if c.got != c.want {
			t.Errorf("%s: %v, want %v", name, c.got, c.want)
		}
	}
	if v[0] != 5 {
		t.Error("the values were sorted in place")
	}
}

func sample() []result {
	alone := result{Bench: "steps", Courier: 1234.5, Unit: "steps/s"}
	noted := compare("lone", figure{unit: "ms", less: true}, "dbos", 0.25, 0.5)
	noted.Note = "cold"
	return []result{alone, noted}
}

func TestTable(t *testing.T) {
	var b strings.Builder
	if err := writeTable(&b, sample()); err != nil {
		t.Fatal(err)
	}
	const want = "" +
		"  bench  peer  courier  peer's  ratio         unit\n" +
		"  steps           1234                     steps/s\n" +
		"   lone  dbos     0.25     0.5   2.00    ms (cold)\n"
	if b.String() != want {
		t.Errorf("table:\n%s\nwant:\n%s", b.String(), want)
	}
}

func TestJSON(t *testing.T) {
	file := t.TempDir() + "/out.json"
	if err := writeJSON(file, nil, sample()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var got []map[string]any
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	for i, want := range []map[string]any{
		{"bench": "steps", "peer": "", "courier": 1234.5, "peer_value": nil, "unit": "steps/s", "ratio": nil},
		{"bench": "lone", "peer": "dbos", "courier": 0.25, "peer_value": 0.5, "unit": "ms", "ratio": 2.0, "note": "cold"},
	} {
		if len(got[i]) != len(want) {
			t.Errorf("result %d: %v, want %v", i, got[i], want)
		}
		for name, v := range want {
			if got[i][name] != v {
				t.Errorf("result %d: %s is %v, want %v", i, name, got[i][name], v)
			}
		}
	}
	if err := writeJSON(file, nil, nil); err != nil {
		t.Fatal(err)
	}
	if text, _ := os.ReadFile(file); string(text) != "[]\n" {
		t.Errorf("no results: %q", text)
	}
}
