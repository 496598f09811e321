package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// names returns what was chosen, as bench/peer.
func names(t *testing.T, all []bench, only, peers string) []string {
	t.Helper()
	picks, err := choose(all, regexp.MustCompile("^(?:"+only+")"), peers)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := writeList(&b, picks); err != nil {
		t.Fatal(err)
	}
	return strings.Fields(b.String())
}

func TestChoose(t *testing.T) {
	all := []bench{
		{name: "steps", figures: []figure{{}}, peers: []string{"dbos", "raw"}},
		{name: "pickup", figures: []figure{{name: "p50"}, {name: "p99"}}, peers: []string{"river", "raw"}},
		{name: "past-steps", figures: []figure{{}}, peers: []string{emptyTables}},
		{name: "alone", figures: []figure{{}}},
	}
	for _, c := range []struct{ only, peers, want string }{
		{"", "all", "steps/dbos steps/raw pickup-p50/river pickup-p50/raw pickup-p99/river pickup-p99/raw past-steps/empty alone/"},
		{"", "none", "steps/ pickup-p50/ pickup-p99/ past-steps/empty alone/"},
		{"", "raw", "steps/raw pickup-p50/raw pickup-p99/raw past-steps/empty alone/"},
		{"", "dbos,river", "steps/dbos pickup-p50/river pickup-p99/river past-steps/empty alone/"},
		{"steps", "all", "steps/dbos steps/raw"},
		{"steps/dbos", "all", "steps/dbos"},
		{"steps/dbos", "none", "steps/"},
		{"pickup-p99/ri", "all", "pickup-p99/river"},
		{"steps/d|past", "all", "steps/dbos past-steps/empty"},
		{".*steps", "all", "steps/dbos steps/raw past-steps/empty"},
	} {
		if got := strings.Join(names(t, all, c.only, c.peers), " "); got != c.want {
			t.Errorf("-only %q -peers %q: %s, want %s", c.only, c.peers, got, c.want)
		}
	}
	if _, err := choose(all, regexp.MustCompile("^nothing"), "all"); err == nil || !strings.Contains(err.Error(), "-list") {
		t.Errorf("no match: error %v, want one that names -list", err)
	}
	if _, err := choose(all, regexp.MustCompile(""), "rivr"); err == nil || !strings.Contains(err.Error(), "dbos, empty, raw, river") {
		t.Errorf("unknown peer: error %v, want one that lists the peers", err)
	}
}

// Others rely on these names, and on each of them being there once.
func TestNames(t *testing.T) {
	all := names(t, benches(), "", "all")
	for _, name := range []string{
		"steps-10x1/dbos", "steps-10x16/go-workflows", "steps-10x64/dbos", "steps-10x64/raw", "steps-10x256/raw",
		"executions-1x1/dbos", "executions-1x64/river-defaults", "executions-1x100/river", "executions-1x256/raw",
		"latency-10x1/commits", "enqueue-single/river", "enqueue-batch/river", "enqueue-tx/dbos",
		"pickup-50-p50/river-defaults", "pickup-50-p99/river", "freed-limit-p50/", "freed-limit-p99/",
		"history-1m-steps-10x64/empty", "history-5m-executions-1x100/empty", "history-5m-claim-p99/empty",
		"history-1m-enqueue-single/empty", "history-5m-enqueue-batch/empty", "history-5m-enqueue-tx/empty",
		"history-5m-latency-10x1-from-claim/empty", "history-5m-pickup-50-p50/empty", "history-5m-pickup-50-p99/empty",
		"sftp-up-1g/openssh", "sftp-up-1g/openssh-sync", "sftp-up-1g/rclone", "sftp-down-1g/openssh", "sftp-down-1g/rclone",
		"sftp-small-up/openssh", "sftp-small-up/openssh-sync", "sftp-small-up/rclone", "sftp-small-down/openssh", "sftp-small-down/rclone",
		"sftp-20ms/openssh", "sftp-100ms/openssh", "sftp-small-20ms/openssh", "sftp-small-100ms/openssh",
		"ftp-down-1g/curl", "ftps-down-1g/curl", "ftp-small-down/lftp", "ftp-small-down/lftp-4",
		"ftp-up-1g/curl", "ftps-up-1g/curl", "ftp-small-up/lftp", "ftp-small-up/lftp-4",
		"xmin-steps-10x64/free", "xmin-executions-1x100/free", "xmin-executions-1x100-takeover/free",
		"xmin-latency-10x1/free", "xmin-enqueue-single/free", "xmin-pickup-50-p99/free",
		"pgp-encrypt/gnupg", "pgp-decrypt/gnupg", "pgp-encrypt-armored/gnupg", "pgp-decrypt-armored/gnupg",
		"pgp-encrypt-compressed/gnupg", "pgp-decrypt-compressed/gnupg",
		"cost-steps-10x64-wal/dbos", "cost-executions-1x100-trips/river", "cost-late-wal/first",
		"zip-logs/infozip", "zip-random/infozip", "unzip-logs/infozip", "tarzst-logs/tar", "copy-1g/cp",
	} {
		if !slices.Contains(all, name) {
			t.Errorf("%s is missing", name)
		}
	}
	slices.Sort(all)
	for i := 1; i < len(all); i++ {
		if all[i] == all[i-1] {
			t.Errorf("%s is there twice", all[i])
		}
	}
	made := makers()
	for _, b := range benches() {
		for _, peer := range b.peers {
			if _, ok := made[peer]; !ok && !slices.Contains(yardsticks, peer) && !slices.Contains(programs, peer) {
				t.Errorf("%s: there is no system for the peer %s", b.name, peer)
			}
		}
	}
}

// scripted is a bench whose turns return what a script says, and the order in
// which they were taken.
func scripted(script map[string][]float64) (pick, *[]string) {
	var order []string
	next := map[string]int{}
	b := bench{
		name: "b", figures: []figure{{unit: "1/s"}, {name: "ms", unit: "ms", less: true}}, peers: []string{"x", "y"},
		turn: func(_ context.Context, _ *harness, who string) ([]float64, error) {
			order = append(order, who)
			v := script[who][next[who]]
			next[who]++
			if v < 0 {
				return nil, errors.New("broken")
			}
			return []float64{v, v}, nil
		},
	}
	return pick{bench: b, chosen: map[string][]string{"b": {"x", "y"}, "b-ms": {"y"}}}, &order
}

func TestTurns(t *testing.T) {
	h := &harness{out: io.Discard, rounds: 3, budget: time.Hour}
	p, order := scripted(map[string][]float64{courierName: {8, 100, 10}, "x": {1, 5, 4}, "y": {20, 20, 40}})
	got, err := h.run(t.Context(), &p)
	if err != nil {
		t.Fatal(err)
	}
	if s, want := strings.Join(*order, " "), strings.TrimSpace(strings.Repeat("courier x y ", 3)); s != want {
		t.Errorf("turns: %s, want %s", s, want)
	}
	want := []string{"b/x 10 4 2.5 1/s", "b/y 10 20 0.5 1/s", "b-ms/y 10 20 2 ms"}
	if text := lines(got); !slices.Equal(text, want) {
		t.Errorf("results %q, want %q", text, want)
	}
}

func lines(results []result) []string {
	var text []string
	for _, r := range results {
		text = append(text, fmt.Sprintf("%s/%s %v %v %v %s", r.Bench, r.Peer, r.Courier, *r.PeerValue, *r.Ratio, r.Unit))
	}
	return text
}

func TestTurnsOfThoseThatFail(t *testing.T) {
	h := &harness{out: io.Discard, rounds: 2, budget: time.Hour}
	p, _ := scripted(map[string][]float64{courierName: {8, 8}, "x": {4, -1}, "y": {2, 2}})
	got, err := h.run(t.Context(), &p)
	if err == nil || !strings.Contains(err.Error(), "x: broken") {
		t.Errorf("error %v, want x: broken", err)
	}
	if text, want := lines(got), []string{"b/y 8 2 4 1/s", "b-ms/y 8 2 0.25 ms"}; !slices.Equal(text, want) {
		t.Errorf("results %q, want %q", text, want)
	}

	p, order := scripted(map[string][]float64{courierName: {-1}, "x": {4, 4}, "y": {2, 2}})
	if got, err = h.run(t.Context(), &p); err == nil || len(got) > 0 {
		t.Errorf("Courier failed: results %v, error %v", got, err)
	}
	if n := len(*order); n != 5 {
		t.Errorf("%d turns, want 1 of Courier's and 4 of the others", n)
	}
}

// A bench that takes long has fewer rounds.
func TestBudget(t *testing.T) {
	h := &harness{out: io.Discard, rounds: 3}
	p, order := scripted(map[string][]float64{courierName: {8}, "x": {4}, "y": {2}})
	if _, err := h.run(t.Context(), &p); err != nil {
		t.Fatal(err)
	}
	if n := len(*order); n != 3 {
		t.Errorf("%d turns, want one of each", n)
	}
}
