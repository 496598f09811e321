package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"text/tabwriter"
)

// A result compares Courier with one peer. A bench without a peer has neither
// PeerValue nor Ratio.
type result struct {
	Bench     string   `json:"bench"`
	Peer      string   `json:"peer"`
	Courier   float64  `json:"courier"`
	PeerValue *float64 `json:"peer_value"`
	Unit      string   `json:"unit"`
	Ratio     *float64 `json:"ratio"` // above 1: Courier is better
	Note      string   `json:"note,omitempty"`
}

// compare makes the result of a figure from what was measured.
func compare(name string, f figure, peer string, own, other float64) result {
	r := result{Bench: name, Peer: peer, Courier: own, PeerValue: &other, Unit: f.unit}
	better, worse := own, other
	if f.less {
		better, worse = other, own
	}
	if worse > 0 {
		ratio := better / worse
		r.Ratio = &ratio
	}
	return r
}

// median returns the middle value, the mean of the two where there are two,
// and 0 of none.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	v := slices.Sorted(slices.Values(values))
	n := len(v)
	return (v[(n-1)/2] + v[n/2]) / 2
}

// quantile returns the smallest value that at least the share q of the values
// does not exceed.
func quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return 0
	}
	v := slices.Sorted(slices.Values(values))
	i := int(q * float64(len(v)))
	if float64(i) == q*float64(len(v)) {
		i--
	}
	return v[min(max(i, 0), len(v)-1)]
}

// writeJSON writes the results as an array to a file, or to out if it is "-".
func writeJSON(file string, out io.Writer, results []result) error {
	if results == nil {
		results = []result{}
	}
	text, err := json.MarshalIndent(results, "", "  ")
	if err != nil {
		return err
	}
	text = append(text, '\n')
	if file == "-" {
		_, err = out.Write(text)
		return err
	}
	return os.WriteFile(file, text, 0o644)
}

// writeTable writes the results for people.
func writeTable(w io.Writer, results []result) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "bench\tpeer\tcourier\tpeer's\tratio\t  unit\t")
	for _, r := range results {
		other, ratio := "", ""
		if r.PeerValue != nil {
			other = number(*r.PeerValue)
		}
		if r.Ratio != nil {
			ratio = strconv.FormatFloat(*r.Ratio, 'f', 2, 64)
		}
		unit := r.Unit
		if r.Note != "" {
			unit += " (" + r.Note + ")"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t  %s\t\n", r.Bench, r.Peer, number(r.Courier), other, ratio, unit)
	}
	return t.Flush()
}

// number writes a value with at least three digits that count.
func number(v float64) string {
	switch {
	case v >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case v >= 1:
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// writeList writes the names that -only can choose.
func writeList(w io.Writer, picks []pick) error {
	for _, p := range picks {
		for _, f := range p.figures {
			peers, ok := p.chosen[p.full(f)]
			switch {
			case !ok:
			case len(peers) == 0:
				fmt.Fprintf(w, "%s/\n", p.full(f))
			}
			for _, peer := range peers {
				fmt.Fprintf(w, "%s/%s\n", p.full(f), peer)
			}
		}
	}
	return nil
}
